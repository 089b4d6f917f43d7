"""Events as a CUDA program makes them: it records one again and again, and asks when the device came to it."""

from __future__ import annotations

import attrs

from offloadrt.driver.cuda.event import StreamEvent


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
