"""Evictions from a device without page faults: its queues stop, and go on a while later.

This follows amdgpu's ``svm_range_evict`` without XNACK: the first range that is evicted stops the queues and schedules
their restoration; ranges that are evicted until then add nothing to it.
"""

from __future__ import annotations

from offloadrt.driver.halting import halt
from offloadrt.machine import Device
from offloadrt.machine.messages import ResumeKernels, SuspendKernels
from offloadrt.sim import Signal, Simulation

_REASON = "eviction"


class QueueEviction:
    """Stops and restores the queues of one device.

    ``delay`` is the time in seconds from the stop to the restoration; 0 for a device that does not stop.
    """

    def __init__(self, sim: Simulation, device: Device, delay: float) -> None:
        self.count = 0
        """How often the queues have been stopped."""
        self._sim = sim
        self._device = device
        self._delay = delay
        self._stopped = False
        self._stopping: Signal | None = None

    async def begin(self, cause: int) -> None:
        """Stop the queues before pages are taken from the device; return when they have stopped."""
        while self._delay and not self._stopped:
            if self._stopping is None:
                await self._stop(cause)
            else:  # somebody else's stop, which a cancellation may end: look again afterwards
                await self._stopping.wait()

    async def _stop(self, cause: int) -> None:
        """Stop the queues and have them restored after the delay."""
        self._stopping = over = Signal(self._sim, f"device {self._device.index} queues stop")
        self.count += 1
        try:
            resume = await halt(self._device, SuspendKernels, _REASON, cause)
            self._stopped = True
        finally:
            self._stopping = None
            over.set()
        self._sim.spawn(self._restore, resume, name=f"device {self._device.index} queue restoration", daemon=True)

    async def _restore(self, resume: ResumeKernels) -> None:
        await self._sim.sleep(self._delay)
        self._stopped = False
        self._device.compute.mailbox.put(resume)
