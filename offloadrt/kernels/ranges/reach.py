"""Where a stream's accesses lie in their array: the ranges around them, and the places within these.

A *place* is a run of neighbouring elements. An affine index walks runs at even distances: loops from the smallest step
to the largest either lengthen the run or repeat it (a triangle's runs have their mean length). So it does under
conditions that are ranges of an index, one rectangle or triangle of iterations for each way in which they hold. What
data leave out of it may be anywhere in a range. The range of an access is the smallest that surely
holds it, so a stride and the block of a matrix have all between their first element and their last one in it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from offloadrt.kernels.accesses.access import ArrayAccess
from offloadrt.kernels.accesses.frequency import Loop, loops_of
from offloadrt.kernels.accesses.traffic import Frequency, elements, same_elements
from offloadrt.kernels.algebra import FAR, Cut, Cuts, Polynomial
from offloadrt.kernels.counting import Counting
from offloadrt.kernels.ranges.boxes import alternatives, boxes, loop_ends, projected
from offloadrt.kernels.ranges.touched import flat_index, shape_of


@attrs.frozen
class ElementRuns:
    """Runs of neighbouring elements."""

    count: float
    run: float
    """Elements, on average."""
    even: bool = False
    """At even distances; otherwise anywhere."""
    step: int = 1
    """Each begins at a multiple of so many elements; 0: at the array's first one."""
    among: float = math.inf
    """How many there are, of which a condition chooses these; without an end: not known."""


Range = tuple[int, int]
"""First and last element, both inclusive, in C order."""


@attrs.frozen
class Reach:
    """What a launch touches of an array in one order."""

    ranges: tuple[Range, ...] | None
    """The ranges in which everything lies that it touches, in ascending order; None where data decide."""
    read: tuple[ElementRuns, ...]
    written: tuple[ElementRuns, ...]


@attrs.frozen(eq=False)
class _Stretch:
    """Neighbouring elements that the runs of an access walk: the first ones, and how they are repeated."""

    first: int
    run: float
    count: float
    step: int
    slopes: tuple[tuple[str, int], ...]
    repeats: tuple[tuple[str, float], ...]
    """The loops that do not lengthen the run, and how often each goes round."""


def ranges(
    counting: Counting, accesses: Iterable[ArrayAccess], near: Callable[[ArrayAccess], float]
) -> tuple[Range, ...] | None:
    """Return the ranges in which everything lies that some accesses to one array may touch; None when data decide."""
    pieces: list[Range] = []
    for access in accesses:
        shape = shape_of(counting, access)
        if shape is None:
            return None
        if near(access):
            around = _near_its_iterations(counting, access, shape)
            if around is None:
                return None
            pieces.append(around)
            continue
        sides = boxes(access, counting, shape)
        if sides is None:
            return None
        for box in sides:
            if any(low > high for low, high in box):
                continue
            low, high = (_element([side[end] for side in box], shape) for end in (0, 1))
            pieces.append((low, high))
    return merged(pieces)


def merged(pieces: Iterable[Range]) -> tuple[Range, ...]:
    """Merge ranges that touch one another."""
    apart: list[Range] = []
    for low, high in sorted(pieces):
        if apart and low <= apart[-1][1] + 1:
            apart[-1] = apart[-1][0], max(apart[-1][1], high)
        else:
            apart.append((low, high))
    return tuple(apart)


def even_places(
    counting: Counting, accesses: Sequence[ArrayAccess], frequency: Frequency
) -> tuple[ElementRuns, ...] | None:
    """Return the places of some affine accesses that follow the iterations; None when they cannot be told.

    Runs that touch one another are one place. Of accesses that walk the same elements under the same conditions one
    counts.
    """
    stretches: list[_Stretch] = []
    for alike in same_elements(accesses):
        walked: list[_Stretch] = []
        ways = _ways(counting, alike)
        for loops, cuts, access in ways:
            stretch = _stretch(counting, access, loops, cuts)
            if stretch is None:
                return None
            walked.append(stretch)
        if len(walked) > 1 or any(cuts for _, cuts, _ in ways):
            walked = _joined(walked)
            most, total = max(elements(alike, frequency)), math.fsum([runs.count * runs.run for runs in walked])
            if total > most:  # what happens under several conditions, or where one has a slope
                walked = [attrs.evolve(runs, count=runs.count * most / total) for runs in walked]
        stretches += walked
    return tuple([ElementRuns(runs.count, runs.run, True, runs.step) for runs in _joined(stretches)])


def _ways(counting: Counting, alike: Sequence[ArrayAccess]) -> list[tuple[tuple[Loop, ...], Cuts, ArrayAccess]]:
    """Return the conditions under which accesses walk the same elements, each once: none when they always do."""
    if not all(access.guarded and counting.exact(access.path) for access in alike):
        always = [access for access in alike if not access.guarded]
        access = (always or alike)[0]
        return [(loops_of(access.path), (), access)]
    ways: dict[tuple[tuple[Loop, ...], tuple[Cuts, ...]], ArrayAccess] = {}
    for access in alike:
        ways.setdefault((loops_of(access.path), tuple(alternatives(access.path, counting))), access)
    return [
        (loops, cuts, access)
        for (loops, several), access in ways.items()
        for cuts in several
        if counting.iterations(loops, {}, cuts)
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


def _stretch(counting: Counting, access: ArrayAccess, loops: Sequence[Loop], cuts: Cuts) -> _Stretch | None:
    shape = shape_of(counting, access)
    index = None if shape is None else flat_index(access, shape)
    reached = None if index is None else counting.extent(index, access.path)
    ends = loop_ends(access.path, cuts, counting)
    if index is None or reached is None or ends is None:
        return None
    index, distances = index.known(counting.numbers), dict[Loop, int]()
    lowest = index.value(dict.fromkeys(index.symbols, 0))
    for loop in loops:
        if loop.symbol in index.symbols:
            slope = index.coefficient(loop.symbol).constant
            if slope is None or loop.start is None or loop.symbol not in ends:
                return None
            lowest += min([slope * end for end in ends[loop.symbol]])
            distances[loop] = abs(slope * loop.step)
    slopes = [
        (distance, _trips(counting, _around(counting, loop, loops, distances), cuts, ends), loop)
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
        if not _is_number(loop.start, counting):
            step = 1
        elif any(_begins_at(cut, loop.symbol, index) for cut in cuts):
            step = math.gcd(step, distance)
    by_loop = tuple([(loop.symbol, distance) for loop, distance in distances.items()])
    return _Stretch(first, run, count, step, by_loop, tuple(repeats))


def _begins_at(cut: Cut, symbol: str, index: Polynomial) -> bool:
    """Tell whether a cut makes the first element that a loop comes to depend on the variables of other loops."""
    if symbol not in cut.index.symbols or len(cut.index.symbols) == 1:
        return False
    upwards = cut.index.coefficient(symbol).sign == index.coefficient(symbol).sign
    return cut.low > -FAR // 2 if upwards else cut.high < FAR // 2


def _is_number(bound: Polynomial | None, counting: Counting) -> bool:
    return bound is not None and bound.known(counting.numbers).constant is not None


def _around(
    counting: Counting, loop: Loop, loops: Sequence[Loop], distances: Mapping[Loop, int]
) -> tuple[list[Loop], list[Loop]]:
    """Return the loops that repeat what a loop walks, without and with it.

    They are those with longer steps, whichever is the outer one in the source; those around it where bounds depend on
    one another.
    """
    if not all(_is_number(bound, counting) for each in distances for bound in (each.start, each.stop)):
        place = loops.index(loop)
        return list(loops[:place]), list(loops[: place + 1])
    longer = [each for each in distances if distances[each] > distances[loop]]
    return longer, [each for each in distances if each in longer or each is loop]


def _trips(
    counting: Counting, around: tuple[list[Loop], list[Loop]], cuts: Cuts, ends: Mapping[str, tuple[int, int]]
) -> float:
    """Return the iterations of a loop under some cuts each time that the loops around it leave it any, on average."""
    entered, often = [counting.iterations(loops, {}, projected(cuts, loops, ends)) for loops in around]
    return often / entered if entered else 0.0


def _near_its_iterations(counting: Counting, access: ArrayAccess, shape: Sequence[int]) -> Range | None:
    """Return the range of the loop near whose iteration an index from data lies; None where that is not known.

    The index must be data as it stands. Where anything is computed with the data, or several loops count the
    iterations, it is not known which element is near.
    """
    index = access.node.slice
    if not (isinstance(index, ast.Call) and index.args and isinstance(index.args[0], ast.Subscript)):
        return None
    loops = [loop for loop in loops_of(access.path) if loop.symbol in access.loops]
    if len(shape) != 1 or len(loops) != 1 or not counting.counted(loops[0]):
        return None
    ends = counting.extent(Polynomial.symbol(loops[0].symbol), access.path)
    if ends is None or ends[0] < 0 or ends[0] >= shape[0]:
        return None
    return ends[0], min(ends[1], shape[0] - 1)


def _element(indices: Sequence[int], shape: Sequence[int]) -> int:
    element = 0
    for index, length in zip(indices, shape, strict=True):
        element = element * length + index
    return element
