"""What the compute units of a device can do, what a kernel takes on them alone, and what they did."""

from __future__ import annotations

from typing import Annotated

import attrs

from offloadrt.kernels import Launch
from offloadrt.machine.occupancy import SMLimits


@attrs.frozen
class ComputeSpec:
    """What the compute units of a device can do.  Rates in flop/s and bytes/s, times in seconds."""

    sms: Annotated[int, "gpu.sms"]
    flops: Annotated[float, "gpu.fp64"]
    bandwidth: Annotated[float, "mem.bw"]
    memory_latency: Annotated[float, "mem.latency"]
    limits: SMLimits
    saturating_occupancy: Annotated[float, "sm.saturating_occupancy"]
    max_resident: Annotated[int, "gpu.max_concurrent_kernels"]
    launch_latency: Annotated[float, "launch.latency"]
    save_restore: Annotated[float, "driver.halt_save_restore"]
    uncontended: Annotated[bool, "compute.uncontended"]

    def demand(self, launch: Launch) -> float:
        """SMs that the teams of a launch fill, at most all.  Raises LaunchOutOfResources."""
        saturating = max(1.0, self.saturating_occupancy * self.limits.resident_teams(launch))
        return min(float(self.sms), launch.teams / saturating)

    def time_alone(self, launch: Launch) -> float:
        """Seconds from the first team's start to the last one's end on a device that does nothing else.

        A lane without a thread computes nothing, so teams that do not fill their warps lower the arithmetic rate.
        Dependent accesses come on top of the roofline: nothing hides them.
        """
        flops = self.flops * launch.kernel.efficiency * self.limits.working_lanes(launch)
        roofline = max(launch.flops / flops, launch.bytes / self.bandwidth)
        serial = launch.kernel.dependent_accesses * self.memory_latency
        return roofline * self.sms / self.demand(launch) + serial


@attrs.frozen
class ComputeStatistics:
    """Virtual seconds of a device's compute units: busy_s + idle_s is the time elapsed.

    ``halted_s`` is the part of idle_s with kernels that were stopped, ``stalled_s`` that in which all kernels waited
    for pages; ``draining_s`` the time from a drain to its end. ``wall_s`` sums the kernels' times from start to end,
    ``alone_s`` what they would have taken with the device to themselves and every page in place. ``wait_s`` sums the
    seconds of kernels that were launched and not started, because the device was halted or full of kernels. ``sm_s``
    sums the seconds of all SMs that worked.  Blit copies (``blits``) keep the SMs busy and are resident as kernels are;
    ``kernels``, ``wall_s`` and ``alone_s`` are without them.
    """

    busy_s: float
    idle_s: float
    halted_s: float
    stalled_s: float
    wait_s: float
    draining_s: float
    drains: int
    suspensions: int
    kernels: int
    blits: int
    most_resident: int
    wall_s: float
    alone_s: float
    sm_s: float
