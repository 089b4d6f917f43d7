"""Copy engines: actors that transfer, one packet at a time each; the engines of one direction share its bandwidth.

Those for copies to and from other devices share each link with whoever transfers over it.
"""

from __future__ import annotations

import attrs

from offloadrt.machine.level import Level
from offloadrt.machine.messages import CopyPacket, ResumeKernels, SuspendKernels
from offloadrt.machine.servers import Servers, numbered
from offloadrt.machine.share import SharedPool
from offloadrt.sim import Mailbox, Simulation
from offloadrt.trace import Trace, events


@attrs.frozen
class EngineStatistics:
    """What the engines of one direction did; times in virtual seconds, summed over the engines, up to now.

    busy_s + idle_s is the time elapsed times the number of engines.
    """

    engines: int
    busy_s: float
    idle_s: float
    wait_s: float
    """Of transfers that had no idle engine."""
    transfers: int
    bytes: int


@attrs.frozen
class EngineSpec:
    """The engines of one direction."""

    direction: str
    engines: int
    latency: float
    """Seconds that a transfer takes besides its bytes."""
    bandwidth: float
    """Bytes per second for all engines of this direction together, unless a packet names the link that it goes over."""
    halts_kernels: bool
    """Whether every transfer stops the running kernels (``driver.halt = per_transfer``)."""
    engine_uncontended: bool
    link_uncontended: bool


class CopyEngines:
    """The copy engines of one direction of a device, behind one FIFO queue: ``put`` a CopyPacket into ``mailbox``."""

    def __init__(self, sim: Simulation, device: int, spec: EngineSpec, compute: Mailbox, trace: Trace | None) -> None:
        self.sim = sim
        self.device = device
        self.spec = spec
        self.trace = trace
        self.mailbox = Mailbox(sim, f"device {device} copy engine {spec.direction}")
        self._compute = compute
        self._pool = SharedPool(
            sim, spec.bandwidth, f"device {device} link {spec.direction}", uncontended=spec.link_uncontended
        )
        self._alone = spec.link_uncontended or (spec.engines == 1 and not spec.engine_uncontended)
        self._share = self._pool.share
        self._latency = spec.latency
        self._told = trace is not None or spec.halts_kernels
        name = self.mailbox.name
        names = numbered(name) if spec.engines > 1 else lambda _: name
        self._servers: Servers[CopyPacket] = Servers(sim, self.mailbox, self._run, names, grow=spec.engine_uncontended)
        self.submit = self._servers.submit
        """Queue a transfer; it starts when an engine is idle."""
        self._busy = Level(sim)
        self.bytes = 0
        """Bytes of the transfers that have ended."""
        self._transfers = 0
        self._born = sim.now

    def share_link(self) -> SharedPool:
        """Others than the engines will use this direction's bandwidth as well: the pool that they share."""
        self._alone = self.spec.link_uncontended
        return self._pool

    def start(self) -> None:
        """Spawn the engines."""
        for _ in range(self.spec.engines):
            self._servers.start()

    @property
    def is_free(self) -> bool:
        """Whether nobody transfers, and a transfer is nothing to anybody else: it stops no kernels, and no trace is to
        tell which engine did it.
        """
        return not (self._busy.number or self._share.users or self._told or self._alone)

    def alone_s(self, nbytes: int) -> float:
        """Seconds of a transfer that meets nobody."""
        return self._share.due_alone(self._latency, nbytes)

    def transfer_alone(self, begin: float, nbytes: int) -> float:
        """A transfer that begins then meets nobody, in two steps of time; returns its end."""
        end = self._share.serve_at(begin + self._latency, nbytes)
        self._busy.was(end - begin)
        self._transfers += 1
        self.bytes += nbytes
        return end

    def serve_alone(self, nbytes: int) -> bool:
        """A transfer that nobody can disturb takes its time in one step of the caller; False, and nothing is done, when
        somebody could.
        """
        begin = self.sim.now
        if not self.is_free or not self.sim.pass_to(self._share.due_alone(begin + self._latency, nbytes), 2):
            return False
        self.transfer_alone(begin, nbytes)
        return True

    async def _run(self) -> None:
        """The actor: one transfer after the other, for ever."""
        sim, spec, servers = self.sim, self.spec, self._servers
        engine = sim.current.name.removeprefix(f"device {self.device} ")
        while True:
            packet = await self.mailbox.get()
            if not isinstance(packet, CopyPacket):
                raise TypeError(f"a copy engine does not understand {packet!r}")
            servers.took()
            if spec.halts_kernels:
                await self._compute.call(SuspendKernels("transfer", packet.cause))
            begin = sim.now
            self._busy.rise()
            queue, row = (
                packet.stream.queue.number,
                (packet.number, packet.direction, engine, packet.nbytes, packet.memory),
            )
            if (trace := self.trace) is not None:
                trace(events.CopyBegin, self.device, queue, packet.cause, *row)
            if packet.over is not None:
                await sim.sleep(spec.latency)
                await packet.over.carry(packet.nbytes)
            elif self._alone:
                await sim.sleep(spec.latency + packet.nbytes / spec.bandwidth)
            else:
                await sim.sleep(spec.latency)
                await self._pool.serve(packet.nbytes)
            if packet.move is not None:
                packet.move()
            if trace is not None:
                trace(events.CopyEnd, self.device, queue, packet.cause, *row)
            if spec.halts_kernels:
                self._compute.put(ResumeKernels("transfer", True, packet.cause))
            self._busy.fall()
            self._transfers += 1
            self.bytes += packet.nbytes
            servers.ended()
            packet.done.set(("copies", begin, sim.now))

    def statistics(self) -> EngineStatistics:
        """What the engines did so far."""
        elapsed, busy_s = (self.sim.now - self._born) * self.spec.engines, self._busy.total_s
        idle_s = max(elapsed - busy_s, 0.0)
        wait_s = self._servers.queued.total_s
        return EngineStatistics(self.spec.engines, busy_s, idle_s, wait_s, self._transfers, self.bytes)
