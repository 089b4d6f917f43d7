"""The contexts of processes on a device's compute units: the kernels of each that wait, and whether they may run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import attrs

from offloadrt.kernels import Launch
from offloadrt.kernels.memo import Memo
from offloadrt.machine.compute.compute_spec import ComputeSpec
from offloadrt.machine.compute.resident_kernels import ResidentKernels
from offloadrt.machine.compute.team_places import TeamPlaces
from offloadrt.machine.messages import ContextHasWork, KernelPacket, RunContexts
from offloadrt.sim import Mailbox

LaunchCosts = tuple[float, float, int, float]
"""The seconds that a launch takes alone, the SMs that it fills, its teams that fit on one, and its bytes of memory."""


@attrs.define(eq=False)
class GpuContext:
    """What the compute units know of one process; it belongs to their actor."""

    process: int
    spec: ComputeSpec
    """The compute units as its kernels find them: with fewer SMs for a client of MPS that may use a part only."""
    places: TeamPlaces | None
    """The places for teams that its kernels wait for; None: those that run together share the SMs, however many.

    Contexts that run at one time have the same ones, those that take turns have places of their own.
    """
    running: bool = True
    """Whether its kernels run: False while it waits for a time slice."""
    drains: int = 0
    """How many DrainKernels have not been taken back."""
    kernels: int = 0
    """Kernels that have been launched and have not ended."""
    resident: int = 0
    """Those of them that have begun."""
    waiting: deque[KernelPacket] = attrs.field(factory=deque)
    """Launched kernels that were held up, in the order in which their queues handed them over."""
    _costs: Memo[int, tuple[Launch, LaunchCosts]] = attrs.field(factory=Memo)
    _costs_in_pages: Memo[int, tuple[Launch, LaunchCosts]] = attrs.field(factory=Memo)

    def costs(self, launch: Launch, small_pages: float | None = None) -> LaunchCosts:
        """Return what a launch costs on the idle device.

        `small_pages`: the part of the bandwidth that it has because it touches small pages; None: it touches none.
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

    def has_place(self, launch: Launch) -> bool:
        """Tell whether the first team of its next kernel finds a place."""
        return self.places is None or self.places.has_room(self.costs(launch)[2])


class GpuContexts:
    """The contexts of one device, by number of the process.

    With a ``slicer``, the mailbox of the actor that schedules contexts, none of them runs before that says so; it is
    told who has work.
    """

    def __init__(self, contexts: Sequence[GpuContext], slicer: Mailbox | None = None) -> None:
        self.all = contexts
        self.slicer = slicer
        self.none_runs = slicer is not None
        """Whether no context has a time slice."""
        for context in contexts:
            context.running = slicer is None

    def of(self, packet: KernelPacket) -> GpuContext:
        """Return the context of the process that has launched a kernel."""
        return self.all[packet.stream.process]

    def arrived(self, packet: KernelPacket) -> None:
        """Count a kernel that its queue has handed over; the first one of a context makes that ask for a time slice."""
        context = self.of(packet)
        context.kernels += 1
        if context.kernels == 1 and self.slicer is not None:
            self.slicer.put(ContextHasWork(context.process, True))

    def ended(self, packet: KernelPacket) -> GpuContext:
        """Count a resident kernel that has ended, and return its context, which needs no time slice after the last."""
        context = self.of(packet)
        context.resident -= 1
        context.kernels -= 1
        if not context.kernels and self.slicer is not None:
            self.slicer.put(ContextHasWork(context.process, False))
        return context

    def longest_held_up(self, can_begin: Callable[[GpuContext, KernelPacket], bool]) -> GpuContext | None:
        """Return the context whose next kernel was launched first of those that can begin; None when none can."""
        found = None
        for context in self.all:
            if context.waiting and (found is None or context.waiting[0].number < found.waiting[0].number):
                found = context if can_begin(context, context.waiting[0]) else found
        return found

    def run(self, message: RunContexts, kernels: ResidentKernels) -> None:
        """Stop the kernels of those whose time slice is over where they are, and let those of others go on."""
        self.none_runs = not message.processes
        for context in self.all:
            context.running = context.process in message.processes
        for stalled in kernels.stalled.values():
            stalled.preempted = not self.of(stalled.packet).running
        for ticket, resident in [*kernels.resident.items()]:
            resident.preempted = not self.of(resident.packet).running
            kernels.limit(ticket, resident, resident.rate)
