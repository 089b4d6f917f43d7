"""The locks of ROCr's rings and queues.

There is no lock that all calls take, as CUDA's context lock is: a copy takes the lock of its DMA ring, a packet that of
its HSA queue.
"""

from __future__ import annotations

from offloadrt.machine import Device, Machine
from offloadrt.machine.host_lock import HostLock, lock_policy


class RocrLocks:
    """Makes the locks of one device; a thread that had to wait for one needs ``handover`` to wake up."""

    def __init__(self, machine: Machine, device: Device, handover: float) -> None:
        self._machine = machine
        self._handover = handover
        self._suffix = f" of device {device.index}" if device.index else ""

    def of_ring(self, number: int) -> HostLock:
        """Make the lock of a DMA ring."""
        return self._make(f"dma ring {number} lock", "ring_lock.uncontended")

    def of_queue(self, number: int) -> HostLock:
        """Make the lock of an HSA queue."""
        return self._make(f"hsa queue {number} lock", "queue_lock.uncontended")

    def _make(self, name: str, uncontended: str) -> HostLock:
        spec = self._machine.spec
        return HostLock(
            self._machine,
            self._machine.named(name + self._suffix),
            lock_policy(spec.text("driver.handoff")),
            self._handover,
            category="driver",
            wait_category="driver lock",
            uncontended=spec.flag(uncontended),
        )
