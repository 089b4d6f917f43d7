"""What measurements say of an entry: median, spread and count.

Everything here is a median or a quantile, because traces hold first calls, interrupts and page faults of the host,
which are few and a thousand times longer than the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np

from offloadrt.machine import MachineSpec

LEAST: Final = 3
"""Values that an entry needs, but for what happens once in a program's life."""
_GAP: Final = 5.0
"""Two groups of calls are told apart where no call takes between a time and this many times it."""
_MINORITY: Final = 0.1
"""Part of the calls that the smaller one of two groups has at least; fewer are outliers."""


@attrs.frozen
class Measurement:
    """What one file says of one entry of a profile, in SI units."""

    key: str
    value: float
    """The median."""
    low: float
    high: float
    """The tenth and the ninetieth percentile."""
    count: int
    """Operations that were measured."""
    what: str
    """What was measured, as in `cudaLaunchKernel calls`."""


def measurement(key: str, values: Sequence[float], what: str, least: int = LEAST) -> Measurement | None:
    """Return what values say of an entry; None if they are too few, or are no cost."""
    return _measurement(key, values, what, len(values)) if len(values) >= least else None


def _measurement(key: str, values: Sequence[float], what: str, count: int) -> Measurement | None:
    low, median, high = np.quantile(values, [0.1, 0.5, 0.9]).tolist()
    return Measurement(key, median, low, high, count, what) if median > 0 else None


@attrs.frozen
class LinearCost:
    """A cost that is a line over sizes."""

    intercepts: list[float]
    """What a call takes besides its size, by each call of a small one."""
    slopes: list[float]
    """What a unit of size adds, by each two sizes."""
    count: int
    """The operations from which both were made."""

    def fixed(self, key: str, what: str) -> Measurement | None:
        """Return the part that does not depend on the size; None if it is nothing."""
        return _measurement(key, self.intercepts, what, self.count)

    def per_unit(self, key: str, what: str) -> Measurement | None:
        """Return what a unit of size adds; None if it is nothing."""
        return _measurement(key, self.slopes, what, self.count)


def linear_cost(points: Sequence[tuple[float, float]], count: int | None = None) -> LinearCost | None:
    """Fit a line to (size, seconds) by Theil's and Sen's median of slopes between sizes.

    `count`: the operations behind the points, where these are medians. Return None where the sizes do not tell the two
    parts apart: they have to span a factor of four.
    """
    by_size = defaultdict(list)
    for size, seconds in points:
        by_size[size].append(seconds)
    sizes = sorted(by_size)
    if len(points) < LEAST or not sizes or sizes[-1] < 4 * sizes[0]:
        return None
    medians = {size: float(np.median(by_size[size])) for size in sizes}
    slopes = [
        (medians[large] - medians[small]) / (large - small)
        for at, small in enumerate(sizes)
        for large in sizes[at + 1 :]
        if large >= 2 * small
    ]
    slope = float(np.median(slopes))
    intercepts = [seconds - slope * size for size, seconds in points if size <= 2 * sizes[0]]
    return LinearCost(intercepts, slopes, count or len(points))


def two_groups(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Divide times at their widest gap, if they have one; otherwise the second group is empty.

    An allocation either finds memory that the driver holds or calls the kernel driver, which takes many times as long.
    """
    ordered = np.sort(np.asarray(values, float))
    fewest = max(LEAST, int(len(ordered) * _MINORITY))
    if len(ordered) < 2 * fewest or ordered[0] <= 0:
        return ordered.tolist(), []
    ratios = ordered[fewest : len(ordered) - fewest + 1] / ordered[fewest - 1 : len(ordered) - fewest]
    at = int(np.argmax(ratios)) + fewest
    if ordered[at] < _GAP * ordered[at - 1]:
        return ordered.tolist(), []
    return ordered[:at].tolist(), ordered[at:].tolist()


def nearer_to(spec: MachineSpec, value: float, key: str, other: float) -> bool:
    """Return whether a time is nearer, by ratio, to an entry of the base profile than to another time."""
    return (
        value * value < spec.value(key) * other if spec.value(key) < other else value * value > spec.value(key) * other
    )
