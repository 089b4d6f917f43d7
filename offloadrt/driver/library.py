"""The driver library on one device: what its calls work on, and what they did."""

from __future__ import annotations

import attrs

from offloadrt.driver.context import Context
from offloadrt.driver.copies import Copies
from offloadrt.driver.costs import DriverCosts
from offloadrt.driver.halting import Halting
from offloadrt.driver.uvm import Uvm
from offloadrt.machine import Device, Machine, Statistics, Stream
from offloadrt.machine.host_lock import HostLock
from offloadrt.sim import LockStatistics


@attrs.frozen
class DriverStatistics:
    """Counts of one device's driver."""

    streams: int
    streams_visited: int
    """By frees, while they held the context lock (``driver.free_visits_streams``)."""


class Library:
    """The context of a device, its streams and its allocations of managed memory."""

    def __init__(self, machine: Machine, device: Device) -> None:
        self.machine = machine
        self.device = device
        self.costs = machine.spec.read(DriverCosts)
        self.streams: list[Stream] = []
        """Those of the context, in order of creation."""
        self._context = Context(machine, device, self.costs)
        self._halting = Halting(machine.sim, device, machine.spec.text("driver.halt"), machine.host_time)
        self._copies = Copies(self._context)
        self._visited = 0
        self.uvm: Uvm | None = None
        """The unified-memory driver, once ``manage`` has been called."""
        self._managed_sizes: dict[int, int] = {}
        """Bytes of what ``mem_alloc_managed`` gave, by address."""

    def manage(self) -> Uvm:
        """Use managed memory: called once.  Raises ProfileError."""
        self.uvm = Uvm(self.machine, self.device)
        return self.uvm

    @property
    def context(self) -> HostLock:
        """The context lock."""
        return self._context.lock

    def locks(self) -> dict[str, LockStatistics]:
        """Statistics of its locks, by name."""
        found = {self.context.name: self.context.statistics()}
        if self.uvm is not None:
            found[self.uvm.lock.name] = self.uvm.lock.statistics().together()
        return found

    def engines(self) -> dict[str, Statistics]:
        """What the actors of the unified-memory driver did, by name."""
        return {} if self.uvm is None else {self.uvm.handler.mailbox.name: self.uvm.handler.statistics()}

    def faults(self) -> dict[str, int]:
        """Faults and migrations of managed memory; nothing without any."""
        return {} if self.uvm is None else self.uvm.counters.table()

    def statistics(self) -> DriverStatistics:
        """What the driver counted so far."""
        return DriverStatistics(len(self.streams), self._visited)
