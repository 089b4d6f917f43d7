"""The program's heap: allocations that an implementation takes over, as shared USM, and those that stay the host's.

Allocation is replaced where the program's own translation units allocate (new, malloc), free everywhere. While the
runtime itself allocates, and when it is down, memory is the C library's. A pool serves what it can from one block.
"""

from __future__ import annotations

from typing import Any

import attrs

from offloadrt.models.host.host_places import Arena
from offloadrt.models.host.program import OffloadProgram
from offloadrt.models.stdpar.allocation_map import Allocation, AllocationMap
from offloadrt.models.stdpar.arrays import UsmArray
from offloadrt.models.stdpar.errors import ForeignFree
from offloadrt.models.stdpar.implementations import DataMemory, ForeignFreeing
from offloadrt.models.stdpar.pool import MemoryPool, pool_size
from offloadrt.models.stdpar.stdpar_runtime import StdParRuntime
from offloadrt.runtime.lock_wait import take
from offloadrt.sim import Lock


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
        address = arena.allocate(nbytes, max(align, 16))
        self._program.arrays.heap_blocks[address] = arena
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
            arena = self._program.arrays.take_heap_block(array)
            await self._runtime.work(self._costs.libc)
            arena.release(address)
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
