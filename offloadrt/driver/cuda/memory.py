"""The calls of CUDA's driver library that allocate and free: blocks of the device, managed and pinned memory, pools."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated

import attrs

from offloadrt.driver.calls import INVALID, DriverCall, DriverError, OutOfDeviceMemory
from offloadrt.driver.cuda.context import Context
from offloadrt.driver.cuda.process import FreeRange, MemPool, PinnedRanges
from offloadrt.driver.halting import Halting
from offloadrt.driver.uvm.uvm import Advice, Uvm
from offloadrt.machine import InvalidDeviceAddress, OutOfSegments, Stream
from offloadrt.machine.messages import PrefetchPacket, WaitPacket
from offloadrt.sim import Signal
from offloadrt.trace import events


class BlockMemory:
    """The calls that allocate and free blocks of device memory in one context.

    An allocation may evict managed memory, and a free makes room for it. If ``driver.free_visits_streams`` is not 0, a
    free takes that time for each stream of the context, under the context lock.
    """

    def __init__(self, context: Context) -> None:
        machine, device = context.machine, context.device
        self._context = context
        self._costs = context.costs
        self._machine = machine
        self._device = device
        self._kernel_driver = context.kernel_driver
        self._halting = Halting(machine.sim, device, machine.spec.text("driver.halt"), machine.host_time)
        self.visited = 0
        """Number of streams for which frees took ``driver.free_visits_streams``."""

    async def alloc(self, nbytes: int, phantom: bool = False) -> int:
        """Return the address of a new block (cuMemAlloc); a phantom block has no bytes.

        Raises OutOfDeviceMemory if it does not fit, and DriverError for a size that is not positive.
        """
        with self._context.call("cuMemAlloc", nbytes=nbytes) as call:
            if nbytes <= 0:
                raise DriverError(call.api, INVALID, f"{nbytes} bytes asked for")
            async with self._context.locked():
                halts = self._halting.concerns("alloc")
                # The device is halted with the context lock held, so other threads' calls wait for the drain as well.
                resume = await self._halting.begin("alloc", call.api, call.cause) if halts else None
                try:
                    address = await self.reserve("cuMemAlloc", nbytes, phantom)
                finally:
                    self._halting.end(resume)
            if (trace := self._machine.trace) is not None:
                trace(events.Allocate, self._device.index, -1, call.cause, address, nbytes, call.api)
            return address

    async def reserve(self, api: str, nbytes: int, phantom: bool, new: float | None = None) -> int:
        """Allocate a block of device memory, and charge the time of the driver's work; return the block's address.

        The caller holds the context lock; errors name ``api``, the caller's API function. A phantom block has no bytes.
        ``new``: seconds for all segments (pieces of 2 MiB that the kernel driver provides) that the block needs; None:
        as in cuMemAlloc. Raises OutOfDeviceMemory if it does not fit.
        """
        memory, sim, uvm = self._device.memory, self._machine.sim, self._kernel_driver.uvm
        if uvm is not None and not memory.has_room(memory.needs(nbytes)):
            await uvm.blocks.make_room(nbytes, sim.current.cause)
        try:
            # The block is taken before the time passes, so that no other thread gets the same room meanwhile.
            block, segments = memory.allocate(nbytes, phantom)
        except OutOfSegments:
            free = memory.free_bytes
            await self._context.work(self._costs.allocate)
            raise OutOfDeviceMemory(api, nbytes, free, sim.current.name, sim.now, self._device.index) from None
        try:
            if new is None:
                new = self._costs.allocate_segment + (segments - 1) * self._costs.further_segment
            await (self._kernel_driver.work(new) if segments else self._context.work(self._costs.allocate))
        except BaseException:
            memory.free(block.address)
            raise
        return block.address

    async def free(self, address: int, *, synchronizes: bool = False) -> None:
        """Free a block of device memory or of managed memory (cuMemFree).

        synchronizes: first wait for everything in all streams, as CUDA's call does, if the profile says that frees halt
        the device. Raises DriverError for an address at which no block begins.
        """
        with self._context.call("cuMemFree") as call:
            if synchronizes and self._halting.concerns("free"):
                await self._context.drain()
            async with self._context.locked():
                for _ in self._context.streams if self._costs.visit else ():
                    await self._context.work(self._costs.visit)
                    self.visited += 1
                halts = self._halting.concerns("free")
                resume = await self._halting.begin("free", call.api, call.cause) if halts else None
                try:
                    is_managed = self._kernel_driver.space.has(address)
                    await self._context.work(self._costs.free_managed if is_managed else self._costs.free)
                    if await self._kernel_driver.space.free(address):
                        self._machine.host_memory.release(address)
                        return
                    # A pool takes its memory back as if nothing used it any more.
                    if any(pool.give(address, None, None, 0) for pool in self._context.pools):
                        return
                    try:
                        block, segments = self._device.memory.free(address)
                    except InvalidDeviceAddress as error:
                        raise DriverError(call.api, INVALID, str(error)) from None
                    if (trace := self._machine.trace) is not None:
                        trace(events.Free, self._device.index, -1, call.cause, address, block.size, call.api)
                    if (uvm := self._kernel_driver.uvm) is not None:
                        uvm.blocks.try_again()
                    if segments:
                        await self._kernel_driver.work(self._costs.give_back_s(segments))
                finally:
                    self._halting.end(resume)


class ManagedMemory:
    """The calls of one context for managed memory."""

    def __init__(self, context: Context, memory: BlockMemory) -> None:
        self._context = context
        self._memory = memory
        self._kernel_driver = context.kernel_driver

    @property
    def uvm(self) -> Uvm | None:
        """Return the unified-memory driver; None until a process on the device uses managed memory."""
        return self._kernel_driver.uvm

    def manage(self) -> Uvm:
        """Begin to use managed memory on all devices of the process; call this before the first allocation.

        Returns this device's unified-memory driver. Raises ProfileError when the profile lacks an entry.
        """
        self._context.process.manage()
        return self._kernel_driver.manage()

    def start(self) -> Uvm:
        """Begin to use managed memory: spawn its driver's actors on all devices; return this device's driver."""
        uvm = self.uvm or self.manage()
        self._context.process.start_managed()
        return uvm

    async def alloc(self, nbytes: int, name: str = "") -> int:
        """Return the address of new memory that host and device both use (cuMemAllocManaged).

        The pages are untouched. Small allocations share blocks of the unified-memory driver. ``name``: what reports
        call the memory. Raises DriverError without managed memory, and for a size that is not positive.
        """
        with self._context.call("cuMemAllocManaged") as call:
            self._in_use(call.api)
            if nbytes <= 0:
                raise DriverError(call.api, INVALID, f"{nbytes} bytes asked for")
            async with self._context.locked(self._context.costs.allocate_managed):
                address = self._context.machine.host_memory.allocate(
                    nbytes, self._context.costs.managed_alignment, "managed"
                )
                self._kernel_driver.space.allocate(address, nbytes, name)
            return address

    async def free(self, address: int) -> None:
        """Free managed memory (cuMemFree). Raises DriverError for an address at which no memory begins."""
        await self._memory.free(address)

    async def prefetch(
        self, address: int, nbytes: int, stream: Stream, to_host: bool = False, cause: int | None = None
    ) -> None:
        """Migrate a range of managed memory to the device, or to the host, in stream order (cuMemPrefetchAsync).

        cause: the directive's number. Raises DriverError if the process does not use managed memory.
        """
        with self._context.call("cuMemPrefetchAsync", stream, cause) as call:
            call.takes(bytes=nbytes, address=address)
            uvm = self._in_use(call.api)
            done = Signal(self._context.sim, f"prefetch of {nbytes} bytes")
            packet = PrefetchPacket(stream, call.cause, address, nbytes, to_host, done)
            await self._context.submit(packet, uvm.blocks.costs.prefetch_call)

    async def advise(self, address: int, nbytes: int, advice: Advice) -> None:
        """Give advice on the use of a range of managed memory (cuMemAdvise).

        Raises DriverError without managed memory, and ValueError for an unknown advice.
        """
        with self._context.call("cuMemAdvise") as call:
            call.takes(bytes=nbytes, address=address)
            uvm = self._in_use(call.api)
            await uvm.advise(address, nbytes, advice)

    def _in_use(self, api: str) -> Uvm:
        """Return the unified-memory driver. Raises DriverError when the program uses no managed memory."""
        if self.uvm is None:
            raise DriverError(api, INVALID, "the program uses no managed memory")
        return self.uvm


class Pinning:
    """Pins ranges of host memory for the copies of one context, and allocates pinned memory.

    Pinning a range has two parts, with a cost for each page. The calling thread first faults in untouched pages, as a
    store would (``os_lock_user_pages`` of NVIDIA's kernel module calls ``pin_user_pages``, which calls
    ``handle_mm_fault``). Then each page is recorded, kept in place, and mapped for DMA. A huge page is recorded and
    kept in place in one step. The call takes much less time if several threads have touched the memory before, since
    one thread makes the call under the context lock.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._costs = context.costs
        self._pages = context.costs.pages
        self._machine = context.machine
        self._memory = context.machine.host_memory

    @property
    def _pinned(self) -> PinnedRanges:
        return self._context.process.pinned_for(self._context.number)

    def covers(self, address: int, nbytes: int) -> bool:
        """Tell whether a range of host memory is pinned, so that copies need no staging."""
        return self._pinned.covers(address, nbytes)

    async def register(self, address: int, nbytes: int) -> None:
        """Pin a range of host memory (cuMemHostRegister).

        Raises DriverError when any of it is pinned already, and for a size that is not positive.
        """
        with self._context.call("cuMemHostRegister") as call:
            call.takes(bytes=nbytes, address=address)
            if nbytes <= 0:
                raise DriverError(call.api, INVALID, f"{nbytes} bytes at {address:#x}")
            async with self._context.locked():
                if self._pinned.overlaps(address, nbytes):
                    code = "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"
                    raise DriverError(call.api, code, f"{nbytes} bytes at {address:#x}")
                await self._context.work(self._costs.register)
                await self._memory.populate(address, nbytes)
                small, huge = self._memory.population.pages_of(address, address + nbytes)
                await self._context.work(small * self._pages.pin + huge * self._pages.pin_huge)
                self._pinned.add(address, nbytes)

    async def unregister(self, address: int) -> None:
        """Unpin a range of host memory (cuMemHostUnregister). Raises DriverError when no pinned range begins there."""
        with self._context.call("cuMemHostUnregister") as call:
            async with self._context.locked():
                if not (nbytes := self._pinned.remove(address)):
                    code = "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"
                    raise DriverError(call.api, code, f"nothing is pinned at {address:#x}")
                await self._context.work(self._costs.unregister + self._count(nbytes) * self._pages.unpin)

    def _count(self, nbytes: int) -> int:
        """Return how many small pages of the system hold `nbytes` bytes."""
        return -(-nbytes // self._memory.population.page)

    @cached_property
    def _malloc_host(self) -> float:
        # Read at the first use: profiles of machines whose programs never ask for pinned memory need not have it.
        return self._machine.spec.value("usm.malloc_host")

    async def alloc(self, nbytes: int) -> int:
        """Return the address of new pinned host memory (cuMemAllocHost); the driver takes its pages one by one.

        Raises DriverError for a size that is not positive.
        """
        with self._context.call("cuMemAllocHost") as call:
            call.takes(bytes=nbytes)
            if nbytes <= 0:
                raise DriverError(call.api, INVALID, f"{nbytes} bytes asked for")
            async with self._context.locked(self._malloc_host):
                address = self._memory.allocate(nbytes, self._costs.managed_alignment)
                await self._memory.clear(nbytes, self._count(nbytes) * (self._pages.allocate + self._pages.pin))
                self._memory.pages.insert(address, address + nbytes)
                self._pinned.add(address, nbytes, allocated=True)
            return address

    async def free(self, address: int) -> None:
        """Free pinned host memory (cuMemFreeHost). Raises DriverError for an address at which none begins."""
        with self._context.call("cuMemFreeHost") as call:
            async with self._context.locked():
                if not (nbytes := self._pinned.remove(address, allocated=True)):
                    raise DriverError(call.api, INVALID, f"no pinned memory begins at {address:#x} that it allocates")
                await self._context.work(self._malloc_host + self._count(nbytes) * self._pages.free)
                self._memory.release(address)


@attrs.frozen
class PoolCosts:
    """Seconds of host time that the driver's calls for memory pools cost."""

    allocate: Annotated[float, "mempool.alloc"]
    """Time of an allocation from memory that the pool holds; new memory costs extra."""
    free: Annotated[float, "mempool.free"]
    create: Annotated[float, "mempool.create"]
    chunk: Annotated[int, "mempool.chunk"]
    """Smallest number of bytes that a pool requests from the driver; 0: the requested bytes, at cuMemAlloc's price."""
    grow: Annotated[float, "mempool.grow"]
    """Time to request a chunk of the smallest size (``chunk``)."""
    grow_segment: Annotated[float, "mempool.grow_segment"]
    """Additional time for each segment of a larger chunk."""
    peer_access: Annotated[float, "mempool.peer_access"]
    """Time to map a segment of a pool on another device."""


class MemPools:
    """The calls for memory pools in one context.

    The host finds and reuses memory at the call: a free only notes its position in the stream, and submits no command.
    A pool requests memory from the driver in chunks, each of which is one mapping. It gives unused memory above its
    threshold back when the host synchronizes with a stream, an event or the device ("Stream ordered memory allocator",
    CUDA C++ Programming Guide; the threshold is 0 unless a program sets it). HIP's pools hold whole allocations instead
    (``MemPool``). The costs are read from the profile at the first use.
    """

    def __init__(self, context: Context, memory: BlockMemory) -> None:
        self._context = context
        self._memory = memory
        self._device = context.device
        self._costs: PoolCosts | None = None
        self._accessible: dict[int, set[int]] = {}
        self._default: MemPool | None = None

    def default(self) -> MemPool:
        """Return the device's default pool (cuDeviceGetDefaultMemPool), from which allocations come."""
        if self._default is None:
            self._default = self._make()
        return self._default

    async def create(self) -> MemPool:
        """Create a memory pool (cuMemPoolCreate), which holds no memory yet."""
        with self._context.call("cuMemPoolCreate"):
            await self._context.locked_work(self._read().create)
            return self._make()

    async def destroy(self, pool: MemPool) -> None:
        """Destroy a pool (cuMemPoolDestroy); its memory goes back to the driver.

        Raises DriverError for the default pool, and for one with allocations: CUDA would wait for their frees.
        """
        with self._context.call("cuMemPoolDestroy") as call:
            self._check(call, pool)
            if pool is self._default:
                raise DriverError(call.api, INVALID, "it is the device's default pool")
            if used := pool.statistics().used:
                raise DriverError(call.api, INVALID, f"{used} bytes of pool {pool.number} are allocated")
            async with self._context.locked():
                await self._context.release(pool, 0)
            pool.destroyed = True
            self._accessible.pop(pool.number, None)
            self._context.pools.remove(pool)

    async def trim_to(self, pool: MemPool, keep: int) -> None:
        """Give a pool's unused memory back to the driver until at most ``keep`` bytes are left (cuMemPoolTrimTo)."""
        with self._context.call("cuMemPoolTrimTo") as call:
            self._check(call, pool)
            async with self._context.locked():
                await self._context.release(pool, keep)

    async def set_access(self, pool: MemPool, device: int) -> None:
        """Let another device access a pool's present and future memory (cuMemPoolSetAccess)."""
        with self._context.call("cuMemPoolSetAccess") as call:
            self._check(call, pool)
            if not 0 <= device < len(self._context.machine.devices) or device == self._device.local:
                raise DriverError(call.api, "CUDA_ERROR_INVALID_DEVICE", f"{device} is no other device")
            async with self._context.locked():
                if device not in self._accessible.setdefault(pool.number, set()):
                    self._accessible[pool.number].add(device)
                    await self._map_on_peer(pool.reserved)

    async def alloc(self, nbytes: int, stream: Stream, pool: MemPool, phantom: bool = False) -> int:
        """Return the address of memory that commands of the stream may use from now on (cuMemAllocFromPoolAsync).

        ``phantom``: the memory has a size but no bytes. Raises OutOfDeviceMemory if it does not fit, and DriverError
        for a size that is not positive and for a destroyed pool.
        """
        with self._context.call("cuMemAllocFromPoolAsync", stream, nbytes=nbytes) as call:
            self._check(call, pool)
            if nbytes <= 0:
                raise DriverError(call.api, INVALID, f"{nbytes} bytes asked for")
            async with self._context.locked(self._read().allocate):
                after = self._context.frees.before(stream)
                if (free := pool.find(nbytes, stream, after)) is not None:
                    return pool.take(free, nbytes, new=False)
                try:
                    await self._grow(call, pool, nbytes, phantom)
                except OutOfDeviceMemory:
                    free = pool.find_pending(nbytes) if pool.policies.allow_internal_dependencies else None
                    if free is None:
                        raise
                    await self._put_wait(free, stream)
                    return pool.take(free, nbytes, new=False, waits=True)
                free = pool.find(nbytes, stream, after)
                assert free is not None, "a new chunk holds what it was asked for"
                return pool.take(free, nbytes, new=True)

    async def free(self, address: int, stream: Stream) -> None:
        """Free a pool's memory once the stream's earlier commands have completed (cuMemFreeAsync), without waiting.

        Raises DriverError when no allocation of a pool begins at the address.
        """
        with self._context.call("cuMemFreeAsync", stream) as call:
            async with self._context.locked(self._read().free):
                for pool in self._context.pools if self._of_allocations else ():
                    if pool.has(address) and pool.free_bytes > pool.statistics().used:
                        await self._context.release(pool, 0)
                order = self._context.frees.count(stream)
                if not any(pool.give(address, stream, stream.last, order) for pool in self._context.pools):
                    raise DriverError(call.api, INVALID, f"no stream-ordered allocation begins at {address:#x}")

    def _make(self) -> MemPool:
        number = 1 + max((pool.number for pool in self._context.pools), default=-1)
        pool = MemPool(number, self._device.index, self._device.memory.alignment, whole=self._of_allocations)
        self._context.pools.append(pool)
        return pool

    async def _grow(self, call: DriverCall, pool: MemPool, nbytes: int, phantom: bool) -> None:
        """Get a new chunk for a pool from the driver."""
        memory, costs = self._device.memory, self._read()
        least = -(-nbytes // memory.segment) * memory.segment
        chunk = -(-max(nbytes, costs.chunk) // memory.segment) * memory.segment
        size = chunk if memory.has_room(chunk) else least
        new = None
        if not self._of_allocations:
            new = costs.grow + max(0, size - costs.chunk) / memory.segment * costs.grow_segment
        address = await self._memory.reserve(call.api, size, phantom, new)
        pool.add_chunk(address, size)
        for _ in sorted(self._accessible.get(pool.number, ())):
            await self._map_on_peer(size)

    async def _map_on_peer(self, nbytes: int) -> None:
        segments = -(-nbytes // self._device.memory.segment)
        await self._context.work(segments * self._read().peer_access)

    async def _put_wait(self, free: FreeRange, stream: Stream) -> None:
        if free.done is not None and not free.done.is_set:
            done = Signal(self._context.sim, f"memory for stream {stream.index}")
            await self._context.append(WaitPacket(stream, free.done, done), in_order=False)

    @property
    def _of_allocations(self) -> bool:
        """Return whether a pool holds whole allocations, as HIP's pools do, instead of chunks that it divides."""
        return self._read().chunk == 0

    def _check(self, call: DriverCall, pool: MemPool) -> None:
        if pool.destroyed:
            raise DriverError(call.api, "CUDA_ERROR_INVALID_HANDLE", f"memory pool {pool.number} is destroyed")
        if pool.device != self._device.index:
            raise DriverError(
                call.api, "CUDA_ERROR_INVALID_HANDLE", f"memory pool {pool.number} belongs to device {pool.device}"
            )

    def _read(self) -> PoolCosts:
        if self._costs is None:
            self._costs = self._context.machine.spec.read(PoolCosts)
        return self._costs
