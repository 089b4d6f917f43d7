"""The order that the driver library itself keeps among streams: the legacy default stream's, events', and captures'.

This is data without time.  `ImplicitOrder` says for what a command of a stream has to wait, `StreamEvent` and
`TimedEvent` are marks in streams, and `Captures` records commands with their order as graphs, instead of having them
carried out.  A program can also build a graph node by node (`BuiltGraph`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from offloadrt.machine import Stream
from offloadrt.machine.messages import CopyPacket, KernelPacket, PeerPacket
from offloadrt.sim import Signal


class ImplicitOrder:
    """The legacy default stream of one context, and its blocking streams.

    A command of the legacy stream starts when what was submitted to all blocking streams before it has completed, and
    a command of a blocking stream when what was submitted to the legacy stream before it has ("Stream synchronization
    behavior" of CUDA's manual).  A stream that is neither waits for nobody.
    """

    __slots__ = ("_blocking", "legacy")

    def __init__(self) -> None:
        self.legacy: Stream | None = None
        """The legacy default stream; None when the program has none."""
        self._blocking: dict[int, Stream] = {}

    def add(self, stream: Stream) -> None:
        """Let a stream block with the legacy one."""
        self._blocking[stream.index] = stream

    def remove(self, stream: Stream) -> None:
        """Forget a stream that is destroyed."""
        self._blocking.pop(stream.index, None)

    def blocks(self, stream: Stream) -> bool:
        """Tell whether the legacy stream and another wait for one another."""
        return self.legacy is not None and stream.index in self._blocking

    def before(self, stream: Stream) -> list[Signal]:
        """Return the completions for which the next command of a stream has to wait, besides its own stream's."""
        legacy = self.legacy
        if legacy is None:
            return []
        if stream is not legacy:
            blocks = stream.index in self._blocking and not legacy.idle
            return [legacy.last] if blocks and legacy.last is not None else []
        return [other.last for other in self._blocking.values() if other.last is not None and not other.idle]


CaptureMode = Literal["global", "thread_local", "relaxed"]
"""Which threads may not make unsafe calls meanwhile: all, the one that captures, none (CU_STREAM_CAPTURE_MODE_*)."""

UNSUPPORTED: Final = "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
INVALIDATED: Final = "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
MERGE: Final = "CUDA_ERROR_STREAM_CAPTURE_MERGE"
UNMATCHED: Final = "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED"
UNJOINED: Final = "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"
ISOLATION: Final = "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"
IMPLICIT: Final = "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"
CAPTURED_EVENT: Final = "CUDA_ERROR_CAPTURED_EVENT"
WRONG_THREAD: Final = "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD"

_END: Final = "cuStreamEndCapture"
_UNCAPTURABLE: Final = {
    "cuStreamSynchronize": "its commands are not carried out, so nobody can wait for them",
    "cuStreamQuery": "its commands are not carried out, so nobody can ask for them",
    "cuStreamDestroy": "the capture has to end first",
    "cuMemPrefetchAsync": "graphs have no nodes for prefetches",
    "cuMemAllocFromPoolAsync": "memory nodes of graphs are not emulated",
    "cuMemFreeAsync": "memory nodes of graphs are not emulated",
}
"""The calls that no capturing stream takes, and why."""
_UNSAFE: Final = frozenset(
    {
        "cuMemAlloc", "cuMemFree", "cuMemAllocHost", "cuMemFreeHost", "cuMemAllocManaged", "cuMemHostRegister",
        "cuMemHostUnregister",
    }
)  # fmt: skip
"""Calls that a capture forbids by its mode, as they may wait for the device."""


@attrs.frozen(eq=False)
class HostNode:
    """A function of the host in a graph, which works for ``seconds`` on a core."""

    function: Callable[[], object] | None
    seconds: float


NodeWork = KernelPacket | CopyPacket | PeerPacket | HostNode


@attrs.frozen(eq=False)
class GraphNode:
    """A captured command.  A packet in it is a template: a launch makes another with a completion of its own."""

    work: NodeWork
    lane: int
    """The place of the stream from which it was captured, in the order in which streams joined; 0 is the origin."""
    after: tuple[int, ...]
    """The places in the graph of the nodes that it comes after at once."""


@attrs.frozen(eq=False)
class CapturedGraph:
    """The record of a capture (cudaGraph_t): nodes in the order of capture, so that edges lead forward."""

    number: int
    device: int
    nodes: tuple[GraphNode, ...]
    tail: tuple[int, ...]
    """The places of the nodes after which the graph is complete."""
    priorities: tuple[int, ...]
    """The priorities of the streams from which it was captured, by lane."""
    uses: tuple[tuple[str, Any], ...] = ()
    """Memory that its nodes use, and what it is to them: it may be freed before a launch."""


@attrs.define(eq=False)
class Capture:
    """A capture in progress."""

    origin: Stream
    mode: CaptureMode
    thread: str
    """The thread that began it."""
    tails: dict[Stream, tuple[int, ...]]
    """The streams of the capture in the order in which they joined, and what the next node of each comes after."""
    nodes: list[GraphNode] = attrs.field(factory=list)
    uses: list[tuple[str, Any]] = attrs.field(factory=list)
    """As in `CapturedGraph`."""
    broken: str | None = None
    """The reason why it is invalid; None while it is valid."""
    ended: bool = False

    def add(self, stream: Stream, work: NodeWork) -> None:
        """Put a node behind everything in a stream of the capture."""
        self.nodes.append(GraphNode(work, [*self.tails].index(stream), self.tails[stream]))
        self.tails[stream] = (len(self.nodes) - 1,)

    def unjoined(self) -> bool:
        """Tell whether there is a node after which nothing in the origin comes."""
        joined: set[int] = set()
        front = [*self.tails[self.origin]]
        while front:
            if (place := front.pop()) not in joined:
                joined.add(place)
                front.extend(self.nodes[place].after)
        return len(joined) < len(self.nodes)


@attrs.frozen(eq=False)
class CapturedMark:
    """An event that was recorded in a capture: behind which nodes."""

    capture: Capture
    after: tuple[int, ...]


@attrs.frozen
class Violation:
    """A call that a capture forbids: the code of its error, and why."""

    code: str
    why: str


class Captures:
    """The captures of one context that have begun and not ended."""

    def __init__(self, order: ImplicitOrder) -> None:
        self._order = order
        self.streams: dict[Stream, Capture] = {}
        """The capturing streams."""

    def begin(self, stream: Stream, mode: CaptureMode, thread: str) -> None:
        """Have a stream capture from now on."""
        self.streams[stream] = Capture(stream, mode, thread, {stream: ()})

    def end(self, capture: Capture) -> None:
        """Have the streams of a capture carry commands out again."""
        capture.ended = True
        for stream in capture.tails:
            self.streams.pop(stream, None)

    def check_call(self, api: str, stream: Stream | None, thread: str) -> Violation | None:
        """Return why a call is forbidden while streams capture, and invalidate the captures that it violates."""
        if stream is not None and (capture := self.streams.get(stream)) is not None and api != _END:
            if capture.broken is not None:
                return Violation(INVALIDATED, f"the capture of stream {stream.index} is invalid: {capture.broken}")
            if (why := _UNCAPTURABLE.get(api)) is not None:
                return self.invalidate(capture, UNSUPPORTED, f"stream {stream.index} is capturing, and {why}")
        for capturing, capture in self.streams.items():
            if stream is not None and stream is self._order.legacy and self._order.blocks(capturing):
                why = f"the legacy default stream would wait for stream {capturing.index}, which is capturing"
                return self.invalidate(capture, IMPLICIT, why)
            mine = capture.mode == "thread_local" and capture.thread == thread
            if api in _UNSAFE and (mine or capture.mode == "global"):
                how = f"stream {capturing.index} is capturing in mode {capture.mode}"
                why = f"calls for memory are unsafe while {how}"
                return self.invalidate(capture, UNSUPPORTED, why)
        return None

    def follow(self, stream: Stream, mark: CapturedMark | None) -> Violation | None:
        """Let what is captured from a stream from now on come after a mark, or return why it cannot.

        mark: None for an event that was recorded outside of captures.  A stream that does not capture joins.
        """
        own = self.streams.get(stream)
        if mark is None:
            why = f"stream {stream.index} is capturing, and the event was recorded outside of the capture"
            return None if own is None else self.invalidate(own, ISOLATION, why)
        capture = mark.capture
        if capture.ended or capture.origin not in self.streams:
            return Violation(CAPTURED_EVENT, "the event was recorded in a capture that has ended, or on another device")
        if own is not None and own is not capture:
            why = f"streams {own.origin.index} and {capture.origin.index} capture different graphs"
            self.invalidate(own, MERGE, why)
            return self.invalidate(capture, MERGE, why)
        if stream is self._order.legacy:
            return self.invalidate(capture, IMPLICIT, "the legacy default stream cannot capture")
        self.streams[stream] = capture
        capture.tails[stream] = tuple(sorted({*capture.tails.get(stream, ()), *mark.after}))
        return None

    @staticmethod
    def invalidate(capture: Capture, code: str, why: str) -> Violation:
        """Invalidate a capture; returns the error of the call that does it."""
        capture.broken = capture.broken or why
        return Violation(code, why)


@attrs.define(eq=False)
class StreamEvent:
    """A mark in a stream, complete when everything before it in the stream is.

    The commands of a stream complete in order, so the packet just before the mark decides, and the
    device never sees an event.  What the packet of a real event takes in the queue is left out.
    """

    stream: Stream
    done: Signal | None
    """Completion of the packet just before the mark; None when there is none."""
    frees: Mapping[int, int] = attrs.field(factory=dict)
    """Which frees of memory pools come before it (``FreeClock.at``)."""
    captured: CapturedMark | None = None
    """Where it stands in a capture, if it was recorded in one; the device never comes to it then."""

    @property
    def is_complete(self) -> bool:
        return self.done is None or self.done.is_set


@attrs.define(eq=False)
class TimedEvent:
    """An event of a CUDA program (cudaEvent_t).

    Unlike the marks of an offloading runtime, it has a packet of its own in the stream, which notes the time.
    """

    number: int
    """Number of the event on its device, in order of creation."""
    device: int
    timing: bool
    """False for cudaEventDisableTiming."""
    blocking_sync: bool
    """Whether a thread that waits for it gives its core up (cudaEventBlockingSync)."""
    mark: StreamEvent | None = None
    """Where it was recorded last; None before."""
    reached: float | None = None
    """When the device came to it, in virtual seconds; None before."""
    destroyed: bool = False


@attrs.define(eq=False)
class BuiltGraph:
    """A graph under construction (cudaGraph_t); a node is known by its place, so that edges lead forward.

    A launch puts nodes into streams.  The driver's way to divide a graph among streams is not documented.  Here a node
    joins the lane whose last node it comes after (of several, the one named first in ``after``), and otherwise opens a
    lane of its own.
    """

    number: int
    device: int
    nodes: list[GraphNode] = attrs.field(factory=list)
    uses: list[tuple[str, Any]] = attrs.field(factory=list)
    """As in `CapturedGraph`."""
    _last: list[int] = attrs.field(factory=list)
    """The place of each lane's last node."""

    def add(self, work: NodeWork, after: Sequence[int]) -> int:
        """Put in a node that comes after others; return its place."""
        place = len(self.nodes)
        free = [lane for lane, last in enumerate(self._last) if last in after]
        if free:
            lane = min(free, key=lambda lane: [*after].index(self._last[lane]))
            self._last[lane] = place
        else:
            lane = len(self._last)
            self._last.append(place)
        self.nodes.append(GraphNode(work, lane, tuple(sorted({*after}))))
        return place

    def finished(self) -> CapturedGraph:
        """Return what can be made executable: the graph as it is now."""
        followed = {place for node in self.nodes for place in node.after}
        tail = tuple(place for place in range(len(self.nodes)) if place not in followed)
        priorities = tuple(0 for _ in self._last) or (0,)
        return CapturedGraph(self.number, self.device, tuple(self.nodes), tail, priorities, tuple(self.uses))
