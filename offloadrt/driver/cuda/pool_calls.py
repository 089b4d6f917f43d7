"""The calls of CUDA's driver library for stream-ordered allocations and memory pools (cuMemAllocAsync and so on)."""

from __future__ import annotations

from typing import Annotated

import attrs

from offloadrt.driver.calls import DriverCall
from offloadrt.driver.cuda.context import Context
from offloadrt.driver.cuda.memory_calls import MemoryCalls
from offloadrt.driver.cuda.memory_pool import FreeRange, MemPool
from offloadrt.driver.errors import INVALID, DriverError, OutOfDeviceMemory
from offloadrt.machine import Stream
from offloadrt.machine.messages import WaitPacket
from offloadrt.sim import Signal

POOL_HANDLE = "CUDA_ERROR_INVALID_HANDLE"


@attrs.frozen
class PoolCosts:
    """Host time of the calls of memory pools."""

    allocate: Annotated[float, "mempool.alloc"]
    """An allocation from memory that the pool holds; what new memory costs comes on top, as for cuMemAlloc."""
    free: Annotated[float, "mempool.free"]
    create: Annotated[float, "mempool.create"]
    chunk: Annotated[int, "mempool.chunk"]
    """Bytes that a pool asks the driver for at least."""
    peer_access: Annotated[float, "mempool.peer_access"]
    """Mapping a segment of a pool on another device."""


class MemPoolCalls:
    """The memory pools of one context.

    Memory is found and reused by the host, at the call: a free marks where its stream was, and the device has no part
    in it.  A pool asks the driver for memory in chunks, and gives what nobody uses above its threshold back when the
    host synchronizes with a stream, an event or the device.  Entries of the profile are read at the first use.
    """

    def __init__(self, context: Context, memory: MemoryCalls) -> None:
        self._context = context
        self._memory = memory
        self._device = context.device
        self._costs: PoolCosts | None = None
        self._pools: list[MemPool] = []
        self._accessible: dict[int, set[int]] = {}
        self._default: MemPool | None = None

    def default_pool(self) -> MemPool:
        """Return the device's default pool (cuDeviceGetDefaultMemPool), from which allocations come."""
        if self._default is None:
            self._default = self._make()
        return self._default

    async def pool_create(self, cause: int | None = None) -> MemPool:
        """Create a pool (cuMemPoolCreate), which holds nothing yet."""
        with self._context.call("cuMemPoolCreate", None, cause):
            await self._context.locked_work(self._read().create)
            return self._make()

    async def pool_destroy(self, pool: MemPool, cause: int | None = None) -> None:
        """Destroy a pool (cuMemPoolDestroy); its memory goes back to the driver.

        Raises DriverError for the default pool, and for one with allocations: CUDA would wait for their frees.
        """
        with self._context.call("cuMemPoolDestroy", None, cause) as call:
            self._check(call, pool)
            if pool is self._default:
                raise DriverError(call.api, INVALID, "it is the device's default pool")
            if used := pool.statistics().used:
                raise DriverError(call.api, INVALID, f"{used} bytes of pool {pool.number} are allocated")
            async with self._context.locked():
                await self._release(pool, 0)
            pool.destroyed = True
            self._pools.remove(pool)

    async def pool_trim_to(self, pool: MemPool, keep: int, cause: int | None = None) -> None:
        """Give memory that nobody uses back to the driver until at most ``keep`` bytes are left (cuMemPoolTrimTo)."""
        with self._context.call("cuMemPoolTrimTo", None, cause) as call:
            self._check(call, pool)
            async with self._context.locked():
                await self._release(pool, keep)

    async def pool_set_access(self, pool: MemPool, device: int, cause: int | None = None) -> None:
        """Let another device reach a pool's memory (cuMemPoolSetAccess): what it holds, and what it will hold."""
        with self._context.call("cuMemPoolSetAccess", None, cause) as call:
            self._check(call, pool)
            if not 0 <= device < len(self._context.machine.devices) or device == self._device.index:
                raise DriverError(call.api, "CUDA_ERROR_INVALID_DEVICE", f"{device} is no other device")
            async with self._context.locked():
                if device not in self._accessible.setdefault(pool.number, set()):
                    self._accessible[pool.number].add(device)
                    await self._map_on_peer(pool.reserved)

    async def mem_alloc_async(
        self, nbytes: int, stream: Stream, pool: MemPool, phantom: bool = False, cause: int | None = None
    ) -> int:
        """Return the address of memory that commands of the stream may use from now on (cuMemAllocFromPoolAsync).

        Raises OutOfDeviceMemory, and DriverError for a size that is not positive and for a pool that is destroyed.
        """
        with self._context.call("cuMemAllocFromPoolAsync", stream, cause, nbytes) as call:
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

    async def mem_free_async(self, address: int, stream: Stream, cause: int | None = None) -> None:
        """Free memory of a pool when what is in the stream has completed (cuMemFreeAsync); the host does not wait.

        Raises DriverError when no allocation of a pool begins there.
        """
        with self._context.call("cuMemFreeAsync", stream, cause) as call:
            async with self._context.locked(self._read().free):
                order = self._context.frees.count(stream)
                if not any(pool.give(address, stream, stream.last, order) for pool in self._pools):
                    raise DriverError(call.api, INVALID, f"no stream-ordered allocation begins at {address:#x}")

    def give_back(self, address: int) -> bool:
        """Free memory of a pool by cuMemFree, as if nothing used it any more; False when no pool has it."""
        return any(pool.give(address, None, None, 0) for pool in self._pools)

    async def release_unused(self) -> None:
        """Give what pools hold above their thresholds back to the driver, as a synchronization does."""
        for pool in self._pools:
            if pool.reserved > pool.release_threshold:
                async with self._context.locked():
                    await self._release(pool, pool.release_threshold)

    def _make(self) -> MemPool:
        self._read()
        pool = MemPool(len(self._pools), self._device.index, self._device.memory.alignment)
        self._pools.append(pool)
        self._context.release_unused = self.release_unused
        self._memory.free_in_pool = self.give_back
        return pool

    async def _grow(self, call: DriverCall, pool: MemPool, nbytes: int, phantom: bool) -> None:
        """Get a chunk from the driver, at the price of as much memory of cuMemAlloc."""
        memory = self._device.memory
        least = -(-nbytes // memory.segment) * memory.segment
        chunk = -(-max(nbytes, self._read().chunk) // memory.segment) * memory.segment
        size = chunk if memory.has_room(chunk) else least
        address = await self._memory.reserve(call.api, size, phantom)
        pool.add_chunk(address, size)
        for _ in sorted(self._accessible.get(pool.number, ())):
            await self._map_on_peer(size)

    async def _map_on_peer(self, nbytes: int) -> None:
        segments = -(-nbytes // self._device.memory.segment)
        await self._context.work(segments * self._read().peer_access)

    async def _put_wait(self, free: FreeRange, stream: Stream) -> None:
        if free.done is not None and not free.done.is_set:
            done = Signal(self._context.sim, f"memory for stream {stream.index}")
            await self._context.append(WaitPacket(stream, free.done, done))

    async def _release(self, pool: MemPool, keep: int) -> None:
        """Give chunks back, under the context lock."""
        for address in pool.release(keep):
            _, segments = self._device.memory.free(address)
            await self._context.work(self._context.costs.give_back_s(segments))

    def _check(self, call: DriverCall, pool: MemPool) -> None:
        if pool.destroyed:
            raise DriverError(call.api, POOL_HANDLE, f"memory pool {pool.number} is destroyed")
        if pool.device != self._device.index:
            raise DriverError(call.api, POOL_HANDLE, f"memory pool {pool.number} belongs to device {pool.device}")

    def _read(self) -> PoolCosts:
        if self._costs is None:
            self._costs = self._context.machine.spec.read(PoolCosts)
        return self._costs
