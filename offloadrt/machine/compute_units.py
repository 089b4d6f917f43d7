"""The compute units of a device: an actor that owns the resident kernels.

A kernel occupies as many SMs as its teams fill.  Kernels that together need no more than there are run at their own
speed; otherwise the SMs are divided among them (``share.py``).  So a kernel alone takes its roofline time, scaled
by how much of the machine its teams can fill.  Halts are counted: a kernel starts only when nobody drains or
suspends the device.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Annotated

import attrs

from offloadrt.kernels import Launch
from offloadrt.machine.level import Level
from offloadrt.machine.messages import Drain, KernelPacket, Resume, Suspend
from offloadrt.machine.occupancy import SMLimits
from offloadrt.machine.share import FairShare, Ticket
from offloadrt.sim import TIMED_OUT, Call, Mailbox, Simulation
from offloadrt.trace import Trace, events


@attrs.frozen
class ComputeSpec:
    """What the compute units of a device can do.  Rates in flop/s and bytes/s, times in seconds."""

    sms: Annotated[int, "gpu.sms"]
    flops: Annotated[float, "gpu.fp64"]
    bandwidth: Annotated[float, "mem.bw"]
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
        """
        flops = self.flops * launch.kernel.efficiency * self.limits.working_lanes(launch)
        roofline = max(launch.flops / flops, launch.bytes / self.bandwidth)
        return roofline * self.sms / self.demand(launch)


@attrs.frozen
class ComputeStatistics:
    """Virtual seconds of a device's compute units: busy_s + idle_s is the time elapsed.

    ``halted_s`` is the part of idle_s with kernels that were stopped; ``draining_s`` the time from a drain to its
    end. ``wall_s`` sums the kernels' times from start to end, ``alone_s`` what they would have taken with the
    device to themselves. ``wait_s`` sums the seconds of kernels that were launched and not started, because the
    device was halted or full of kernels. ``sm_s`` sums the seconds of all SMs that worked.
    """

    busy_s: float
    idle_s: float
    halted_s: float
    wait_s: float
    draining_s: float
    drains: int
    suspensions: int
    kernels: int
    most_resident: int
    wall_s: float
    alone_s: float
    sm_s: float


@attrs.define
class _Tally:
    """What ComputeStatistics reports, as it grows."""

    busy_s: float = 0.0
    halted_s: float = 0.0
    draining_s: float = 0.0
    drains: int = 0
    suspensions: int = 0
    kernels: int = 0
    most_resident: int = 0
    wall_s: float = 0.0
    alone_s: float = 0.0


@attrs.define(eq=False)
class _Resident:
    """A kernel on the SMs."""

    packet: KernelPacket
    start: float
    alone: float


class ComputeUnits:
    """Runs the kernels of one device.  Send it KernelPacket and Resume (``put``), Drain and Suspend (``call``)."""

    def __init__(self, sim: Simulation, device: int, spec: ComputeSpec, trace: Trace | None) -> None:
        self.sim = sim
        self.device = device
        self.spec = spec
        self.trace = trace
        self.mailbox = Mailbox(sim, f"device {device} compute units")
        self._share = FairShare(math.inf if spec.uncontended else float(spec.sms))
        self._limit = math.inf if spec.uncontended else spec.max_resident
        self._resident: dict[Ticket, _Resident] = {}
        self._launching: deque[tuple[float, KernelPacket]] = deque()
        self._waiting: deque[KernelPacket] = deque()
        self._delayed = Level(sim)
        self._draining: list[Call] = []
        self._drains = self._suspends = 0
        self._then = sim.now
        self._born = sim.now
        self._tally = _Tally()

    async def run(self) -> None:
        """The actor: serve messages and the ends of kernels, for ever."""
        sim, mailbox = self.sim, self.mailbox
        while True:
            _, due = self._share.first()
            if self._launching and self._launching[0][0] < due:
                due = self._launching[0][0]
            message = await (mailbox.get_until(due) if due < math.inf else mailbox.get())
            self._account()
            if message is TIMED_OUT:
                pass
            elif isinstance(message, KernelPacket):
                self._launching.append((sim.now + self.spec.launch_latency, message))
            elif isinstance(message, Resume):
                await self._resume(message)
            elif isinstance(message, Call) and isinstance(message.message, Drain):
                self._drain(message.message, message)
            elif isinstance(message, Call) and isinstance(message.message, Suspend):
                await self._suspend(message.message, message)
            else:
                raise TypeError(f"the compute units do not understand {message!r}")
            self._retire()
            self._start()

    def _drain(self, message: Drain, call: Call) -> None:
        self._drains += 1
        self._tally.drains += 1
        if (trace := self.trace) is not None:
            trace(events.Drain, self.device, -1, message.cause, message.reason)
        self._draining.append(call)

    async def _suspend(self, message: Suspend, call: Call) -> None:
        """Stop the kernels; the first to suspend has each of them saved."""
        self._suspends += 1
        self._tally.suspensions += 1
        self._share.halt(self.sim.now)
        if (trace := self.trace) is not None:
            trace(events.Drain, self.device, -1, message.cause, message.reason)
        if self._suspends == 1:
            await self._save_or_restore()
        call.reply()

    async def _resume(self, message: Resume) -> None:
        """Take a halt back; the last to resume has each stopped kernel restored."""
        if not message.suspended:
            self._drains -= 1
        else:
            if self._suspends == 1:
                await self._save_or_restore()
            self._suspends -= 1
            self._share.resume(self.sim.now)
        if (trace := self.trace) is not None:
            trace(events.Resume, self.device, -1, message.cause, message.reason)

    async def _save_or_restore(self) -> None:
        """Candidate mechanism: one resident kernel after the other has its state saved, or restored."""
        if self.spec.save_restore:
            for _ in list(self._resident):
                await self.sim.sleep(self.spec.save_restore)
            self._account()

    def _retire(self) -> None:
        """End the kernels that are through; answer those who wait for none to run."""
        share, now = self._share, self.sim.now
        while self._resident:
            ticket, _ = share.first()
            if ticket is None or not share.is_finished(ticket):
                break
            share.leave(now, ticket)
            resident = self._resident.pop(ticket)
            packet = resident.packet
            self._tally.wall_s += now - resident.start
            self._tally.alone_s += resident.alone
            if packet.run is not None:
                packet.run()
            if (trace := self.trace) is not None:
                name = packet.launch.kernel.name
                trace(events.KernelEnd, self.device, packet.stream.queue.number, packet.cause, packet.number, name)
            packet.done.set(("kernels", resident.start, now))
        if self._draining and not self._resident:
            for call in self._draining:
                call.reply()
            self._draining.clear()

    def _start(self) -> None:
        """Put launched kernels on the SMs, in order, unless the device is halted or full."""
        now = self.sim.now
        while self._launching and self._launching[0][0] <= now:
            self._waiting.append(self._launching.popleft()[1])
            self._delayed.rise()
        if self._drains or self._suspends:
            return
        while self._waiting and len(self._resident) < self._limit:
            packet = self._waiting.popleft()
            self._delayed.fall()
            demand = self.spec.demand(packet.launch)
            alone = self.spec.time_alone(packet.launch)
            ticket = self._share.join(now, alone * demand, demand)
            self._resident[ticket] = _Resident(packet, now, alone)
            self._tally.kernels += 1
            self._tally.most_resident = max(self._tally.most_resident, len(self._resident))
            if (trace := self.trace) is not None:
                launch = packet.launch
                trace(
                    events.KernelStart, self.device, packet.stream.queue.number, packet.cause,
                    packet.number, launch.kernel.name, launch.teams,
                )  # fmt: skip

    def _account(self) -> None:
        """Add the time since the last look to what the device did in it."""
        dt = self.sim.now - self._then
        self._then = self.sim.now
        self._share.advance(self.sim.now)
        if self._resident and self._suspends:
            self._tally.halted_s += dt
        elif self._resident:
            self._tally.busy_s += dt
        if self._drains:
            self._tally.draining_s += dt

    def statistics(self) -> ComputeStatistics:
        """What the compute units did so far."""
        self._account()
        idle_s = self.sim.now - self._born - self._tally.busy_s
        return ComputeStatistics(
            **attrs.asdict(self._tally), idle_s=idle_s, wait_s=self._delayed.total_s, sm_s=self._share.delivered
        )
