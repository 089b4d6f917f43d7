"""The program's heap: allocations that an implementation takes over, as shared USM, and those that stay the host's.

Allocation is replaced where the program's own translation units allocate (new, malloc), free everywhere. While the
runtime itself allocates, and when it is down, memory is the C library's. A pool serves what it can from one block.
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
"""Bytes; the smallest block."""
FRACTION = 0.4
"""The share of the device's memory, or of the largest allocation that it allows where that is less."""
GB = 1 << 30
"""The unit of ``ACPP_STDPAR_MEM_POOL_SIZE``."""


def pool_size(
    max_allocation: int, global_memory: int, system_usm: bool = False, requested_gb: float | None = None
) -> int:
    """Return the bytes of the pool on a device; 0 for none, as with system USM, which can use every allocation.

    requested_gb: ``ACPP_STDPAR_MEM_POOL_SIZE``, which goes before everything else. ValueError for a negative one.
    """
    if requested_gb is not None:
        if requested_gb < 0:
            raise ValueError(f"the memory pool's size is {requested_gb} GB, but must not be negative")
        return int(requested_gb * GB)
    return 0 if system_usm else int(FRACTION * min(max_allocation, global_memory))


class MemoryPool:
    """Offsets into one block of `size` bytes; 0 for a pool that serves nothing. ValueError for a negative size."""

    def __init__(self, size: int, page: int = PAGE) -> None:
        if size < 0:
            raise ValueError(f"the memory pool has {size} bytes, but must not have less than none")
        self.size = size
        self.page = page
        self._top = _block(max(size, page), page)
        self._free: dict[int, SortedList[int]] = {}
        """Offsets of free blocks by their size, also of those beyond the end of the pool."""
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
        """Tell whether a block in use begins there."""
        return offset in self._claimed

    def claim(self, nbytes: int, alignment: int = 0) -> int | None:
        """Claim a block for `nbytes` and return its offset; None for what the pool leaves to the driver.

        That is half of its size and more, an alignment of its own (0: none), and what does not fit. Nothing counts as
        one byte.
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
        """Free the block at `offset`; its bytes. ValueError where none in use begins."""
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
        """Tell whether a block of this size is free of which the first `nbytes` are within the pool."""
        free = self._free[block]
        return bool(free) and free[0] + nbytes <= self.size


def _block(nbytes: int, page: int) -> int:
    """Round up to a power of two pages."""
    return page << (-(-nbytes // page) - 1).bit_length()


@attrs.frozen
class HeapCosts:
    """Host time of one call, alone, in seconds."""

    libc: float
    pool: float
    lookup: float


class Heap:
    """The heap of one program. pool_gb: the size of the pool in GiB, instead of the implementation's own."""

    def __init__(self, runtime: StdParRuntime, program: OffloadProgram[Any], pool_gb: float | None) -> None:
        self._runtime = runtime
        self._program = program
        """The program, which has the C library's heap."""
        spec, implementation = runtime.machine.spec, runtime.implementation
        self._costs = HeapCosts(spec.value("host.malloc"), spec.value("stdpar.pool"), spec.value("stdpar.lookup"))
        shared = implementation.memory is DataMemory.SHARED and not runtime.system_usm
        self.interposes = runtime.usm.device is not None and shared
        self.is_up = True
        """Whether the runtime is there to give shared memory."""
        self.allocations = AllocationMap()
        """The program's allocations of shared USM, by address."""
        self.pool: MemoryPool | None = None
        if self.interposes and implementation.pool:
            memory = int(spec.value("mem.size"))
            self.pool = MemoryPool(pool_size(memory, memory, requested_gb=pool_gb))
        self._pool_begin = 0
        self.lock = Lock(runtime.sim, runtime.machine.named("memory pool"))
        self._contends = not spec.flag("stdpar_pool.uncontended")

    # what the program calls

    async def malloc(self, nbytes: int, name: str, arena: Arena, interposed: bool, align: int = 0) -> tuple[int, bool]:
        """Allocate `nbytes` for the object of that name; return the address, and whether it is shared USM.

        arena: the thread's part of the C library's heap. interposed: is the caller code that the implementation
        compiled, and not the runtime itself?
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
        """Call malloc of the C library."""
        await self._runtime.work(self._costs.libc)
        address = self._program.arrays.allocate(arena, nbytes, max(align, 16))
        self._runtime.usm.add_system(address, nbytes)
        return address

    async def free(self, array: UsmArray, foreign: bool = False) -> None:
        """Free or delete either kind of memory. foreign: from a translation unit of another compiler.

        Raises InvalidFree where no allocation begins, ForeignFree under an implementation whose frees are replaced in
        its own translation units only.
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
        """Claim a block of the pool, which the first request allocates; None for what it leaves to the driver."""
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
        """Search the pool once, under its mutex."""
        if not self._contends:
            await self._runtime.work(self._costs.pool)
            return
        await take(self.lock, self._runtime.machine.host_time)
        try:
            await self._runtime.work(self._costs.pool)
        finally:
            self.lock.release()
