"""The compute units of a device: an actor that owns the resident kernels.

A kernel occupies as many SMs as its teams fill.  Where ``gpu.placement`` is in_order, a kernel begins when a team of
it finds a slot (`TeamSlots`).  Kernels that have begun and whose demands fit together run at full speed;
otherwise the SMs are divided among them (``share.py``).  So a kernel alone takes its roofline time, scaled by how much
of the machine its teams can fill.  Halts are counted: a kernel starts only when nobody drains or
suspends the device.  A kernel leaves the SMs to others while it waits for a page: of host memory on an APU
(``KernelFaults``), of managed memory on a device that migrates it (``managed/kernels.py``).
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable

import attrs

from offloadrt.machine.compute.residency import (
    ComputeSpec,
    ComputeStatistics,
    KernelFaults,
    MemoryTraffic,
    Missing,
    ResidentKernel,
    ResidentKernels,
    goes_before,
)
from offloadrt.machine.compute.sharing import GpuContext, GpuContexts
from offloadrt.machine.injection import Injector
from offloadrt.machine.managed.kernels import ManagedKernels
from offloadrt.machine.memory import InvalidDeviceAddress, MemoryAccessFault
from offloadrt.machine.messages import (
    BlitCopy,
    DrainKernels,
    FaultServed,
    KernelPacket,
    RemoteDone,
    ReplayFaults,
    ResumeKernels,
    RunContexts,
    SuspendKernels,
    TrafficChanged,
    Unmapped,
)
from offloadrt.machine.servers import LevelOverTime
from offloadrt.sim import TIMED_OUT, Request, Simulation
from offloadrt.trace import Event, Trace, events


# ---------------------------------------------------------------------- priorities
# Which of the kernels that wait for slots on the SMs comes first: that of the stream with the greatest priority.
#
# As in CUDA, priorities matter to teams that wait. No team that runs is stopped. When teams of a kernel end, kernels of
# greater priority that wait get their slots, and its own next teams what these leave (the rules for prioritized streams
# of Amert et al., RTSS 2017). All teams of a wave end together here. Kernels that may wait for pages keep their slots.
def put_by_priority(waiting: deque[KernelPacket], packet: KernelPacket) -> None:
    """Put a kernel's packet behind the waiting packets of the same priority and before those of lesser priority."""
    index = len(waiting)
    while index and goes_before(packet, waiting[index - 1]):
        index -= 1
    waiting.insert(index, packet)


_NEAR = 1e-9
"""A message that arrives less than these seconds before a kernel's computed end makes the actor check for that end.

The computed end may, by rounding, lie a little after a message that comes at the same time.
"""


@attrs.define
class _Tally:
    """Accumulates the counts of ``ComputeStatistics``."""

    busy_s: float = 0.0
    halted_s: float = 0.0
    stalled_s: float = 0.0
    draining_s: float = 0.0
    drains: int = 0
    suspensions: int = 0
    kernels: int = 0
    blits: int = 0
    most_resident: int = 0
    wall_s: float = 0.0
    alone_s: float = 0.0


class ComputeUnits:
    """Runs the kernels of one device, and divides the SMs and the memory bandwidth among them.

    Other actors send KernelPacket, FaultServed, ReplayFaults, Unmapped, RemoteDone, TrafficChanged and ResumeKernels
    with ``put``; they send DrainKernels, SuspendKernels and RunContexts with ``call``, which waits for a reply. Each
    kind of message, and the end of a kernel, has its own method. Only this actor changes the division of the SMs.

    ``contexts``: the GPU contexts of the processes that use the device; None: one process. ``faults``: handles page
    faults on an APU. With neither ``faults`` nor ``managed`` (managed memory), all memory of kernels counts as present.
    """

    def __init__(
        self,
        sim: Simulation,
        device: int,
        spec: ComputeSpec,
        trace: Trace | None,
        faults: KernelFaults | None = None,
        contexts: GpuContexts | None = None,
    ) -> None:
        self.sim = sim
        self.device = device
        self.spec = spec
        self.trace = trace
        self.faults = faults
        self.managed: ManagedKernels | None = None
        self.injector: Injector | None = None
        self.traffic: MemoryTraffic | None = None
        """Divides the memory's bandwidth between kernels and copies, on an APU; None elsewhere."""
        self.ended: Callable[[int, KernelPacket, float, float], None] | None = None
        """Called with (device, packet, begin, end) when a kernel of the program ends; None means no listener."""
        self.kernels = ResidentKernels(sim, device, spec, trace)
        """The kernels that have begun and not ended."""
        self.mailbox = self.kernels.mailbox
        self._work = self.kernels.work
        self._contexts = contexts or GpuContexts([GpuContext(0, spec, spec.slots())])
        self._limit = math.inf if spec.uncontended else spec.max_resident
        self._resident, self._stalled, self._share = self.kernels.resident, self.kernels.stalled, self.kernels.share
        self._launching: list[tuple[float, int, KernelPacket]] = []
        """A heap of the kernels that have not reached the SMs yet: (time of arrival, order, packet)."""
        self._arrivals = 0
        self._wave_end = math.inf
        """When the teams of `_ending` end, whose slots a waiting kernel of greater priority gets; inf without one."""
        self._ending: ResidentKernel | None = None
        self._delayed = LevelOverTime(sim)
        self._draining: list[Request] = []
        self._drains = self._suspends = 0
        self._last_accounted = sim.now
        self._born = sim.now
        self._tally = _Tally()

    async def run(self) -> None:
        """Handle messages and the ends of kernels, for ever (this is the actor)."""
        sim, mailbox, launching, first = self.sim, self.mailbox, self._launching, self._share.first
        while True:
            if (traffic := self.traffic) is not None and traffic.shared:
                traffic.divide()
            ends = first()[1] if self._resident else math.inf
            due = launching[0][0] if launching and launching[0][0] < ends else ends
            due = self._wave_end if self._wave_end < due else due
            message = await (mailbox.get_until(due) if due < math.inf else mailbox.get())
            self.account()
            if message is TIMED_OUT:
                # Only the latency of a launch is over: no kernel can have ended.
                if ends > sim.now + _NEAR:
                    self._start()
                    continue
            elif isinstance(message, (ReplayFaults, Unmapped, RemoteDone)):
                assert self.managed is not None
                self.managed.understand(message)
            elif isinstance(message, KernelPacket):
                self._arrivals += 1
                self._contexts.arrived(message)
                if self.trace is not None and self.trace.causal_log is not None:
                    self.trace.causal_log.arrived(sim, message.number, message.launch)
                heapq.heappush(launching, (self._due(message), self._arrivals, message))
                if ends > sim.now + _NEAR and launching[0][0] > sim.now:
                    continue
            elif isinstance(message, FaultServed):
                self._served(message)
            elif isinstance(message, TrafficChanged):
                continue
            elif isinstance(message, ResumeKernels):
                await self._resume(message)
            elif isinstance(message, Request) and isinstance(message.message, DrainKernels):
                self._drain(message.message, message)
            elif isinstance(message, Request) and isinstance(message.message, SuspendKernels):
                await self._suspend(message.message, message)
            elif isinstance(message, Request) and isinstance(message.message, RunContexts):
                self._contexts.run(message.message, self.kernels)
                message.reply()
            else:
                raise TypeError(f"the compute units do not understand {message!r}")
            self._retire()
            if launching or self._delayed.number:
                self._start()

    def _due(self, packet: KernelPacket) -> float:
        """Return when a kernel that has just been dispatched reaches the SMs.

        The queue fetches and decodes a packet while the packet still waits for its predecessor in the stream. So a
        kernel that was submitted early enough starts ``launch.gap`` after its predecessor's end.
        """
        now, submitted = self.sim.now, packet.stream.submitted
        if submitted is None or submitted >= now or packet.blit is not None:
            return now + self.spec.launch_latency
        gap = self.spec.launch_gap if packet.gap is None else packet.gap
        return max(submitted + self.spec.launch_latency, now + gap)

    def _drain(self, message: DrainKernels, call: Request) -> None:
        self._drains += 1
        self._contexts.all[message.process].drains += 1
        self._tally.drains += 1
        if (trace := self.trace) is not None:
            trace(events.Drain, self.device, -1, message.cause, message.reason)
        # The reply is left to `_retire`, which finds out when no kernel of the process is resident any more.
        self._draining.append(call)

    async def _suspend(self, message: SuspendKernels, call: Request) -> None:
        """Stop the kernels; the first suspension saves the state of each kernel."""
        self._suspends += 1
        self._tally.suspensions += 1
        # The kernels stop before they are saved: from here on none of them makes progress.
        self._share.halt(self.sim.now)
        if (trace := self.trace) is not None:
            trace(events.Drain, self.device, -1, message.cause, message.reason)
        if self._suspends == 1:
            await self._save_or_restore()
        call.reply()

    async def _resume(self, message: ResumeKernels) -> None:
        """Take back one DrainKernels or SuspendKernels; with the last suspension, restore each kernel's state."""
        if not message.suspended:
            self._drains -= 1
            self._contexts.all[message.process].drains -= 1
        else:
            if self._suspends == 1:
                await self._save_or_restore()
            self._suspends -= 1
            self._share.resume(self.sim.now)
        if (trace := self.trace) is not None:
            trace(events.Resume, self.device, -1, message.cause, message.reason)

    async def _save_or_restore(self) -> None:
        """Save or restore the state of the resident kernels one by one: a candidate mechanism, off by default."""
        if self.spec.save_restore:
            for _ in [*self._resident, *self._stalled]:
                await self.sim.sleep(self.spec.save_restore)
            self.account()

    def _retire(self) -> None:
        """Remove the kernels that have finished, and answer the drains that wait until no kernel runs."""
        share, now = self._share, self.sim.now
        while self._resident:
            ticket, _ = share.first()
            if ticket is None or not share.is_finished(ticket):
                break
            share.leave(now, ticket)
            resident = self._resident.pop(ticket)
            if resident.missing is not None and resident.missing.head is not None:
                self._meet(resident, resident.missing)
                continue
            if resident.sweep is not None and self.managed is not None and self.managed.goes_on(resident):
                continue
            if resident.packet.blit is None:
                self._tally.wall_s += now - resident.start
                self._tally.alone_s += resident.alone
            # The body computes all of a kernel's results at its end, on the memory of that moment. Nobody can see a
            # difference, unless the kernel races with something that runs at the same time, or waits for it.
            injector, packet = self.injector, resident.packet
            alive = injector is None or injector.kernel_ends(self.device, packet.launch.kernel.name)
            if packet.run is not None and alive:
                try:
                    packet.run()
                except InvalidDeviceAddress as error:
                    why = f"kernel {packet.launch.kernel.name!r} uses memory that was freed before it ended: {error}"
                    raise InvalidDeviceAddress(why) from None
            self._end(resident)
        # A stalled kernel has not ended either: its page comes, and then it runs on. Draining waits for it too.
        if self._draining:
            over = [call for call in self._draining if not self._contexts.all[call.message.process].resident]
            for call in over:
                call.reply()
                self._draining.remove(call)

    def _start(self) -> None:
        """Put launched kernels on the SMs, in order, unless the device is halted or full."""
        now, contexts = self.sim.now, self._contexts
        ended = self._ending if now > self._wave_end - _NEAR else None
        slots = None if ended is None else contexts.of(ended.packet).slots
        if ended is not None and slots is not None:
            slots.end_wave(ended)
        # Those that were held up come first: packets start in the order in which their queues handed them over.
        while self._delayed.number:
            context = contexts.longest_held_up(self._can_begin)
            if context is None:
                break
            self._delayed.fall()
            self._begin(context.waiting.popleft(), context)
        while self._launching and self._launching[0][0] <= now:
            packet = heapq.heappop(self._launching)[2]
            context = contexts.of(packet)
            ahead = context.waiting and not goes_before(packet, context.waiting[0])
            if ahead or not self._can_begin(context, packet):
                put_by_priority(context.waiting, packet)
                self._delayed.rise()
            else:
                self._begin(packet, context)
        if ended is not None and slots is not None:
            self._adapt([*slots.hand_out(), ended])
        self._find_wave_end()

    def _find_wave_end(self) -> None:
        """Find when teams end first whose slots a waiting kernel of greater priority is to get."""
        self._wave_end = math.inf
        for context in self._contexts.all:
            first = context.waiting[0] if context.waiting else None
            if first is None or not first.stream.priority or context.slots is None:
                continue
            for ticket, kernel in self._resident.items():
                beside = self._contexts.of(kernel.packet).slots is context.slots
                rate = self._share.rate(ticket)
                if not beside or not goes_before(first, kernel.packet) or kernel.sweep or kernel.missing or not rate:
                    continue
                team = kernel.alone * kernel.demand / kernel.packet.launch.teams
                to_come = self._share.left(ticket) / team
                waves = (kernel.packet.launch.teams - to_come) / kernel.placed
                running = (math.floor(waves + _NEAR) + 1 - waves) * kernel.placed
                if running < to_come and (end := self.sim.now + running * team / rate) < self._wave_end:
                    self._wave_end, self._ending = end, kernel

    def _can_begin(self, context: GpuContext, packet: KernelPacket) -> bool:
        """Tell whether a kernel can begin now."""
        if self._suspends or context.drains or not context.running:
            return False
        here = context.resident if self._contexts.slicer else len(self._resident) + len(self._stalled)
        return here < self._limit and context.has_slots(packet)

    def _begin(self, packet: KernelPacket, context: GpuContext) -> None:
        """Make a kernel resident."""
        tally, launch, faults = self._tally, packet.launch, self.faults
        context.resident += 1
        if packet.blit is not None:
            tally.blits += 1
            self._trace_blit(events.CopyBegin, packet, packet.blit)
        else:
            tally.kernels += 1
            if (trace := self.trace) is not None:
                queue = packet.stream.queue.number
                row = (packet.number, launch.kernel.name, launch.teams)
                trace(events.KernelStart, self.device, queue, packet.cause, *row)
        in_pages = faults is not None and faults.translates_slowly and bool(packet.touches)
        if packet.data is not None:
            limits, resident_threads = context.spec.limits, context.spec.resident_threads(launch)
            launch = packet.data.measured(
                launch, resident_threads, limits.warp_size, context.spec.sector, context.spec.cache
            )
        alone, demand, per_sm, nbytes = context.costs(launch, faults.spec.small_pages if in_pages and faults else None)
        alone += packet.serial_s
        resident = ResidentKernel(packet, self.sim.now, alone, demand, nbytes / alone if alone else 0.0)
        if context.slots is not None:
            resident.teams, resident.teams_per_sm = min(launch.teams, context.spec.sms * per_sm), per_sm
            resident.placed = 0
            context.slots.take(resident)
        if packet.accesses and self.managed is not None:
            self.managed.begin(resident)
        elif faults is None or not packet.touches or faults.pages.covers_all(packet.touches):
            self._work(resident, 1, 1)
        elif faults.spec.xnack:
            resident.missing = faults.missing(packet, context.spec.resident_threads(packet.launch))
            self._meet(resident, resident.missing)
        else:
            self._die(resident, faults)
        here = len(self._resident) + len(self._stalled)
        if here > tally.most_resident:
            tally.most_resident = here

    def _meet(self, resident: ResidentKernel, missing: Missing) -> None:
        """Let a kernel access the next range that was missing at its start; it faults if the range still is missing."""
        faults = self.faults
        assert faults is not None
        met = missing.head
        passed = 0
        while met is not None and faults.pages.covers(met[0], met[1] - met[0]):
            missing.advance()
            passed += 1
            met = missing.head
        if passed:
            self._work(resident, passed, missing.total)
            return
        assert met is not None
        packet = resident.packet
        pages = faults.raise_fault(*met, packet, missing.threads)
        resident.stalled_since = self.sim.now
        self._stalled[packet.number] = resident
        if (trace := self.trace) is not None:
            queue = packet.stream.queue.number
            trace(events.PageFaultBegin, self.device, queue, packet.cause, packet.number, pages)

    def _served(self, message: FaultServed) -> None:
        """Let a stalled kernel go on to its next missing range, because its fault was served."""
        resident, faults = self._stalled.pop(message.kernel), self.faults
        assert faults is not None and resident.missing is not None
        faults.served(message, self.sim.now - resident.stalled_since)
        packet = resident.packet
        if (trace := self.trace) is not None:
            queue = packet.stream.queue.number
            trace(events.PageFaultEnd, self.device, queue, packet.cause, packet.number, message.pages)
        resident.missing.advance()
        self._work(resident, 1, resident.missing.total)

    def _die(self, resident: ResidentKernel, faults: KernelFaults) -> None:
        """End a kernel at once, without its results: it accesses a page without translation, and XNACK is off."""
        packet = resident.packet
        fault = faults.violation(packet)
        if packet.fault is None:
            raise MemoryAccessFault(fault)
        packet.fault(fault)
        self._end(resident)

    def _end(self, resident: ResidentKernel) -> None:
        """Report that a kernel is no longer resident, and give its slots to the kernel that lacks some."""
        packet = resident.packet
        self._ending = None if self._ending is resident else self._ending
        slots = self._contexts.ended(packet).slots
        if slots is not None:
            slots.take_back(resident)
            self._adapt(slots.hand_out())
        if packet.blit is not None:
            self._trace_blit(events.CopyEnd, packet, packet.blit)
            packet.done.set(("copies", resident.start, self.sim.now))
            return
        if (trace := self.trace) is not None:
            name = packet.launch.kernel.name
            trace(events.KernelEnd, self.device, packet.stream.queue.number, packet.cause, packet.number, name)
        if self.ended is not None:
            self.ended(self.device, packet, resident.start, self.sim.now)
        packet.done.set(("kernels", resident.start, self.sim.now))

    def _adapt(self, kernels: list[ResidentKernel]) -> None:
        """Let kernels run as fast as the slots allow that they have now; a stalled one does when it goes on."""
        for ticket, kernel in [*self._resident.items()] if kernels else ():
            if kernel in kernels:
                self.kernels.limit(ticket, kernel, kernel.rate)

    def _trace_blit(self, event: type[Event], packet: KernelPacket, copy: BlitCopy) -> None:
        """Record that a blit copy begins or ends."""
        if (trace := self.trace) is not None:
            row = (packet.number, copy.direction, "blit kernel", copy.nbytes, copy.memory)
            trace(event, self.device, packet.stream.queue.number, packet.cause, *row)

    def account(self) -> None:
        """Add the time since the last call to the totals that apply: busy, halted, stalled or draining seconds."""
        now = self.sim.now
        dt = now - self._last_accounted
        self._last_accounted = now
        if self._resident:
            self._share.advance(now)
        # A device that is suspended without a kernel is idle, not halted: nothing is held up.
        if self._share.serves:
            self._tally.busy_s += dt
        elif self._resident or (self._stalled and (self._suspends or self._contexts.none_runs)):
            self._tally.halted_s += dt
        elif self._stalled:
            self._tally.stalled_s += dt
        if self._drains:
            self._tally.draining_s += dt

    def statistics(self) -> ComputeStatistics:
        """Return the statistics of the compute units so far."""
        self.account()
        idle_s = self.sim.now - self._born - self._tally.busy_s
        return ComputeStatistics(
            **attrs.asdict(self._tally), idle_s=idle_s, wait_s=self._delayed.total_s, sm_s=self._share.delivered
        )
