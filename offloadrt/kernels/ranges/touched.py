"""Which elements of an array some accesses touch: the range around them, and how many different ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from offloadrt.kernels.accesses.access import ArrayAccess
from offloadrt.kernels.accesses.frequency import Branch, loops_of
from offloadrt.kernels.algebra import Polynomial
from offloadrt.kernels.counting import Counting
from offloadrt.kernels.ranges import footprint

Shape = Sequence[int] | None


def shape_of(counting: Counting, access: ArrayAccess) -> tuple[int, ...] | None:
    """Return the array's shape, when it is known and has as many dimensions as the index."""
    names = [f"{access.array}.shape[{dimension}]" for dimension in range(len(access.index) + 1)]
    if names[-1] in counting.numbers or any(name not in counting.numbers for name in names[:-1]):
        return None
    return tuple([counting.numbers[name] for name in names[:-1]])


def flat_index(access: ArrayAccess, shape: Shape) -> Polynomial | None:
    """Return the index over the elements in C order; None when it has no polynomial."""
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
    counting: Counting,
    accesses: Sequence[ArrayAccess],
    shape: Shape,
    size: int | None,
    kind: Literal["read", "write"],
) -> tuple[int, int] | None:
    """Return the range around all accesses of a kind: the whole array where that of one is not known."""
    indices = [
        (None if _wraps_midway(counting, access) else flat_index(access, shape), access.path)
        for access in accesses
        if access.kind == kind and counting.runs(access.path)
    ]
    ranges = [None if index is None else counting.extent(index, path) for index, path in indices]
    known = [ends for ends in ranges if ends is not None]
    if not ranges:
        return None
    if len(known) < len(ranges):
        return None if not size else (0, size - 1)
    low, high = min(low for low, _ in known), max(high for _, high in known)
    return low, high if size is None else min(high, size - 1)


def touched(counting: Counting, accesses: Sequence[ArrayAccess], shape: Shape, size: int | None) -> tuple[float, bool]:
    """Return how many different elements are touched, and whether that is a count."""
    surely: list[footprint.Runs] = []
    at_most = 0.0
    exact = True
    seen: set[tuple[object, ...]] = set()
    for access in accesses:
        often = counting.runs(access.path)
        if not often:
            continue
        key = (access.index, access.loops, access.path) if None not in access.index else (access.text, access.path)
        if key in seen:
            continue
        seen.add(key)
        steps = None if _wraps_midway(counting, access) else steps_of(counting, access, shape)
        elements = None if steps is None else footprint.runs(footprint.lowest(*steps), steps[1])
        if elements is None or access.guarded:
            exact = False
            flat = flat_index(access, shape)
            reached = None if flat is None else counting.extent(flat, access.path)
            at_most += often if reached is None else min(often, reached[1] - reached[0] + 1)
        else:
            surely.append(elements)
    total = footprint.union(surely) + at_most
    return (total if size is None else min(total, float(size))), exact


def _wraps_midway(counting: Counting, access: ArrayAccess) -> bool:
    """Tell whether an index counts from the end in some iterations only, or otherwise than its constant term says."""
    for index in access.index:
        reached = None if index is None else counting.extent(index, access.path)
        midway = reached is not None and reached[0] < 0 <= reached[1]
        if midway or (index is not None and reached is not None and reached[1] < 0 <= (index.constant or 0)):
            return True
    return False


def steps_of(counting: Counting, access: ArrayAccess, shape: Shape) -> tuple[int, list[tuple[int, int]]] | None:
    """Return an affine index over a rectangle of loops: its first value, and step and count for each loop."""
    flat = flat_index(access, shape)
    if flat is None or access.through or any(isinstance(part, Branch) and part.of_loop for part in access.path):
        return None
    index = flat.known(counting.numbers)
    offset, steps = index, []
    for loop in loops_of(access.path):
        values = counting.range_of(loop, counting.numbers)
        slope = index.coefficient(loop.symbol).constant
        if values is None or slope is None:
            return None
        offset = offset.substitute(loop.symbol, Polynomial.number(values.start))
        steps.append((slope * loop.step, len(values)))
    first = offset.constant
    return None if first is None else (first, steps)
