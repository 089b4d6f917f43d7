"""The page-fault handler of an APU's kernel driver: one worker, which serves the faults of kernels in order of arrival.

A kernel has at most one fault in progress, so the kernels that fault take turns, whatever their processes: amdgpu has
one worker for the faults of a device (``amdgpu_irq_handle_ih_soft``).  A service takes the mmap lock of the kernel's
process for reading and its svms lock: it excludes prefaults and is excluded by them.  Faults come from
``machine/compute/kernel_faults.py``; the kernel goes on when the compute units get ``FaultServed``.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import attrs

from offloadrt.driver.kfd.costs import KfdCosts
from offloadrt.driver.kfd.mmap_lock import MmapLock
from offloadrt.machine import Apu, Machine
from offloadrt.machine.compute.kernel_faults import KernelFaults
from offloadrt.machine.memory.page_table import PageTable
from offloadrt.machine.messages import FaultServed, PageFault
from offloadrt.machine.servers import Servers, numbered_from_the_second


@attrs.frozen
class AddressSpace:
    """What a service needs to know of a process."""

    host_pages: PageTable
    """The CPU's page table."""
    mmap_lock: MmapLock
    svms: AbstractAsyncContextManager[object]
    """The lock of its ranges."""


class PageFaultHandler:
    """Serves the faults of one device; ``start`` spawns its actor.  With ``uncontended`` each fault finds a worker."""

    def __init__(
        self,
        machine: Machine,
        device: Apu,
        faults: KernelFaults,
        costs: KfdCosts,
        *,
        uncontended: bool = False,
    ) -> None:
        self._sim = machine.sim
        self._injector = machine.injector
        self._device = device.index
        self._jitter = machine.jitter
        self._pages = device.pages
        self._compute = device.compute.mailbox
        self._costs = costs
        self._spaces: dict[int, AddressSpace] = {}
        self._mailbox = faults.handler
        self._serving = faults.serving
        names = numbered_from_the_second(faults.handler.name, "worker")
        self._workers: Servers[PageFault] = Servers(self._sim, faults.handler, self._run, names, grow=uncontended)
        self._started = False

    def serve_process(self, process: int, space: AddressSpace) -> None:
        """Serve the faults of a process's kernels, too."""
        self._spaces[process] = space

    def start(self) -> None:
        """Spawn the worker, once."""
        if not self._started:
            self._started = True
            self._workers.start()

    async def _run(self) -> None:
        """Serve one fault after the other, for ever (the actor)."""
        while True:
            fault = await self._mailbox.get()
            if not isinstance(fault, PageFault):
                raise TypeError(f"the page-fault handler does not understand {fault!r}")
            self._workers.took_from_mailbox()
            if self._injector is not None:
                self._injector.page_fault(self._device, fault.kernel)
            pages, service_s = await self._serve(fault)
            self._workers.done()
            self._compute.put(FaultServed(fault.kernel, pages, service_s))

    async def _serve(self, fault: PageFault) -> tuple[int, float]:
        """Map the range unless somebody has done so; return the pages mapped and the seconds that it took.

        Two simplifications.  A duplicate is taken to cost nothing; amdkfd looks the range up and drops the fault.  The
        service takes no core, though on a real host a kernel worker runs it: a program that keeps all cores busy is
        predicted too fast, by at most the handler's ``busy_s``.
        """
        nbytes, space = fault.high - fault.low, self._spaces[fault.process]
        if self._pages.covers(fault.low, nbytes):
            return 0, 0.0
        await space.mmap_lock.acquire_read()
        try:
            async with space.svms:
                return await self._serve_locked(fault, space.host_pages)
        finally:
            space.mmap_lock.release()

    async def _serve_locked(self, fault: PageFault, host_pages: PageTable) -> tuple[int, float]:
        """Map the range; a prefault may have mapped it while this service waited for the locks."""
        nbytes, begin = fault.high - fault.low, self._sim.now
        self._serving.rise()
        try:
            if self._pages.covers(fault.low, nbytes):
                return 0, 0.0
            unpopulated = host_pages.missing_pages(fault.low, nbytes)
            service = self._costs.fault_service + unpopulated * self._costs.fault_populate
            await self._sim.sleep(self._jitter(service))
            host_pages.insert(fault.low, fault.high)
            return self._pages.insert(fault.low, fault.high), self._sim.now - begin
        finally:
            self._serving.fall()
