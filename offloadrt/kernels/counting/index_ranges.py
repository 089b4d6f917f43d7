"""The range of an index, as polynomials in what is not known: ``0`` to ``rows*cols - 1``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from offloadrt.kernels.accesses.access import ArrayAccess
from offloadrt.kernels.accesses.frequency import Loop, Path, loops_of
from offloadrt.kernels.algebra.polynomial import Polynomial

Range = tuple[Polynomial, Polynomial]
"""Smallest and largest value, both inclusive."""


def extent(index: Polynomial, path: Path, known: Mapping[str, int]) -> Range | None:
    """Return the smallest and the largest value of an index in a block.

    None when the index is not affine, or runs over data. The range is never narrower than what is touched, and exact
    when no loop is empty and no branch excludes anything. Scalars and lengths that are not `known` are taken not to be
    negative.
    """
    lowest = highest = index.known(known)
    for loop in reversed(loops_of(path)):
        if loop.symbol not in lowest.symbols | highest.symbols:
            continue
        ends = loop_ends(loop, known)
        if ends is None or not all(bound.is_affine_in({loop.symbol}) for bound in (lowest, highest)):
            return None
        down, up = lowest.coefficient(loop.symbol).sign, highest.coefficient(loop.symbol).sign
        if down is None or up is None:
            return None
        lowest = lowest.substitute(loop.symbol, ends[0] if down > 0 else ends[1])
        highest = highest.substitute(loop.symbol, ends[1] if up > 0 else ends[0])
    return lowest, highest


def loop_ends(loop: Loop, known: Mapping[str, int]) -> Range | None:
    """Return the smallest and the largest value of a loop's variable, over the variables around it."""
    if loop.start is None or loop.stop is None:
        return None
    start, stop = loop.start.known(known), loop.stop.known(known)
    if start.constant is not None and stop.constant is not None:
        values = range(start.constant, stop.constant, loop.step)
        last = Polynomial.number(values[-1]) if values else start
    else:
        last = stop - Polynomial.number(1 if loop.step > 0 else -1)
    return (start, last) if loop.step > 0 else (last, start)


def show_ranges(accesses: Iterable[ArrayAccess]) -> str:
    """Write the index ranges of some accesses to one array, one for each dimension: ``1 … n - 2, 0 … m - 1``."""
    dimensions: dict[int, list[Range | None]] = {}
    for access in accesses:
        for dimension, index in enumerate(access.index):
            ends = None if index is None or access.through else extent(index, access.path, {})
            dimensions.setdefault(dimension, []).append(ends)
    return ", ".join(_hull(ranges) for _, ranges in sorted(dimensions.items()))


def _hull(ranges: Sequence[Range | None]) -> str:
    known = [ends for ends in ranges if ends is not None]
    if not known or len(known) < len(ranges):
        return "any"
    lows = reduce(lambda kept, low: _kept(kept, low, 1), (low for low, _ in known), list[Polynomial]())
    highs = reduce(lambda kept, high: _kept(kept, high, -1), (high for _, high in known), list[Polynomial]())
    low = lows[0].show() if len(lows) == 1 else f"min({', '.join(bound.show() for bound in lows)})"
    high = highs[0].show() if len(highs) == 1 else f"max({', '.join(bound.show() for bound in highs)})"
    return low if low == high else f"{low} … {high}"


def _kept(bounds: Sequence[Polynomial], other: Polynomial, direction: int) -> list[Polynomial]:
    """Add a bound to others, and leave out those that are surely not the outermost."""
    if any((other - bound).sign == direction or other == bound for bound in bounds):
        return list(bounds)
    return [bound for bound in bounds if (bound - other).sign != direction] + [other]
