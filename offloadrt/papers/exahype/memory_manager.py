"""The host-side GPU memory manager of ExaHyPE: blocks that are handed out again and never returned to the driver.

It is user code above the runtime. It calls only omp_target_alloc (or, in the variant of section 4.2, cuMemAllocManaged)
and omp_target_memcpy. Its blocks reach kernels by is_device_ptr, so that no present table is searched. A map goes from
(device, size) to blocks. One semaphore guards the hand-out. It is released before the allocation and before copies,
which need no guard, because the block then belongs to the caller.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import attrs
import numpy as np

from offloadrt.driver import OutOfDeviceMemory
from offloadrt.models.openmp.host_thread import HostThread
from offloadrt.models.openmp.program import OpenMP
from offloadrt.models.openmp.routines import OFFLOAD_SUCCESS, Pointer, check_managed_memory, on_device
from offloadrt.runtime.errors import OffloadError
from offloadrt.runtime.host_array import HostArray, Section
from offloadrt.runtime.lock_wait import take
from offloadrt.runtime.mapping.present_table import DevicePointer
from offloadrt.sim import Lock

B = TypeVar("B", DevicePointer, HostArray)


class CopyFailed(OffloadError):
    """Raised when `omp_target_memcpy` failed, and its caller cannot go on without the copy."""


async def must_copy(
    t: HostThread, dst: Pointer, src: Pointer, length: int, dst_offset: int = 0, src_offset: int = 0
) -> None:
    """Copy `length` bytes from `src` to `dst` (offsets in bytes) as omp_target_memcpy does; raise an error if it fails.

    Raises CopyFailed, with the message that the runtime has written, and OutsideArray.
    """
    code = await t.omp_target_memcpy(dst, src, length, dst_offset, src_offset)
    if code != OFFLOAD_SUCCESS:
        device = next(pointer.device for pointer in (dst, src) if on_device(pointer))
        raise t.program.device(device).error(CopyFailed, f"omp_target_memcpy returned {code}", "omp_target_memcpy", "")


@attrs.define(eq=False)
class HeldBlock(Generic[B]):
    """A block of a memory manager: `memory`, None until it is allocated; and whether a thread has it now."""

    memory: B | None
    in_use: bool


@attrs.frozen
class ManagerStatistics:
    """Counts what a memory manager has done.

    blocks, bytes: all that the manager holds; in_use: blocks that threads have now. allocations: requests that had to
    allocate. hits: requests to which the manager gave a block that it had.
    """

    blocks: int
    bytes: int
    in_use: int
    allocations: int
    hits: int


class BlockManager(ABC, Generic[B]):
    """Pools memory blocks; one instance serves all threads and all devices of a process.

    A request or a free holds a binary semaphore for the seconds that the profile's `gpu_memory_manager.hand_out` gives;
    with `gpu_memory_manager.uncontended` (for an ablation) nobody waits for it. The semaphore is one of
    `program.locks()`, called ``gpu memory manager``; from the second manager on, with a number.
    """

    def __init__(self, program: OpenMP) -> None:
        self.program = program
        number = len(program.manager_locks)
        self.semaphore = Lock(program.sim, program.machine.named("gpu memory manager", number))
        program.manager_locks.append(self.semaphore)
        self._hand_out_s = program.machine.spec.value("gpu_memory_manager.hand_out")
        self._uncontended = program.machine.spec.flag("gpu_memory_manager.uncontended")
        self._blocks: dict[tuple[int, int, bool], list[HeldBlock[B]]] = {}
        self._by_address: dict[int, HeldBlock[B]] = {}
        self._allocations = 0
        self._hits = 0

    @abstractmethod
    async def _acquire(self, t: HostThread, nbytes: int, device: int, phantom: bool) -> B:
        """Allocate new memory. Raises OutOfDeviceMemory."""

    @abstractmethod
    async def _return(self, t: HostThread, memory: B) -> None:
        """Return memory to the driver."""

    async def allocate(
        self,
        t: HostThread,
        nbytes: int,
        source: HostArray | Section | None = None,
        device: int | None = None,
        phantom: bool | None = None,
    ) -> B:
        """Hand out a block of exactly `nbytes` bytes, with a copy of the first `nbytes` of `source` in it.

        The thread `t` gets the free block of that size that was allocated first. device: the device's number; None: the
        thread's default device. phantom: whether a new block has no bytes (None: as the program's arrays). Raises
        OutOfDeviceMemory and CopyFailed.
        """
        number = t.omp_get_default_device() if device is None else device
        ghost = self.program.phantom if phantom is None else phantom
        blocks = self._blocks.setdefault((number, nbytes, ghost), [])
        async with self._guard():
            block = next((held for held in blocks if not held.in_use and held.memory is not None), None)
            if block is None:
                block = HeldBlock[B](None, in_use=True)
                blocks.append(block)
                self._allocations += 1
            else:
                block.in_use = True
                self._hits += 1
        try:
            if block.memory is None:
                block.memory = await self._acquire(t, nbytes, number, ghost)
                self._by_address[block.memory.address] = block
            if source is not None:
                await must_copy(t, block.memory, source, nbytes)
        except BaseException:
            block.in_use = False
            if block.memory is None:
                blocks.remove(block)
            raise
        return block.memory

    async def free(self, t: HostThread, memory: B, destination: HostArray | Section | None = None) -> None:
        """Copy the block to `destination`, if one is given, and put it back for the next request.

        Raises ValueError for memory that is not in use in this manager, and CopyFailed when the copy fails.
        """
        block = self._by_address.get(memory.address)
        if block is None or not block.in_use or block.memory is None:
            raise ValueError(f"{memory} is not in use in this memory manager")
        if destination is not None:
            await must_copy(t, destination, block.memory, block.memory.nbytes)
        async with self._guard():
            block.in_use = False

    @asynccontextmanager
    async def _guard(self) -> AsyncIterator[None]:
        """Hold the semaphore for one search, and spend the search's time."""
        machine = self.program.machine
        if not self._uncontended:
            await take(self.semaphore, machine.host_time, "manager lock")
        try:
            await machine.cores.compute(machine.jitter(self._hand_out_s), "runtime")
            yield
        finally:
            if not self._uncontended:
                self.semaphore.release()

    async def release_all(self, t: HostThread) -> None:
        """Return every block to the driver, at the end of a program. Raises RuntimeError if one is still in use."""
        if any(block.in_use for block in self._by_address.values()):
            raise RuntimeError("blocks of the GPU memory manager are still in use")
        for block in list(self._by_address.values()):
            if block.memory is not None:
                await self._return(t, block.memory)
        self._by_address.clear()
        self._blocks.clear()

    def statistics(self) -> ManagerStatistics:
        held = list(self._by_address.values())
        return ManagerStatistics(
            blocks=len(held),
            bytes=sum(block.memory.nbytes for block in held if block.memory is not None),
            in_use=sum(block.in_use for block in held),
            allocations=self._allocations,
            hits=self._hits,
        )


class GpuMemoryManager(BlockManager[DevicePointer]):
    """Hands out blocks of device memory and keeps freed ones for reuse (section 4.1 of the ExaHyPE paper)."""

    async def _acquire(self, t: HostThread, nbytes: int, device: int, phantom: bool) -> DevicePointer:
        pointer = await t.omp_target_alloc(nbytes, device, phantom)
        if pointer is None:
            free_bytes = self.program.machine.devices[device].memory.free_bytes
            raise OutOfDeviceMemory("omp_target_alloc", nbytes, free_bytes, t.name, t.sim.now, device)
        return pointer

    async def _return(self, t: HostThread, memory: DevicePointer) -> None:
        await t.omp_target_free(memory)


class UnifiedMemoryManager(BlockManager[HostArray]):
    """Hands out blocks of managed memory that host and device use in place (section 4.2 of the ExaHyPE paper).

    Raises UnifiedMemoryUnavailable where nothing migrates.
    """

    def __init__(self, program: OpenMP) -> None:
        check_managed_memory(program.machine, "a memory manager")
        super().__init__(program)

    async def _acquire(self, t: HostThread, nbytes: int, device: int, phantom: bool) -> HostArray:
        return await t.managed_array(f"managed block of {nbytes} bytes", nbytes, np.uint8, phantom)

    async def _return(self, t: HostThread, memory: HostArray) -> None:
        await t.free_managed(memory)
