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

from offloadrt.kernels.accesses.access import Access
from offloadrt.kernels.array_use import ArrayUse, Pattern
from offloadrt.kernels.costs.sectors import Moved, Moves, moved_of
from offloadrt.kernels.costs.streams import Stream, runs_without, streams_of
from offloadrt.kernels.costs.waits import Waits, waits
from offloadrt.kernels.counting.counting import Counting
from offloadrt.kernels.errors import KernelError
from offloadrt.kernels.ranges.bounds import Outside, happens, outside
from offloadrt.kernels.ranges.touched import range_around, touched
from offloadrt.kernels.source.element_types import check_type

if TYPE_CHECKING:
    from offloadrt.kernels.costs.analysis import KernelAnalysis


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
    _surely: Callable[[], bool] = attrs.field(repr=False, eq=False)
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
    def surely_accessed(self) -> bool:
        """Whether some element is loaded or stored, whatever a branch decides."""
        return self._surely()

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
    moves = Moves(functools.partial(_moves, analysis, counting, arguments, arrays))
    assumed = tuple(sorted(counting.assumed))
    return LaunchCounts(iterations, flops, moved, tuple(arrays), waiting, assumed, moves, beyond)


def _moves(
    analysis: KernelAnalysis, counting: Counting, arguments: Sequence[Any], arrays: Sequence[ArrayCounts]
) -> list[Moved]:
    found: list[Moved] = []
    for counts in arrays:
        accesses = [access for access in analysis.accesses if access.array == counts.name]
        shape = getattr(arguments[counts.position], "shape", None)
        nbytes = math.inf if counts.elements is None else float(counts.elements * counts.element_size)
        found += moved_of(counting, accesses, shape, nbytes, counts.element_size)
    return found


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
            _check_array(analysis, name, argument)
            numbers.update(_lengths(name, argument))
        elif hasattr(argument, "__index__"):
            numbers[name] = scalars[name] = argument.__index__()
        elif name not in analysis.complex_parameters:
            try:
                if isinstance(argument, str):
                    raise TypeError("a text is no number, whatever it spells")
                scalars[name] = float(argument)
            except (TypeError, ValueError):
                raise KernelError(f"{who}: {name} is a number in its source, but {argument!r} was given") from None
    for symbol, operation in analysis.walked.operations.items():
        with contextlib.suppress(KeyError, ArithmeticError):  # of a number that is not whole, or a division by zero
            numbers[symbol] = int(operation.value({**scalars, **numbers}))
    return Counting(who, numbers, scalars)


def _check_array(analysis: KernelAnalysis, name: str, argument: Any) -> None:
    """KernelError for an argument whose elements, or whose dimensions, are not those that the source indexes."""
    if (elements := getattr(argument, "dtype", None)) is None:
        return
    shape = getattr(argument, "shape", None)
    given = type(argument) if shape == () else elements
    check_type(analysis.name, name, given, name in analysis.complex_parameters)
    for access in analysis.accesses:
        if access.array == name and shape is not None and len(access.index) != len(shape):
            raise KernelError(
                f"kernel {analysis.name!r}: {access.text} has {len(access.index)} indices in its source (line "
                f"{access.line}), but an array of shape {tuple(shape)} was given"
            )


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
        functools.cache(functools.partial(range_around, counting, accesses, shape, size)),
        functools.cache(functools.partial(touched, counting, accesses, shape, size)),
        functools.partial(happens, counting, accesses),
        use.pattern,
        streams,
    )
    return found, math.fsum(stream.read + stream.written for stream in streams) * element_size
