"""The state that the contexts of one process share, and the kernel driver that all processes on a device share.

`DriverProcess` owns the page-locked (pinned) ranges of host memory, the lock of the driver library, the locking of
pages for copies, and the process's access to the kernel module. Each process has its own driver library, with a context
and a context lock for each device (``context.py``). Below, the kernel module hands out segments of device memory under
a lock of the GPU (``rmGpuLocksAcquire`` of open-gpu-kernel-modules), and ``nvidia-uvm`` serves page faults of all
processes with one handler.

``MemPool`` is a pool of stream-ordered allocations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Annotated

import attrs

from offloadrt.address_map import AddressMap
from offloadrt.driver.calls import driver_lock
from offloadrt.driver.uvm.uvm import Uvm
from offloadrt.driver.uvm.va_block import VaSpace
from offloadrt.machine import Device, Machine, Stream
from offloadrt.machine.host_lock import HostLock
from offloadrt.sim import Signal


@attrs.define
class ReusePolicies:
    """Says which memory freed in other streams an allocation from a pool may reuse (cudaMemPoolReuse…)."""

    follow_event_dependencies: bool = True
    """Whether memory freed in another stream is reused if the call's stream has waited for an event after the free."""
    allow_opportunistic: bool = True
    """Whether memory freed in another stream is reused if the free has completed at the moment of the call."""
    allow_internal_dependencies: bool = True
    """Whether memory freed in another stream is reused if nothing else is free; the call's stream awaits the free."""


@attrs.define
class FreeRange:
    """A free range of a memory pool: its address and size, the stream that freed it, and when it is free."""

    address: int
    size: int
    chunk: int
    """The address of the chunk that contains the range."""
    stream: Stream | None = None
    """The stream in which the range was freed; None when every stream may have it."""
    done: Signal | None = None
    """The completion after which the range is really free."""
    order: int = 0
    """The number of the free among those of its stream, from 1."""

    @property
    def is_complete(self) -> bool:
        return self.done is None or self.done.is_set


@attrs.frozen
class PoolAttributes:
    """Counts of a memory pool (cudaMemPoolAttr…): bytes held and in use (``_high``: the most so far), and reuses."""

    reserved: int
    """Memory that the pool has from the driver."""
    reserved_high: int
    used: int
    """Memory of allocations whose free has not been submitted."""
    used_high: int
    reused: int
    """Number of allocations that needed no new memory."""
    waited: int
    """Number of these whose stream was made to wait for another stream's free."""


class MemPool:
    """One memory pool (cudaMemPool_t) of a device; blocks are aligned to ``alignment`` bytes.

    release_threshold: bytes that the pool keeps at a synchronization, even if they are unused.

    A pool takes no virtual time: it says which memory an allocation may get, and what can go back to the driver. It
    holds chunks of device memory and hands out ranges of them. A freed range is available at once to later allocations
    of the same stream. Others may get it when the free has completed, when their stream is known to come after the
    free, or, if nothing else is left, by waiting for it ("Stream ordered memory allocator" of CUDA's manual).

    ``whole``: each chunk is one allocation, which is reused as a whole for requests that are not larger. HIP's pools
    work like this (``Heap::FindMemory`` of clr, hip_mempool_impl.cpp).
    """

    def __init__(self, number: int, device: int, alignment: int, *, whole: bool = False) -> None:
        self.number = number
        self.device = device
        self.release_threshold = 0
        self.policies = ReusePolicies()
        self.destroyed = False
        self._alignment = alignment
        self._whole = whole
        self._chunks: dict[int, int] = {}
        self._free: list[FreeRange] = []
        self._allocated: dict[int, tuple[int, int]] = {}
        self._used = self._used_high = self._reserved_high = 0
        self._reused = self._waited = 0

    @property
    def reserved(self) -> int:
        """Return how many bytes the pool has obtained from the driver."""
        total = 0
        for size in self._chunks.values():
            total += size
        return total

    @property
    def free_bytes(self) -> int:
        """Return how many bytes the pool holds but does not use."""
        return self.reserved - self._used

    def has(self, address: int) -> bool:
        """Tell whether one of the pool's allocations begins at an address."""
        return address in self._allocated

    def add_chunk(self, address: int, size: int) -> None:
        """Add to the pool a chunk of device memory, ``size`` bytes at ``address``, that the driver has provided."""
        self._chunks[address] = size
        self._free.append(FreeRange(address, size, address))
        self._reserved_high = max(self._reserved_high, self.reserved)

    def find(self, nbytes: int, stream: Stream, after: Mapping[int, int]) -> FreeRange | None:
        """Return the best free range for ``nbytes`` bytes that ``stream`` may use at once; None if there is none.

        Ranges that the same stream freed come first, then the smallest. after: for each other stream's index, how many
        of its frees are known to precede the next command of ``stream``.
        """
        self._settle(self.policies.allow_opportunistic)
        size = self._extent(nbytes)
        fitting = [free for free in self._free if free.size >= size and self._may_have(free, stream, after)]
        return min(fitting, key=lambda free: (free.stream is not stream, free.size, free.address), default=None)

    def find_pending(self, nbytes: int) -> FreeRange | None:
        """Return the first freed range of at least ``nbytes`` bytes, of any stream, even if the free is pending."""
        size = self._extent(nbytes)
        return next((free for free in self._free if free.size >= size), None)

    def take(self, free: FreeRange, nbytes: int, *, new: bool, waits: bool = False) -> int:
        """Allocate ``nbytes`` from the free range ``free``; return the address.

        ``new``, ``waits``: for the pool's statistics, whether the range is in a chunk obtained just now, and whether
        the allocation must wait for a free that has not completed.
        """
        size = free.size if self._whole else self._extent(nbytes)
        address = free.address
        if free.size == size:
            self._free.remove(free)
        else:
            free.address += size
            free.size -= size
        self._allocated[address] = (size, free.chunk)
        self._used += size
        self._used_high = max(self._used_high, self._used)
        self._reused += not new
        self._waited += waits
        return address

    def give(self, address: int, stream: Stream | None, done: Signal | None, order: int) -> bool:
        """Make the range of the allocation at ``address`` free; return False if no allocation begins there.

        ``stream`` is the stream in which it is freed, and ``order`` the number of this free among that stream's frees;
        ``done`` is set when the stream has reached the free.
        """
        size, chunk = self._allocated.pop(address, (0, 0))
        if size:
            self._used -= size
            self._free.append(FreeRange(address, size, chunk, stream, done, order))
        return bool(size)

    def release(self, keep: int) -> list[int]:
        """Remove unused chunks until at most ``keep`` unused bytes are left; return the chunks' addresses."""
        self._settle(True)
        whole = [free for free in self._free if free.stream is None and free.size == self._chunks[free.chunk]]
        released: list[int] = []
        for free in whole:
            if self.reserved <= keep:
                break
            self._free.remove(free)
            del self._chunks[free.chunk]
            released.append(free.chunk)
        return released

    def statistics(self) -> PoolAttributes:
        """Return the pool's counts so far."""
        return PoolAttributes(
            self.reserved, self._reserved_high, self._used, self._used_high, self._reused, self._waited
        )

    def _may_have(self, free: FreeRange, stream: Stream, after: Mapping[int, int]) -> bool:
        if free.stream is None or free.stream is stream:
            return True
        return self.policies.follow_event_dependencies and after.get(free.stream.index, 0) >= free.order

    def _settle(self, looks: bool) -> None:
        """Merge neighbouring ranges that are available to the same stream, or to all streams.

        looks: whether ranges whose free has completed first become available to all streams.
        """
        for free in self._free:
            if looks and free.is_complete:
                free.stream = free.done = None
        joined: list[FreeRange] = []
        for free in sorted(self._free, key=lambda one: one.address):
            last = joined[-1] if joined else None
            if (
                last is not None
                and last.address + last.size == free.address
                and (last.chunk, last.stream) == (free.chunk, free.stream)
            ):
                last.size += free.size
                if free.order > last.order:
                    last.done, last.order = free.done, free.order
            else:
                joined.append(free)
        self._free = joined

    def _extent(self, nbytes: int) -> int:
        return -(-nbytes // self._alignment) * self._alignment


class FreeClock:
    """Counts each stream's frees of pool memory, and tracks which of them come before other streams' next commands."""

    __slots__ = ("_before", "_counts")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._before: dict[int, dict[int, int]] = {}

    def count(self, stream: Stream) -> int:
        """Count one more free in a stream; return its number, from 1."""
        self._counts[stream.index] = self._counts.get(stream.index, 0) + 1
        return self._counts[stream.index]

    def before(self, stream: Stream) -> Mapping[int, int]:
        """Return how many frees of other streams come before a stream's next command, by the other stream's index."""
        return self._before.get(stream.index, {})

    def at(self, stream: Stream) -> Mapping[int, int]:
        """Return, by stream index, how many frees come before a mark (such as an event) put into ``stream`` now."""
        own = {stream.index: frees} if (frees := self._counts.get(stream.index)) else {}
        return {**self.before(stream), **own}

    def follow(self, stream: Stream, mark: Mapping[int, int]) -> None:
        """Note that a stream waits for a mark (such as an event), and so for all frees before it (counted by `at`)."""
        before = self._before.setdefault(stream.index, {})
        for index, frees in mark.items():
            before[index] = max(before.get(index, 0), frees)


class PinnedRanges:
    """Pinned ranges of host memory (registered, or allocated as pinned memory); they do not overlap."""

    __slots__ = ("_allocated", "_ends")

    def __init__(self) -> None:
        self._ends: AddressMap[int] = AddressMap()
        self._allocated: set[int] = set()

    def covers(self, address: int, nbytes: int) -> bool:
        """Return whether all of [address, address + nbytes) lies in one registered range.

        A range that spans two registered ranges counts as pageable, even where these touch.
        """
        nearest = self._ends.before(address)
        return nearest is not None and address + nbytes <= nearest[1]

    def overlaps(self, address: int, nbytes: int) -> bool:
        """Return whether any byte of the range is registered."""
        nearest = self._ends.before(address + nbytes - 1)
        return nearest is not None and nearest[1] > address

    def add(self, address: int, nbytes: int, *, allocated: bool = False) -> None:
        """Add a pinned range; ``allocated`` tells whether it was allocated pinned, or existed and was registered."""
        self._ends[address] = address + nbytes
        if allocated:
            self._allocated.add(address)

    def remove(self, address: int, *, allocated: bool = False) -> int:
        """Remove the pinned range that begins at ``address``; return its size in bytes, or 0 if there is none.

        allocated: whether the range was allocated pinned; a range of the other kind is not removed.
        """
        if (address in self._allocated) != allocated:
            return 0
        self._allocated.discard(address)
        end = self._ends.pop(address)
        return 0 if end is None else end - address


@attrs.frozen
class ProcessLockSpec:
    """Parameters of the lock by which calls on different devices exclude one another."""

    part: Annotated[float, "process.driver_lock"]
    """The fraction of a call's work under the context lock that is also done under the process lock."""


class ProcessLock:
    """The lock of a process's driver library: threads hold it for a part of each call, whichever device they call."""

    def __init__(self, machine: Machine) -> None:
        self.spec = machine.spec.read(ProcessLockSpec)
        self.lock = driver_lock(machine, machine.named("driver library"), "process.driver_lock.uncontended")
        self._work = machine.work

    async def work(self, dt: float) -> None:
        """Work for ``dt`` seconds, for the first part of them under the lock (the fraction `ProcessLockSpec.part`)."""
        part = dt * self.spec.part
        if part:
            await self.lock.work(part)
        if part < dt:
            await self._work(dt - part, "driver")


@attrs.frozen
class PageLockingSpec:
    """Says when HIP's library locks the program's pages for a copy, in pieces of ``piece`` bytes, and the costs."""

    more_than: Annotated[int, "hip.pin_from"]
    """Bytes from which on copies lock pages; 0: never."""
    piece: Annotated[int, "hip.pin_piece"]
    lock: Annotated[float, "hip.pin"]
    """Seconds for each piece, in addition to the time for its bytes."""
    lock_per_byte: Annotated[float, "hip.pin_per_gib"]
    """Additional seconds for each byte of a piece."""
    unlock: Annotated[float, "hip.unpin"]
    """Seconds for each piece."""


class PageLocking:
    """Locks the program's pages in memory for copies, as HIP does; devices of a process take turns for this work."""

    def __init__(self, machine: Machine) -> None:
        self.spec = machine.spec.read(PageLockingSpec)
        # No hand-over is charged, as profiles have none for a mutex of the kernel.
        self.kernel = driver_lock(machine, machine.named("page locking"), "hip.pin.uncontended", "fifo", handover=0.0)

    def takes(self, nbytes: int) -> bool:
        """Tell whether a copy of `nbytes` bytes locks the program's pages."""
        return 0 < self.spec.more_than < nbytes

    async def lock(self, nbytes: int) -> None:
        """Lock the pages of one piece of a copy, of ``nbytes`` bytes."""
        await self.kernel.work(self.spec.lock + nbytes * self.spec.lock_per_byte)

    async def unlock(self) -> None:
        """Unlock the pages of one piece of a copy."""
        await self.kernel.work(self.spec.unlock)


class KernelDriver:
    """The kernel module of one device, as the driver libraries call it; ``space``: its managed address space.

    With only one process, the module's lock is left out, because the context lock orders all calls already.
    """

    def __init__(self, machine: Machine, device: Device, space: VaSpace, lock: HostLock | None = None) -> None:
        self.uvm: Uvm | None = None
        """The unified-memory driver; None before ``manage`` has been called."""
        self.space = space
        """The address space of managed memory."""
        self._machine = machine
        self._device = device
        self.lock = lock
        if lock is None and machine.processes > 1:
            name = f"kernel driver {device.index}" if device.index else "kernel driver"
            self.lock = driver_lock(machine, name, "process.kernel_driver.uncontended", "fifo")

    def manage(self) -> Uvm:
        """Begin to use managed memory on this device; a second call, also by another process, changes nothing."""
        if self.uvm is None:
            self.uvm = Uvm(self._machine, self._device, self.space)
        return self.uvm

    def work(self, dt: float) -> Awaitable[None]:
        """Let the calling thread work in the kernel module for ``dt`` seconds; several processes take turns."""
        return self._machine.work(dt, "driver") if self.lock is None else self.lock.work(dt)


class DriverProcess:
    """The state that the contexts of one process share; it uses ``devices`` devices, from number ``first`` on.

    ``beside`` is another process on the same devices: both share the kernel drivers, and so managed memory. Processes
    in different MIG instances have separate managed memory, and share only the lock of the kernel module.
    """

    def __init__(self, machine: Machine, devices: int = 1, beside: DriverProcess | None = None, first: int = 0) -> None:
        numbers = range(first, first + devices)
        self.machine = machine
        self.lock = ProcessLock(machine) if devices > 1 else None
        """The library's lock; None for a process with one device."""
        self.locking = PageLocking(machine)
        self.kernel_drivers: Mapping[int, KernelDriver]
        """The kernel drivers by the device's number."""
        if beside is not None and self.instance == beside.instance:
            self.kernel_drivers = beside.kernel_drivers
        else:
            space, module = VaSpace(machine), {} if beside is None else beside.kernel_drivers
            self.kernel_drivers = {
                n: KernelDriver(machine, machine.devices[n], space, module[n].lock if module else None) for n in numbers
            }
        self._pinned = {number: PinnedRanges() for number in numbers}

    @property
    def instance(self) -> int:
        """Return the number of the process's MIG instance; without MIG, the number of the first device."""
        return self.machine.devices[0].index

    def pinned_for(self, number: int) -> PinnedRanges:
        """Return the pinned ranges of host memory, which copies of device ``number`` reach without staging."""
        return self._pinned[number]

    def share_pinned(self) -> None:
        """Let all contexts of the process share pinned ranges, as CUDA does; call this before anything is pinned."""
        self._pinned = dict.fromkeys(self._pinned, PinnedRanges())

    def manage(self) -> None:
        """Begin to use managed memory on all devices of the process.

        Raises ProfileError on an APU, and when the profile lacks an entry.
        """
        for kernel_driver in self.kernel_drivers.values():
            kernel_driver.manage()

    def start_managed(self) -> None:
        """Spawn the unified-memory driver's actors (simulated tasks) on all devices where they do not run yet."""
        for kernel_driver in self.kernel_drivers.values():
            if kernel_driver.uvm is not None:
                kernel_driver.uvm.start()
