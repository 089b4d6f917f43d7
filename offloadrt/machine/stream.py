"""Streams: sequences of commands that host threads submit.

A stream knows its commands only by their completions (``StreamCommand``), so that the packets in ``messages.py`` can
name their stream.  The queues that dispatch them are in ``queues.py``.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

import attrs

from offloadrt.sim import Signal

_KEPT = 256
"""Completions that a stream remembers for ``spans`` when nobody asks.

Without a limit, a program that never waits for a stream would keep every completion until its end.  Only completions
that are set already are dropped: a wait that begins later has nothing to attribute to them.
"""


class StreamCommand(Protocol):
    """What can be submitted to a stream: a packet of ``messages.py``."""

    @property
    def done(self) -> Signal:
        """Set at its completion."""


class PacketQueue(Protocol):
    """What a stream submits to: a hardware queue, or on an APU the HSA queue that it holds at the time."""

    number: int

    def submit(self, packet: StreamCommand, /) -> None:
        """Append a packet."""


class _NoQueue:
    """The queue of a stream to which nobody submits: whoever makes its packets gives them to the engines directly."""

    number = -1

    def submit(self, packet: StreamCommand) -> None:
        raise RuntimeError(f"{packet!r} was submitted to a channel whose owner gives its copies to the engines itself")


@attrs.define(eq=False)
class Stream:
    """A sequence of commands that run one after the other."""

    index: int
    """Number of the stream of its process on its device, in order of creation; -1 for an internal channel."""
    queue: PacketQueue
    """Where its commands go; on an APU it changes whenever the stream takes an HSA queue."""
    priority: int = 0
    """As in CUDA: numbers below 0 are greater priorities."""
    process: int = 0
    """The number of the process whose context it belongs to."""
    last: Signal | None = None
    """Completion of the packet submitted last."""
    running: Signal | None = None
    """Completion of the packet dispatched last.  Only the hardware queue uses it."""
    submitted: float | None = None
    """When the packet dispatched last was submitted; None if it was dispatched at once.  Only the queue writes it."""
    recent: deque[Signal] = attrs.field(factory=deque, repr=False)
    """Completions of packets that no call of ``spans`` has returned yet."""
    pending: deque[Signal] = attrs.field(factory=deque, repr=False)
    """Completions of commands that take up a place of the stream's limited depth."""

    @property
    def idle(self) -> bool:
        """Tell whether everything that was submitted has completed."""
        return self.last is None or self.last.is_set

    def full(self, depth: int) -> Signal | None:
        """Return what has to complete before another command gets one of ``depth`` places; None if one is free."""
        pending = self.pending
        while pending and pending[0].is_set:
            pending.popleft()
        return pending[0] if len(pending) >= depth else None

    def submit(self, packet: StreamCommand) -> None:
        """Append a command."""
        self.note(packet.done)
        self.queue.submit(packet)

    def note(self, done: Signal) -> None:
        """Record the completion of a command that was submitted elsewhere, for instance to a DMA ring."""
        self.last = done
        self.recent.append(done)
        if len(self.recent) > _KEPT and self.recent[0].is_set:
            self.recent.popleft()

    def spans(self) -> list[tuple[str, float, float]]:
        """Return what the packets did that completed since the last call, in order of submission.

        Each is (``copies`` or ``kernels``, begin, end) in virtual seconds.
        """
        spans: list[tuple[str, float, float]] = []
        recent = self.recent
        while recent and recent[0].is_set:
            span = recent.popleft().value
            if span is not None:
                spans.append(span)
        return spans


def internal_channel() -> Stream:
    """Return a stream for copies that nobody submits: the driver or the hardware gives them to the engines itself."""
    return Stream(-1, _NoQueue())
