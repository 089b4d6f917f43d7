"""Kernels on the SMs of a device: how many teams fit, how long a kernel takes alone, and which kernels are resident.

What kernels take together is decided in ``compute_units.py``, which divides the SMs among them.
"""

from __future__ import annotations

import math
from typing import Annotated

import attrs
import msgspec

from offloadrt.kernels import Launch
from offloadrt.machine.compute.kernel_faults import Missing
from offloadrt.machine.managed.sweep import ManagedSweep
from offloadrt.machine.messages import KernelPacket
from offloadrt.machine.share import FairShare, Ticket
from offloadrt.sim import Mailbox, Simulation
from offloadrt.trace import Trace

_REGISTER, _DOUBLE = 4, 8
"""Bytes of a register and of a double."""


# ---------------------------------------------------------------------- occupancy
# The number of teams of a kernel that fit on a streaming multiprocessor (SM), from the limits of the hardware.
#
# The rules are those of NVIDIA's occupancy calculator: threads, warps, teams (thread blocks) and registers. A warp
# gets a multiple of ``register_unit`` registers, and the number of warps with registers is a multiple of
# ``warp_unit``, because an SM has several register files. Shared memory is left out: the kernels here declare none.
class LaunchOutOfResources(Exception):
    """Not even one team of the launch fits on an SM (the real call fails with CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)."""


@attrs.frozen
class SMLimits:
    """What one SM holds at most."""

    threads: Annotated[int, "sm.max_threads"]
    teams: Annotated[int, "sm.max_teams"]
    warps: Annotated[int, "sm.max_warps"]
    registers: Annotated[int, "sm.registers"]
    warp_size: Annotated[int, "sm.warp_size"]
    register_unit: Annotated[int, "sm.register_unit"]
    warp_unit: Annotated[int, "sm.warp_unit"]
    threads_per_team: Annotated[int, "sm.max_threads_per_team"]
    loads_per_warp: Annotated[int, "sm.max_loads_per_warp"]

    def working_lanes(self, launch: Launch) -> float:
        """Return the part of the lanes of a team's warps that have a thread: less than 1 when a warp is not full."""
        return launch.threads / (-(-launch.threads // self.warp_size) * self.warp_size)

    def loads_in_flight(self, launch: Launch) -> float:
        """Return how many loads a thread of a launch waits for at once.

        They are at most those that the SM counts for a warp, and those that there are registers for: a load needs them
        from its begin on.
        """
        assert launch.kernel.loads_in_flight is not None
        held = launch.kernel.registers_per_thread * _REGISTER / _DOUBLE
        return min(launch.kernel.loads_in_flight, float(self.loads_per_warp), held)

    def resident_teams(self, launch: Launch) -> int:
        """Return the teams of a launch that are resident on one SM at a time.

        Raises LaunchOutOfResources when it is none.
        """
        warps = -(-launch.threads // self.warp_size)
        units = -(-launch.kernel.registers_per_thread * self.warp_size // self.register_unit)
        with_registers = self.registers // (units * self.register_unit) // self.warp_unit * self.warp_unit
        teams = min(self.teams, self.threads // launch.threads, self.warps // warps, with_registers // warps)
        if launch.threads > self.threads_per_team or teams < 1:
            raise LaunchOutOfResources(
                f"kernel {launch.kernel.name!r}: a team of {launch.threads} threads with "
                f"{launch.kernel.registers_per_thread} registers each does not fit on an SM "
                f"({self.threads_per_team} threads per team, {self.registers} registers)"
            )
        return teams


# ---------------------------------------------------------------------- one kernel
# A kernel that the compute units have begun and not ended.
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


# ---------------------------------------------------------------------- slots for teams
# The slots for teams on a device's SMs, which kernels that run at one time take in order.
#
# NVIDIA's block scheduler looks only at the kernel at the head of its queue, and goes on to the next one when each
# team of that kernel has been given a slot (Amert et al., GPU Scheduling on the NVIDIA TX2, RTSS 2017). It takes the
# SM that has the most room, so that teams are spread over SMs before any gets a second one (Gilman et al.,
# Demystifying the Placement Policies of the NVIDIA GPU Thread Block Scheduler, 2020). A kernel with more teams than
# find slots gives those that become free to its next teams, and keeps them until it ends: that its last teams leave
# some slots earlier is not emulated.
_ROUNDING = 1e-9
"""Part of a team's slot that may be missing: slots are counted in SMs, of which a team takes a fraction."""


@attrs.define
class TeamSlots:
    """The slots of all SMs together, in SMs: how they lie on single SMs is not looked at."""

    free: float
    """What is left."""
    unplaced: ResidentKernel | None = None
    """The kernel that has begun and has a part of its slots only."""

    def has_room(self, teams_per_sm: int) -> bool:
        """Tell whether the first team of the next kernel finds a place, of which an SM has so many."""
        return self.unplaced is None and self.free * teams_per_sm >= 1.0 - _ROUNDING

    def take(self, kernel: ResidentKernel) -> bool:
        """Give a kernel the slots that it lacks, as far as there are any; returns whether it got one."""
        lacking = kernel.teams - kernel.placed
        teams = min(lacking, math.floor(self.free * kernel.teams_per_sm + _ROUNDING))
        kernel.placed += teams
        self.free -= teams / kernel.teams_per_sm
        self.unplaced = kernel if teams < lacking else None
        return teams > 0

    def give_back(self, kernel: ResidentKernel) -> ResidentKernel | None:
        """Take back the slots of a kernel that has ended; returns the kernel that got some of them, if one did."""
        self.free += kernel.placed / kernel.teams_per_sm
        if self.unplaced is kernel:
            self.unplaced = None
        unplaced = self.unplaced
        return unplaced if unplaced is not None and self.take(unplaced) else None


# ---------------------------------------------------------------------- a kernel alone
# How long a kernel takes on a device alone: a roofline whose memory side is Little's law.
@attrs.frozen
class ComputeSpec:
    """What the compute units of a device can do.  Rates in flop/s and bytes/s, times in seconds."""

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

    def slots(self) -> TeamSlots | None:
        """Return empty slots for teams, if kernels wait for them (``gpu.placement``)."""
        return TeamSlots(float(self.sms)) if self.placement == "in_order" and not self.uncontended else None

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


# ---------------------------------------------------------------------- kernels together
# The kernels that a device has begun and not ended: those that share its SMs, and those that wait for pages.
class ResidentKernels:
    """The state of a device's compute units that their parts share.

    It belongs to the actor of the compute units, in which all of these run: `ComputeUnits` itself, what it knows of
    managed memory (`ManagedKernels`), and the division of an APU's memory bandwidth (`MemoryTraffic`).
    """

    def __init__(self, sim: Simulation, device: int, spec: ComputeSpec, trace: Trace | None) -> None:
        self.sim = sim
        self.device = device
        self.spec = spec
        self.trace = trace
        self.mailbox = Mailbox(sim, f"device {device} compute units")
        self.share = FairShare(math.inf if spec.uncontended else float(spec.sms))
        """Divides the SMs."""
        self.resident: dict[Ticket, ResidentKernel] = {}
        """Kernels that have a share of the SMs."""
        self.stalled: dict[int, ResidentKernel] = {}
        """Kernels that wait for pages, by number."""

    def work(self, kernel: ResidentKernel, part: float, whole: int) -> None:
        """Give a kernel its share of the SMs for ``part`` of the ``whole`` of its work."""
        amount = kernel.alone * part / whole * kernel.demand
        self.resident[self.share.join(self.sim.now, amount, kernel.rate)] = kernel

    def limit(self, ticket: Ticket, kernel: ResidentKernel, rate: float) -> None:
        """Let a kernel have at most so many SMs from now on."""
        if (limited := self.share.limit(self.sim.now, ticket, rate)) is not ticket:
            del self.resident[ticket]
            self.resident[limited] = kernel
