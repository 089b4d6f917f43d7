"""How long a kernel takes on a device alone: a roofline whose memory side is Little's law.

What kernels take together is not here: ``compute_units.py`` divides the SMs among them.  ``occupancy.py`` says how many
teams fit on an SM.
"""

from __future__ import annotations

from typing import Annotated

import attrs

from offloadrt.kernels import Launch
from offloadrt.machine.compute.occupancy import SMLimits
from offloadrt.machine.compute.team_places import TeamPlaces


@attrs.frozen
class ComputeSpec:
    """What the compute units of a device can do.  Rates in flop/s and bytes/s, times in seconds.

    Wide because it has one field for each entry of the profile from which a kernel's time follows.
    """

    sms: Annotated[int, "gpu.sms"]
    flops: Annotated[float, "gpu.fp64"]
    flops_single: Annotated[float, "gpu.fp32"]
    bandwidth: Annotated[float, "mem.bw"]
    memory_latency: Annotated[float, "mem.latency"]
    sector: Annotated[int, "mem.sector"]
    cache: Annotated[float, "mem.l2"]
    limits: SMLimits
    saturating_occupancy: Annotated[float, "sm.saturating_occupancy"]
    sm_bandwidth: Annotated[float, "sm.bandwidth"]
    team_dispatch: Annotated[float, "gpu.team_dispatch"]
    placement: Annotated[str, "gpu.placement"]
    max_resident: Annotated[int, "gpu.max_concurrent_kernels"]
    launch_latency: Annotated[float, "launch.latency"]
    """From a kernel's submission to its first team."""
    launch_gap: Annotated[float, "launch.gap"]
    """From the end of what a kernel waited for in its queue to its first team, when it was submitted in time."""
    save_restore: Annotated[float, "driver.halt_save_restore"]
    uncontended: Annotated[bool, "compute.uncontended"]

    def places(self) -> TeamPlaces | None:
        """Return empty places for teams, if kernels wait for places (``gpu.placement``)."""
        return TeamPlaces(float(self.sms)) if self.placement == "in_order" and not self.uncontended else None

    def part(self, sms: int) -> ComputeSpec:
        """Return the same compute units with so many of their SMs, which may use all of the memory's bandwidth."""
        return attrs.evolve(
            self, sms=sms, flops=self.flops * sms / self.sms, flops_single=self.flops_single * sms / self.sms
        )

    def demand(self, launch: Launch, taken: float | None = None) -> float:
        """Return the SMs' worth of the device that a launch takes, at most all.

        It takes that part of the places for teams, or of the rate that limits a full device over all of its time,
        whichever is more: while it waits for dependent accesses, others have the memory.  Of the places it takes the
        mean over its time when its teams run in several waves, of which the last leaves some empty.  Raises
        LaunchOutOfResources.
        ``taken``: its `seconds_on_idle_device`, for a caller who has asked for them already.
        """
        if taken is None:
            taken = self.seconds_on_idle_device(launch)
        if not taken:
            return self._filled(launch, launch.teams)
        full = max(self._arithmetic(launch), launch.bytes_moved(self.sector, self.cache) / self.bandwidth)
        places = launch.teams / self.limits.resident_teams(launch)
        waves = self._waves(launch)
        if waves > 1 and (waves - 1) * self._chain(launch) > self._roofline(launch):
            places /= waves
        return min(float(self.sms), max(places, self.sms * full / taken))

    def seconds_on_idle_device(self, launch: Launch) -> float:
        """Return the seconds from the first team's start to the last one's end on a device that does nothing else.

        A lane without a thread computes nothing, so teams that do not fill their warps lower the arithmetic rate.
        Dependent accesses come on top of the roofline: nothing hides those of the teams that find a place at once. Each
        team makes them, and a place is free for the next team only when they are over (wave quantization, as in
        `_filled`): those of later waves of teams hide behind the roofline of others, or the roofline behind them.
        """
        roofline, chain = self._roofline(launch), self._chain(launch)
        if not chain:
            return roofline
        return chain + max(roofline, (self._waves(launch) - 1) * chain)

    def drawn(self, launch: Launch) -> float:
        """Return the bytes/s of memory that the threads of a launch draw alone.

        That is Little's law, bytes in flight over latency: at most what the SMs that have teams, and the memory, let
        through of the sectors in which those bytes lie; teams are spread over SMs before any gets a second one. What a
        cache holds comes from there to the SMs each time. Where it is not known how many loads a thread has in flight,
        the teams that keep an SM's arithmetic units busy also draw all that goes into it: an SM has no share of the
        memory's bandwidth of its own, and a few draw all of it.
        """
        kernel, teams = launch.kernel, launch.accessing_teams
        if kernel.loads_in_flight is None:
            return min(
                self.bandwidth / kernel.moved_per_byte(self.sector, self.cache),
                self._filled(launch, teams) * self.sm_bandwidth / kernel.moved_per_byte(self.sector, 0.0),
            )
        working = min(launch.teams * launch.threads, launch.iterations) * launch.accessing
        threads = min(working, float(self.sms * self.limits.resident_teams(launch) * launch.threads))
        in_flight = threads * self.limits.loads_in_flight(launch) * kernel.bytes_per_load
        return min(
            self.bandwidth / kernel.moved_per_byte(self.sector, self.cache),
            min(self.sms, teams) * self.sm_bandwidth / kernel.moved_per_byte(self.sector, 0.0),
            in_flight / self.memory_latency,
        )

    def _chain(self, launch: Launch) -> float:
        """Return the seconds for which a team waits for accesses that depend on one another."""
        return launch.kernel.dependent_accesses * self.memory_latency

    def _waves(self, launch: Launch) -> int:
        """Return how many teams a place gets one after the other, when each takes as long."""
        return -(-launch.teams // (self.sms * self.limits.resident_teams(launch)))

    def _roofline(self, launch: Launch) -> float:
        """Return the seconds that arithmetic or memory takes, whichever is more.

        Teams begin in order, so those that a predicate keeps from memory run before or after the others, and overlap
        with none of their accesses: they take their arithmetic, or as long as it takes to begin them.
        """
        # Arithmetic and memory accesses overlap wholly. A kernel that alternates between them is predicted too fast, by
        # less than a factor of two: the sum of the two times is at most twice the longer one.
        arithmetic = self._arithmetic(launch) * self.sms / self._filled(launch, launch.teams)
        if not launch.bytes:
            return arithmetic
        accessing = max(arithmetic * launch.accessing, launch.bytes / self.drawn(launch))
        idle_teams = launch.teams - launch.accessing_teams
        return accessing + max(arithmetic * (1.0 - launch.accessing), idle_teams * self.team_dispatch)

    def _arithmetic(self, launch: Launch) -> float:
        """Return the seconds that a launch's operations take when all SMs are busy."""
        peak = self.flops_single if launch.kernel.precision == "single" else self.flops
        part = launch.kernel.efficiency * self.limits.working_lanes(launch)
        seconds = launch.flops / (peak * part)
        if launch.kernel.single_flops_per_iteration:
            seconds += launch.single_flops / (self.flops_single * part)
        return seconds

    def _filled(self, launch: Launch, teams: int) -> float:
        """Return the SMs whose arithmetic units so many teams keep busy, at most all.

        The SMs that run one team more than others end last, which NVIDIA calls wave quantization (Matrix Multiplication
        Background User's Guide): until then the others stand idle.
        """
        saturating = max(1.0, self.saturating_occupancy * self.limits.resident_teams(launch))
        return teams / max(saturating, float(-(-teams // self.sms)))


@attrs.frozen
class ComputeStatistics:
    """Virtual seconds of a device's compute units: busy_s + idle_s is the time elapsed.

    ``halted_s`` is the part of idle_s with kernels that were stopped, ``stalled_s`` that in which all kernels waited
    for pages; ``draining_s`` the time from a drain to its end. ``wall_s`` sums the kernels' times from start to end,
    ``alone_s`` what they would have taken with the device to themselves and every page in place. ``wait_s`` sums the
    seconds of kernels that were launched and not started, because the device was halted or full. ``sm_s``
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
