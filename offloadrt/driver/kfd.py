"""The kernel driver of an APU (amdkfd): memory of the pool, page tables, prefaults, and page faults of kernels.

Its calls run in the calling host thread.  Two locks order them: the *mmap lock* of the process, which a prefault holds
for writing and which first touches by the host and services of kernels' faults hold for reading; and the driver's
*process lock*, which allocations and frees hold that need the kernel.  Memory of the pool never faults: the GPU's page
table is filled in bulk when it is allocated.
"""

from __future__ import annotations

from collections.abc import Awaitable

import attrs

from offloadrt.driver.kfd_costs import KfdCosts
from offloadrt.driver.page_fault_handler import PageFaultHandler
from offloadrt.machine import Block, Device, Machine, ProfileError
from offloadrt.sim import Lock, RWLock
from offloadrt.sim.lock import LockStatistics
from offloadrt.sim.rwlock import RWLockStatistics
from offloadrt.trace import events


@attrs.frozen
class KfdStatistics:
    """What the kernel driver did; virtual seconds."""

    prefaults: int
    """Calls of ``svm_attributes_set``."""
    prefault_pages: int
    """Pages that they added to the GPU's page table."""
    prefault_s: float
    """That they took, waiting included."""
    cpu_faults: int
    """Pages that the host populated by touching them first."""
    unmapped: int
    """Pages that lost their translation on the GPU."""
    mmap: RWLockStatistics
    process: LockStatistics


class Kfd:
    """The kernel driver of one device.  Raises ProfileError when the machine is no APU.

    None of its coroutines counts as a call of the API: that is for the library that makes them.
    """

    def __init__(self, machine: Machine, device: Device) -> None:
        if device.faults is None:
            raise ProfileError(machine.spec.path, "machine.apu", "is false, so that kfd has nothing to drive")
        self.machine = machine
        self.device = device
        self.faults = device.faults
        self.costs = KfdCosts.of(machine.spec, device.pages.page_size)
        self.host_pages = machine.host_memory.pages
        """The CPU's page table."""
        suffix = f" {device.index}" if device.index else ""
        self.mmap_lock = RWLock(machine.sim, f"mmap lock{suffix}")
        self.process_lock = Lock(machine.sim, f"kfd process lock{suffix}")
        self._mmap_contends = not machine.spec.flag("mmap.uncontended")
        self._process_contends = not machine.spec.flag("process_lock.uncontended")
        self._handler = PageFaultHandler(
            self, device.faults, uncontended=machine.spec.flag("fault_handler.uncontended")
        )
        self._host_time = machine.host_time
        self._started = False
        self._prefaults = self._prefault_pages = self._cpu_faults = self._unmapped = 0
        self._prefault_s = 0.0

    def start(self) -> None:
        """Spawn the page-fault handler and the device's own actors, once, within a run."""
        if not self._started:
            self._started = True
            self.device.start()
            self._handler.start()

    # Memory of the pool

    async def allocate(self, nbytes: int, phantom: bool = False) -> int:
        """The address of a new block of the pool; a phantom block has no bytes.

        A block that fits into a fragment which the library holds costs no call of the kernel. Raises OutOfSegments,
        and ValueError for a size that is not positive.
        """
        block, segments = self.device.memory.allocate(nbytes, phantom)
        try:
            if segments:
                cost = self.costs.allocate + segments * self.device.memory.segment * self.costs.allocate_per_byte
                await self.in_kernel(cost)
            else:
                await self._work(self.costs.allocate_fragment)
        except BaseException:
            self.device.memory.free(block.address)
            raise
        return block.address

    async def free(self, address: int) -> Block:
        """Give a block of the pool back; returns it.  Raises InvalidDeviceAddress when none begins there."""
        memory = self.device.memory
        if memory.block_of(address).is_large:
            await self.in_kernel(self.costs.free + memory.block_of(address).extent * self.costs.free_per_byte)
        else:
            await self._work(self.costs.free_fragment)
        return memory.free(address)[0]

    # Pages of host memory

    async def svm_attributes_set(self, begin: int, nbytes: int) -> int:
        """Prefault a range of host memory: the GPU can translate all of it from then on.  Returns the pages added.

        Pages that are there cost nothing, so a repeated call costs the same whatever its range.
        """
        machine, costs, pages = self.machine, self.costs, self.device.pages
        sim, entry = machine.sim, machine.sim.now
        await self._work(costs.prefault)
        if self._mmap_contends:
            since = sim.now
            await self.mmap_lock.acquire_write()
            self._host_time.add("driver lock", sim.now - since)
        try:
            new = pages.missing_pages(begin, nbytes)
            unpopulated = self.host_pages.missing_pages(begin, nbytes) if new else 0
            await self._work(
                costs.prefault_locked + new * costs.prefault_insert + unpopulated * costs.prefault_populate
            )
            if new:
                self.host_pages.insert(begin, begin + nbytes)
                new = pages.insert(begin, begin + nbytes)  # fewer, if the lock excludes nobody
        finally:
            self.unlock()
        self._prefaults += 1
        self._prefault_pages += new
        self._prefault_s += sim.now - entry
        if (trace := machine.trace) is not None:
            trace(events.Prefault, self.device.index, -1, sim.current.cause, nbytes, new)
        return new

    async def host_touch(self, begin: int, nbytes: int, *, of_program: bool = True) -> int:
        """The calling thread touches a range of host memory; returns the pages that it populated.

        It takes the mmap lock for each of the ranges, of ``fault.range`` bytes, in which it has to populate anything.
        ``of_program``: whether it is a thread of the program, whose time is accounted for.
        """
        populated, size = 0, self.faults.spec.range
        for low, high in self.host_pages.missing(begin, nbytes):
            for piece in range(low - low % size, high, size):
                populated += await self._host_fault(max(low, piece), min(high, piece + size), of_program)
        self._cpu_faults += populated
        return populated

    async def _host_fault(self, low: int, high: int, of_program: bool) -> int:
        """The calling thread has the pages of [low, high) populated, unless somebody has done so meanwhile."""
        since = self.machine.sim.now
        await self.lock_for_reading()
        if of_program:
            self._host_time.add("driver lock", self.machine.sim.now - since)
        try:
            cost = self.host_pages.missing_pages(low, high - low) * self.costs.host_fault
            await (self._work(cost) if of_program else self._work_unaccounted(cost))
            return self.host_pages.insert(low, high)
        finally:
            self.unlock()

    def unmap(self, begin: int, nbytes: int) -> int:
        """Pages of a range lose their translation on the GPU (an ablation); returns how many did."""
        gone = self.device.pages.remove(begin, begin + nbytes)
        self._unmapped += gone
        return gone

    def statistics(self) -> KfdStatistics:
        """What the driver did so far."""
        return KfdStatistics(
            self._prefaults, self._prefault_pages, self._prefault_s, self._cpu_faults, self._unmapped,
            self.mmap_lock.statistics(), self.process_lock.statistics(),
        )  # fmt: skip

    # Locks

    async def lock_for_reading(self) -> None:
        """Take the mmap lock for reading, unless it excludes nobody; ``unlock`` gives it back."""
        if self._mmap_contends:
            await self.mmap_lock.acquire_read()

    def unlock(self) -> None:
        """Give the mmap lock back."""
        if self._mmap_contends:
            self.mmap_lock.release()

    async def in_kernel(self, dt: float) -> None:
        """The calling thread works under the process lock, in a call of the kernel."""
        if not self._process_contends:
            await self._work(dt)
            return
        since = self.machine.sim.now
        async with self.process_lock:
            self._host_time.add("driver lock", self.machine.sim.now - since)
            await self._work(dt)

    def _work(self, dt: float) -> Awaitable[None]:
        """The calling thread works for ``dt`` seconds on a core."""
        return self.machine.work(dt, "driver")

    async def _work_unaccounted(self, dt: float) -> None:
        """The same for a thread that is not the program's."""
        cores = self.machine.cores
        await cores.take()
        try:
            await self.machine.sim.sleep(self.machine.jitter(dt))
        finally:
            cores.give_back()
