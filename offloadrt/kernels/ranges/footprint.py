"""How many different elements some affine accesses touch: unions of runs of neighbouring elements."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]

MOST_RUNS = 1 << 20
"""Beyond that the elements are not counted but bounded."""


@attrs.frozen(eq=False)
class Runs:
    """Runs of neighbouring elements, each of the same length."""

    starts: Whole
    length: int


def runs(offset: int, steps: Iterable[tuple[int, int]]) -> Runs | None:
    """Return the values offset + Σ step·k with 0 <= k < count, for each (step, count); None for too many runs."""
    starts, length = np.array([offset], np.int64), 1
    for step, count in sorted((abs(step), count) for step, count in steps):
        if step <= length:
            length += step * (count - 1)
        elif len(starts) * count > MOST_RUNS:
            return None
        else:
            starts = (starts[:, np.newaxis] + step * np.arange(count, dtype=np.int64)).ravel()
    return Runs(starts, length)


def lowest(offset: int, steps: Iterable[tuple[int, int]]) -> int:
    """Return the offset of the same values when every step counts upwards."""
    for step, count in steps:
        offset += min(0, step * (count - 1))
    return offset


def first_runs(offset: int, steps: Iterable[tuple[int, int]], most: int) -> Runs:
    """Return the same values, at most `most` runs of them: the first ones of the loops with the longest steps."""
    taken, number = [], 1
    length = 1
    for step, count in sorted((abs(step), count) for step, count in steps):
        if step <= length:
            length += step * (count - 1)
        else:
            count = max(1, min(count, most // number))
            number *= count
        taken.append((step, count))
    first = runs(offset, taken)
    assert first is not None
    return first


def union(several: list[Runs]) -> int:
    """Count the different elements that lie in any of them."""
    return covered(*ends(several)) if several else 0


def ends(several: list[Runs]) -> tuple[Whole, Whole]:
    """Return the first element of each run, and the one after its last."""
    starts = np.concatenate([run.starts for run in several])
    return starts, np.concatenate([run.starts + run.length for run in several])


def covered(starts: Whole, after: Whole) -> int:
    """Count the different numbers that lie in some intervals."""
    order = np.argsort(starts, kind="stable")
    starts, after = starts[order], np.maximum.accumulate(after[order])
    begin = np.maximum(starts[1:], after[:-1])
    fresh = np.maximum(after[1:] - begin, 0)
    return int(after[0] - starts[0] + fresh.sum())
