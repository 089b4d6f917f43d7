"""Where the accesses of a launch lie in their arrays.

`boxes` gives the rectangles of elements that an access may touch under its conditions. `touched` counts the different
elements, as unions of runs of elements. `Reach` has the ranges that accesses of one order touch, and the runs of
neighbouring elements in them. `outside` finds an access that certainly leaves its array.

isl (islpy) was tried for boxes and touched elements. isl is exact under conditions, where this module bounds, but it
takes two to three times as long on a guarded stencil. isl has no products of variables, so both would have to stay.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels.accesses import (
    ArrayAccess,
    Branch,
    Condition,
    Frequency,
    Loop,
    Path,
    Within,
    elements,
    loops_of,
    same_elements,
)
from offloadrt.kernels.algebra import FAR, Cut, Cuts, Polynomial, SymbolicOperation, cut_range, intersection
from offloadrt.kernels.array_use import IndexOutOfRange
from offloadrt.kernels.counting import CountedLaunch


@attrs.frozen
class Outside:
    """An access (`text`) outside its array: along `dimension` the index is `low` to `high`, the array `length` long."""

    array: str
    position: int
    """The array's position among the kernel's arguments."""
    text: str
    line: int
    dimension: int
    low: int
    high: int
    length: int

    def error(self, kernel: str, file: str, argument: Any) -> IndexOutOfRange:
        """Return the error for a launch that goes past the ends of `argument`. kernel, file: names for the message."""
        where = f" of dimension {self.dimension + 1}" if len(argument.shape) > 1 else ""
        name = getattr(argument, "name", self.array)
        called = "" if name == self.array else f" (parameter {self.array})"
        return IndexOutOfRange(
            f"{file}:{self.line}: kernel {kernel!r}: {self.text} is out of bounds: its index runs from {self.low} to "
            f"{self.high}, but array {name!r}{called} has {self.length} elements{where}"
        )


def outside(
    launch: CountedLaunch, accesses: Sequence[ArrayAccess], position: int, shape: Sequence[int] | None
) -> Outside | None:
    """Return the first access of a launch to one array whose index certainly passes an end of the array, or None.

    accesses: all accesses to the array. shape: the array's lengths; None if unknown. position: the array's position
    among the kernel's arguments. Negative indices down to -length count from the end.
    """
    corners: dict[tuple[int, ...], list[dict[str, int]]] = {}
    seen: set[tuple[object, ...]] = set()
    for access in accesses:
        if shape is None or len(access.index) != len(shape):
            continue
        blocks = tuple(map(id, access.path))
        if access.guarded or (access.index, blocks) in seen:
            continue
        seen.add((access.index, blocks))
        if blocks not in corners:
            corners[blocks] = list(_corners(launch, access.path, launch.numbers))
        for dimension, (index, length) in enumerate(zip(access.index, shape, strict=True)):
            if index is None or not corners[blocks] or not index.symbols <= corners[blocks][0].keys():
                continue
            values = [index.value(corner) for corner in corners[blocks]]
            low, high = min(values), max(values)
            if low < -length or high >= length:
                return Outside(access.array, position, access.text, access.line, dimension, low, high, int(length))
    return None


def happens(launch: CountedLaunch, accesses: Sequence[ArrayAccess]) -> bool:
    """Tell whether one of these accesses certainly takes place in the launch."""
    for access in accesses:
        if access.guarded:
            if launch.exact(access.path) and launch.runs(access.path):
                return True
        elif next(_corners(launch, access.path, launch.numbers), None) is not None:
            return True
    return False


def _corners(launch: CountedLaunch, path: Path, known: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yield the loop variables of those iterations of a block that are first or last in every loop.

    Yields nothing where these iterations are not certain.
    """
    if not path:
        yield dict(known)
        return
    loop, inner = path[0], path[1:]
    assert not isinstance(loop, Branch)
    values = launch.range_of(loop, known)
    for value in sorted({values[0], values[-1]}) if values else ():
        yield from _corners(launch, inner, {**known, loop.symbol: value})


Box = tuple[tuple[int, int], ...]
"""First and last index in each dimension, both inclusive."""

_NOTHING = (0, -1)

Ranges = tuple[tuple[int, int], ...]
"""Offset and length in bytes of contiguous pieces of an array, in ascending order."""


def boxes(access: ArrayAccess, launch: CountedLaunch, shape: Sequence[int]) -> list[Box] | None:
    """Return boxes, (low, high) by dimension, of all elements that an access may touch in a launch; None if unknown."""
    reached = []
    for cuts in alternatives(access.path, launch):
        ends = loop_ends(access.path, cuts, launch)
        if ends is None:
            continue
        box = [
            _dimension(index, operation, length, cuts, ends, launch)
            for index, operation, length in zip(access.index, access.operations, shape, strict=True)
        ]
        if None in box:
            return None
        reached.append(tuple(side for side in box if side is not None))
    return reached


def alternatives(path: Path, launch: CountedLaunch) -> list[Cuts]:
    """Return when the code inside the loops and branches `path` runs in a launch, as alternatives.

    The code runs where all conditions (cuts) of at least one of the returned sets hold.
    """
    ways: list[Cuts] = [()]
    for part in path:
        if isinstance(part, Branch):
            ways = _both(ways, _of_condition(part.condition, launch))
    return ways


def _both(first: list[Cuts], second: list[Cuts]) -> list[Cuts]:
    pairs = [intersection(cuts_of_first, other) for cuts_of_first in first for other in second]
    return [cuts for cuts in dict.fromkeys(pairs) if cuts is not None]


def _of_condition(condition: Condition, launch: CountedLaunch, negated: bool = False) -> list[Cuts]:
    """Return the parts of the loops (`Cuts`) in which a branch's condition holds, or fails if `negated`."""
    if condition.kind == "not":
        return _of_condition(condition.parts[0], launch, not negated)
    if condition.kind == "branch":
        parts = [_of_range(within, launch, negated) for within in condition.within] or [[()]]
    else:
        parts = [_of_condition(part, launch, negated) for part in condition.parts]
    if (condition.kind == "or") != negated:
        return list(dict.fromkeys(cuts for part in parts for cuts in part))
    return functools.reduce(_both, parts)


def _of_range(within: Within, launch: CountedLaunch, negated: bool) -> list[Cuts]:
    bounds = launch.bounds_of(within)
    if within.index is None or bounds is None:
        return [()]
    low, high = bounds
    ways: list[Cuts] = []
    for first, last in [(-FAR, low - 1), (high + 1, FAR)] if negated else [bounds]:
        cut = Cut.of(within.index.known(launch.numbers), first, last)
        if cut.index.symbols and cut.low <= cut.high:
            ways.append((cut,))
        elif not cut.index.symbols and cut.low <= 0 <= cut.high:
            ways.append(())
    return ways


def loop_ends(path: Path, cuts: Cuts, launch: CountedLaunch) -> dict[str, tuple[int, int]] | None:
    """Return the smallest and largest value of each loop's variable where all `cuts` (conditions) hold, by symbol.

    path: the loops and branches concerned. None if the conditions never hold together in the launch.
    """
    ends_by_loop: dict[str, tuple[int, int]] = {}
    for loop in loops_of(path):
        ends = launch.extent(Polynomial.symbol(loop.symbol), path[: path.index(loop) + 1])
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
    """Return the conditions (cuts) that `cuts` imply for the variables of `loops` alone.

    ends: the smallest and largest value of each other variable, which is eliminated.
    """
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
    launch: CountedLaunch,
) -> tuple[int, int] | None:
    def ends_of(part: Polynomial) -> tuple[int, int] | None:
        return _ends_of(part.known(launch.numbers), cuts, ends)

    if index is not None:
        constant = index.known(launch.numbers).constant
        if constant is not None:
            element = constant + length if constant < 0 else constant
            return (element, element) if 0 <= element < length else _NOTHING
    reached = ends_of(index) if index is not None else None if operation is None else operation.ends(ends_of)
    if reached is None:
        return None
    low, high = reached
    return (0, length - 1) if low < 0 or high >= length else (int(low), int(high))


def _ends_of(index: Polynomial, cuts: Cuts, ends: Mapping[str, tuple[int, int]]) -> tuple[int, int] | None:
    """Return the bounds of an index under some cuts, its loops' variables being within their `ends`."""
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


Whole = NDArray[np.int64]

MOST_RUNS = 1 << 20
"""Number of runs above which the touched elements are bounded instead of counted."""


@attrs.frozen(eq=False)
class Runs:
    """Stretches of neighbouring elements: the element at which each one starts, and the length that all have."""

    starts: Whole
    length: int


def runs(offset: int, steps: Iterable[tuple[int, int]]) -> Runs | None:
    """Return the elements that nested loops visit, offset + Σ step·k, as stretches of neighbouring elements.

    steps: the (step, count) of each loop, whose k goes from 0 to count - 1. None for more than `MOST_RUNS` stretches.
    """
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
    """Return the smallest value of offset + Σ step·k over all k.

    steps: the (step, count) of each loop, whose k goes from 0 to count - 1; a step may be negative.
    """
    for step, count in steps:
        offset += min(0, step * (count - 1))
    return offset


def first_runs(offset: int, steps: Iterable[tuple[int, int]], most: int) -> Runs:
    """Return elements that nested loops visit, offset + Σ step·k, as at most `most` stretches of neighbouring elements.

    steps: the (step, count) of each loop, whose k goes from 0 to count - 1. If there are more stretches, the loops with
    the longest steps run only their first iterations.
    """
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
    """Count the different elements in several sets of runs (stretches of elements) together."""
    return covered(*ends(several)) if several else 0


def ends(several: list[Runs]) -> tuple[Whole, Whole]:
    """Return the first element of each run (stretch) in all the sets, and the element behind each run's last one."""
    starts = np.concatenate([run.starts for run in several])
    return starts, np.concatenate([run.starts + run.length for run in several])


def covered(starts: Whole, after: Whole) -> int:
    """Return how many whole numbers lie in at least one interval [`starts`[k], `after`[k])."""
    order = np.argsort(starts, kind="stable")
    starts, after = starts[order], np.maximum.accumulate(after[order])
    begin = np.maximum(starts[1:], after[:-1])
    fresh = np.maximum(after[1:] - begin, 0)
    return int(after[0] - starts[0] + fresh.sum())


Shape = Sequence[int] | None


def shape_of(launch: CountedLaunch, access: ArrayAccess) -> tuple[int, ...] | None:
    """Return the accessed array's shape in a launch; None if unknown, or if the access has more or fewer indices."""
    names = [f"{access.array}.shape[{dimension}]" for dimension in range(len(access.index) + 1)]
    if names[-1] in launch.numbers or any(name not in launch.numbers for name in names[:-1]):
        return None
    return tuple([launch.numbers[name] for name in names[:-1]])


def flat_index(access: ArrayAccess, shape: Shape) -> Polynomial | None:
    """Return the access's position in the array in C order; None if it is not affine in the loops."""
    if len(access.index) > 1 and (shape is None or len(shape) != len(access.index)):
        return None
    flat = Polynomial.number(0)
    for dimension, index in enumerate(access.index):
        if index is None:
            return None
        length = Polynomial.number(int(shape[dimension]) if shape is not None else 1)
        from_the_end = shape is not None and (index.constant or 0) < 0
        flat = flat * length + (index + length if from_the_end else index)
    return flat


def range_around(
    launch: CountedLaunch, accesses: Sequence[ArrayAccess], shape: Shape, size: int | None,
    kind: Literal["read", "write"],
) -> tuple[int, int] | None:  # fmt: skip
    """Return the first and last element of an array that a launch's loads (or stores, by `kind`) may touch.

    size: the array's number of elements; the result is the whole array if one access's elements are unknown.
    """
    indices = [
        (None if _wraps_midway(launch, access) else flat_index(access, shape), access.path)
        for access in accesses
        if access.kind == kind and launch.runs(access.path)
    ]
    ranges = [None if index is None else launch.extent(index, path) for index, path in indices]
    known = [ends for ends in ranges if ends is not None]
    if not ranges:
        return None
    if len(known) < len(ranges):
        return None if not size else (0, size - 1)
    low, high = min(low for low, _ in known), max(high for _, high in known)
    return low, high if size is None else min(high, size - 1)


def touched(
    launch: CountedLaunch, accesses: Sequence[ArrayAccess], shape: Shape, size: int | None
) -> tuple[float, bool]:
    """Return how many elements of an array (`size` in all) a launch's accesses touch, and whether that is exact.

    The number is an upper bound where conditions or array contents decide which elements are touched.
    """
    surely: list[Runs] = []
    perhaps: list[Runs | None] = []
    at_most = 0.0
    seen: set[tuple[object, ...]] = set()
    for access in accesses:
        often = launch.runs(access.path)
        if not often:
            continue
        key = (access.index, access.loops, access.path) if None not in access.index else (access.text, access.path)
        if key in seen:
            continue
        seen.add(key)
        wraps = _wraps_midway(launch, access)
        steps = None if wraps else steps_of(launch, access, shape)
        around = steps if wraps or steps else steps_of(launch, access, shape, around=True)
        elements = None if around is None else runs(lowest(*around), around[1])
        if elements is not None and steps is not None and not access.guarded:
            surely.append(elements)
            continue
        perhaps.append(elements)
        flat = flat_index(access, shape)
        reached = None if flat is None else launch.extent(flat, access.path)
        limits = [often] if reached is None else [often, reached[1] - reached[0] + 1]
        at_most += min(limits if elements is None else [*limits, len(elements.starts) * elements.length])
    total = union(surely) + at_most
    known = [elements for elements in perhaps if elements is not None]
    if known and len(known) == len(perhaps):
        total = min(total, union(surely + known))
    return (total if size is None else min(total, float(size))), not perhaps


def _wraps_midway(launch: CountedLaunch, access: ArrayAccess) -> bool:
    """Tell whether an index is negative in some iterations only, or in all although its constant term is not."""
    for index in access.index:
        reached = None if index is None else launch.extent(index, access.path)
        midway = reached is not None and reached[0] < 0 <= reached[1]
        if midway or (index is not None and reached is not None and reached[1] < 0 <= (index.constant or 0)):
            return True
    return False


def steps_of(
    launch: CountedLaunch, access: ArrayAccess, shape: Shape, *, around: bool = False
) -> tuple[int, list[tuple[int, int]]] | None:
    """Return an access's index as (first value, [(step, count) for each loop around it]); None if it is not affine.

    shape: the array's shape. Each count is the loop's number of iterations in the launch. If it depends on an outer
    variable, the result is None; with `around`, the loop is taken to run over all values that its variable ever has.
    """
    flat = flat_index(access, shape)
    bounded = any(isinstance(part, Branch) and part.of_loop for part in access.path)
    if flat is None or access.through or (bounded and not around):
        return None
    index, steps = flat.known(launch.numbers), []
    for loop in reversed(loops_of(access.path)):
        slope = index.coefficient(loop.symbol).constant
        if slope is None or loop.start is None or loop.stop is None:
            return None
        start = loop.start.known(launch.numbers)
        trips, step = (loop.stop - loop.start).known(launch.numbers).constant, loop.step
        if trips is None:
            reached = launch.extent(Polynomial.symbol(loop.symbol), access.path) if around else None
            if reached is None:
                return None
            step = step if start.constant is not None else 1
            start, trips = Polynomial.number(reached[step < 0]), (reached[1] - reached[0] + 1) * (1 if step > 0 else -1)
        index = index.substitute(loop.symbol, start)
        steps.append((slope * step, len(range(0, trips, step))))
    first = index.constant
    return None if first is None else (first, steps[::-1])


@attrs.frozen
class ElementRuns:
    """The elements of one array that a launch touches: `count` stretches (runs) of neighbouring elements."""

    count: float
    run: float
    """Average number of elements in a run."""
    even: bool = False
    """Whether the runs are evenly spaced."""
    step: int = 1
    """Each run begins at a multiple of this number of elements; 0 if all begin at the array's first element."""
    among: float = math.inf
    """Number of runs if no condition excluded any; infinite when not known."""


Range = tuple[int, int]
"""First and last element, both inclusive, in C order."""


@attrs.frozen
class Reach:
    """The elements of an array that a launch touches: the ranges of indices, and the stretches read and written."""

    ranges: tuple[Range, ...] | None
    """Ranges that contain all touched elements, in ascending order; None where data decide."""
    read: tuple[ElementRuns, ...]
    written: tuple[ElementRuns, ...]


@attrs.frozen(eq=False)
class _Stretch:
    """Runs of contiguous elements that one access walks: the first run, and the loops that repeat it."""

    first: int
    run: float
    count: float
    step: int
    slopes: tuple[tuple[str, int], ...]
    repeats: tuple[tuple[str, float], ...]
    """The loops that do not lengthen the run, with the trips of each."""


def reached_ranges(
    launch: CountedLaunch, accesses: Iterable[ArrayAccess], near: Callable[[ArrayAccess], float]
) -> tuple[Range, ...] | None:
    """Return ranges that contain all elements that a launch's accesses may touch; None if array contents decide that.

    near: returns for an access the fraction of its executions whose element lies near their iteration, as the hint
    ``expect(index, near=...)`` says. Such an index is read from data, but is taken to lie within its loop's range.
    """
    pieces: list[Range] = []
    for access in accesses:
        shape = shape_of(launch, access)
        if shape is None:
            return None
        if near(access):
            around = _near_its_iterations(launch, access, shape)
            if around is None:
                return None
            pieces.append(around)
            continue
        sides = boxes(access, launch, shape)
        if sides is None:
            return None
        for box in sides:
            if any(low > high for low, high in box):
                continue
            low, high = (_element([side[end] for side in box], shape) for end in (0, 1))
            pieces.append((low, high))
    return merged(pieces)


def merged(pieces: Iterable[Range]) -> tuple[Range, ...]:
    """Return `pieces` with those ranges merged that overlap or touch."""
    apart: list[Range] = []
    for low, high in sorted(pieces):
        if apart and low <= apart[-1][1] + 1:
            apart[-1] = apart[-1][0], max(apart[-1][1], high)
        else:
            apart.append((low, high))
    return tuple(apart)


def even_places(
    launch: CountedLaunch, accesses: Sequence[ArrayAccess], frequency: Frequency
) -> tuple[ElementRuns, ...] | None:
    """Return the runs of neighbouring elements that affine accesses to one array touch in a launch; None if not known.

    Runs that touch one another are one run. Accesses that visit the same elements under the same conditions count once.
    frequency: how often an access runs in an iteration (`Frequency`).
    """
    stretches: list[_Stretch] = []
    for alike in same_elements(accesses):
        walked: list[_Stretch] = []
        ways = _ways(launch, alike)
        for loops, cuts, access in ways:
            stretch = _stretch(launch, access, loops, cuts)
            if stretch is None:
                return None
            walked.append(stretch)
        if len(walked) > 1 or any(cuts for _, cuts, _ in ways):
            walked = _joined(walked)
            most, total = max(elements(alike, frequency)), math.fsum([runs.count * runs.run for runs in walked])
            if total > most:  # counted too often: under several conditions, or under one with a slope
                walked = [attrs.evolve(runs, count=runs.count * most / total) for runs in walked]
        stretches += walked
    return tuple([ElementRuns(runs.count, runs.run, True, runs.step) for runs in _joined(stretches)])


def _ways(launch: CountedLaunch, alike: Sequence[ArrayAccess]) -> list[tuple[tuple[Loop, ...], Cuts, ArrayAccess]]:
    """Return (loops, cuts, access) for each condition under which accesses to the same elements happen, each once."""
    if not all(access.guarded and launch.exact(access.path) for access in alike):
        always = [access for access in alike if not access.guarded]
        access = (always or alike)[0]
        return [(loops_of(access.path), (), access)]
    ways: dict[tuple[tuple[Loop, ...], tuple[Cuts, ...]], ArrayAccess] = {}
    for access in alike:
        ways.setdefault((loops_of(access.path), tuple(alternatives(access.path, launch))), access)
    return [
        (loops, cuts, access)
        for (loops, several), access in ways.items()
        for cuts in several
        if launch.iterations(loops, {}, cuts)
    ]


def _joined(stretches: Iterable[_Stretch]) -> list[_Stretch]:
    """Join the stretches that touch one another."""
    joined: list[_Stretch] = []
    for stretch in sorted(stretches, key=lambda stretch: (stretch.slopes, stretch.repeats, stretch.first)):
        last = joined[-1] if joined else None
        alike = last is not None and (last.slopes, last.repeats) == (stretch.slopes, stretch.repeats)
        if last is not None and alike and stretch.first <= last.first + last.run:
            run = max(last.run, stretch.first + stretch.run - last.first)
            joined[-1] = attrs.evolve(last, run=run, count=max(last.count, stretch.count))
        else:
            joined.append(stretch)
    return joined


def _stretch(launch: CountedLaunch, access: ArrayAccess, loops: Sequence[Loop], cuts: Cuts) -> _Stretch | None:
    shape = shape_of(launch, access)
    index = None if shape is None else flat_index(access, shape)
    reached = None if index is None else launch.extent(index, access.path)
    ends = loop_ends(access.path, cuts, launch)
    if index is None or reached is None or ends is None:
        return None
    index, distances = index.known(launch.numbers), dict[Loop, int]()
    lowest = index.value(dict.fromkeys(index.symbols, 0))
    for loop in loops:
        if loop.symbol in index.symbols:
            slope = index.coefficient(loop.symbol).constant
            if slope is None or loop.start is None or loop.symbol not in ends:
                return None
            lowest += min([slope * end for end in ends[loop.symbol]])
            distances[loop] = abs(slope * loop.step)
    slopes = [
        (distance, _trips(launch, _around(launch, loop, loops, distances), cuts, ends), loop)
        for loop, distance in distances.items()
    ]
    first = max(reached[0], lowest) if cuts else reached[0]
    run = count = 1.0
    step, repeats = first, list[tuple[str, float]]()
    for distance, trips, loop in sorted(slopes, key=lambda slope: slope[:2]):
        if distance <= run:
            run += distance * (trips - 1.0)
        else:
            count *= trips
            step = math.gcd(step, distance)
            repeats.append((loop.symbol, trips))
        if not _is_number(loop.start, launch):
            step = 1
        elif any(_begins_at(cut, loop.symbol, index) for cut in cuts):
            step = math.gcd(step, distance)
    by_loop = tuple([(loop.symbol, distance) for loop, distance in distances.items()])
    return _Stretch(first, run, count, step, by_loop, tuple(repeats))


def _begins_at(cut: Cut, symbol: str, index: Polynomial) -> bool:
    """Tell whether, by a cut, the first element of a loop depends on the variables of other loops."""
    if symbol not in cut.index.symbols or len(cut.index.symbols) == 1:
        return False
    upwards = cut.index.coefficient(symbol).sign == index.coefficient(symbol).sign
    return cut.low > -FAR // 2 if upwards else cut.high < FAR // 2


def _is_number(bound: Polynomial | None, launch: CountedLaunch) -> bool:
    return bound is not None and bound.known(launch.numbers).constant is not None


def _around(
    launch: CountedLaunch, loop: Loop, loops: Sequence[Loop], distances: Mapping[Loop, int]
) -> tuple[list[Loop], list[Loop]]:
    """Return the loops around which a loop's run of elements repeats, first without and then with that loop.

    These are the loops with longer steps, whichever is the outer one in the source. Where bounds depend on one another,
    these are the loops around it.
    """
    if not all(_is_number(bound, launch) for each in distances for bound in (each.start, each.stop)):
        depth = loops.index(loop)
        return list(loops[:depth]), list(loops[: depth + 1])
    longer = [each for each in distances if distances[each] > distances[loop]]
    return longer, [each for each in distances if each in longer or each is loop]


def _trips(
    launch: CountedLaunch, around: tuple[list[Loop], list[Loop]], cuts: Cuts, ends: Mapping[str, tuple[int, int]]
) -> float:
    """Return a loop's average number of iterations under some cuts, where the loops `around` it leave it any."""
    entered, often = [launch.iterations(loops, {}, projected(cuts, loops, ends)) for loops in around]
    return often / entered if entered else 0.0


def _near_its_iterations(launch: CountedLaunch, access: ArrayAccess, shape: Sequence[int]) -> Range | None:
    """Return the elements that an index declared near its loop's iteration (`expect`) reaches; None if unknown.

    These are the loop's range, clipped to the array. The index must be unmodified data, in one dimension and one loop.
    """
    index = access.node.slice
    if not (isinstance(index, ast.Call) and index.args and isinstance(index.args[0], ast.Subscript)):
        return None
    loops = [loop for loop in loops_of(access.path) if loop.symbol in access.loops]
    if len(shape) != 1 or len(loops) != 1 or not launch.counted(loops[0]):
        return None
    ends = launch.extent(Polynomial.symbol(loops[0].symbol), access.path)
    if ends is None or ends[0] < 0 or ends[0] >= shape[0]:
        return None
    return ends[0], min(ends[1], shape[0] - 1)


def _element(indices: Sequence[int], shape: Sequence[int]) -> int:
    element = 0
    for index, length in zip(indices, shape, strict=True):
        element = element * length + index
    return element
