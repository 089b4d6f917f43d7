"""Events: marks in streams."""

from __future__ import annotations

import attrs

from offloadrt.machine import Stream
from offloadrt.sim import Signal


@attrs.frozen(eq=False)
class StreamEvent:
    """A mark in a stream; complete when everything before it in the stream is, that is, the packet just before it."""

    stream: Stream
    done: Signal | None
    """Completion of that packet; None when there is none."""

    @property
    def is_complete(self) -> bool:
        return self.done is None or self.done.is_set
