"""`LaunchCounts`: what one launch of a kernel does, once its arguments are known.

Trip counts, accesses, ranges of indices and elements touched are exact for affine loops and indices. A branch counts
with its hint or 0.5, a loop over data with its hint or 32; `LaunchCounts.assumed` says which were not given.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import attrs

from offloadrt.kernels.accesses.access import ArrayAccess, Walk
from offloadrt.kernels.array_use import ArrayUse, Pattern
from offloadrt.kernels.costs.sectors import Moved, Moves, moved_of
from offloadrt.kernels.costs.streams import AccessStream, runs_without, streams_of
from offloadrt.kernels.costs.waits import Waits, waits
from offloadrt.kernels.counting import Counting
from offloadrt.kernels.ranges.bounds import Outside, happens, outside
from offloadrt.kernels.ranges.touched import range_around, touched


@attrs.frozen
class ArrayCounts:
    """What a launch does with one array."""

    name: str
    position: int
    elements: int | None
    """Elements of the argument; None when it has no shape."""
    element_size: int
    """Bytes."""
    reads: float
    writes: float
    _ranges: Callable[[Literal["read", "write"]], tuple[int, int] | None] = attrs.field(repr=False, eq=False)
    """Found when they are asked for, as `touched` is, because most launches need neither."""
    _touched: Callable[[], tuple[float, bool]] = attrs.field(repr=False, eq=False)
    """Counts when it is asked for."""
    _surely: Callable[[], bool] = attrs.field(repr=False, eq=False)
    pattern: Pattern
    streams: tuple[AccessStream, ...] = ()
    """The orders in which it comes to the elements, and how many it moves in each."""
    known: Mapping[str, tuple[tuple[int, int], ...]] = attrs.field(factory=dict)
    """Of a recorded launch, for "read" and "write": first and last of stretches of elements, all of them accessed, that
    are all that is; without one, the streams say what is known. For "atomic", those only atomic accesses come to.
    """

    @property
    def read_range(self) -> tuple[int, int] | None:
        """Return the first and last element, in C order, that may be loaded; None for none, or where data decide."""
        return self._ranges("read")

    @property
    def written_range(self) -> tuple[int, int] | None:
        """Return the first and the last element that may be stored; None as for `read_range`."""
        return self._ranges("write")

    @property
    def touched(self) -> float:
        """Return how many different elements are loaded or stored."""
        return self._touched()[0]

    @property
    def exact(self) -> bool:
        """Tell whether `touched` is a count; otherwise it is an upper bound of the expected number."""
        return self._touched()[1]

    @property
    def accesses(self) -> float:
        return self.reads + self.writes

    @property
    def surely_accessed(self) -> bool:
        """Tell whether some element is loaded or stored, whatever a branch decides."""
        return self._surely()

    @property
    def density(self) -> float | None:
        """Return the touched part of the elements; None when the array has no shape."""
        return None if self.elements is None else self.touched / self.elements if self.elements else 0.0


@attrs.frozen
class LaunchCounts:
    """One launch of a kernel."""

    iterations: int
    flops: float
    bytes: float
    arrays: tuple[ArrayCounts, ...]
    waits: Waits
    """Loads from memory, and how often threads wait for some of their own, summed over all threads."""
    assumed: tuple[str, ...]
    """Branches and loops of which neither the arguments nor a hint said how often they run."""
    moves: Moves
    """Where the bytes lie, which decides how many sectors of memory they are in."""
    outside: Outside | None = None
    """An access that surely leaves its array."""

    @property
    def flops_per_iteration(self) -> float:
        return self.flops / self.iterations if self.iterations else 0.0

    @property
    def bytes_per_iteration(self) -> float:
        return self.bytes / self.iterations if self.iterations else 0.0

    def array(self, name: str) -> ArrayCounts:
        """Return what is done with an array. KeyError when the kernel has none of that name."""
        for counts in self.arrays:
            if counts.name == name:
                return counts
        raise KeyError(name)


def count_launch(walked: Walk, uses: Sequence[ArrayUse], counting: Counting, arguments: Sequence[Any]) -> LaunchCounts:
    """Count what a launch of a walked nest does. uses: what the nest does with its arrays."""
    flops = 0.0
    for work in walked.work:
        flops += work.operations * counting.runs(work.path)
    moved = 0.0
    arrays = []
    beyond: Outside | None = None
    for use in uses:
        argument = arguments[use.position]
        accesses = [access for access in walked.accesses if access.array == use.name]
        counts, nbytes = _array(accesses, counting, use, argument)
        arrays.append(counts)
        moved += nbytes
        beyond = beyond or outside(counting, accesses, use.position, getattr(argument, "shape", None))
    iterations = round(counting.runs(walked.distributed))
    happening = [access for access in walked.accesses if counting.runs(access.path)]
    sizes = {counts.name: counts.element_size for counts in arrays}
    waiting = waits(happening, sizes, functools.partial(runs_without, counting))
    moves = Moves(functools.partial(_moves, walked, counting, arguments, arrays))
    assumed = tuple(sorted(counting.assumed))
    return LaunchCounts(iterations, flops, moved, tuple(arrays), waiting, assumed, moves, beyond)


def _moves(walked: Walk, counting: Counting, arguments: Sequence[Any], arrays: Sequence[ArrayCounts]) -> list[Moved]:
    moved: list[Moved] = []
    for counts in arrays:
        accesses = [access for access in walked.accesses if access.array == counts.name]
        shape = getattr(arguments[counts.position], "shape", None)
        nbytes = math.inf if counts.elements is None else float(counts.elements * counts.element_size)
        moved += moved_of(counting, accesses, shape, nbytes, counts.element_size)
    return moved


def _array(
    accesses: Sequence[ArrayAccess], counting: Counting, use: ArrayUse, argument: Any
) -> tuple[ArrayCounts, float]:
    """Count what happens to an array with these accesses; and the bytes that the launch moves for it."""
    shape = getattr(argument, "shape", None)
    size = counting.numbers.get(f"{use.name}.size")
    element_size = int(getattr(getattr(argument, "dtype", None), "itemsize", use.element_size))
    totals = {"read": 0.0, "write": 0.0}
    for access in accesses:
        totals[access.kind] += counting.runs(access.path)
    streams = streams_of(counting, accesses, size)
    counts = ArrayCounts(
        use.name,
        use.position,
        size,
        element_size,
        totals["read"],
        totals["write"],
        functools.cache(functools.partial(range_around, counting, accesses, shape, size)),
        functools.cache(functools.partial(touched, counting, accesses, shape, size)),
        functools.partial(happens, counting, accesses),
        use.pattern,
        streams,
    )
    return counts, math.fsum(stream.read + stream.written for stream in streams) * element_size


def split_atomic(
    stretches: Iterable[tuple[int, int]], atomic: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, bool]]:
    """Split stretches (first, last) of elements where atomic ones begin and end; True for what lies in those."""
    for low, high in stretches:
        at = low
        for first, last in atomic:
            if last < at or first > high:
                continue
            if at < first:
                yield at, first - 1, False
            yield max(at, first), min(high, last), True
            at = last + 1
        if at <= high:
            yield at, high, False
