"""The places for teams on a device's SMs, which kernels that run at one time take in order.

NVIDIA's block scheduler looks only at the kernel at the head of its queue, and goes on to the next one when each team
of that kernel has been given a place (Amert et al., GPU Scheduling on the NVIDIA TX2, RTSS 2017).
It takes the SM that has the most room, so that teams are spread over SMs before any gets a second one (Gilman et al.,
Demystifying the Placement Policies of the NVIDIA GPU Thread Block Scheduler, 2020). A kernel with more teams than find
places gives those that become free to its next teams, and keeps them until it ends: that its last teams leave some
places earlier is not emulated.
"""

from __future__ import annotations

import math

import attrs

from offloadrt.machine.compute.resident_kernel import ResidentKernel

_ROUNDING = 1e-9
"""Part of a team's place that may be missing: places are counted in SMs, of which a team takes a fraction."""


@attrs.define
class TeamPlaces:
    """The places of all SMs together, in SMs: how they lie on single SMs is not looked at."""

    free: float
    """What is left."""
    unplaced: ResidentKernel | None = None
    """The kernel that has begun and has a part of its places only."""

    def has_room(self, teams_per_sm: int) -> bool:
        """Tell whether the first team of the next kernel finds a place, of which an SM has so many."""
        return self.unplaced is None and self.free * teams_per_sm >= 1.0 - _ROUNDING

    def take(self, kernel: ResidentKernel) -> bool:
        """Give a kernel the places that it lacks, as far as there are any; returns whether it got one."""
        lacking = kernel.teams - kernel.placed
        teams = min(lacking, math.floor(self.free * kernel.teams_per_sm + _ROUNDING))
        kernel.placed += teams
        self.free -= teams / kernel.teams_per_sm
        self.unplaced = kernel if teams < lacking else None
        return teams > 0

    def give_back(self, kernel: ResidentKernel) -> ResidentKernel | None:
        """Take back the places of a kernel that has ended; returns the kernel that got some of them, if one did."""
        self.free += kernel.placed / kernel.teams_per_sm
        if self.unplaced is kernel:
            self.unplaced = None
        unplaced = self.unplaced
        return unplaced if unplaced is not None and self.take(unplaced) else None
