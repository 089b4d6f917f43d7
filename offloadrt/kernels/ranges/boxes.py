"""Rectangles of elements: which ones an access may touch under its guards, and which bytes of an array they are."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from offloadrt.kernels.accesses.access import ArrayAccess
from offloadrt.kernels.accesses.frequency import Branch, Loop, Path, Probability, Within, loops_of
from offloadrt.kernels.algebra import FAR, Cut, Cuts, Polynomial, SymbolicOperation, cut_range, intersection
from offloadrt.kernels.counting import Counting

Box = tuple[tuple[int, int], ...]
"""First and last index in each dimension, both inclusive."""

_NOTHING = (0, -1)

Ranges = tuple[tuple[int, int], ...]
"""Offset and length in bytes of contiguous pieces of an array, in ascending order."""


def boxes(access: ArrayAccess, counting: Counting, shape: Sequence[int]) -> list[Box] | None:
    """Return boxes in which every element lies that an access may touch; None when data decide a place."""
    reached = []
    for cuts in alternatives(access.path, counting):
        ends = loop_ends(access.path, cuts, counting)
        if ends is None:
            continue
        box = [
            _dimension(index, operation, length, cuts, ends, counting)
            for index, operation, length in zip(access.index, access.operations, shape, strict=True)
        ]
        if None in box:
            return None
        reached.append(tuple(side for side in box if side is not None))
    return reached


def alternatives(path: Path, counting: Counting) -> list[Cuts]:
    """Return the cuts under one of which a block runs."""
    ways: list[Cuts] = [()]
    for part in path:
        if isinstance(part, Branch):
            ways = _both(ways, _of_condition(part.probability, counting))
    return ways


def _both(first: list[Cuts], second: list[Cuts]) -> list[Cuts]:
    pairs = [intersection(cuts_of_first, other) for cuts_of_first in first for other in second]
    return [cuts for cuts in dict.fromkeys(pairs) if cuts is not None]


def _of_condition(condition: Probability, counting: Counting, negated: bool = False) -> list[Cuts]:
    """Return the cuts where a condition holds, or where it does not: the `not` of an `and` is an `or`."""
    if condition.kind == "not":
        return _of_condition(condition.parts[0], counting, not negated)
    if condition.kind == "branch":
        parts = [_of_range(within, counting, negated) for within in condition.within] or [[()]]
    else:
        parts = [_of_condition(part, counting, negated) for part in condition.parts]
    if (condition.kind == "or") != negated:
        return list(dict.fromkeys(cuts for part in parts for cuts in part))
    return functools.reduce(_both, parts)


def _of_range(within: Within, counting: Counting, negated: bool) -> list[Cuts]:
    bounds = counting.bounds_of(within)
    if within.index is None or bounds is None:
        return [()]
    low, high = bounds
    ways: list[Cuts] = []
    for first, last in [(-FAR, low - 1), (high + 1, FAR)] if negated else [bounds]:
        cut = Cut.of(within.index.known(counting.numbers), first, last)
        if cut.index.symbols and cut.low <= cut.high:
            ways.append((cut,))
        elif not cut.index.symbols and cut.low <= 0 <= cut.high:
            ways.append(())
    return ways


def loop_ends(path: Path, cuts: Cuts, counting: Counting) -> dict[str, tuple[int, int]] | None:
    """Return the smallest and the largest value of each loop's variable; None when no iteration is left."""
    ends_by_loop: dict[str, tuple[int, int]] = {}
    for loop in loops_of(path):
        ends = counting.extent(Polynomial.symbol(loop.symbol), path[: path.index(loop) + 1])
        if ends is None:
            continue
        values = range(ends[0], ends[1] + 1)
        for cut in cuts:
            if cut.index.symbols == {loop.symbol} and cut.index.is_affine_in({loop.symbol}):
                values = cut_range(values, cut, loop.symbol, {})
        if not values:
            return None
        ends_by_loop[loop.symbol] = values[0], values[-1]
    return ends_by_loop


def projected(cuts: Cuts, loops: Sequence[Loop], ends: Mapping[str, tuple[int, int]]) -> Cuts:
    """Return what some cuts leave of the outer loops of a nest, all other variables being between their `ends`."""
    kept = {loop.symbol for loop in loops}
    kept_cuts: list[Cut] = []
    for cut in cuts:
        inner = sorted(cut.index.symbols - kept)
        low, high = cut.low, cut.high
        for symbol in inner:
            reached = [cut.index.coefficient(symbol).value({}) * end for end in ends[symbol]]
            low, high = low - max(reached), high - min(reached)
        outer = cut.index.without(set(inner))
        if outer.symbols:
            kept_cuts.append(Cut(outer, low, high))
    return functools.reduce(lambda cuts_so_far, other: intersection(cuts_so_far, (other,)) or (), kept_cuts, ())


def _dimension(
    index: Polynomial | None,
    operation: SymbolicOperation | None,
    length: int,
    cuts: Cuts,
    ends: dict[str, tuple[int, int]],
    counting: Counting,
) -> tuple[int, int] | None:
    def ends_of(part: Polynomial) -> tuple[int, int] | None:
        return _ends_of(part.known(counting.numbers), cuts, ends)

    if index is not None:
        constant = index.known(counting.numbers).constant
        if constant is not None:
            place = constant + length if constant < 0 else constant
            return (place, place) if 0 <= place < length else _NOTHING
    reached = ends_of(index) if index is not None else None if operation is None else operation.ends(ends_of)
    if reached is None:
        return None
    low, high = reached
    return (0, length - 1) if low < 0 or high >= length else (int(low), int(high))


def _ends_of(index: Polynomial, cuts: Cuts, ends: Mapping[str, tuple[int, int]]) -> tuple[int, int] | None:
    """Return what an index runs between under some cuts, its loops' variables being between their `ends`."""
    low = high = None
    if index.symbols <= set(ends) and index.is_affine_in(set(ends)):
        low = high = index.value(dict.fromkeys(index.symbols, 0))
        for symbol in sorted(index.symbols):
            slope = index.coefficient(symbol).value({})
            reached = sorted(slope * end for end in ends[symbol])
            low, high = low + reached[0], high + reached[1]
    for cut in cuts:
        shift = (index - cut.index).constant
        if shift is not None:
            low = cut.low + shift if low is None else max(low, cut.low + shift)
            high = cut.high + shift if high is None else min(high, cut.high + shift)
    return None if low is None or high is None else (low, high)


def reaching_as_much(box: Box, others: Sequence[Box]) -> list[bool]:
    """Say by dimension whether a box reaches from the first to the last index of all the others.

    It does not when there are no others: a share comes to the second part of an `or` also where the launch never does.
    """
    if not others:
        return [False] * len(box)
    return [
        side == (min(low for low, _ in sides), max(high for _, high in sides))
        for side, sides in zip(box, zip(*others, strict=True), strict=True)
    ]


def ranges(touched: Iterable[Box], shape: Sequence[int], element_size: int) -> Ranges:
    """Return the bytes of some boxes of an array in C order; pieces that meet are one."""
    starts: list[int] = []
    ends: list[int] = []
    for box in touched:
        if any(low > high for low, high in box):
            continue
        last = len(box) - 1
        while last > 0 and box[last] == (0, shape[last] - 1):
            last -= 1
        inner = element_size
        for length in shape[last + 1 :]:
            inner *= length
        outer = np.zeros(1, np.int64)
        for (low, high), length in zip(box[:last], shape[:last], strict=True):
            outer = (outer[:, np.newaxis] * length + np.arange(low, high + 1)).ravel()
        low, high = box[last]
        begins = (outer * shape[last] + low) * inner
        starts += begins.tolist()
        ends += (begins + (high - low + 1) * inner).tolist()
    pieces: list[tuple[int, int]] = []
    for start, end in sorted(zip(starts, ends, strict=True)):
        if pieces and start <= pieces[-1][1]:
            pieces[-1] = pieces[-1][0], max(end, pieces[-1][1])
        else:
            pieces.append((start, end))
    return tuple((start, end - start) for start, end in pieces)
