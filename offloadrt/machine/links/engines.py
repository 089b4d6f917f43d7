"""What moves bytes over links: copy engines, DMA rings, remote ports and peer relays.

Each of these is an actor, or a group of actors behind one mailbox (`Servers`), because transfers queue for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Protocol

import attrs

from offloadrt.machine.compute.residency import MemoryTraffic
from offloadrt.machine.injection import Injector
from offloadrt.machine.links.link import Link, Shared, Way
from offloadrt.machine.messages import (
    CopyPacket,
    DmaPacket,
    PeerPacket,
    RemoteAccess,
    RemoteDone,
    ResumeKernels,
    SuspendKernels,
    internal_channel,
)
from offloadrt.machine.servers import LevelOverTime, Servers, numbered, numbered_from_the_second
from offloadrt.machine.share import SharedPool
from offloadrt.sim import Actor, Mailbox, Signal, Simulation
from offloadrt.trace import Trace, events

# ---------------------------------------------------------------------- copy engines
# Copy engines: actors that transfer, one packet at a time each; the engines of one direction share its bandwidth.
#
# Those for copies to and from other devices share each link with whoever transfers over it. Streams leave packets,
# which the engines' actors carry out (`CopyEngines.submit`), and so does the unified-memory driver when it goes on
# meanwhile (`CopyEngines.send`). Where it waits, it carries a transfer out itself on an idle engine
# (`CopyEngines.carry`): that is one actor less to switch to and back from, and the transfer is the same coroutine.
_INTERNAL = internal_channel()
"""The channel of transfers that were submitted to no stream."""


@attrs.frozen
class EngineStatistics:
    """Statistics of the engines of one direction so far; times are in virtual seconds, summed over the engines.

    busy_s + idle_s is the time elapsed times the number of engines.
    """

    engines: int
    busy_s: float
    idle_s: float
    wait_s: float
    """Time for which transfers waited for an idle engine."""
    transfers: int
    bytes: int


@attrs.frozen
class EngineSpec:
    """Parameters of a device's copy engines of one direction (h2d, d2h, …), and of the link that they use."""

    direction: str
    engines: int
    latency: float
    """Seconds that a transfer takes in addition to the time for its bytes."""
    bandwidth: float
    """Bytes per second of all engines of this direction together, unless a packet names its own link."""
    halts_kernels: bool
    """Whether every transfer stops the running kernels (``driver.halt = per_transfer``)."""
    engine_uncontended: bool
    """Whether every transfer finds an idle engine (to find out what waiting costs)."""
    link_uncontended: bool
    """Whether every transfer has the whole link for itself (to find out what sharing costs)."""


class CopyEngines:
    """The copy engines of one direction of a device, behind one FIFO queue; ``compute``: the compute units' mailbox.

    ``submit`` queues a CopyPacket; ``carry`` makes a transfer while the caller waits for its end.
    """

    def __init__(self, sim: Simulation, device: int, spec: EngineSpec, compute: Mailbox, trace: Trace | None) -> None:
        self.sim = sim
        self.device = device
        self.spec = spec
        self.trace = trace
        self.injector: Injector | None = None
        self.mailbox = Mailbox(sim, f"device {device} copy engine {spec.direction}")
        self._compute = compute
        self._way = spec.direction
        self._copy_name = f"a copy ({spec.direction})"
        self._pool = SharedPool(
            sim, spec.bandwidth, f"device {device} link {spec.direction}", uncontended=spec.link_uncontended
        )
        self._link: Shared = self._pool
        """The path of a transfer: the device's own link, and the shared links above it."""
        self._alone = spec.link_uncontended or (spec.engines == 1 and not spec.engine_uncontended)
        name = self.mailbox.name
        names = numbered(name) if spec.engines > 1 else lambda _: name
        self._idle: deque[Actor] = deque()
        """The idle engines, the one that has been idle for the longest first."""
        self._servers: Servers[CopyPacket] = Servers(
            sim, self.mailbox, self._run, names, grow=spec.engine_uncontended, started=self._idle.append, service=True
        )
        self.submit = self._servers.submit
        """Queues a transfer, which starts when an engine is idle."""
        self._busy = LevelOverTime(sim)
        self.bytes = 0
        """Bytes of the transfers that have ended."""
        self._transfers = 0
        self._born = sim.now

    def share_link(self) -> Shared:
        """Return this direction's whole path to the host, so that transfers without an engine can use it, too."""
        self.share_lanes()
        return self._link

    def share_lanes(self) -> SharedPool:
        """Return the device's own link, without those above it (of a switch or socket), so that others can use it."""
        self._alone = self.spec.link_uncontended and self._link is self._pool
        return self._pool

    def share_link_of(self, other: CopyEngines) -> None:
        """Let all transfers use the link of another device instead of this device's own; call this before a run."""
        self._pool = other.share_lanes()
        self._link = other.share_link()
        self._alone = False

    def pass_also(self, above: Link) -> None:
        """Let all transfers also pass ``above``, a link that several devices share; call this before a run."""
        self._link = Way(self.sim, self._copy_name, (self._pool, above))
        self._alone = False

    @property
    def name(self) -> str:
        return self.mailbox.name

    @property
    def moved(self) -> dict[str, int]:
        """Return the bytes of the transfers that have ended, by direction."""
        return {self.spec.direction: self.bytes}

    def start(self) -> None:
        """Spawn the actors (simulated tasks) of the engines."""
        for _ in range(self.spec.engines):
            self._servers.start()

    def carry(self, number: int, cause: int, nbytes: int, memory: str, pauses_s: float = 0.0) -> Awaitable[object]:
        """Transfer ``nbytes`` while the caller waits; await the result at once.

        number, cause: the copy's number and its directive's. memory: the copy's other end, such as ``pinned``.
        pauses_s: seconds between pieces, in all. The transfer is queued if no engine is idle.
        """
        done = Signal(self.sim, self._copy_name)
        packet = CopyPacket(number, _INTERNAL, cause, self._way, nbytes, memory, None, done, None, pauses_s)
        if self._servers.claim():
            return self._transfer(packet)
        self.submit(packet)
        return done.wait()

    def send(
        self,
        number: int,
        cause: int,
        nbytes: int,
        memory: str,
        move: Callable[[], None] | None,
        pauses_s: float = 0.0,
        over: Link | None = None,
        done: Signal | None = None,
    ) -> Signal:
        """Queue a transfer that belongs to no stream; return the signal that is set at its end, after ``move`` has run.

        number, cause: the copy's number and its directive's. memory: the copy's other end, such as ``pinned``.
        pauses_s: seconds between pieces, in all. ``over``: the link to use instead of the direction's. ``done``: a
        signal to use, for which an actor may wait already.
        """
        if done is None:
            done = Signal(self.sim, self._copy_name)
        self.submit(CopyPacket(number, _INTERNAL, cause, self._way, nbytes, memory, move, done, over, pauses_s))
        return done

    async def _run(self) -> None:
        """Carry out one packet after another, for ever."""
        sim, get = self.sim, self.mailbox.get
        while True:
            packet = await get()
            if not isinstance(packet, CopyPacket):
                raise TypeError(f"a copy engine does not understand {packet!r}")
            begin = await self._transfer(packet)
            packet.done.set(("copies", begin, sim.now))

    async def _transfer(self, packet: CopyPacket) -> float:
        """Transfer on the engine that has been idle for the longest, in the calling actor; return when it began."""
        sim, spec, trace, nbytes, over = self.sim, self.spec, self.trace, packet.nbytes, packet.over
        engine = self._idle.popleft()
        try:
            if spec.halts_kernels:
                await self._compute.call(SuspendKernels("transfer", packet.cause))
            begin = sim.now
            self._busy.rise()
            if trace is not None:
                name = engine.name.removeprefix(f"device {self.device} ")
                row = packet.number, spec.direction, name, nbytes, packet.memory
                queue = packet.stream.queue.number
                trace.by(engine.index, events.CopyBegin, self.device, queue, packet.cause, *row)
            injector = self.injector
            factor = 1.0 if injector is None else await injector.transfer(spec.direction, engine.name)
            if self._alone and over is None:
                await sim.sleep(spec.latency + packet.pauses_s + nbytes / spec.bandwidth)
            else:
                await sim.sleep(spec.latency + packet.pauses_s)
                await (self._link.serve(nbytes) if over is None else over.serve(nbytes))
            if factor > 1.0:
                await sim.sleep((factor - 1.0) * (sim.now - begin))
            # A migration arrives all the same: the driver's records must agree, and kernels that wait for it must end.
            alive = injector is None or self.device not in injector.failures or packet.memory == "managed"
            if packet.move is not None and alive:
                packet.move()
            if trace is not None:
                trace.by(engine.index, events.CopyEnd, self.device, queue, packet.cause, *row)
            if spec.halts_kernels:
                self._compute.put(ResumeKernels("transfer", True, packet.cause))
            self._busy.fall()
            self._transfers += 1
            self.bytes += nbytes
            return begin
        finally:
            self._idle.append(engine)
            self._servers.done()

    def statistics(self) -> EngineStatistics:
        """Return the statistics of the engines so far."""
        elapsed, busy_s = (self.sim.now - self._born) * self.spec.engines, self._busy.total_s
        idle_s = max(elapsed - busy_s, 0.0)
        wait_s = self._servers.queued.total_s
        return EngineStatistics(self.spec.engines, busy_s, idle_s, wait_s, self._transfers, self.bytes)


# ---------------------------------------------------------------------- DMA rings
# DMA rings (SDMA queues): an actor that transfers one packet after the other, in the order of submission.
#
# A packet whose dependency is not met waits at the head of its ring, and holds up all that is behind it.
@attrs.frozen
class RingSpec:
    """Parameters of one DMA ring, in seconds and bytes/s."""

    latency: Annotated[float, "dma.latency"]
    """Seconds from a transfer's submission to its end on an idle ring, without the time for its bytes."""
    occupancy: Annotated[float, "dma.occupancy"]
    """The part of the latency in which the ring does nothing else."""
    bandwidth: Annotated[float, "dma.bw"]
    """Upper limit in bytes/s; each copied byte is one read and one write of memory."""
    uncontended: Annotated[bool, "dma_ring.uncontended"]
    """Whether every packet finds an idle ring (to find out what waiting costs)."""


@attrs.frozen
class RingStatistics:
    """Statistics of a DMA ring in virtual seconds; busy_s + idle_s is the time elapsed, unless ``uncontended``."""

    busy_s: float
    """Time in which the ring transferred bytes."""
    blocked_s: float
    """The part of idle_s with a packet at the head whose dependency was not met."""
    idle_s: float
    wait_s: float
    """Time for which packets waited behind others."""
    transfers: int
    bytes: int


class DmaRing:
    """DMA ring ``number``: makes the copies given to ``submit`` in order; ``traffic`` divides memory bandwidth."""

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
        """Appends a transfer to the ring's queue."""
        self._busy = LevelOverTime(sim)
        self._blocked = LevelOverTime(sim)
        self._transfers = 0
        self._bytes = 0
        self._born = sim.now

    @property
    def name(self) -> str:
        """Return the ring's name, such as "device 0 dma ring 0"."""
        return self.mailbox.name

    async def _run(self) -> None:
        """Carry out one packet after another, for ever."""
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
        """Return the statistics of the ring so far."""
        busy_s = self._busy.total_s
        idle_s = max(self.sim.now - self._born - busy_s, 0.0)
        wait_s = self._servers.queued.total_s
        return RingStatistics(busy_s, self._blocked.total_s, idle_s, wait_s, self._transfers, self._bytes)


# ---------------------------------------------------------------------- remote ports
# Accesses of kernels to host memory over the link: each takes its share of the bandwidth of its direction.
#
# Copies and migrations in that direction share the same bandwidth.
class RemotePort:
    """Carries kernels' accesses to host memory over one direction of a device's link, at most at ``bandwidth`` bytes/s.

    Every access has its own actor: accesses do not queue, they only share the link. ``compute``: the compute units'
    mailbox, which gets a message at the end of each access.
    """

    def __init__(
        self, sim: Simulation, device: int, direction: str, link: Shared, bandwidth: float, compute: Mailbox
    ) -> None:
        self.sim = sim
        self.mailbox = Mailbox(sim, f"device {device} remote port {direction}")
        self.bytes = 0.0
        """Bytes of the accesses that have ended."""
        self._link = link
        self._bandwidth = bandwidth
        self._compute = compute
        names = numbered(self.mailbox.name)
        self._servers: Servers[RemoteAccess] = Servers(sim, self.mailbox, self._run, names, grow=True, service=True)
        self.submit = self._servers.submit
        """Starts an access of a kernel's step over the link; at its end the compute units get a ``RemoteDone``."""

    async def _run(self) -> None:
        """Carry out one access after another, for ever."""
        while True:
            message = await self.mailbox.get()
            if not isinstance(message, RemoteAccess):
                raise TypeError(f"a remote port does not understand {message!r}")
            if message.wait:
                await self.sim.sleep(message.wait)
            await self._link.serve(message.nbytes, min(self._bandwidth, message.bandwidth))
            self.bytes += message.nbytes
            self._servers.done()
            self._compute.put(RemoteDone(message.kernel))


# ---------------------------------------------------------------------- peer relays
# Copies between devices without a direct way: through pinned memory of the host, or the memory of a third device.
#
# The driver cuts such a copy into pieces. Each piece is stored in a buffer there and then forwarded; while one piece
# is forwarded the next one comes in, as long as a buffer is free. A piece takes two transfers on copy engines: device
# to host and host to device, or one by the source and one by the neighbour over the two links. So a relayed copy
# contends with all others by what it does, without a rule of its own.
@attrs.frozen
class RelaySpec:
    """Costs of a copy through the host or a third device in addition to its transfers, and the size of its pieces."""

    latency: Annotated[float, "p2p.staged_latency"]
    """Seconds of latency, once for each copy."""
    chunk: Annotated[int, "p2p.chunk"]
    """Bytes of one piece."""
    buffers: Annotated[int, "p2p.buffers"]
    """Number of pieces of one copy that can be forwarded at the same time."""


class EngineHolder(Protocol):
    """The attributes that `PeerRelay` uses of each device; ``Device`` has them."""

    @property
    def engines(self) -> Mapping[str, CopyEngines]: ...
    def start(self) -> None: ...


class PeerRelay:
    """Carries copies between devices without a direct link, piece by piece.

    Every copy has its own actor, so that copies contend only at engines and links. ``next_number`` numbers transfers.
    """

    def __init__(
        self,
        sim: Simulation,
        spec: RelaySpec,
        devices: Sequence[EngineHolder],
        links: Mapping[tuple[int, int], Link],
        next_number: Callable[[], int],
    ) -> None:
        self.sim = sim
        self.spec = spec
        self.mailbox = Mailbox(sim, "peer relay")
        self._devices = devices
        self._links = links
        self._next_number = next_number
        self._channel = internal_channel()
        names = numbered(self.mailbox.name)
        self._servers: Servers[PeerPacket] = Servers(sim, self.mailbox, self._run, names, grow=True, service=True)
        self.submit = self._servers.submit
        """Takes a copy that is at the head of its stream."""

    async def _run(self) -> None:
        """Carry out one copy after another, for ever."""
        while True:
            packet = await self.mailbox.get()
            if not isinstance(packet, PeerPacket):
                raise TypeError(f"a peer relay does not understand {packet!r}")
            begin = self.sim.now
            await self.sim.sleep(self.spec.latency)
            await self._carry(packet)
            if packet.move is not None:
                packet.move()
            self._servers.done()
            packet.done.set(("copies", begin, self.sim.now))

    async def _carry(self, packet: PeerPacket) -> None:
        """Transfer a copy's pieces to the relay and from there on; return when the last piece has arrived."""
        source, destination, via, cause = packet.source, packet.destination, packet.via, packet.cause
        left = packet.nbytes
        forwarding: deque[Signal] = deque()
        while left:
            size = min(left, self.spec.chunk)
            if len(forwarding) == self.spec.buffers:
                await forwarding.popleft().wait()
            if via is None:
                await self._transfer(source, "d2h", size, cause).wait()
                forwarding.append(self._transfer(destination, "h2d", size, cause))
            else:
                await self._transfer(source, "p2p", size, cause, via).wait()
                forwarding.append(self._transfer(via, "p2p", size, cause, destination))
            left -= size
        for piece in forwarding:
            await piece.wait()

    def _transfer(self, device: int, direction: str, nbytes: int, cause: int, to: int | None = None) -> Signal:
        """Submit a piece to a device's engine, for the host or for device ``to``; return its completion signal."""
        number = self._next_number()
        done = Signal(self.sim, f"copy {number} ({direction})")
        memory, over = ("pinned", None) if to is None else (f"device {to}", self._links[device, to])
        self._devices[device].start()
        self._devices[device].engines[direction].submit(
            CopyPacket(number, self._channel, cause, direction, nbytes, memory, None, done, over)
        )
        return done
