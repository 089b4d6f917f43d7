"""The host-side GPU memory manager of ExaHyPE: device blocks that are handed out again and never returned.

User code above the runtime: it calls omp_target_alloc, omp_target_memcpy and nothing else, and its pointers reach
kernels by is_device_ptr, so no present table is searched. A map from (device, size) to blocks; one semaphore guards the
hand-out and is released before the device allocation and before copies, which need no guard: the block is the caller's
by then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs

from offloadrt.driver import OutOfDeviceMemory
from offloadrt.models.host.section import Section
from offloadrt.models.openmp.host_thread import HostThread
from offloadrt.models.openmp.program import OpenMP
from offloadrt.runtime.device_pointer import DevicePointer
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.lock_wait import take
from offloadrt.sim import Lock


@attrs.define(eq=False)
class ManagedBlock:
    """A device block of the manager. pointer is None while the thread that asked first is still allocating it."""

    pointer: DevicePointer | None
    in_use: bool


@attrs.frozen
class ManagerStatistics:
    """blocks, bytes: all that the manager holds.

    allocations: hand-outs that had to allocate. hits: hand-outs that did not.
    """

    blocks: int
    bytes: int
    in_use: int
    allocations: int
    hits: int


class GpuMemoryManager:
    """One instance serves all threads and all devices of a process.

    A hand-out or hand-back costs the profile's `gpu_memory_manager.hand_out` while the (binary) semaphore is held;
    `gpu_memory_manager.uncontended` is an ablation. The semaphore is one of `program.locks()`, called ``gpu memory
    manager``, from the second manager on with a number.
    """

    def __init__(self, program: OpenMP) -> None:
        self.program = program
        number = len(program.manager_locks)
        self.semaphore = Lock(program.sim, f"gpu memory manager {number}" if number else "gpu memory manager")
        program.manager_locks.append(self.semaphore)
        self._hand_out_s = program.machine.spec.value("gpu_memory_manager.hand_out")
        self._uncontended = program.machine.spec.flag("gpu_memory_manager.uncontended")
        self._blocks: dict[tuple[int, int, bool], list[ManagedBlock]] = {}
        self._by_address: dict[tuple[int, int], ManagedBlock] = {}
        self._allocations = 0
        self._hits = 0

    async def allocate(
        self,
        t: HostThread,
        nbytes: int,
        source: HostArray | Section | None = None,
        device: int | None = None,
        phantom: bool | None = None,
    ) -> DevicePointer:
        """A block of exactly this size, with a copy of the first `nbytes` of `source` in it.

        The first free block of the size is taken, in the order in which they were first allocated. Raises
        OutOfDeviceMemory.
        """
        number = self.program.default_device if device is None else device
        ghost = self.program.phantom if phantom is None else phantom
        blocks = self._blocks.setdefault((number, nbytes, ghost), [])
        async with self._guard():
            block = next((one for one in blocks if not one.in_use and one.pointer is not None), None)
            if block is None:
                block = ManagedBlock(None, in_use=True)
                blocks.append(block)
                self._allocations += 1
            else:
                block.in_use = True
                self._hits += 1
        if block.pointer is None:
            pointer = await t.omp_target_alloc(nbytes, number, ghost)
            if pointer is None:
                blocks.remove(block)
                memory = self.program.machine.devices[number].memory
                raise OutOfDeviceMemory("omp_target_alloc", nbytes, memory.free_bytes, t.name, t.sim.now, number)
            block.pointer = pointer
            self._by_address[number, pointer.address] = block
        if source is not None:
            await t.omp_target_memcpy(block.pointer, source, nbytes)
        return block.pointer

    async def free(self, t: HostThread, pointer: DevicePointer, destination: HostArray | Section | None = None) -> None:
        """Copy the block to `destination`, if one is given, and put it back for the next who asks.

        ValueError for a foreign pointer.
        """
        block = self._by_address.get((pointer.device, pointer.address))
        if block is None or not block.in_use or block.pointer is None:
            raise ValueError(f"{pointer} is not in use in this memory manager")
        if destination is not None:
            await t.omp_target_memcpy(destination, block.pointer, block.pointer.nbytes)
        async with self._guard():
            block.in_use = False

    @asynccontextmanager
    async def _guard(self) -> AsyncIterator[None]:
        """The semaphore, held for one search."""
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
        """Return every block to the device; for the end of a program. RuntimeError if one is still in use."""
        if any(block.in_use for block in self._by_address.values()):
            raise RuntimeError("blocks of the GPU memory manager are still in use")
        for block in list(self._by_address.values()):
            await t.omp_target_free(block.pointer)
        self._by_address.clear()
        self._blocks.clear()

    def statistics(self) -> ManagerStatistics:
        held = list(self._by_address.values())
        return ManagerStatistics(
            blocks=len(held),
            bytes=sum(block.pointer.nbytes for block in held if block.pointer is not None),
            in_use=sum(block.in_use for block in held),
            allocations=self._allocations,
            hits=self._hits,
        )
