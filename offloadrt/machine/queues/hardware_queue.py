"""Hardware queues (CUDA's connections), which streams share.

A queue dispatches the packets of its streams in the order of submission.  A packet starts when the packet before it in
its stream has completed; until then it stays at the head and holds up everything behind it, also of other streams.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from offloadrt.machine.injection.injector import Injector
from offloadrt.machine.level import LevelOverTime
from offloadrt.machine.links.copy_engine import CopyEngines
from offloadrt.machine.links.peer_relay import PeerRelay
from offloadrt.machine.messages import PACKETS, CopyPacket, KernelPacket, PeerPacket, PrefetchPacket
from offloadrt.machine.queues.stream import Stream, StreamCommand
from offloadrt.sim import Mailbox, Signal, Simulation


@attrs.frozen
class QueueStatistics:
    """What a hardware queue did; virtual seconds, up to now.  busy_s + idle_s is the time elapsed."""

    packets: int
    """Packets that the queue took."""
    blocked: int
    """How many of them had to wait at its head."""
    blocked_s: float
    """Time with a packet at the head that waited for its stream or an event."""
    idle_s: float
    """Time without such a packet, since the device was made."""
    wait_s: float
    """Time of the packets behind a blocked one, summed over them."""

    @property
    def busy_s(self) -> float:
        """Return ``blocked_s``, under the name that all statistics of a machine have."""
        return self.blocked_s


class HardwareQueue:
    """One connection to the device: an actor that dispatches packets to engines and compute units.

    Dispatching takes no time of its own: the launch and copy latencies of the profile, which were measured from end to
    end, contain it.
    """

    def __init__(
        self,
        sim: Simulation,
        device: int,
        number: int,
        engines: dict[str, CopyEngines],
        compute: Mailbox,
        born: float,
        migrations: Mailbox | None = None,
        relay: PeerRelay | None = None,
    ) -> None:
        self.sim = sim
        self.number = number
        self.mailbox = Mailbox(sim, f"device {device} hardware queue {number}")
        self._engines = engines
        self._compute = compute
        self.migrations = migrations
        """The mailbox of who carries out prefetches; None until managed memory is in use."""
        self._relay = relay
        self.injector: Injector | None = None
        self._unseen: list[StreamCommand] = []
        """Packets whose doorbell was lost: the queue sees them at the next one."""
        self._submitted: deque[float] = deque()
        """When the packets in the mailbox were submitted."""
        self._packets = 0
        self._blocked = 0
        self._blocking = LevelOverTime(sim)
        self._behind = LevelOverTime(sim)
        self._born = born

    def submit(self, packet: StreamCommand) -> None:
        """Append a packet."""
        self._behind.rise()
        self._submitted.append(self.sim.now)
        if self.injector is not None and self._is_unseen(self.injector, packet):
            return
        self.mailbox.put(packet)

    def _is_unseen(self, injector: Injector, packet: StreamCommand) -> bool:
        """Tell whether a packet's doorbell is lost; one that is not shows the queue those before it as well."""
        name = self.mailbox.name
        if injector.strike("doorbell", name, f"a doorbell of {name} is lost"):
            self._unseen.append(packet)
            return True
        for earlier in self._unseen:
            self.mailbox.put(earlier)
        self._unseen.clear()
        return False

    async def run(self) -> None:
        """Dispatch packets in order, for ever (the actor)."""
        while True:
            packet = await self.mailbox.get()
            if type(packet) not in PACKETS:
                raise TypeError(f"a hardware queue does not understand {packet!r}")
            self._behind.fall()
            self._packets += 1
            stream, submitted = packet.stream, self._submitted.popleft()
            if (before := stream.running) is not None and not before.is_set:
                await self._block(before)
            stream.running, stream.submitted = packet.done, submitted
            if isinstance(packet, KernelPacket):
                self._compute.put(packet)
            elif isinstance(packet, CopyPacket):
                self._engines[packet.direction].submit(packet)
            elif isinstance(packet, PrefetchPacket):
                if self.migrations is None:
                    raise TypeError(f"this hardware queue does not understand {packet!r}: nothing migrates here")
                self.migrations.put(packet)
            elif isinstance(packet, PeerPacket):
                if self._relay is None:
                    raise TypeError(f"this hardware queue does not understand {packet!r}: its device has no peers")
                self._relay.submit(packet)
            else:
                if not packet.event.is_set:
                    await self._block(packet.event)
                packet.done.set()

    async def _block(self, signal: Signal) -> None:
        self._blocked += 1
        self._blocking.rise()
        await signal.wait()
        self._blocking.fall()

    def statistics(self) -> QueueStatistics:
        """Return what the queue did so far."""
        blocked_s = self._blocking.total_s
        idle_s = self.sim.now - self._born - blocked_s
        return QueueStatistics(self._packets, self._blocked, blocked_s, idle_s, self._behind.total_s)


@attrs.define
class _Pool:
    """The queues of one priority."""

    opened: int = 0
    """Streams that have been opened so far."""
    queues: list[HardwareQueue] = attrs.field(factory=list)
    streams: list[int] = attrs.field(factory=list)
    """How many streams each queue has now."""


@attrs.define(eq=False)
class HardwareQueues:
    """The queues of a device that one process has, ``count`` of each priority.

    With ``uncontended`` each stream has its own.

    CUDA does not document how it assigns streams to connections.  Round robin is taken: the assignment with the fewest
    streams on the fullest queue.  HIP's library gives a stream a queue of its own while there are fewer than
    GPU_MAX_HW_QUEUES, and then the one that the fewest streams use (``least_used``); streams of another priority have
    other queues (ROCclr, ``Device::acquireQueue``).
    """

    _make: Callable[[int], HardwareQueue]
    _count: int
    _least_used: bool = False
    _uncontended: bool = False
    _process: int = 0
    queues: list[HardwareQueue] = attrs.field(factory=list, init=False)
    _streams: int = attrs.field(default=0, init=False)
    _pools: dict[int, _Pool] = attrs.field(factory=dict, init=False)

    def open_stream(self, priority: int = 0) -> Stream:
        """Make a stream on the queue that is its turn, and the queue if no stream has used it yet."""
        pool = self._pools.setdefault(priority, _Pool())
        place = self._choose(pool)
        pool.opened += 1
        if place == len(pool.queues):
            pool.queues.append(self._make(len(self.queues)))
            pool.streams.append(0)
            self.queues.append(pool.queues[place])
        pool.streams[place] += 1
        index = self._streams
        self._streams += 1
        return Stream(index, pool.queues[place], priority, self._process)

    def of_process(self, process: int) -> HardwareQueues:
        """Return the queues of another process, which has as many."""
        return attrs.evolve(self, process=process)

    def close_stream(self, stream: Stream) -> None:
        """Let a stream use its queue no more: another may get it."""
        pool = self._pools[stream.priority]
        pool.streams[[queue.number for queue in pool.queues].index(stream.queue.number)] -= 1

    def _choose(self, pool: _Pool) -> int:
        """Return the place of the next stream's queue in its pool, which may have to be made first."""
        if self._uncontended:
            return pool.opened
        if not self._least_used:
            return pool.opened % self._count
        made = len(pool.queues)
        return made if made < self._count else pool.streams.index(min(pool.streams))
