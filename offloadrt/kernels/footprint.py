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
    """The values of offset + Σ step·k, for each (step, count) with k from 0 to count - 1. None for too many runs."""
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
    """The offset of the same values when every step counts upwards."""
    for step, count in steps:
        offset += min(0, step * (count - 1))
    return offset


def union(several: list[Runs]) -> int:
    """How many different elements lie in any of them."""
    if not several:
        return 0
    starts = np.concatenate([found.starts for found in several])
    ends = np.concatenate([found.starts + found.length for found in several])
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    covered = np.maximum(starts[1:], ends[:-1])
    fresh = np.maximum(ends[1:] - covered, 0)
    return int(ends[0] - starts[0] + fresh.sum())
