"""What a trace's copies say of a copy engine: the latency of small ones, the bandwidth of large ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from offloadrt.calibration.device_trace import TracedCommand
from offloadrt.calibration.operations import LARGE, SMALL


def latencies(copies: Sequence[TracedCommand]) -> list[float]:
    """Return the seconds of small copies."""
    return [copy.seconds for copy in copies if copy.nbytes <= SMALL]


def rates(copies: Sequence[TracedCommand], direction: str, otherwise: float) -> list[float]:
    """Return the bytes/s of large copies in a direction, or in both if it is empty, besides the latency.

    The latency is that of small copies in that direction, or `otherwise` where the trace has none.
    """
    chosen = [copy for copy in copies if direction in ("", copy.direction)]
    small = latencies(chosen)
    latency = float(np.median(small)) if small else otherwise
    return [
        copy.nbytes / (copy.seconds - latency) for copy in chosen if copy.nbytes >= LARGE and copy.seconds > latency
    ]


def described(copies: Sequence[TracedCommand], which: str, direction: str = "") -> str:
    """Say what kind of copies were measured, as in `copies of pinned memory of 256 KiB and more, h2d`."""
    memories = {copy.pinned for copy in copies}
    of = " of pinned memory" if memories == {True} else " of pageable memory" if memories == {False} else ""
    return f"copies{of} {which}{direction and f', {direction}'}"
