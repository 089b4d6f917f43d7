"""The program's heap: allocations that an implementation replaces by shared USM, and those that stay the C library's.

An implementation replaces new and malloc only in the translation units that it compiles. It replaces free in the whole
program (but see `ForeignFreeing`). While the runtime itself allocates, and after it was shut down, memory comes from
the C library. A memory pool serves requests of less than half its size from one block of shared USM.
"""

from __future__ import annotations

from typing import Any

import attrs
from sortedcontainers import SortedList

from offloadrt.extensions.stdpar.arrays import ForeignFree, UsmArray
from offloadrt.extensions.stdpar.implementations import Allocation, AllocationMap, DataMemory, ForeignFreeing
from offloadrt.extensions.stdpar.stdpar_runtime import StdParRuntime
from offloadrt.models.host.arrays import Arena
from offloadrt.models.host.program import OffloadProgram
from offloadrt.runtime.lock_wait import take
from offloadrt.sim import Lock

PAGE = 4096
"""The smallest block of the pool, in bytes."""
FRACTION = 0.4
"""The pool's share of the device's memory, or of the largest allocation that the device allows where that is less."""
GB = 1 << 30
"""Bytes in the unit of ``ACPP_STDPAR_MEM_POOL_SIZE``."""


def pool_size(
    max_allocation: int, global_memory: int, system_usm: bool = False, requested_gb: float | None = None
) -> int:
    """Return the size in bytes of the memory pool that AdaptiveCpp makes on a device; 0 for no pool.

    max_allocation: the largest allocation that the device allows, in bytes. global_memory: the device's memory, in
    bytes. system_usm: whether the device can use all memory of the host; then there is no pool. requested_gb: the value
    of ``ACPP_STDPAR_MEM_POOL_SIZE`` in GiB, which overrides the rest; None if it is not set. Raises ValueError for a
    negative request.
    """
    if requested_gb is not None:
        if requested_gb < 0:
            raise ValueError(f"the memory pool's size is {requested_gb} GB, but must not be negative")
        return int(requested_gb * GB)
    return 0 if system_usm else int(FRACTION * min(max_allocation, global_memory))


class MemoryPool:
    """A buddy allocator of offsets into a block of `size` bytes; 0: it serves nothing. Raises ValueError below 0."""

    def __init__(self, size: int, page: int = PAGE) -> None:
        if size < 0:
            raise ValueError(f"the memory pool has {size} bytes, but must not have less than none")
        self.size = size
        self.page = page
        self._top = _block(max(size, page), page)
        self._free: dict[int, SortedList[int]] = {}
        """Offsets of the free blocks of each size. Blocks beyond the end of the pool are listed, too, and never handed
        out.
        """
        block = page
        while block <= self._top:
            self._free[block] = SortedList()
            block *= 2
        self._free[self._top].add(0)
        self._claimed: dict[int, int] = {}
        """Size of the block at each offset that is in use."""

    @property
    def in_use(self) -> int:
        """Return the bytes of the blocks in use."""
        return sum(self._claimed.values())

    def __len__(self) -> int:
        """Count the blocks in use."""
        return len(self._claimed)

    def __contains__(self, offset: int) -> bool:
        """Tell whether a block in use begins at `offset`."""
        return offset in self._claimed

    def claim(self, nbytes: int, alignment: int = 0) -> int | None:
        """Claim a block for `nbytes` and return its offset; None where the driver must serve the request.

        The pool does not serve a request for half of its size or more, one with an explicit `alignment` (0: none), and
        what does not fit. A request of 0 bytes counts as one of 1 byte.
        """
        if alignment or nbytes * 2 >= self.size:
            return None
        needed = max(nbytes, self.page)
        wanted = block = _block(needed, self.page)
        while not self._fits(block, needed):
            block *= 2
            if block > self._top:
                return None
        while block > wanted:
            offset = self._free[block].pop(0)
            block //= 2
            self._free[block].update((offset, offset + block))
        free = self._free[wanted]
        offset = free.pop(free.bisect_right(self.size - needed) - 1)
        self._claimed[offset] = wanted
        return offset

    def release(self, offset: int) -> int:
        """Free the block at `offset` and return its bytes. Raises ValueError where no block in use begins there."""
        if offset not in self._claimed:
            raise ValueError(f"no block of the memory pool in use begins at offset {offset}")
        size = block = self._claimed.pop(offset)
        while block < self._top and (buddy := offset ^ block) in self._free[block]:
            self._free[block].remove(buddy)
            offset = min(offset, buddy)
            block *= 2
        self._free[block].add(offset)
        return size

    def _fits(self, block: int, nbytes: int) -> bool:
        """Tell whether a block of size `block` is free whose first `nbytes` lie within the pool."""
        free = self._free[block]
        return bool(free) and free[0] + nbytes <= self.size


def _block(nbytes: int, page: int) -> int:
    """Return the smallest power of two of pages that holds `nbytes`, in bytes."""
    return page << (-(-nbytes // page) - 1).bit_length()


@attrs.frozen
class HeapCosts:
    """The host time in seconds of one call of malloc or free when no other thread is in the heap.

    libc: in the C library. pool: in the memory pool. lookup: to find out which of the two an address comes from.
    """

    libc: float
    pool: float
    lookup: float


class Heap:
    """Serves malloc and free of one program, from the C library, the memory pool or the driver's shared USM.

    pool_gb: the size of the memory pool in GiB; None: the implementation decides.
    """

    def __init__(self, runtime: StdParRuntime, program: OffloadProgram[Any], pool_gb: float | None) -> None:
        self._runtime = runtime
        self._program = program
        """The program, whose threads allocate from its C library's heap."""
        spec, implementation = runtime.machine.spec, runtime.implementation
        self._costs = HeapCosts(spec.value("host.malloc"), spec.value("stdpar.pool"), spec.value("stdpar.lookup"))
        shared = implementation.memory is DataMemory.SHARED and not runtime.system_usm
        self.interposes = runtime.usm.device is not None and shared
        self.is_up = True
        """Whether the implementation's runtime is running; after its shutdown the heap gives the C library's memory."""
        self.allocations = AllocationMap()
        """The allocations that are shared USM, by address."""
        self.pool: MemoryPool | None = None
        if self.interposes and implementation.pool:
            memory = int(spec.value("mem.size"))
            self.pool = MemoryPool(pool_size(memory, memory, requested_gb=pool_gb))
        self._pool_begin = 0
        self.lock = Lock(runtime.sim, runtime.machine.named("memory pool"))
        self._contends = not spec.flag("stdpar_pool.uncontended")

    # what the program calls

    async def malloc(self, nbytes: int, name: str, arena: Arena, interposed: bool, align: int = 0) -> tuple[int, bool]:
        """Allocate `nbytes` for the object `name`; return the address, and whether it is shared USM.

        arena: the thread's part of the C library's heap. interposed: whether the caller is code that the implementation
        compiled, rather than the runtime itself. align: in bytes; 0 for malloc's own.
        """
        if not (interposed and self.interposes and self.is_up):
            return await self.malloc_libc(nbytes, arena, align), False
        counts = self._runtime.counts
        counts.interposed += 1
        address = await self._claim(nbytes, align)
        if address is None:
            address = await self._runtime.usm.malloc_shared(max(nbytes, 1), name)
        else:
            counts.from_pool += 1
        self.allocations.add(address, max(nbytes, 1))
        return address, True

    async def malloc_libc(self, nbytes: int, arena: Arena, align: int = 0) -> int:
        """Call malloc of the C library on the thread's heap; return the address. align: in bytes; 0 is malloc's own."""
        await self._runtime.work(self._costs.libc)
        address = self._program.arrays.allocate(arena, nbytes, max(align, 16))
        self._runtime.usm.add_system(address, nbytes)
        return address

    async def free(self, array: UsmArray, foreign: bool = False) -> None:
        """Free memory of the C library or shared USM. foreign: whether another compiler compiled the caller.

        Raises InvalidFree where no allocation begins at the address. Raises ForeignFree for shared USM that foreign
        code frees, under an implementation that replaces frees only in its own translation units.
        """
        address = array.address
        if self.interposes:
            await self._runtime.work(self._costs.lookup)
        allocation = self.allocations.find(address)
        if allocation is not None and allocation.root == address:
            if foreign and self._runtime.implementation.foreign_free is ForeignFreeing.CRASH:
                raise ForeignFree.now(
                    self._runtime.sim,
                    f"free of {array.name!r} outside of the program's translation units: libc gets a pointer to "
                    "shared memory",
                    call="free",
                    array=array.name,
                )
            await self._release(allocation)
        else:
            home = self._program.arrays.take_heap_block(array)
            await self._runtime.work(self._costs.libc)
            home.append(address)
        array.freed = True

    # below

    async def _claim(self, nbytes: int, align: int) -> int | None:
        """Claim a block of the pool, allocated now if it is the first; None where the driver must serve the request."""
        pool = self.pool
        if pool is None or not pool.size:
            return None
        if not self._pool_begin:
            await take(self.lock, self._runtime.machine.host_time)
            try:
                if not self._pool_begin:  # somebody else may have been the first
                    self._pool_begin = await self._runtime.usm.malloc_shared(pool.size, "memory pool")
            finally:
                self.lock.release()
        await self._work_in_pool()
        offset = pool.claim(nbytes, align)
        return None if offset is None else self._pool_begin + offset

    async def _release(self, allocation: Allocation) -> None:
        self.allocations.remove(allocation.root)
        pool, offset = self.pool, allocation.root - self._pool_begin
        if pool is not None and self._pool_begin and 0 <= offset < pool.size:
            await self._work_in_pool()
            pool.release(offset)
        else:
            await self._runtime.usm.free_shared(allocation.root)

    async def _work_in_pool(self) -> None:
        """Spend the time of one search of the pool, under the pool's mutex unless contention is switched off."""
        if not self._contends:
            await self._runtime.work(self._costs.pool)
            return
        await take(self.lock, self._runtime.machine.host_time)
        try:
            await self._runtime.work(self._costs.pool)
        finally:
            self.lock.release()
