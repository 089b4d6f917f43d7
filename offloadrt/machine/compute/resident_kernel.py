"""A kernel that the compute units have begun and not ended."""

from __future__ import annotations

import msgspec

from offloadrt.machine.compute.kernel_faults import Missing
from offloadrt.machine.managed.sweep import ManagedSweep
from offloadrt.machine.messages import KernelPacket


class ResidentKernel(msgspec.Struct, eq=False):
    """A kernel on the SMs, or stalled; times in virtual seconds."""

    packet: KernelPacket
    start: float
    alone: float
    """Time that it takes with the device to itself and every page in place."""
    demand: float
    """How many SMs it fills when it has all places that it can use."""
    draw: float = 0.0
    """The bytes/s of memory that it reads and writes alone, evenly over its time."""
    teams: int = 1
    """Its teams that are resident at a time when it has all these places."""
    teams_per_sm: int = 1
    """Its teams that fit on one SM."""
    placed: int = 1
    """The places that it has."""
    missing: Missing | None = None
    """What it has yet to fault in of host memory, on an APU; None when it needs nothing."""
    sweep: ManagedSweep | None = None
    """How far it is in managed memory; None when it uses none."""
    stalled_since: float = 0.0
    """Since when it waits for a page, while it does."""
    preempted: bool = False
    """Whether its context has to wait for its next time slice."""

    @property
    def rate(self) -> float:
        """Return how many SMs it fills with the places that it has; none while it is preempted."""
        if self.preempted:
            return 0.0
        return self.demand if self.placed == self.teams else self.demand * self.placed / self.teams
