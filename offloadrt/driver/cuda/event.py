"""Events of CUDA's driver API: marks in streams, and those that a CUDA program records again and again."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from offloadrt.driver.cuda.capture import CapturedMark
from offloadrt.machine import Stream
from offloadrt.sim import Signal


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
