"""HSA queues, which streams take in turns.

A queue hands its kernels to the compute units in the order of submission, without waiting for the one before.  Only
barriers wait: one whose dependency is not met stays at the head and holds up everything behind it, also of other
streams.  LLVM chooses the queue of a stream each time it takes the stream from its pool
(``AMDGPUStreamManagerTy::assignNextQueue``).  A device that may have more queues than hardware queues hands on the
packets of those that have one (``queue_slots.py``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from offloadrt.machine.injection.injector import Injector
from offloadrt.machine.level import LevelOverTime
from offloadrt.machine.messages import BarrierPacket, KernelPacket
from offloadrt.machine.queues.hardware_queue import QueueStatistics
from offloadrt.machine.queues.queue_slots import QueueSlots
from offloadrt.machine.queues.stream import Stream, StreamCommand
from offloadrt.sim import Mailbox, Signal, Simulation


class HsaQueue:
    """One queue.  Packets are handed on by whoever submits them; the queue's actor waits at barriers.

    Handing on takes no virtual time, so nobody need wait for a turn of the actor, unless a barrier stands before.
    """

    def __init__(
        self,
        sim: Simulation,
        device: int,
        number: int,
        compute: Mailbox,
        born: float,
        slots: QueueSlots | None = None,
    ) -> None:
        self.sim = sim
        self.number = number
        self.mailbox = Mailbox(sim, f"device {device} hsa queue {number}")
        """Brings the actor the barrier at the head whose dependency is not met."""
        self._compute = compute
        self.injector: Injector | None = None
        self._unseen: list[KernelPacket | BarrierPacket] = []
        """Packets whose doorbell was lost: the queue sees them at the next one."""
        self._waits = False
        """Whether there is such a barrier."""
        self._queued: deque[tuple[KernelPacket | BarrierPacket, float]] = deque()
        """The packets behind it, and when they were submitted."""
        self._packets = 0
        self._blocked = 0
        self._blocking = LevelOverTime(sim)
        self._behind = LevelOverTime(sim)
        self._born = born
        self.mapped = True
        """Whether a hardware queue looks at it."""
        self._mapped_at = born
        """When a hardware queue began to look at it: it cannot have fetched a packet before."""
        self._slots = slots
        self._flying: list[Signal] = []
        """The ends of kernels that may be in flight, where queues have to wait for hardware queues."""
        self._mapping: Signal | None = None
        """Set when the queue has a hardware queue again; the actor waits for it with a barrier that is complete."""
        if slots is not None:
            slots.add(self)

    def submit(self, packet: StreamCommand | BarrierPacket) -> None:
        """Append a KernelPacket or a BarrierPacket; raises TypeError for others."""
        if not isinstance(packet, (KernelPacket, BarrierPacket)):
            raise TypeError(f"an HSA queue does not understand {packet!r}")
        if self.injector is not None and self._is_unseen(self.injector, packet):
            return
        if self._slots is not None:
            self._slots.catch_up()
        if self._waits or not self.mapped:
            self._queued.append((packet, self.sim.now))
            self._behind.rise()
            if self._slots is not None and not self._waits and len(self._queued) == 1:
                self._slots.want(self)
        else:
            self._hand_on(packet, self.sim.now)

    def _is_unseen(self, injector: Injector, packet: KernelPacket | BarrierPacket) -> bool:
        """Tell whether a packet's doorbell is lost; one that is not shows the queue those before it as well."""
        name = self.mailbox.name
        if injector.strike("doorbell", name, f"a doorbell of {name} is lost"):
            self._unseen.append(packet)
            return True
        unseen, self._unseen = self._unseen, []
        self.injector = None  # what was lost once is not lost again
        for earlier in unseen:
            self.submit(earlier)
        self.injector = injector
        return False

    def _hand_on(self, packet: KernelPacket | BarrierPacket, submitted: float) -> None:
        """Take a packet that no other stands before."""
        self._packets += 1
        if isinstance(packet, KernelPacket):
            packet.stream.submitted = submitted
            self._compute.put(packet)
            if self._slots is not None:
                self._flying = [done for done in self._flying if not done.is_set]
                self._flying.append(packet.done)
        elif packet.depends.is_set:
            _complete(packet)
        else:
            self._waits = True
            self.mailbox.put(packet)

    async def run(self) -> None:
        """Wait at each barrier, and hand on what stands behind it, for ever (the actor)."""
        while True:
            barrier: BarrierPacket = await self.mailbox.get()
            if not barrier.depends.is_set:  # as it was when the barrier came
                self._blocked += 1
                self._blocking.rise()
                await barrier.depends.wait()
                self._blocking.fall()
            if self._slots is not None:
                self._slots.catch_up()
                if not self.mapped:
                    self._mapping = mapping = Signal(self.sim, f"{self.mailbox.name} has a hardware queue")
                    self._slots.want(self)
                    await mapping.wait()
            _complete(barrier)
            self._waits = False
            self._hand_on_queued()

    def _hand_on_queued(self) -> None:
        while self._queued and not self._waits:
            self._behind.fall()
            packet, submitted = self._queued.popleft()
            self._hand_on(packet, max(submitted, self._mapped_at))

    def occupied(self, time: float) -> bool:
        """Tell whether a kernel of it was in flight at this time, which is not after now."""
        return any(not done.is_set or (done.value is not None and done.value[2] > time) for done in self._flying)

    def map(self) -> None:
        """Go on with what is queued: a hardware queue looks at the queue again."""
        self.mapped, self._mapped_at = True, self.sim.now
        assert self._slots is not None
        if self._mapping is not None:
            self._slots.satisfied()
            mapping, self._mapping = self._mapping, None
            mapping.set()
        elif self._queued and not self._waits:
            self._slots.satisfied()
            self._hand_on_queued()

    def statistics(self) -> QueueStatistics:
        """Return what the queue did so far."""
        blocked_s = self._blocking.total_s
        idle_s = self.sim.now - self._born - blocked_s
        return QueueStatistics(self._packets, self._blocked, blocked_s, idle_s, self._behind.total_s)


def _complete(barrier: BarrierPacket) -> None:
    if barrier.done is not None:
        barrier.done.set()


class _Unassigned:
    """The queue of a stream that holds none."""

    number = -1

    def submit(self, packet: StreamCommand) -> None:
        raise RuntimeError(f"{packet!r} was submitted to a stream that holds no HSA queue")


@attrs.define(eq=False)
class HsaQueues:
    """The queues of a device that one process has, ``count`` at most; each is made when a stream first takes it.

    With ``round_robin`` each stream takes the next queue.  Otherwise (LLVM's default, busy tracking) it takes one that
    no stream holds, or else the least used one.  With ``uncontended`` there are as many queues as streams hold at one
    time (an ablation).
    """

    _make: Callable[[], HsaQueue]
    _count: int
    _round_robin: bool = False
    _uncontended: bool = False
    _process: int = 0
    queues: list[HsaQueue] = attrs.field(factory=list, init=False)
    streams_of: list[int] = attrs.field(factory=list, init=False)
    """How many streams hold each queue."""
    _held: dict[int, int] = attrs.field(factory=dict, init=False)
    """The place among ``queues`` of the one that each stream holds."""
    _by_number: dict[int, HsaQueue] = attrs.field(factory=dict, init=False)
    _unassigned: _Unassigned = attrs.field(factory=_Unassigned, init=False)
    _streams: int = attrs.field(default=0, init=False)
    _taken: int = attrs.field(default=0, init=False)

    def open_stream(self) -> Stream:
        """Make a stream, which holds no queue yet."""
        self._streams += 1
        return Stream(self._streams - 1, self._unassigned, process=self._process)

    def of_process(self, process: int) -> HsaQueues:
        """Return the queues of another process, which may have as many."""
        return attrs.evolve(self, process=process)

    def numbered(self, number: int) -> HsaQueue:
        """Return the queue with this number, which counts those of all processes on the device."""
        return self._by_number[number]

    def take(self, stream: Stream) -> HsaQueue:
        """Give a stream the queue to which it submits from now on.

        Raises RuntimeError when the stream holds one.
        """
        if stream.index in self._held:
            raise RuntimeError(f"stream {stream.index} takes an HSA queue, but holds number {stream.queue.number}")
        place = self._choose()
        while place >= len(self.queues):
            queue = self._make()
            self.queues.append(queue)
            self._by_number[queue.number] = queue
            self.streams_of.append(0)
        queue = self.queues[place]
        self.streams_of[place] += 1
        stream.queue, self._held[stream.index] = queue, place
        return queue

    def give_back(self, stream: Stream) -> None:
        """Take the queue of a stream that submits nothing more for now.

        Raises RuntimeError when the stream holds none.
        """
        place = self._held.pop(stream.index, None)
        if place is None:
            raise RuntimeError(f"stream {stream.index} gives an HSA queue back, but holds none")
        self.streams_of[place] -= 1
        stream.queue = self._unassigned

    def _choose(self) -> int:
        """Return the number of the queue that the next stream takes, which may have to be made first."""
        if self._round_robin and not self._uncontended:
            place = self._taken % self._count
            self._taken += 1
            return place
        streams = self.streams_of
        if 0 in streams:
            return streams.index(0)
        made = len(streams)
        return streams.index(min(streams)) if made >= self._count and not self._uncontended else made
