"""DMA rings (SDMA queues): an actor that transfers one packet after the other, in the order of submission.

A packet whose dependency is not met waits at the head of its ring, and holds up all that is behind it.
"""

from __future__ import annotations

from typing import Annotated

import attrs

from offloadrt.machine.compute.memory_traffic import MemoryTraffic
from offloadrt.machine.injection.injector import Injector
from offloadrt.machine.level import LevelOverTime
from offloadrt.machine.messages import DmaPacket
from offloadrt.machine.servers import Servers, numbered_from_the_second
from offloadrt.sim import Mailbox, Simulation
from offloadrt.trace import Trace, events


@attrs.frozen
class RingSpec:
    """What one ring can do.  Seconds and bytes/s."""

    latency: Annotated[float, "dma.latency"]
    """Seconds from the submission of a transfer to its end besides its bytes, on an idle ring."""
    occupancy: Annotated[float, "dma.occupancy"]
    """The part of them in which the ring does nothing else."""
    bandwidth: Annotated[float, "dma.bw"]
    """Upper limit in bytes/s; each byte copied is one read and one write of memory."""
    uncontended: Annotated[bool, "dma_ring.uncontended"]
    """Whether every packet finds an idle ring (an ablation)."""


@attrs.frozen
class RingStatistics:
    """What a ring did; virtual seconds, up to now.  busy_s + idle_s is the time elapsed (without the ablation)."""

    busy_s: float
    """Time in which it transferred."""
    blocked_s: float
    """The part of idle_s with a packet at the head whose dependency was not met."""
    idle_s: float
    wait_s: float
    """Time that packets waited behind others."""
    transfers: int
    bytes: int


class DmaRing:
    """One ring: ``submit`` a DmaPacket.  What it transfers is part of the ``traffic`` of the memory."""

    def __init__(
        self, sim: Simulation, device: int, number: int, spec: RingSpec, traffic: MemoryTraffic, trace: Trace | None
    ) -> None:
        self.sim = sim
        self.device = device
        self.number = number
        self.spec = spec
        self.traffic = traffic
        self.trace = trace
        self.injector: Injector | None = None
        self.mailbox = Mailbox(sim, f"device {device} dma ring {number}")
        self.moved: dict[str, int] = {}
        """Bytes of the transfers that have ended, by direction."""
        names = numbered_from_the_second(self.name, "server")
        self._servers: Servers[DmaPacket] = Servers(
            sim, self.mailbox, self._run, names, grow=spec.uncontended, service=True
        )
        self.start = self._servers.start
        """Spawn the ring's actor."""
        self.submit = self._servers.submit
        """Append a transfer."""
        self._busy = LevelOverTime(sim)
        self._blocked = LevelOverTime(sim)
        self._transfers = 0
        self._bytes = 0
        self._born = sim.now

    @property
    def name(self) -> str:
        """Return a name as "device 0 dma ring 0"."""
        return self.mailbox.name

    async def _run(self) -> None:
        """Carry out one packet after the other, for ever."""
        sim, spec, trace, get, servers = self.sim, self.spec, self.trace, self.mailbox.get, self._servers
        busy, moved, sleep = self._busy, self.moved, sim.sleep
        engine = f"dma ring {self.number}"
        flow, bandwidth = self.traffic.open_flow(), min(spec.bandwidth, self.traffic.spec.copies)
        ahead = max(spec.latency - spec.occupancy, 0.0)
        while True:
            packet = await get()
            if not isinstance(packet, DmaPacket):
                raise TypeError(f"a DMA ring does not understand {packet!r}")
            if (early := packet.submitted + ahead - sim.now) > 0.0:  # the doorbell, the fetch of the packet
                await sleep(early)
            depends = packet.depends
            if depends is not None and not depends.is_set:
                self._blocked.rise()
                await depends.wait()
                self._blocked.fall()
            begin = sim.now
            busy.rise()
            direction, nbytes = packet.direction, packet.nbytes
            if trace is not None:
                row = (packet.number, direction, engine, nbytes, packet.memory)
                trace(events.CopyBegin, self.device, packet.queue, packet.cause, *row)
            injector = self.injector
            factor = 1.0 if injector is None else await injector.transfer(direction, self.name)
            alone = spec.occupancy + nbytes / bandwidth
            flow.begin(nbytes, alone)
            await sleep(alone)
            if flow.part is None:
                flow.draw = 0.0
            else:
                await flow.end(flow.part)
            if factor > 1.0:
                await sleep((factor - 1.0) * (sim.now - begin))
            if packet.move is not None and (injector is None or self.device not in injector.failures):
                packet.move()
            if trace is not None:
                trace(events.CopyEnd, self.device, packet.queue, packet.cause, *row)
            busy.fall()
            self._transfers += 1
            self._bytes += nbytes
            moved[direction] = moved.get(direction, 0) + nbytes
            servers.done()
            packet.done.set(("copies", begin, sim.now))

    def statistics(self) -> RingStatistics:
        """Return what the ring did so far."""
        busy_s = self._busy.total_s
        idle_s = max(self.sim.now - self._born - busy_s, 0.0)
        wait_s = self._servers.queued.total_s
        return RingStatistics(busy_s, self._blocked.total_s, idle_s, wait_s, self._transfers, self._bytes)
