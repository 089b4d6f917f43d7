"""Where a stream's accesses lie in their array: the ranges around them, and the places within these.

A *place* is a run of neighbouring elements. An affine index that no branch guards walks runs at even distances: loops
from the smallest step to the largest either lengthen the run or repeat it (a triangle's runs have their mean length).
What a branch or data leave out of it may be anywhere in a range. The range of an access is the smallest that surely
holds it, so a stride and the block of a matrix have all between their first element and their last one in it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from offloadrt.kernels.accesses import Access
from offloadrt.kernels.boxes import boxes
from offloadrt.kernels.counting import Counting
from offloadrt.kernels.frequency import Loop
from offloadrt.kernels.polynomial import Polynomial
from offloadrt.kernels.traffic import streams


@attrs.frozen
class Places:
    """Runs of neighbouring elements."""

    count: float
    run: float
    """Elements, on average."""
    even: bool = False
    """At even distances; otherwise anywhere."""
    step: int = 1
    """Each begins at a multiple of so many elements; 0: at the array's first one."""


Range = tuple[int, int]
"""First and last element, both inclusive, in C order."""


@attrs.frozen
class Reach:
    """What a launch touches of an array in one order."""

    ranges: tuple[Range, ...] | None
    """In which everything lies that it touches, in ascending order; None where data decide."""
    read: tuple[Places, ...]
    written: tuple[Places, ...]


@attrs.frozen(eq=False)
class _Stretch:
    """Neighbouring elements that the runs of an access walk: the first ones, and how they are repeated."""

    first: int
    run: float
    count: float
    step: int
    slopes: tuple[tuple[str, int], ...]


def ranges(counting: Counting, accesses: Iterable[Access], near: Callable[[Access], float]) -> tuple[Range, ...] | None:
    """In which everything lies that some accesses to one array may touch; None when data decide."""
    found: list[Range] = []
    for access in accesses:
        shape = _shape(counting, access)
        if shape is None:
            return None
        if near(access):
            around = _near_its_iterations(counting, access, shape)
            if around is None:
                return None
            found.append(around)
            continue
        sides = boxes(access, counting, shape)
        if sides is None:
            return None
        for box in sides:
            low, high = (_element([side[end] for side in box], shape) for end in (0, 1))
            found.append((low, high))
    return merged(found)


def merged(found: Iterable[Range]) -> tuple[Range, ...]:
    """The same elements in ranges that do not touch one another."""
    apart: list[Range] = []
    for low, high in sorted(found):
        if apart and low <= apart[-1][1] + 1:
            apart[-1] = apart[-1][0], max(apart[-1][1], high)
        else:
            apart.append((low, high))
    return tuple(apart)


def even_places(counting: Counting, accesses: Sequence[Access]) -> tuple[Places, ...] | None:
    """The places of some affine accesses that happen in every iteration; None when they cannot be told.

    Runs that touch one another are one place; of accesses that walk the same elements one counts.
    """
    stretches: list[_Stretch] = []
    for alike in streams(accesses):
        found = _stretch(counting, alike[0])
        if found is None:
            return None
        stretches.append(found)
    stretches.sort(key=lambda one: (one.slopes, one.first))
    places: list[_Stretch] = []
    for one in stretches:
        last = places[-1] if places else None
        if last is not None and last.slopes == one.slopes and one.first <= last.first + last.run:
            run = max(last.run, one.first + one.run - last.first)
            places[-1] = attrs.evolve(last, run=run, count=max(last.count, one.count))
        else:
            places.append(one)
    return tuple([Places(one.count, one.run, True, one.step) for one in places])


def _stretch(counting: Counting, access: Access) -> _Stretch | None:
    shape = _shape(counting, access)
    index = None if shape is None else _flat(access, shape)
    ends = None if index is None else counting.extent(index, access.path)
    if index is None or ends is None:
        return None
    index, step, slopes = index.known(counting.numbers), ends[0], list[tuple[int, float, str, bool]]()
    for loop in access.path:
        if isinstance(loop, Loop) and loop.symbol in index.symbols:
            slope = index.coefficient(loop.symbol).constant
            if slope is None or loop.start is None:
                return None
            begins_alike = loop.start.known(counting.numbers).constant is not None
            slopes.append((abs(slope * loop.step), counting.mean_trips(access.path, loop), loop.symbol, begins_alike))
    run = count = 1.0
    for distance, trips, _, begins_alike in sorted(slopes):
        if distance <= run:
            run += distance * (trips - 1.0)
        else:
            count *= trips
            step = math.gcd(step, distance)
        if not begins_alike:
            step = 1
    return _Stretch(ends[0], run, count, step, tuple((symbol, distance) for distance, _, symbol, _ in slopes))


def _near_its_iterations(counting: Counting, access: Access, shape: Sequence[int]) -> Range | None:
    """An index that is data as it stands, and lies near its iteration of one loop: the range of that loop.

    Where anything is computed with the data, or several loops count the iterations, it is not known which element is
    near.
    """
    index = access.node.slice
    if not (isinstance(index, ast.Call) and index.args and isinstance(index.args[0], ast.Subscript)):
        return None
    loops = [part for part in access.path if isinstance(part, Loop) and part.symbol in access.loops]
    if len(shape) != 1 or len(loops) != 1 or not counting.counted(loops[0]):
        return None
    ends = counting.extent(Polynomial.symbol(loops[0].symbol), access.path)
    if ends is None or ends[0] < 0 or ends[0] >= shape[0]:
        return None
    return ends[0], min(ends[1], shape[0] - 1)


def _shape(counting: Counting, access: Access) -> tuple[int, ...] | None:
    """Of the array, when it is known and has as many dimensions as the index."""
    numbers: Mapping[str, int] = counting.numbers
    names = [f"{access.array}.shape[{dimension}]" for dimension in range(len(access.index) + 1)]
    if names[-1] in numbers or any(name not in numbers for name in names[:-1]):
        return None
    return tuple([numbers[name] for name in names[:-1]])


def _flat(access: Access, shape: Sequence[int]) -> Polynomial | None:
    """The index over the elements in C order."""
    flat = Polynomial.number(0)
    for index, length in zip(access.index, shape, strict=True):
        if index is None:
            return None
        flat = flat * Polynomial.number(length) + index
    return flat


def _element(indices: Sequence[int], shape: Sequence[int]) -> int:
    element = 0
    for index, length in zip(indices, shape, strict=True):
        element = element * length + index
    return element
