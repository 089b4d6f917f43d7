"""Hardware queues (connections) and the streams that share them.

A queue dispatches the packets of its streams in order of submission.  A packet starts when the one before it in its
stream has completed; until then it stays at the head and holds up all that is behind it, also of other streams.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from offloadrt.machine.copy_engine import CopyEngines
from offloadrt.machine.messages import CopyPacket, KernelPacket, Packet, WaitPacket
from offloadrt.sim import Mailbox, Signal, Simulation

_KEPT = 256
"""Completed packets that a stream remembers for ``spans`` when nobody asks."""


@attrs.define(eq=False)
class Stream:
    """A sequence of commands that run one after the other."""

    index: int
    queue: HardwareQueue
    last: Signal | None = None
    """Completion of the packet submitted last."""
    running: Signal | None = None
    """Completion of the packet dispatched last; the hardware queue's own."""
    recent: deque[Signal] = attrs.field(factory=deque, repr=False)
    """Completions of packets that nobody has asked ``spans`` for."""

    @property
    def idle(self) -> bool:
        """Whether everything that was submitted has completed."""
        return self.last is None or self.last.is_set

    def submit(self, packet: Packet) -> None:
        """Append a command."""
        self.last = packet.done
        self.recent.append(packet.done)
        if len(self.recent) > _KEPT and self.recent[0].is_set:
            self.recent.popleft()
        self.queue.mailbox.put((self, packet))

    def spans(self) -> list[tuple[str, float, float]]:
        """(``copies`` or ``kernels``, begin, end) of the packets that completed since the last call, in order."""
        spans: list[tuple[str, float, float]] = []
        while self.recent and self.recent[0].is_set:
            span = self.recent.popleft().value
            if span is not None:
                spans.append(span)
        return spans


@attrs.frozen
class QueueStatistics:
    """``blocked_s`` is the time that the packet at the head waited for its stream or an event."""

    packets: int
    blocked: int
    blocked_s: float


class HardwareQueue:
    """One connection to the device: an actor that dispatches packets to engines and compute units."""

    def __init__(
        self, sim: Simulation, device: int, number: int, engines: dict[str, CopyEngines], compute: Mailbox
    ) -> None:
        self.sim = sim
        self.number = number
        self.mailbox = Mailbox(sim, f"device {device} hardware queue {number}")
        self._engines = engines
        self._compute = compute
        self._packets = 0
        self._blocked = 0
        self._blocked_s = 0.0

    async def run(self) -> None:
        """The actor: dispatch in order, for ever."""
        while True:
            stream, packet = await self.mailbox.get()
            self._packets += 1
            if (before := stream.running) is not None and not before.is_set:
                await self._block(before)
            stream.running = packet.done
            if isinstance(packet, KernelPacket):
                self._compute.put(packet)
            elif isinstance(packet, CopyPacket):
                self._engines[packet.direction].submit(packet)
            elif isinstance(packet, WaitPacket):
                if not packet.event.is_set:
                    await self._block(packet.event)
                packet.done.set()
            else:
                raise TypeError(f"a hardware queue does not understand {packet!r}")

    async def _block(self, signal: Signal) -> None:
        begin = self.sim.now
        await signal.wait()
        self._blocked += 1
        self._blocked_s += self.sim.now - begin

    def statistics(self) -> QueueStatistics:
        """What the queue did so far."""
        return QueueStatistics(self._packets, self._blocked, self._blocked_s)


class HardwareQueues:
    """The queues of a device; streams are given to them round robin.  With ``uncontended`` each stream has its own."""

    def __init__(self, make: Callable[[int], HardwareQueue], count: int, *, uncontended: bool = False) -> None:
        self._make = make
        self._count = count
        self._uncontended = uncontended
        self._streams = 0
        self.queues: list[HardwareQueue] = []

    def open_stream(self) -> Stream:
        """A new stream on the next queue."""
        index = self._streams
        self._streams += 1
        number = index if self._uncontended else index % self._count
        if number == len(self.queues):
            self.queues.append(self._make(number))
        return Stream(index, self.queues[number])
