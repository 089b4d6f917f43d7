"""Kernels on the SMs of a device: how many teams fit, how long a kernel takes alone, and which kernels are resident.

What kernels take together is decided in ``compute_units.py``, which divides the SMs among them.

The module also models what slows kernels on an APU: missing pages (``KernelFaults``) and copies (``MemoryTraffic``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated

import attrs
import msgspec

from offloadrt.kernels import Kernel, Launch
from offloadrt.machine.injection import Injector
from offloadrt.machine.managed.sweep import ManagedSweep
from offloadrt.machine.memory import AccessFault, FaultStatistics, PageTable
from offloadrt.machine.messages import FaultServed, KernelPacket, PageFault, TrafficChanged
from offloadrt.machine.servers import LevelOverTime
from offloadrt.machine.share import FairShare, SharedPool, Ticket
from offloadrt.sim import Mailbox, Simulation
from offloadrt.trace import Trace


@attrs.frozen
class FaultSpec:
    """The rules and costs of page faults that a device's kernels meet, from the machine's profile."""

    range: Annotated[int, "fault.range"]
    """Size and alignment in bytes of the range that the handling of one fault maps; the last range may be smaller."""
    xnack: Annotated[bool, "gpu.xnack"]
    """Whether a kernel waits for a missing page (retry faults); otherwise it ends with an error."""
    outstanding: Annotated[int, "fault.outstanding"]
    """Number of 4 KiB pages whose faults the hardware has in flight at once; others fault when these are done."""
    small_pages: Annotated[float, "mem.small_pages"]
    """Fraction of the memory's bandwidth that a kernel reaches in host memory without huge pages."""


Mapped = Callable[[int, int], tuple[int, int]]
"""Takes the bounds (low, high) of an address range; returns the bounds of the part that the program has allocated."""


@attrs.define(eq=False)
class Missing:
    """The address ranges, in order, that a kernel on an APU will access and that its GPU cannot translate yet.

    `pieces` are the missing stretches (low, high). The handling of one fault maps `range` bytes of a piece. The kernel
    next accesses `address`, which is in the piece number `piece`. `mapped` cuts a range to the memory that the program
    has allocated. `threads`: how many threads of the kernel are resident.
    """

    pieces: list[tuple[int, int]]  # aligned to `range`
    range: int
    mapped: Mapped
    total: int
    """Number of ranges that were missing at the kernel's start."""
    threads: int
    piece: int = 0
    address: int = 0

    @property
    def head(self) -> tuple[int, int] | None:
        """Return the range [low, high) of addresses that the kernel accesses next; None after the last range."""
        if self.piece == len(self.pieces):
            return None
        return self.mapped(self.address, self.address + self.range)

    def advance(self) -> None:
        """Go on to the next missing range, as the kernel can access the range at `head` now."""
        self.address += self.range
        if self.address >= self.pieces[self.piece][1]:
            self.piece += 1
            if self.piece < len(self.pieces):
                self.address = self.pieces[self.piece][0]


class KernelFaults:
    """The page faults of an APU's kernels; ``pages`` is the GPU's page table, ``handler`` the fault handler's mailbox.

    A kernel that starts with m missing ranges (of ``fault.range`` bytes) meets them one after the other while it runs:
    the first at its start, the k-th when it has done the fraction (k - 1)/m of its work. There the kernel is stalled
    until the page-fault handler has mapped the range, unless another actor had the range mapped meanwhile. Other pages
    of the range that its resident threads touch meanwhile fault as well, by 4 KiB, and the driver drops each of these
    faults (Linux, ``svm_range_restore_pages``: "skip duplicate vm fault on different pages of same range").

    ``mapped``, by process, cuts a range to the memory that the program has, as the kernel driver does
    (``svm_range_get_range_boundaries``). ``huge``: whether pages are huge. A real GPU has a page table for each
    process; here there is one, as no two processes share an address.

    Two simplifications. A real kernel may have faults in several ranges in flight; here it has faults in one range,
    which is right where one worker handles them in turn. And a stalled kernel stops as a whole, while a real one's
    other teams go on: a kernel that computes much for each page is predicted too slow, by at most the time of handling
    its faults.
    """

    def __init__(
        self, sim: Simulation, device: int, pages: PageTable, spec: FaultSpec, mapped: Mapped, huge: bool
    ) -> None:
        self.sim = sim
        self.pages = pages
        self.spec = spec
        self.translates_slowly = spec.small_pages < 1.0 and not huge
        """Whether kernels are slower in host memory because its pages are small."""
        self.mapped = {0: mapped}
        self.handler = Mailbox(sim, f"device {device} page fault handler")
        self.injector: Injector | None = None
        self._device = device
        self._faults = self._duplicates = self._mapped = self._violations = 0
        self.serving, self.skipping = LevelOverTime(sim), LevelOverTime(sim)
        """Numbers of services in progress, and of workers that drop faults on mapped pages; the handler sets both."""
        self._wait_s = 0.0
        self._born = sim.now

    def missing(self, packet: KernelPacket, threads: int) -> Missing:
        """Return the ranges that the kernel in `packet` misses, at least one. threads: its resident threads."""
        size, seen, total = self.spec.range, PageTable(self.spec.range), 0
        # Two arguments may touch the same range, which one service maps: `seen` counts it once.
        pieces: list[tuple[int, int]] = []
        for touched in packet.touches:
            for low, high in self.pages.missing(*touched):
                pieces += seen.missing(low, high - low)
                total += seen.insert(low, high)
        return Missing(pieces, size, self.mapped[packet.stream.process], total, threads, 0, pieces[0][0])

    def violation(self, packet: KernelPacket) -> AccessFault:
        """Return the access fault at the first missing page of a kernel (`packet`), which ends it without XNACK."""
        self._violations += 1
        address = next(max(low, begin) for begin, size in packet.touches for low, _ in self.pages.missing(begin, size))
        name = packet.launch.kernel.name
        return AccessFault(address, packet.number, name, self._device, packet.cause, self.sim.now)

    def raise_fault(self, low: int, high: int, packet: KernelPacket, threads: int) -> int:
        """Report a kernel's fault on [low, high) to the fault handler; return how many pages of the range are missing.

        packet, threads: the kernel's message and its number of resident threads.
        """
        others = max(0, math.ceil(self._pages_in_flight(low, high, packet, threads)) - 1)
        fault = PageFault(low, high, packet.number, packet.cause, packet.stream.process, others)
        name = self.handler.name
        if self.injector is not None and self.injector.strike("interrupt", name, f"an interrupt of {name} is lost"):
            self.handler.leave(fault)
        else:
            self.handler.put(fault)
        return self.pages.missing_pages(low, high - low)

    def _pages_in_flight(self, low: int, high: int, packet: KernelPacket, threads: int) -> float:
        """Return the number of 4 KiB pages of a missing range whose faults are in flight before the range is mapped.

        Threads are spread evenly over the part of each array whose iterations are resident; each touches one page.
        """
        page = 4096  # of a fault's address, whatever the page size in use (AMDGPU_GPU_PAGE_SIZE)
        share, pages, touched = min(1.0, threads / max(1, packet.launch.iterations)), 0.0, 0.0
        for begin, size in packet.touches:
            if size:
                window = size * share
                density = min(1 / page, threads / window)
                touched += window * density
                pages += min(max(0, min(high, begin + size) - max(low, begin)), window) * density
        return min(pages, (high - low) / page) * min(1.0, self.spec.outstanding / max(1.0, touched))

    def served(self, message: FaultServed, stalled_s: float) -> None:
        """Count a handled fault of a kernel, which goes on after a stall of ``stalled_s`` virtual seconds."""
        if message.pages:
            self._faults += 1
        else:
            self._duplicates += 1
        self._mapped += message.pages
        self._wait_s += max(stalled_s - message.service_s, 0.0)

    def statistics(self) -> FaultStatistics:
        """Return the statistics of the faults so far."""
        service_s, skip_s = self.serving.total_s, self.skipping.total_s
        idle_s = max(self.sim.now - self._born - service_s - skip_s, 0.0)
        return FaultStatistics(
            self._faults, self._duplicates, self._mapped, service_s, self._wait_s, self._violations, skip_s, idle_s
        )


_REGISTER, _DOUBLE = 4, 8
"""Bytes of a register, and of a double."""


# ---------------------------------------------------------------------- occupancy
# The number of teams of a kernel that fit on a streaming multiprocessor (SM), from the limits of the hardware.
#
# The rules are those of NVIDIA's occupancy calculator: threads, warps, teams (thread blocks), registers and shared
# memory. A warp gets a multiple of ``register_unit`` registers, and the number of warps with registers is a multiple
# of ``warp_unit``, because an SM has several register files.
class LaunchOutOfResources(Exception):
    """Raised when not even one team (thread block) fits on an SM, as CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES reports."""


@attrs.frozen
class SMLimits:
    """Limits of an SM: the most resident `threads`, `teams` (thread blocks), `warps` and `registers`, and others.

    A warp gets a multiple of `register_unit` registers; how many warps get registers is a multiple of `warp_unit`. A
    team has at most `threads_per_team` threads; a warp has at most `loads_per_warp` loads in flight. `shared` are the
    bytes of shared memory, of which a team has at most `shared_per_team` and the system takes `shared_reserved` for it.
    """

    threads: Annotated[int, "sm.max_threads"]
    teams: Annotated[int, "sm.max_teams"]
    warps: Annotated[int, "sm.max_warps"]
    registers: Annotated[int, "sm.registers"]
    warp_size: Annotated[int, "sm.warp_size"]
    register_unit: Annotated[int, "sm.register_unit"]
    warp_unit: Annotated[int, "sm.warp_unit"]
    threads_per_team: Annotated[int, "sm.max_threads_per_team"]
    loads_per_warp: Annotated[int, "sm.max_loads_per_warp"]
    shared: Annotated[int, "sm.shared"]
    shared_per_team: Annotated[int, "sm.max_shared_per_team"]
    shared_reserved: Annotated[int, "sm.shared_reserved"]

    def working_lanes(self, launch: Launch) -> float:
        """Return the fraction of lanes of a team's warps that have a thread; below 1 if the last warp is not full."""
        return launch.threads / (-(-launch.threads // self.warp_size) * self.warp_size)

    def loads_in_flight(self, launch: Launch) -> float:
        """Return how many loads a thread of a launch has in flight at once.

        The limits are the loads that the SM tracks for a warp, and the registers, which a load needs from its issue on.
        """
        assert launch.kernel.loads_in_flight is not None
        held = launch.kernel.registers_per_thread * _REGISTER / _DOUBLE
        return min(launch.kernel.loads_in_flight, float(self.loads_per_warp), held)

    def resident_teams(self, launch: Launch) -> int:
        """Return how many teams of a launch fit on one SM at a time. Raises LaunchOutOfResources if none fits."""
        warps, kernel = -(-launch.threads // self.warp_size), launch.kernel
        units = -(-kernel.registers_per_thread * self.warp_size // self.register_unit)
        with_registers = self.registers // (units * self.register_unit) // self.warp_unit * self.warp_unit
        teams = min(self.teams, self.threads // launch.threads, self.warps // warps, with_registers // warps)
        if shared := kernel.shared_bytes_per_team:
            teams = min(teams, self.shared // (shared + self.shared_reserved))
        if launch.threads > self.threads_per_team or shared > self.shared_per_team or teams < 1:
            raise LaunchOutOfResources(
                f"kernel {kernel.name!r}: a team of {launch.threads} threads with {kernel.registers_per_thread} "
                f"registers each and {shared} bytes of shared memory does not fit on an SM ({self.threads_per_team} "
                f"threads and {self.shared_per_team} bytes a team, {self.registers} registers)"
            )
        return teams


# ---------------------------------------------------------------------- one kernel
# A kernel that the compute units have begun and not ended.
class ResidentKernel(msgspec.Struct, eq=False):
    """A kernel, launched by `packet` and begun at `start`, that is on the SMs or stalled; times in virtual seconds."""

    packet: KernelPacket
    start: float
    alone: float
    """Time that the kernel takes with the device to itself and every page in place."""
    demand: float
    """Number of SMs that the kernel fills when it has all slots that it can use."""
    draw: float = 0.0
    """Bytes/s of memory that the kernel reads and writes when it runs alone, evenly over its time."""
    teams: int = 1
    """Number of the kernel's teams that are resident at once when it has all slots that it can use."""
    teams_per_sm: int = 1
    """Number of the kernel's teams that fit on one SM."""
    placed: int = 1
    """Number of slots for teams that the kernel has now."""
    missing: Missing | None = None
    """Missing ranges of host memory that the kernel has yet to access, on an APU; None when there are none."""
    sweep: ManagedSweep | None = None
    """The kernel's progress in managed memory; None when the kernel uses none."""
    stalled_since: float = 0.0
    """While the kernel waits for a page, the time at which the wait began."""
    preempted: bool = False
    """Whether the kernel's context has to wait for its next time slice."""

    @property
    def rate(self) -> float:
        """Return how many SMs the kernel's resident teams fill (a fraction counts); 0 while the kernel is preempted."""
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
# some slots earlier is not emulated. Only a kernel of greater priority gets them first (`ComputeUnits._start`).
_ROUNDING = 1e-9
"""Fraction of a slot that may be missing by rounding: slots are counted in SMs, and a team takes a fraction."""


def goes_before(packet: KernelPacket, other: KernelPacket) -> bool:
    """Tell whether a kernel gets slots before another one that arrived earlier, because its priority is higher."""
    return packet.stream.priority < other.stream.priority


@attrs.define
class TeamSlots:
    """Counts the room for teams (thread blocks) on all SMs together: a team takes 1/n if n such teams fit on an SM."""

    free: float
    """The number of free SMs: 0.5 is room for half of the teams that one SM holds."""
    unplaced: list[ResidentKernel] = attrs.field(factory=list)
    """The begun kernels that have fewer slots than they can use, also those without any now; by priority."""

    def has_room(self, packet: KernelPacket, teams_per_sm: int) -> bool:
        """Tell whether a kernel's next team finds a free slot. teams_per_sm: how many of its teams fit on an SM."""
        first = not self.unplaced or goes_before(packet, self.unplaced[0].packet)
        return first and self.free * teams_per_sm >= 1.0 - _ROUNDING

    def take(self, kernel: ResidentKernel) -> bool:
        """Give a kernel free slots for its teams, as many as it still needs; return whether the kernel got any."""
        lacking = kernel.teams - kernel.placed
        found = math.floor(self.free * kernel.teams_per_sm + _ROUNDING)
        teams = min(lacking, found) if self.has_room(kernel.packet, kernel.teams_per_sm) else 0
        kernel.placed += teams
        self.free -= teams / kernel.teams_per_sm
        if teams < lacking:
            self._lacks(kernel)
        return teams > 0

    def _lacks(self, kernel: ResidentKernel) -> None:
        self.unplaced.append(kernel)
        self.unplaced.sort(key=lambda lacking: lacking.packet.stream.priority)

    def end_wave(self, kernel: ResidentKernel) -> None:
        """Take back the slots of a kernel's teams that have ended; the kernel then waits for slots for more teams."""
        self.take_back(kernel)
        self._lacks(kernel)

    def take_back(self, kernel: ResidentKernel) -> None:
        """Take back the slots of a kernel that has ended."""
        self.free += kernel.placed / kernel.teams_per_sm
        kernel.placed = 0
        if kernel in self.unplaced:
            self.unplaced.remove(kernel)

    def hand_out(self) -> list[ResidentKernel]:
        """Give free slots to the kernels that have too few; return the kernels that got any."""
        lacking, self.unplaced = self.unplaced, []
        return [kernel for kernel in lacking if self.take(kernel)]


# ---------------------------------------------------------------------- a kernel alone
# How long a kernel takes on a device alone: a roofline whose memory side is Little's law.
@attrs.frozen
class ComputeSpec:
    """Rates and times of a device's compute units, in flop/s, bytes/s and seconds.

    ``sector``, ``row`` and ``cache`` are the bytes of a memory sector, a DRAM row and the L2 cache. An SM's arithmetic
    is at its full rate when the fraction ``saturating_occupancy`` of the teams that fit on it are resident.
    ``team_dispatch``: the time to start a team. ``placement``: whose teams get slots first. ``save_restore``: the time
    to save or restore the state of a kernel that is stopped. ``uncontended``: sharing costs nothing.
    """

    sms: Annotated[int, "gpu.sms"]
    flops: Annotated[float, "gpu.fp64"]
    flops_single: Annotated[float, "gpu.fp32"]
    sustained: Annotated[float, "gpu.sustained_clock"]
    """Fraction of the arithmetic rates that remains when a long full load reaches the board's power limit."""
    boost_time: Annotated[float, "gpu.boost_time"]
    """Seconds for which a full load keeps the boost clock."""
    bandwidth: Annotated[float, "mem.bw"]
    memory_latency: Annotated[float, "mem.latency"]
    sector: Annotated[int, "mem.sector"]
    row: Annotated[int, "mem.row"]
    activate: Annotated[float, "mem.activate"]
    """Seconds between row activations of all memory channels together; 0: activations do not limit the bandwidth."""
    cache: Annotated[float, "mem.l2"]
    limits: SMLimits
    saturating_occupancy: Annotated[float, "sm.saturating_occupancy"]
    sm_bandwidth: Annotated[float, "sm.bandwidth"]
    team_dispatch: Annotated[float, "gpu.team_dispatch"]
    atomic_sector: Annotated[float, "atomic.sector"]
    """Seconds that all atomic units together need for the operations of one warp in one sector."""
    atomic_address: Annotated[float, "atomic.address"]
    """Seconds between two operations on the same address in the L2 cache."""
    atomic_team_address: Annotated[float, "atomic.team_address"]
    """Seconds between two operations on the same address in the memory that a team's threads share."""
    placement: Annotated[str, "gpu.placement"]
    max_resident: Annotated[int, "gpu.max_concurrent_kernels"]
    launch_latency: Annotated[float, "launch.latency"]
    """Seconds from a kernel's submission to its first team."""
    launch_gap: Annotated[float, "launch.gap"]
    """Seconds from the end of the kernel's predecessor in its queue to its first team, if it was submitted in time."""
    save_restore: Annotated[float, "driver.halt_save_restore"]
    uncontended: Annotated[bool, "compute.uncontended"]

    def slots(self) -> TeamSlots | None:
        """Return a counter of free slots for teams; None if the profile says that kernels need not wait for slots."""
        return TeamSlots(float(self.sms)) if self.placement == "in_order" and not self.uncontended else None

    def part(self, sms: int) -> ComputeSpec:
        """Return the same compute units with only `sms` of their SMs, which may use all of the memory's bandwidth."""
        return attrs.evolve(
            self, sms=sms, flops=self.flops * sms / self.sms, flops_single=self.flops_single * sms / self.sms
        )

    def resident_threads(self, launch: Launch) -> int:
        """Return how many threads of a launch are resident at once. Raises LaunchOutOfResources when none is."""
        return min(launch.teams, self.sms * self.limits.resident_teams(launch)) * launch.threads

    def demand(self, launch: Launch, taken: float | None = None) -> float:
        """Return how many SMs' worth of the device a launch uses, at most all SMs.

        This is the larger of two numbers: the SMs that its teams fill, and the SMs times the utilization of the scarcer
        of arithmetic and memory. The utilization is a mean over the launch's time, because other kernels can use the
        memory while this one waits for dependent accesses. Where such waits dominate and teams run in several waves,
        the filled SMs are a mean over the waves. Raises LaunchOutOfResources. ``taken``: the launch's
        `seconds_on_idle_device`, if known already.
        """
        if taken is None:
            taken = self.seconds_on_idle_device(launch)
        if not taken:
            return self._filled(launch, launch.teams)
        moved = launch.bytes_moved(self.sector, self.cache)
        full = max(self._arithmetic(launch), moved / self.bandwidth, launch.bytes / self._out_of_rows(launch.kernel))
        slots = launch.teams / self.limits.resident_teams(launch)
        waves = self._waves(launch)
        if waves > 1 and (waves - 1) * self._chain(launch) > self._roofline(launch):
            slots /= waves
        return min(float(self.sms), max(slots, self.sms * full / taken))

    def seconds_on_idle_device(self, launch: Launch) -> float:
        """Return the seconds from the first team's start to the last team's end on a device that does nothing else.

        The roofline is the longer of the times for arithmetic (lower with warps that are not full) and for memory. The
        time of the first teams' dependent accesses is added, because nothing hides it. Each later wave of teams makes
        such accesses, too, as a slot becomes free only after them; their time overlaps with the roofline, and the
        longer of the two counts.
        """
        roofline, chain = max(self._roofline(launch), self._atomic(launch)), self._chain(launch)
        if not chain:
            return roofline
        return chain + max(roofline, (self._waves(launch) - 1) * chain)

    def drawn(self, launch: Launch) -> float:
        """Return the memory bandwidth, in bytes/s, that a launch uses when it runs alone on the device.

        By Little's law, this is bytes in flight over latency. It is limited by the bandwidth of the SMs that have teams
        and by that of memory, which moves whole sectors. Teams are spread over all SMs before any SM gets a second one.
        A few SMs can use all of the memory's bandwidth. Where the number of a thread's loads in flight is not known,
        teams that keep an SM's arithmetic units busy are taken to use all of the SM's bandwidth.
        """
        kernel, teams = launch.kernel, launch.accessing_teams
        if kernel.loads_in_flight is None:
            return min(
                self.bandwidth / kernel.moved_per_byte(self.sector, self.cache),
                self._out_of_rows(kernel),
                self._filled(launch, teams) * self.sm_bandwidth / kernel.moved_per_byte(self.sector, 0.0),
            )
        working = min(launch.teams * launch.threads, launch.iterations) * launch.accessing
        threads = min(working, float(self.sms * self.limits.resident_teams(launch) * launch.threads))
        in_flight = threads * self.limits.loads_in_flight(launch) * kernel.bytes_per_load
        return min(
            self.bandwidth / kernel.moved_per_byte(self.sector, self.cache),
            self._out_of_rows(kernel),
            min(self.sms, teams) * self.sm_bandwidth / kernel.moved_per_byte(self.sector, 0.0),
            in_flight / self.memory_latency,
        )

    def _out_of_rows(self, kernel: Kernel) -> float:
        """Return the bytes/s of a kernel's elements when opening their rows in all memory banks is the limit.

        Distant elements have a row each, and a channel opens one row after another (tRRD of JEDEC's standards).
        """
        return self.row / self.activate / kernel.moved_per_byte(self.row, self.cache) if self.activate else math.inf

    def _atomic(self, launch: Launch) -> float:
        """Return the seconds that the atomic units take; they work beside arithmetic and memory.

        Each address has one unit, which serves one operation after another; operations on different addresses overlap.
        Two concurrent kernels do not contend for an address, and a unit is not shared with other memory traffic.
        """
        seconds = 0.0
        for atomics in launch.atomics:
            if atomics.scope == "team":
                seconds += atomics.hottest / min(self.sms, launch.teams) * self.atomic_team_address
                continue
            served = atomics.hottest / (self.limits.warp_size if atomics.combined else 1)
            together = max(1, self.sector // atomics.neighbours) if atomics.neighbours else 1
            seconds += max(atomics.operations / together * self.atomic_sector, served * self.atomic_address)
        return seconds

    def _chain(self, launch: Launch) -> float:
        """Return the seconds for which a team waits for its dependent accesses."""
        return launch.kernel.dependent_accesses * self.memory_latency

    def _waves(self, launch: Launch) -> int:
        """Return how many teams run one after another in the same slot, if all teams take equally long."""
        return -(-launch.teams // (self.sms * self.limits.resident_teams(launch)))

    def _roofline(self, launch: Launch) -> float:
        """Return the seconds that arithmetic or memory takes, whichever takes longer.

        Teams begin in order, so those that a predicate keeps from memory run before or after the others and overlap
        with none of their accesses. They take the time of their arithmetic, or the time to begin them.
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
        """Return the seconds that a launch's operations take when all SMs are busy.

        After `boost_time` the clock falls to what the power limit allows. Each of several kernels without a pause
        between them begins at the boost clock, because each is timed alone: many short kernels are predicted too fast.
        """
        peak = self.flops_single if launch.kernel.precision == "single" else self.flops
        part = launch.kernel.efficiency * self.limits.working_lanes(launch)
        seconds = (launch.flops + launch.kernel.further_per_iteration * launch.iterations) / (peak * part)
        if launch.kernel.single_flops_per_iteration:
            seconds += launch.single_flops / (self.flops_single * part)
        return seconds + max(0.0, seconds - self.boost_time) * (1.0 / self.sustained - 1.0)

    def _filled(self, launch: Launch, teams: int) -> float:
        """Return the number of SMs whose arithmetic units the given teams keep busy, at most all SMs.

        The SMs that run one team more than others end last; until then the others are idle. NVIDIA calls this wave
        quantization (Matrix Multiplication Background User's Guide).
        """
        saturating = max(1.0, self.saturating_occupancy * self.limits.resident_teams(launch))
        return teams / max(saturating, float(-(-teams // self.sms)))


@attrs.frozen
class ComputeStatistics:
    """Virtual seconds of a device's compute units: busy_s + idle_s is the time elapsed.

    ``most_resident``: the largest number of kernels at one time. ``suspensions``: how often kernels were stopped
    midway. ``halted_s`` is the part of idle_s with stopped kernels, ``stalled_s`` that in which all kernels waited for
    pages. ``draining_s``: the time from requests to stop (``drains``) until no kernel ran. ``wall_s`` sums the kernels'
    times from start to end, ``alone_s`` what they would have taken alone on the device with every page present.
    ``wait_s`` sums the seconds of kernels that were launched and not started, because the device was halted or full.
    ``sm_s`` sums the seconds of all SMs that worked. ``blits`` counts copies that are done by the SMs;
    ``kernels``, ``wall_s`` and ``alone_s`` leave these copies out.
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
    """The kernels that are resident on a device's compute units; all parts of the compute units share this state.

    The state belongs to the actor of the compute units, in which all parts run: `ComputeUnits` itself, the managed
    memory (`ManagedKernels`), and the division of an APU's memory bandwidth (`MemoryTraffic`).
    """

    def __init__(self, sim: Simulation, device: int, spec: ComputeSpec, trace: Trace | None) -> None:
        self.sim = sim
        self.device = device
        self.spec = spec
        self.trace = trace
        self.mailbox = Mailbox(sim, f"device {device} compute units")
        self.share = FairShare(math.inf if spec.uncontended else float(spec.sms))
        """Divides the SMs among the resident kernels."""
        self.resident: dict[Ticket, ResidentKernel] = {}
        """Kernels that have a share of the SMs."""
        self.stalled: dict[int, ResidentKernel] = {}
        """Kernels that wait for pages, by number."""

    def work(self, kernel: ResidentKernel, part: float, whole: int) -> None:
        """Let a kernel begin the next part of its work, the fraction ``part / whole``, on its share of the SMs."""
        amount = kernel.alone * part / whole * kernel.demand
        self.resident[self.share.join(self.sim.now, amount, kernel.rate)] = kernel

    def limit(self, ticket: Ticket, kernel: ResidentKernel, rate: float) -> None:
        """Limit a kernel to the speed that `rate` SMs give, from now on. ticket: identifies its share of the SMs."""
        if (limited := self.share.limit(self.sim.now, ticket, rate)) is not ticket:
            del self.resident[ticket]
            self.resident[limited] = kernel


_READ_AND_WRITTEN = 2
"""Bytes of traffic for each byte that is copied within one memory."""


@attrs.frozen
class TrafficSpec:
    """Bandwidths of an APU's memory, in bytes/s."""

    bandwidth: Annotated[float, "mem.bw"]
    uncontended: Annotated[bool, "memory_traffic.uncontended"]
    """Whether the kernels and each copy have the whole bandwidth for themselves (to find out what sharing costs)."""

    @property
    def copies(self) -> float:
        """Return the bandwidth, in bytes/s, of a copy while no kernel uses the memory."""
        return self.bandwidth / _READ_AND_WRITTEN


@attrs.frozen
class TrafficStatistics:
    """Statistics of dividing the memory's bandwidth; virtual seconds so far. busy_s + idle_s is the time elapsed."""

    busy_s: float
    """Time with copies that divide the bandwidth among themselves or with kernels."""
    idle_s: float
    """Time without such copies."""
    wait_s: float
    """Time by which sharing prolonged the copies that have ended, summed over the copies."""


class MemoryTraffic:
    """Divides an APU's memory bandwidth between copies and the resident kernels.

    Each DMA ring has a `Flow` in ``flows``, by which it reports when its copies begin and end. The actor of the compute
    units calls ``divide`` while ``shared`` is True.

    While kernels and copies could together use more than there is, they divide the bandwidth (``share.py``): each can
    use as much as when it runs alone; a kernel that gets less runs slower by the same factor. Kernels without copies
    have nothing to divide here, as their shares of the SMs limit them more (``ComputeSpec.demand``). Each copied byte
    is read and written. Two simplifications: copies by the host's cores do not use this bandwidth (they could use about
    a tenth of it), and a kernel uses it evenly over its time, though a real one may read at its beginning and write at
    its end.
    """

    def __init__(self, units: ResidentKernels, spec: TrafficSpec) -> None:
        sim = self.sim = units.sim
        self.name = f"device {units.device} memory"
        self.spec = spec
        self.flows: list[Flow] = []
        self.shared = False
        """Whether a copy has begun since kernels last had all the bandwidth that they can use."""
        self.pool = SharedPool(sim, spec.bandwidth, self.name)
        self.dividing = LevelOverTime(sim)
        """Counts the copies that divide the bandwidth."""
        self.wait_s = 0.0
        self.resident = units.resident
        self._units = units
        self._kernels: dict[ResidentKernel, Ticket] = {}
        """The kernels that divide the bandwidth with copies, and their shares."""
        self._born = sim.now

    def open_flow(self) -> Flow:
        """Make a `Flow` for a DMA ring, through which the ring reports the beginning and the end of its copies."""
        self.flows.append(Flow(self))
        return self.flows[-1]

    def copy_began(self) -> None:
        """Note that a copy has begun; divide the bandwidth if kernels and copies could use more than the memory has."""
        if self._needed() > self.spec.bandwidth:
            self._copies_divide()
            self.tell()

    def tell(self) -> None:
        """Send the compute units a message that the kernels' shares of the memory bandwidth have changed."""
        if self.resident:
            self._units.mailbox.put(TrafficChanged())

    def divide(self) -> None:
        """Give each resident kernel its current share of the bandwidth."""
        kernels, needed = self._kernels, self._needed()
        scarce = needed > self.spec.bandwidth
        self.shared = needed > 0.0
        if not (scarce or kernels):
            return
        resident = self.resident
        if scarce:
            self._copies_divide()
        drawing = {kernel: kernel.draw for kernel in resident.values() if kernel.draw} if scarce else {}
        for gone in [kernel for kernel in kernels if kernel not in drawing]:
            self.pool.leave(kernels.pop(gone))
        for come, draw in drawing.items():
            if come not in kernels:
                # An amount without end: only the rate matters. A kernel leaves when it ends, not when it has moved its
                # bytes.
                kernels[come] = self.pool.enter(math.inf, draw)
        for ticket, kernel in list(resident.items()):
            part = self.pool.share.rate(kernels[kernel]) / kernel.draw if kernel in kernels else 1.0
            self._units.limit(ticket, kernel, kernel.rate * part)

    def _needed(self) -> float:
        """Return the bytes/s that copies and concurrent kernels could use; 0 without copies."""
        needed = 0.0
        for flow in self.flows:
            needed += flow.draw
        if needed:
            for kernel in self.resident.values():
                needed += kernel.draw
        return needed

    def _copies_divide(self) -> None:
        """Let the bytes that are left of each copy in progress move at the copy's share of the bandwidth."""
        for flow in self.flows:
            if flow.draw and flow.part is None:
                # Up to now there was enough for all, so the copy has had its whole rate since it began.
                left = max(flow.traffic - (self.sim.now - flow.begun) * flow.draw, 0.0)
                flow.part = self.pool.enter(left, flow.draw)
                self.dividing.rise()

    def statistics(self) -> TrafficStatistics:
        """Return the statistics of the division so far."""
        busy_s = self.dividing.some_s
        return TrafficStatistics(busy_s, self.sim.now - self._born - busy_s, self.wait_s)


@attrs.define(eq=False)
class Flow:
    """Reports the copies of one DMA ring to `MemoryTraffic`, which divides an APU's memory bandwidth.

    The ring calls ``begin``, sleeps for the time that the copy takes without contention, and then calls ``end`` if
    ``part``, the copy's share of a bandwidth that is contended, has been set meanwhile.
    """

    memory: MemoryTraffic
    draw: float = 0.0
    """Bytes/s that the copy in progress can use; 0 without a copy."""
    traffic: float = 0.0
    """Bytes that the copy reads and writes."""
    begun: float = 0.0
    """Virtual time at which the copy in progress began."""
    part: Ticket | None = None
    """The copy's share of the bandwidth, while copies divide the bandwidth."""

    def begin(self, nbytes: int, alone: float) -> None:
        """Begin a copy of ``nbytes`` bytes, which takes ``alone`` virtual seconds without contention."""
        self.traffic = _READ_AND_WRITTEN * nbytes
        self.draw = self.traffic / alone if nbytes else 0.0
        memory = self.memory
        self.begun = memory.sim.now
        if not memory.spec.uncontended:
            memory.shared = True
            if memory.resident or len(memory.flows) > 1:
                memory.copy_began()

    async def end(self, part: Ticket) -> None:
        """Wait until a copy has moved all its bytes. part: the copy's ticket in the division of the bandwidth.

        The caller has waited already for the time that the copy takes without contention.
        """
        memory = self.memory
        came = memory.sim.now
        await memory.pool.finish(part)
        memory.wait_s += memory.sim.now - came
        memory.dividing.fall()
        self.part = None
        self.draw = 0.0
        memory.tell()
