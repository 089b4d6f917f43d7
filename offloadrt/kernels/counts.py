"""`LaunchCounts`: what one launch of a kernel does, once its arguments are known.

Trip counts, accesses, ranges of indices and elements touched are exact for affine loops and indices. A branch counts
with its hint or 0.5, a loop over data with its hint or 32; `LaunchCounts.assumed` says which were not given.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs
import numpy as np

from offloadrt.kernels import footprint
from offloadrt.kernels.accesses import Access
from offloadrt.kernels.array_use import ArrayUse, Pattern
from offloadrt.kernels.bounds import Outside, outside
from offloadrt.kernels.counting import Counting
from offloadrt.kernels.element_types import check_type
from offloadrt.kernels.errors import KernelError
from offloadrt.kernels.frequency import Loop
from offloadrt.kernels.polynomial import Polynomial
from offloadrt.kernels.streams import Stream, runs_without, streams_of
from offloadrt.kernels.waits import Waits, waits

if TYPE_CHECKING:
    from offloadrt.kernels.analysis import KernelAnalysis


_KEPT = 256
"""Launches whose counts a kernel keeps."""


@attrs.frozen
class ArrayCounts:
    """What a launch does with one array."""

    name: str
    position: int
    elements: int | None
    """Of the argument; None when it has no shape."""
    element_size: int
    """Bytes."""
    reads: float
    writes: float
    _ranges: Callable[[Literal["read", "write"]], tuple[int, int] | None] = attrs.field(repr=False, eq=False)
    """Found when they are asked for, as `touched` is."""
    _touched: Callable[[], tuple[float, bool]] = attrs.field(repr=False, eq=False)
    """Counts when it is asked for."""
    pattern: Pattern
    streams: tuple[Stream, ...] = ()
    """In which orders it comes to the elements, and how many it moves."""

    @property
    def read_range(self) -> tuple[int, int] | None:
        """First and last element (inclusive, in C order) that may be loaded; None when none is, or data decide it."""
        return self._ranges("read")

    @property
    def written_range(self) -> tuple[int, int] | None:
        """The same of elements that may be stored."""
        return self._ranges("write")

    @property
    def touched(self) -> float:
        """Different elements that are loaded or stored."""
        return self._touched()[0]

    @property
    def exact(self) -> bool:
        """Is `touched` a count? Otherwise it is an upper bound of the expected number."""
        return self._touched()[1]

    @property
    def accesses(self) -> float:
        return self.reads + self.writes

    @property
    def density(self) -> float | None:
        """Elements touched over elements; None when the array has no shape."""
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
    outside: Outside | None = None
    """An access that surely leaves its array."""

    @property
    def flops_per_iteration(self) -> float:
        return self.flops / self.iterations if self.iterations else 0.0

    @property
    def bytes_per_iteration(self) -> float:
        return self.bytes / self.iterations if self.iterations else 0.0

    def array(self, name: str) -> ArrayCounts:
        """What is done with an array. KeyError when the kernel has none of that name."""
        for found in self.arrays:
            if found.name == name:
                return found
        raise KeyError(name)


def trip_count(analysis: KernelAnalysis, arguments: Sequence[Any]) -> int:
    """Iterations of the distributed loop."""
    return round(counting_of(analysis, arguments).runs(analysis.distributed))


def counts_of(analysis: KernelAnalysis, arguments: Sequence[Any]) -> LaunchCounts:
    """Everything that `KernelAnalysis.at` says; kept, because programs launch a kernel with equal sizes many times."""
    known = launch_key(arguments)
    try:
        return analysis.counted[known]
    except (KeyError, TypeError):  # TypeError: an argument that is no key
        counts = _new_counts(analysis, arguments)
    if len(analysis.counted) >= _KEPT:
        analysis.counted.clear()
    with contextlib.suppress(TypeError):
        analysis.counted[known] = counts
    return counts


def launch_key(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """What counts of a launch depend on: shapes and types of arrays, and numbers. NumPy's have an empty shape."""
    return tuple((getattr(a, "shape", None) or _value(a), getattr(a, "dtype", type(a))) for a in arguments)


def _value(argument: Any) -> Any:
    """A number, also NumPy's, as a key."""
    return argument.item() if isinstance(argument, np.generic | np.ndarray) else argument


def _new_counts(analysis: KernelAnalysis, arguments: Sequence[Any]) -> LaunchCounts:
    counting = counting_of(analysis, arguments)
    flops = 0.0
    for work in analysis.walked.work:
        flops += work.operations * counting.runs(work.path)
    moved = 0.0
    arrays = []
    beyond: Outside | None = None
    for use in analysis.arrays:
        argument = arguments[use.position]
        accesses = [access for access in analysis.accesses if access.array == use.name]
        found, nbytes = _array(accesses, counting, use, argument)
        arrays.append(found)
        moved += nbytes
        beyond = beyond or outside(counting, accesses, use.position, getattr(argument, "shape", None))
    iterations = round(counting.runs(analysis.distributed))
    happening = [access for access in analysis.accesses if counting.runs(access.path)]
    sizes = {found.name: found.element_size for found in arrays}
    waiting = waits(happening, sizes, functools.partial(runs_without, counting))
    return LaunchCounts(iterations, flops, moved, tuple(arrays), waiting, tuple(sorted(counting.assumed)), beyond)


def counting_of(analysis: KernelAnalysis, arguments: Sequence[Any]) -> Counting:
    """The numbers of a launch, for those who count its blocks. Raises KernelError."""
    who = f"kernel {analysis.name!r}"
    if len(arguments) != len(analysis.parameters):
        raise KernelError(
            f"{who} takes {len(analysis.parameters)} arguments ({', '.join(analysis.parameters)}), not {len(arguments)}"
        )
    numbers: dict[str, int] = {}
    scalars: dict[str, float] = {}
    arrays = {use.name for use in analysis.arrays}
    for name, argument in zip(analysis.parameters, arguments, strict=True):
        if name in arrays:
            if (elements := getattr(argument, "dtype", None)) is not None:
                check_type(analysis.name, name, elements)
            numbers.update(_lengths(name, argument))
        elif hasattr(argument, "__index__"):
            numbers[name] = scalars[name] = argument.__index__()
        else:
            try:
                if isinstance(argument, str):
                    raise TypeError("a text is no number, whatever it spells")
                scalars[name] = float(argument)
            except (TypeError, ValueError):
                raise KernelError(f"{who}: {name} is a number in its source, but {argument!r} was given") from None
    return Counting(who, numbers, scalars)


def _lengths(name: str, argument: Any) -> dict[str, int]:
    shape = getattr(argument, "shape", None)
    if shape is None:
        return {}
    found = {f"{name}.size": 1}
    for dimension, length in enumerate(shape):
        found[f"{name}.shape[{dimension}]"] = found[f"{name}.shape[{dimension - len(shape)}]"] = int(length)
        found[f"{name}.size"] *= int(length)
    return found


def _array(accesses: Sequence[Access], counting: Counting, use: ArrayUse, argument: Any) -> tuple[ArrayCounts, float]:
    """The counts of an array with these accesses, and the bytes that the launch moves for it."""
    shape = getattr(argument, "shape", None)
    size = counting.numbers.get(f"{use.name}.size")
    element_size = int(getattr(getattr(argument, "dtype", None), "itemsize", use.element_size))
    totals = {"read": 0.0, "write": 0.0}
    for access in accesses:
        totals[access.kind] += counting.runs(access.path)
    streams = streams_of(counting, accesses, size)
    found = ArrayCounts(
        use.name,
        use.position,
        size,
        element_size,
        totals["read"],
        totals["write"],
        functools.cache(functools.partial(_range, counting, accesses, shape, size)),
        functools.cache(functools.partial(_touched, counting, accesses, shape, size)),
        use.pattern,
        streams,
    )
    return found, math.fsum(stream.read + stream.written for stream in streams) * element_size


def _flat(access: Access, shape: Sequence[int] | None) -> Polynomial | None:
    """The index over the elements in C order; None when it has no polynomial."""
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


def _range(
    counting: Counting,
    accesses: Sequence[Access],
    shape: Sequence[int] | None,
    size: int | None,
    kind: Literal["read", "write"],
) -> tuple[int, int] | None:
    """The range around all accesses of a kind; where one is not known, the whole array, as far as that is known."""
    indices = [
        (_flat(access, shape), access.path) for access in accesses if access.kind == kind and counting.runs(access.path)
    ]
    ranges = [None if index is None else counting.extent(index, path) for index, path in indices]
    known = [found for found in ranges if found is not None]
    if not ranges:
        return None
    if len(known) < len(ranges):
        return None if not size else (0, size - 1)
    return min(low for low, _ in known), max(high for _, high in known)


def _touched(
    counting: Counting, accesses: Sequence[Access], shape: Sequence[int] | None, size: int | None
) -> tuple[float, bool]:
    """Different elements, and whether that is a count."""
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
        steps = _steps(counting, access, shape)
        found = None if steps is None else footprint.runs(footprint.lowest(*steps), steps[1])
        if found is None or access.guarded:
            exact = False
            flat = _flat(access, shape)
            reached = None if flat is None else counting.extent(flat, access.path)
            at_most += often if reached is None else min(often, reached[1] - reached[0] + 1)
        else:
            surely.append(found)
    total = footprint.union(surely) + at_most
    return (total if size is None else min(total, float(size))), exact


def _steps(counting: Counting, access: Access, shape: Sequence[int] | None) -> tuple[int, list[tuple[int, int]]] | None:
    """An affine index over a rectangle of loops: its first value, and step and count for each loop."""
    flat = _flat(access, shape)
    if flat is None or access.through:
        return None
    index = flat.known(counting.numbers)
    offset, steps = index, []
    for part in access.path:
        if isinstance(part, Loop):
            values = counting.range_of(part, counting.numbers)
            slope = index.coefficient(part.symbol).constant
            if values is None or slope is None:
                return None
            offset = offset.substitute(part.symbol, Polynomial.number(values.start))
            steps.append((slope * part.step, len(values)))
    first = offset.constant
    return None if first is None else (first, steps)
