"""How processes share the compute units of one device: in time slices, at one time, or as clients of MPS.

==================  ================================================================================================
``time_slices``     contexts of different processes do not run at one time; a scheduler switches between them
``concurrent``      they run at one time, as many as ``process.concurrent``; with more, a scheduler switches (AMD)
``mps``             all clients of the MPS server run at one time and divide the SMs, or have a part of them each
``mig``             each process has an instance of the GPU (``machine/machine.py``); those in one take time slices
==================  ================================================================================================
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Annotated

import attrs

from offloadrt.kernels import Launch
from offloadrt.kernels.memo import Memo
from offloadrt.machine.compute.residency import ComputeSpec, ResidentKernels, TeamSlots
from offloadrt.machine.messages import ContextHasWork, KernelPacket, RunContexts
from offloadrt.machine.profile.machine_spec import MachineSpec, ProfileError
from offloadrt.machine.servers import LevelOverTime
from offloadrt.sim import TIMED_OUT, Mailbox, Simulation
from offloadrt.trace import Trace, events

# ---------------------------------------------------------------------- contexts
# The contexts of processes on a device's compute units: the kernels of each that wait, and whether they may run.
LaunchCosts = tuple[float, float, int, float]
"""A launch's seconds alone on the device, SMs that it fills, teams of it that fit on one SM, and bytes accessed."""


@attrs.define(eq=False)
class GpuContext:
    """The state of one process's GPU context in the compute units; only the compute units' actor uses this object."""

    process: int
    spec: ComputeSpec
    """The compute units as the process's kernels see them: an MPS client may have only some of the SMs."""
    slots: TeamSlots | None
    """Counts the free slots for which the process's kernels wait; None: any number of kernels share the SMs at once.

    Contexts that run at the same time share one object; contexts that take turns have one each.
    """
    running: bool = True
    """Whether the context's kernels run; False while the context waits for a time slice."""
    drains: int = 0
    """Number of `DrainKernels` messages for the process that no `ResumeKernels` has taken back yet."""
    kernels: int = 0
    """Number of kernels that have been launched and have not ended."""
    resident: int = 0
    """Number of those kernels that have begun."""
    waiting: deque[KernelPacket] = attrs.field(factory=deque)
    """Launched kernels that cannot begin yet, in the order in which their queues handed them over."""
    _costs: Memo[int, tuple[Launch, LaunchCosts]] = attrs.field(factory=Memo)
    _costs_in_pages: Memo[int, tuple[Launch, LaunchCosts]] = attrs.field(factory=Memo)

    def costs(self, launch: Launch, small_pages: float | None = None) -> LaunchCosts:
        """Return the time and the rates of a launch on a device that does nothing else.

        `small_pages`: the fraction of the memory bandwidth that the launch gets if it uses small pages; else None.
        """
        # A launch is known by its identity, because hashing one is slow. The entry holds the launch, so no other object
        # can get its id.
        costs = self._costs if small_pages is None else self._costs_in_pages
        known = costs.get(id(launch))
        if known is None or known[0] is not launch:
            spec = self.spec
            if small_pages is not None:
                spec = attrs.evolve(spec, bandwidth=spec.bandwidth * small_pages)
            per_sm = spec.limits.resident_teams(launch)
            alone = spec.seconds_on_idle_device(launch)
            known = costs[id(launch)] = launch, (alone, spec.demand(launch, alone), per_sm, launch.bytes)
        return known[1]

    def has_slots(self, packet: KernelPacket) -> bool:
        """Tell whether the first team of `packet`, the context's next kernel, finds a free slot."""
        return self.slots is None or self.slots.has_room(packet, self.costs(packet.launch)[2])


class GpuContexts:
    """The GPU contexts of all processes on one device, by process number.

    ``slicer``: the mailbox of a `TimeSlicer`, the actor that gives time slices to contexts; a context's kernels run
    only in its slices. `arrived` and `ended` tell it when a context gets its first kernel or has no kernel left.
    """

    def __init__(self, contexts: Sequence[GpuContext], slicer: Mailbox | None = None) -> None:
        self.all = contexts
        self.slicer = slicer
        self.none_runs = slicer is not None
        """Whether no context has a time slice."""
        for context in contexts:
            context.running = slicer is None

    def of(self, packet: KernelPacket) -> GpuContext:
        """Return the context of the process that has launched the kernel in `packet`."""
        return self.all[packet.stream.process]

    def arrived(self, packet: KernelPacket) -> None:
        """Count a kernel (`packet`) that a queue has passed on; if its context has no other, request a time slice."""
        context = self.of(packet)
        context.kernels += 1
        if context.kernels == 1 and self.slicer is not None:
            self.slicer.put(ContextHasWork(context.process, True))

    def ended(self, packet: KernelPacket) -> GpuContext:
        """Count the end of the kernel in `packet` and return its context; a context without kernels gets no slices."""
        context = self.of(packet)
        context.resident -= 1
        context.kernels -= 1
        if not context.kernels and self.slicer is not None:
            self.slicer.put(ContextHasWork(context.process, False))
        return context

    def longest_held_up(self, can_begin: Callable[[GpuContext, KernelPacket], bool]) -> GpuContext | None:
        """Return, of the contexts that can begin a kernel now, the one with the oldest launch; None without any."""
        found = None
        for context in self.all:
            if context.waiting and (found is None or context.waiting[0].number < found.waiting[0].number):
                found = context if can_begin(context, context.waiting[0]) else found
        return found

    def run(self, message: RunContexts, kernels: ResidentKernels) -> None:
        """Stop the kernels of contexts whose time slice is over, and resume those of the contexts in `message`."""
        self.none_runs = not message.processes
        for context in self.all:
            context.running = context.process in message.processes
        for stalled in kernels.stalled.values():
            stalled.preempted = not self.of(stalled.packet).running
        for ticket, resident in [*kernels.resident.items()]:
            resident.preempted = not self.of(resident.packet).running
            kernels.limit(ticket, resident, resident.rate)


# ---------------------------------------------------------------------- time slices
# The scheduler of contexts: an actor that gives the compute units to one process after the other, in time slices.
#
# It stands for the runlist of a GPU's host interface. NVIDIA's driver puts a channel group for each context on it,
# with a time slice (`kfifoChannelGroupGetDefaultTimeslice_GV100` of open-gpu-kernel-modules); the hardware goes
# round. At the end of its slice a context is preempted if another one has work; then, or as soon as it has none
# itself, the next one with work comes. A context that is the only one with work goes on. The hardware scheduler of an
# AMD GPU does the same with as many processes at a time as it has address spaces (`process.concurrent`).
@attrs.frozen
class SliceSpec:
    """The ``length`` of a process's time slice, and the cost of a context switch, in virtual seconds."""

    length: Annotated[float, "process.time_slice"]
    switch: Annotated[float, "process.context_switch"]
    """Time from the stop of one context's kernels to the start of the next one's, with saving and loading of state."""


@attrs.frozen
class SlicerStatistics:
    """Virtual seconds of the context scheduler and number of `switches`. busy_s + idle_s is the time elapsed."""

    busy_s: float
    """Time of context switches, in which no kernel ran."""
    idle_s: float
    wait_s: float
    """Time for which contexts with work waited for a slice, summed over the contexts."""
    switches: int


class TimeSlicer:
    """Decides whose kernels run on a device: those of at most ``slots`` of the ``contexts`` processes at one time."""

    def __init__(
        self, sim: Simulation, device: int, spec: SliceSpec, slots: int, contexts: int, trace: Trace | None
    ) -> None:
        self.sim = sim
        self.device = device
        self.spec = spec
        self.trace = trace
        self.mailbox = Mailbox(sim, f"device {device} time slicer")
        self._slots = slots
        self._with_work = [False] * contexts
        self._running: tuple[int, ...] = ()
        """The processes whose kernels run now."""
        self._last = contexts - 1
        """The context that got the compute units last; the next turn is the context after it."""
        self._used = False
        """Whether any context has been loaded; the first one replaces no other context."""
        self._waiting = LevelOverTime(sim)
        self._switching = LevelOverTime(sim)
        self._switches = 0
        self._born = sim.now

    async def run(self, compute: Mailbox) -> None:
        """Give the compute units to the contexts that have kernels, one after another, for ever (this is the actor).

        `compute` is the mailbox of the compute units.
        """
        while True:
            while not any(self._with_work):
                self._note(await self.mailbox.get())
            await self._give_to(self._next(), compute)
            await self._wait_for_end_of_slice()

    def _next(self) -> tuple[int, ...]:
        """Return the next contexts with work in turn, as many as may run at once; some may be running already."""
        contexts = len(self._with_work)
        turn = [(self._last + 1 + step) % contexts for step in range(contexts)]
        return tuple([process for process in turn if self._with_work[process]][: self._slots])

    async def _give_to(self, processes: tuple[int, ...], compute: Mailbox) -> None:
        """Stop the running contexts, switch, and let these processes run, unless they run already."""
        self._last = processes[-1]
        if sorted(processes) == sorted(self._running):
            return
        if (trace := self.trace) is not None:
            for process in self._running:
                trace(events.TimeSliceEnd, self.device, -1, 0, process)
        self._running = ()
        self._count_waiting()
        await compute.call(RunContexts(()))
        if self._used:
            self._switching.rise()
            self._switches += 1
            await self.sim.sleep(self.spec.switch)
            self._switching.fall()
        self._used = True
        self._running = processes
        self._count_waiting()
        if trace is not None:
            for process in processes:
                trace(events.TimeSliceBegin, self.device, -1, 0, process)
        await compute.call(RunContexts(processes))

    async def _wait_for_end_of_slice(self) -> None:
        """Wait until a slice ends that another context waits for, or until a running context makes room for another."""
        begin, length = self.sim.now, self.spec.length
        while self._work_of_running():
            if not any(work and process not in self._running for process, work in enumerate(self._with_work)):
                self._note(await self.mailbox.get())  # nobody to switch to: one slice follows the other
                continue
            if len(self._work_of_running()) < self._slots:
                return
            passed = math.floor((self.sim.now - begin) / length)
            message = await self.mailbox.get_until(begin + (passed + 1) * length)
            if message is TIMED_OUT:
                return
            self._note(message)

    def _work_of_running(self) -> list[int]:
        return [process for process in self._running if self._with_work[process]]

    def _note(self, message: object) -> None:
        if not isinstance(message, ContextHasWork):
            raise TypeError(f"a time slicer does not understand {message!r}")
        self._with_work[message.process] = message.has_work
        self._count_waiting()

    def _count_waiting(self) -> None:
        """Update the statistics of contexts that have work and do not run."""
        waiting = [work and process not in self._running for process, work in enumerate(self._with_work)].count(True)
        while self._waiting.number < waiting:
            self._waiting.rise()
        while self._waiting.number > waiting:
            self._waiting.fall()

    def statistics(self) -> SlicerStatistics:
        """Return the statistics of the scheduler so far."""
        busy_s = self._switching.total_s
        idle_s = self.sim.now - self._born - busy_s
        return SlicerStatistics(busy_s, idle_s, self._waiting.total_s, self._switches)


class TooManyClients(ValueError):
    """Raised for more processes than an MPS server accepts (CUDA_ERROR_MPS_MAX_CLIENTS_REACHED)."""


def shared_contexts(
    sim: Simulation, device: int, spec: MachineSpec, processes: int, trace: Trace | None
) -> tuple[GpuContexts, TimeSlicer | None]:
    """Return the contexts of `processes` processes on a device, and the scheduler if the contexts take turns.

    Raises TooManyClients, and ProfileError when the profile lacks an entry or has an impossible one.
    """
    compute, how = spec.read(ComputeSpec), spec.text("process.sharing")
    if how == "mps":
        return GpuContexts(_mps_clients(spec, compute, processes)), None
    slots = spec.count("process.concurrent") if how == "concurrent" else 1
    if slots >= processes or spec.flag("process.time_slices.uncontended"):
        # Where contexts would take turns, each finds all slots free.
        slots_of = [compute.slots()] * processes if how == "concurrent" else [compute.slots() for _ in range(processes)]
        return GpuContexts([GpuContext(number, compute, slots_of[number]) for number in range(processes)]), None
    slices = spec.read(SliceSpec)
    if not slices.length > 0.0:
        raise ProfileError(spec.path, "process.time_slice", "is no time: contexts would switch for ever")
    slicer = TimeSlicer(sim, device, slices, slots, processes, trace)
    contexts = [GpuContext(number, compute, compute.slots()) for number in range(processes)]
    return GpuContexts(contexts, slicer.mailbox), slicer


def _mps_clients(spec: MachineSpec, compute: ComputeSpec, processes: int) -> list[GpuContext]:
    """Return the contexts of the clients of one MPS server.

    Raises TooManyClients, and ProfileError for an impossible fraction of the threads.
    """
    most, part = spec.count("mps.clients"), spec.value("mps.active_thread_percentage")
    if processes > most:
        raise TooManyClients(
            f"CUDA_ERROR_MPS_MAX_CLIENTS_REACHED: {processes} processes, but the MPS server takes {most} (mps.clients)"
        )
    if not 0.0 < part <= 1.0:
        raise ProfileError(
            spec.path, "mps.active_thread_percentage", f"is {100.0 * part:g}, and no part of 100 percent"
        )
    if part == 1.0:
        team_slots = compute.slots()
        return [GpuContext(number, compute, team_slots) for number in range(processes)]
    own = compute.part(math.ceil(compute.sms * part))
    return [GpuContext(number, own, own.slots()) for number in range(processes)]
