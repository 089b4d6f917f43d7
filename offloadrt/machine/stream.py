"""Streams: what host threads submit commands to."""

from __future__ import annotations

from collections import deque
from typing import Protocol

import attrs

from offloadrt.machine.messages import Packet
from offloadrt.sim import Signal

_KEPT = 256
"""Completed packets that a stream remembers for ``spans`` when nobody asks."""


class PacketQueue(Protocol):
    """What a stream submits to: a hardware queue, or on an APU the HSA queue that it holds at the time."""

    number: int

    def submit(self, packet: Packet, /) -> None:
        """Append a packet."""


class _NoQueue:
    """The queue of packets that are not submitted: whoever makes them gives them to the engines."""

    number = -1

    def submit(self, packet: Packet) -> None:
        raise RuntimeError(f"{packet!r} was submitted to a channel whose owner gives its copies to the engines itself")


@attrs.define(eq=False)
class Stream:
    """A sequence of commands that run one after the other."""

    index: int
    queue: PacketQueue
    last: Signal | None = None
    """Completion of the packet submitted last."""
    running: Signal | None = None
    """Completion of the packet dispatched last; the hardware queue's own."""
    recent: deque[Signal] = attrs.field(factory=deque, repr=False)
    """Completions of packets that nobody has asked ``spans`` for."""
    pending: deque[Signal] = attrs.field(factory=deque, repr=False)
    """Completions of commands that have a place in a queue of limited depth."""

    @property
    def idle(self) -> bool:
        """Whether everything that was submitted has completed."""
        return self.last is None or self.last.is_set

    def full(self, depth: int) -> Signal | None:
        """What has to complete before another command gets one of ``depth`` places; None when one is free."""
        pending = self.pending
        while pending and pending[0].is_set:
            pending.popleft()
        return pending[0] if len(pending) >= depth else None

    def submit(self, packet: Packet) -> None:
        """Append a command."""
        self.note(packet.done)
        self.queue.submit(packet)

    def note(self, done: Signal) -> None:
        """Something that belongs to the stream was submitted elsewhere (to a DMA ring); ``done`` is its completion."""
        self.last = done
        self.recent.append(done)
        if len(self.recent) > _KEPT and self.recent[0].is_set:
            self.recent.popleft()

    def spans(self) -> list[tuple[str, float, float]]:
        """(``copies`` or ``kernels``, begin, end) of the packets that completed since the last call, in order."""
        spans: list[tuple[str, float, float]] = []
        recent = self.recent
        while recent and recent[0].is_set:
            span = recent.popleft().value
            if span is not None:
                spans.append(span)
        return spans


def internal_channel() -> Stream:
    """A stream for copies that nobody submits: those that the driver or the hardware gives to the engines itself."""
    return Stream(-1, _NoQueue())
