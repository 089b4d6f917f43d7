"""Whether the threads of a loop have come to the state in which they will be for most of it.

Threads that begin together do the same things at the same time, and wait more for one another than later. Small
differences between their instances grow until each thread is somewhere else in its instance. How long that takes does
not show in the instances' times, which stay the same at first; it shows in how far apart the threads are. The measure
is the order parameter of coupled oscillators (Kuramoto, 1975): 1 for threads in step, near 0 for threads anywhere.
Once they are out of step, the instances' times must have stopped changing.
"""

from __future__ import annotations

import cmath
import math
import statistics
from collections.abc import Sequence
from typing import Final

Starts = Sequence[float]
"""The times at which a thread began its instances so far, and at which the last one ended."""

_MIXED: Final = 0.7
"""Order below which threads count as out of step: they are an eighth of an instance apart, as a standard deviation."""
_TOGETHER: Final = 0.1
"""Instances by which threads may be apart at a loop's end and count as in step all the time."""
_UNEVEN: Final = 0.75
"""Threads are uneven when one has done less than this part of the instances that another has done."""
_STEADY: Final = 0.01
"""Part by which instances may differ from those just before and count as steady."""


def order_parameter(starts: Sequence[float], period: float) -> float:
    """Return the order of threads that began an instance at these times; their instances take a period on average."""
    return abs(sum(cmath.exp(2j * math.pi * (start - starts[0]) / period) for start in starts)) / len(starts)


def change(starts: Starts, taken: int) -> float:
    """Return by how many seconds the last instances, `taken` in number, differ on average from as many before them.

    The first instance, in which a thread meets everything for the first time, is none of those before.
    """
    before = min(taken, len(starts) - 2 - taken)
    if before < 1:
        return 0.0
    middle = starts[-1 - taken]
    return (starts[-1] - middle) / taken - (middle - starts[-1 - taken - before]) / before


def has_settled(threads: Sequence[Starts], count: int, taken: int) -> bool:
    """Tell whether threads are uneven, in step until a loop of `count` instances ends, or out of step and steady.

    Threads are steady when the last instances of each, `taken` in number, take as long as those before.
    """
    if len(threads) < 2:
        return True
    done, most = (extreme(map(len, threads)) - 1 for extreme in (min, max))
    if done + 1 <= _UNEVEN * most:
        return True  # threads whose instances differ were never in step; later, the fast ones will be through
    period = statistics.fmean((starts[done] - starts[0]) / done for starts in threads) if done else 0.0
    if period <= 0.0:
        return False
    latest = [starts[done] for starts in threads]
    if statistics.pstdev(latest) / period * count / done <= _TOGETHER:
        return True
    return order_parameter(latest, period) <= _MIXED and _is_steady(threads, taken)


def _is_steady(threads: Sequence[Starts], taken: int) -> bool:
    known = [starts for starts in threads if len(starts) >= 2 * taken + 2]
    if not known:
        return False
    changed = statistics.fmean(change(starts, taken) * taken / (starts[-1] - starts[-1 - taken]) for starts in known)
    return abs(changed) <= _STEADY
