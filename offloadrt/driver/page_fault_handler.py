"""The page-fault handler of an APU's kernel driver: one worker, which serves the faults of kernels in order of arrival.

A kernel has at most one fault at a time, so the kernels that fault take turns.  A service takes the mmap lock for
reading, so it excludes prefaults and is excluded by them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offloadrt.machine.messages import FaultServed, PageFault
from offloadrt.machine.servers import Servers, numbered_from_the_second

if TYPE_CHECKING:
    from offloadrt.driver.kfd import Kfd
    from offloadrt.machine.kernel_faults import KernelFaults


class PageFaultHandler:
    """Serves the faults of one device; ``start`` spawns its actor.  With ``uncontended`` each fault finds a worker."""

    def __init__(self, kfd: Kfd, faults: KernelFaults, *, uncontended: bool = False) -> None:
        self._kfd = kfd
        self._sim = kfd.machine.sim
        self._mailbox = faults.handler
        self._serving = faults.serving
        names = numbered_from_the_second(faults.handler.name, "worker")
        self._workers: Servers[PageFault] = Servers(self._sim, faults.handler, self._run, names, grow=uncontended)
        self.start = self._workers.start
        """Spawn the worker."""

    async def _run(self) -> None:
        """The actor: one fault after the other, for ever."""
        compute = self._kfd.device.compute.mailbox
        while True:
            fault = await self._mailbox.get()
            if not isinstance(fault, PageFault):
                raise TypeError(f"the page-fault handler does not understand {fault!r}")
            self._workers.took_unannounced()
            pages, service_s = await self._serve(fault)
            self._workers.ended()
            compute.put(FaultServed(fault.kernel, pages, service_s))

    async def _serve(self, fault: PageFault) -> tuple[int, float]:
        """Map the range, unless somebody has done so; returns the pages mapped and the seconds that it took."""
        kfd, nbytes = self._kfd, fault.high - fault.low
        if kfd.device.pages.covers(fault.low, nbytes):
            return 0, 0.0
        await kfd.lock_for_reading()
        begin = self._sim.now
        self._serving.rise()
        try:
            if kfd.device.pages.covers(fault.low, nbytes):  # a prefault, while it waited
                return 0, 0.0
            unpopulated = kfd.host_pages.missing_pages(fault.low, nbytes)
            service = kfd.costs.fault_service + unpopulated * kfd.costs.fault_populate
            await self._sim.sleep(kfd.machine.jitter(service))
            kfd.host_pages.insert(fault.low, fault.high)
            return kfd.device.pages.insert(fault.low, fault.high), self._sim.now - begin
        finally:
            self._serving.fall()
            kfd.unlock()
