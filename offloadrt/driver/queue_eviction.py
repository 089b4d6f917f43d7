"""What a device without page faults does when its pages are taken away: its queues stop, and go on a while later.

Follows amdgpu's ``svm_range_evict`` without XNACK: the first range that is evicted stops the queues and schedules their
restoration; ranges that are evicted until then add nothing to it.
"""

from __future__ import annotations

from offloadrt.machine import Device
from offloadrt.machine.messages import Resume, Suspend
from offloadrt.sim import Simulation

_REASON = "eviction"


class QueueEviction:
    """Of one device; `delay`: seconds from the stop to the restoration, 0 for a device that does not stop."""

    def __init__(self, sim: Simulation, device: Device, delay: float) -> None:
        self.count = 0
        """How often the queues were stopped."""
        self._sim = sim
        self._device = device
        self._delay = delay
        self._stopped = False

    async def begin(self, cause: int) -> None:
        """Pages are about to be taken from the device: returns when its queues have stopped."""
        if not self._delay or self._stopped:
            return
        self._stopped = True
        self.count += 1
        await self._device.compute.mailbox.call(Suspend(_REASON, cause))
        self._sim.spawn(self._restore, cause, name=f"device {self._device.index} queue restoration", daemon=True)

    async def _restore(self, cause: int) -> None:
        await self._sim.sleep(self._delay)
        self._stopped = False
        self._device.compute.mailbox.put(Resume(_REASON, True, cause))
