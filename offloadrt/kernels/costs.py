"""Costs of a kernel in flops, bytes and loads; the machine turns them into seconds.

`KernelAnalysis` has what a compiler knows from the source alone. `Signature` has the nest's parameters and turns
arguments into the numbers of a count. `LaunchCounts` has what one launch does with known arguments. `memory_streams.py`
finds in which order a launch accesses the elements of an array, and how many bytes move.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import attrs
import numpy as np

from offloadrt.kernels.accesses import (
    ArrayAccess,
    Branch,
    Loop,
    Reduction,
    Walk,
    elements,
    guessed_branch,
    guessed_loop,
    static_frequency,
)
from offloadrt.kernels.array_use import ArrayUse, KernelError, Pattern
from offloadrt.kernels.counting import CountedLaunch
from offloadrt.kernels.loop_subset import LoopNest
from offloadrt.kernels.memo import Memo
from offloadrt.kernels.memory_streams import (
    AccessStream,
    Moved,
    Moves,
    Waits,
    moved_of,
    runs_without,
    streams_of,
    waits,
)
from offloadrt.kernels.number_kinds import IndexParameter, check_index_parameters
from offloadrt.kernels.ranges import Outside, happens, outside, range_around, touched
from offloadrt.kernels.source import check_type
from offloadrt.kernels.walk import complex_names, element_size, walk


@attrs.frozen
class ArrayCounts:
    """Counts a launch's loads (`reads`) and stores (`writes`) of one array, argument number `position` (from 0)."""

    name: str
    position: int
    elements: int | None
    """Elements of the argument; None when the argument has no shape."""
    element_size: int
    """Bytes of an element."""
    reads: float
    writes: float
    _ranges: Callable[[Literal["read", "write"]], tuple[int, int] | None] = attrs.field(repr=False, eq=False)
    """Computes `read_range` or `written_range` on request, because most launches need neither."""
    _touched: Callable[[], tuple[float, bool]] = attrs.field(repr=False, eq=False)
    """Counts the touched elements on request."""
    _surely: Callable[[], bool] = attrs.field(repr=False, eq=False)
    pattern: Pattern
    streams: tuple[AccessStream, ...] = ()
    """The orders in which the launch accesses the elements, with the number of elements moved in each."""
    known: Mapping[str, tuple[tuple[int, int], ...]] = attrs.field(factory=dict)
    """In a recorded launch, the exact elements as (first, last) of each stretch, by kind of access: "read", "write", or
    "atomic" (atomic accesses only). For a kind that is missing, only `streams` says what is accessed.
    """

    @property
    def read_range(self) -> tuple[int, int] | None:
        """Return the first and last element (C order) that may be loaded; None if none is, or if array data decide."""
        return self._ranges("read")

    @property
    def written_range(self) -> tuple[int, int] | None:
        """Return the first and last element (C order) that may be stored; None if none is, or if array data decide."""
        return self._ranges("write")

    @property
    def touched(self) -> float:
        """Return how many different elements of the array the launch loads or stores."""
        return self._touched()[0]

    @property
    def exact(self) -> bool:
        """Tell whether `touched` is exact; otherwise it is an upper bound of the expected number of elements."""
        return self._touched()[1]

    @property
    def accesses(self) -> float:
        return self.reads + self.writes

    @property
    def surely_accessed(self) -> bool:
        """Tell whether the launch certainly accesses an element of the array, for every outcome of its branches."""
        return self._surely()

    @property
    def density(self) -> float | None:
        """Return the fraction of the elements that are touched; None when the array has no shape."""
        return None if self.elements is None else self.touched / self.elements if self.elements else 0.0


@attrs.frozen
class AtomicCounts:
    """Counts a launch's atomic operations on one array; `scope`: "device", or "team" if each team has its own copy."""

    array: str
    scope: str
    operations: float
    hottest: float
    """Operations on the most used element; where index arrays have no values, the mean over the elements."""
    neighbours: int = 0
    """Size in bytes of an element if consecutive threads access consecutive elements; 0 if they may access any."""
    combined: bool = False
    """Whether a compiler combines a warp's operations into one, because all go to the same integer element."""


@attrs.frozen
class LaunchCounts:
    """Counts the iterations, accesses, flops and bytes of one launch of a kernel."""

    iterations: int
    flops: float
    bytes: float
    arrays: tuple[ArrayCounts, ...]
    waits: Waits
    """Loads from memory, and how often threads wait for their own loads, summed over all threads."""
    assumed: tuple[str, ...]
    """Branches and loops whose frequency neither the arguments nor a hint determined."""
    moves: Moves
    """Where the moved bytes lie, which decides how many memory sectors contain them."""
    atomics: tuple[AtomicCounts, ...] = ()
    further: float = 0.0
    """Operations in addition to the flops: further instructions of divisions and functions, and integer operations."""
    outside: Outside | None = None
    """An access that certainly leaves its array; None if there is none."""

    @property
    def flops_per_iteration(self) -> float:
        return self.flops / self.iterations if self.iterations else 0.0

    @property
    def bytes_per_iteration(self) -> float:
        return self.bytes / self.iterations if self.iterations else 0.0

    def array(self, name: str) -> ArrayCounts:
        """Return the counts of an array. KeyError when the kernel has no array of that name."""
        for counts in self.arrays:
            if counts.name == name:
                return counts
        raise KeyError(name)


@attrs.frozen
class Places:
    """The bytes that a launch's accesses move, and its most used elements: for arrays whose indices are not affine."""

    moved: Mapping[str, tuple[float, float]]
    """For each array, bytes moved per byte of its elements, as two numbers: from the cache to SMs, and from memory."""
    hottest: Mapping[str, float]
    """For each array with stores, the fraction of the stores that goes to the most used element."""


def count_launch(
    walked: Walk, uses: Sequence[ArrayUse], launch: CountedLaunch, arguments: Sequence[Any]
) -> LaunchCounts:
    """Count the operations, accesses and bytes of one launch, from what the kernel's source contains (`walked`).

    uses: how the kernel uses each array. arguments: the launch's, in the kernel's order.
    """
    flops = further = 0.0
    for work in walked.work:
        runs = launch.runs(work.path)
        flops, further = flops + work.operations * runs, further + work.further * runs
    moved = 0.0
    arrays = []
    beyond: Outside | None = None
    for use in uses:
        argument = arguments[use.position]
        accesses = [access for access in walked.accesses if access.array == use.name]
        counts, nbytes = _array(accesses, launch, use, argument)
        arrays.append(counts)
        moved += nbytes
        beyond = beyond or outside(launch, accesses, use.position, getattr(argument, "shape", None))
    iterations = round(launch.runs(walked.distributed))
    happening = [access for access in walked.accesses if launch.runs(access.path)]
    sizes = {counts.name: counts.element_size for counts in arrays}
    waiting = waits(happening, sizes, functools.partial(runs_without, launch))
    moves = Moves(functools.partial(_moves, walked, launch, arguments, arrays))
    assumed = tuple(sorted(launch.assumed))
    return LaunchCounts(
        iterations, flops, moved, tuple(arrays), waiting, assumed, moves, _atomics(walked, launch, arguments, arrays),
        further, beyond,
    )  # fmt: skip


def _atomics(
    walked: Walk, launch: CountedLaunch, arguments: Sequence[Any], arrays: Sequence[ArrayCounts]
) -> tuple[AtomicCounts, ...]:
    of_array = {counts.name: counts for counts in arrays}
    found = []
    for access, scope in walked.atomics:
        operations, counts = launch.runs(access.path), of_array[access.array]
        argument = arguments[counts.position]
        different = touched(launch, [access], getattr(argument, "shape", None), counts.elements)[0]
        constant = access.pattern == "constant"
        combined = constant and getattr(getattr(argument, "dtype", None), "kind", "f") in "iu"
        hottest = operations / max(1.0, different)
        neighbours = counts.element_size if access.pattern == "affine" else 0
        found.append(AtomicCounts(access.array, scope, operations, hottest, neighbours, combined))
    return tuple(found)


def _moves(walked: Walk, launch: CountedLaunch, arguments: Sequence[Any], arrays: Sequence[ArrayCounts]) -> list[Moved]:
    moved: list[Moved] = []
    for counts in arrays:
        accesses = [access for access in walked.accesses if access.array == counts.name]
        shape = getattr(arguments[counts.position], "shape", None)
        nbytes = math.inf if counts.elements is None else float(counts.elements * counts.element_size)
        moved += moved_of(launch, accesses, shape, nbytes, counts.element_size, counts.name)
    return moved


def _array(
    accesses: Sequence[ArrayAccess], launch: CountedLaunch, use: ArrayUse, argument: Any
) -> tuple[ArrayCounts, float]:
    """Return the counts of the accesses to one array, and the bytes that the launch moves for this array."""
    shape = getattr(argument, "shape", None)
    size = launch.numbers.get(f"{use.name}.size")
    element_size = int(getattr(getattr(argument, "dtype", None), "itemsize", use.element_size))
    totals = {"read": 0.0, "write": 0.0}
    for access in accesses:
        totals[access.kind] += launch.runs(access.path)
    streams = streams_of(launch, accesses, size)
    counts = ArrayCounts(
        use.name, use.position, size, element_size, totals["read"], totals["write"],
        functools.cache(functools.partial(range_around, launch, accesses, shape, size)),
        functools.cache(functools.partial(touched, launch, accesses, shape, size)),
        functools.partial(happens, launch, accesses), use.pattern, streams,
    )  # fmt: skip
    return counts, math.fsum(stream.read + stream.written for stream in streams) * element_size


def launch_key(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Return the key under which a launch's counts are cached: each argument's shape, or the number, and its type."""
    # NumPy's numbers have a shape, which is empty; they are told apart by their value.
    return tuple((getattr(a, "shape", None) or plain_number(a), getattr(a, "dtype", type(a))) for a in arguments)


def plain_number(argument: Any) -> Any:
    """Convert `argument`, if it is a NumPy number, to a Python number; return any other object unchanged."""
    return argument.item() if isinstance(argument, np.generic | np.ndarray) and not argument.ndim else argument


@attrs.frozen(eq=False)
class Signature:
    """Names a loop nest's parameters, and says which are arrays, complex, or decide loop bounds and indices."""

    kernel: str
    """The kernel's name, for messages."""
    parameters: tuple[str, ...]
    arrays: frozenset[str]
    """The parameters that are indexed; all others are numbers."""
    complex_parameters: frozenset[str]
    """The parameters that are annotated as complex."""
    index_parameters: tuple[IndexParameter, ...]
    """The parameters that bounds and indices depend on."""

    def check_count(self, arguments: Sequence[Any]) -> None:
        """Raise KernelError for too few or too many arguments."""
        if len(arguments) != len(self.parameters):
            raise KernelError(
                f"kernel {self.kernel!r} takes {len(self.parameters)} arguments ({', '.join(self.parameters)}), not "
                f"{len(arguments)}"
            )

    def check_index_parameters(self, arguments: Sequence[Any]) -> None:
        """Raise KernelError for an argument that would make a loop bound or an array index a float or a truth value."""
        if len(arguments) == len(self.parameters):
            check_index_parameters(self.kernel, self.index_parameters, arguments)

    def check_elements(self, parameter: str, given: object) -> None:
        """Raise KernelError if a loop nest cannot take arrays with elements of type `given` for the parameter."""
        check_type(self.kernel, parameter, given, parameter in self.complex_parameters)

    def counted_launch(self, walked: Walk, arguments: Sequence[Any]) -> CountedLaunch:
        """Return a launch, by its scalars and its arrays' lengths, for counting how often its code runs.

        walked: the contents of the kernel's source. Raises KernelError for arguments that the nest cannot take.
        """
        self.check_count(arguments)
        who = f"kernel {self.kernel!r}"
        numbers: dict[str, int] = {}
        scalars: dict[str, float] = {}
        for name, argument in zip(self.parameters, arguments, strict=True):
            if name in self.arrays:
                self._check_array(walked, name, argument)
                numbers.update(_lengths(name, argument))
            elif hasattr(argument, "__index__"):
                numbers[name] = scalars[name] = argument.__index__()
            elif name not in self.complex_parameters:
                try:
                    if isinstance(argument, str):
                        raise TypeError("a text is no number, whatever it spells")
                    scalars[name] = float(argument)
                except (TypeError, ValueError):
                    raise KernelError(f"{who}: {name} is a number in its source, but {argument!r} was given") from None
        for symbol, operation in walked.operations.items():
            with contextlib.suppress(KeyError, ArithmeticError):  # of a number that is not whole, or a division by zero
                numbers[symbol] = int(operation.value({**scalars, **numbers}))
        return CountedLaunch(who, numbers, scalars)

    def _check_array(self, walked: Walk, name: str, argument: Any) -> None:
        """Raise KernelError for an array whose element type or dimensions do not match the source."""
        if (elements := getattr(argument, "dtype", None)) is None:
            return
        shape = getattr(argument, "shape", None)
        self.check_elements(name, type(argument) if shape == () else elements)
        for access in walked.accesses:
            if access.array == name and shape is not None and len(access.index) != len(shape):
                raise KernelError(
                    f"kernel {self.kernel!r}: {access.text} has {len(access.index)} indices in its source (line "
                    f"{access.line}), but an array of shape {tuple(shape)} was given"
                )


def _lengths(name: str, argument: Any) -> dict[str, int]:
    """Return the lengths of an array, keyed by their symbols in polynomials."""
    shape = getattr(argument, "shape", None)
    if shape is None:
        return {}
    lengths = {f"{name}.size": 1}
    for dimension, length in enumerate(shape):
        lengths[f"{name}.shape[{dimension}]"] = lengths[f"{name}.shape[{dimension - len(shape)}]"] = int(length)
        lengths[f"{name}.size"] *= int(length)
    return lengths


_PATTERNS: tuple[Pattern, ...] = ("constant", "affine", "irregular", "indirect")


@attrs.frozen(eq=False)
class KernelAnalysis:
    """What a kernel's source (`nest`) says before any launch: its loops and accesses (`walked`), how it uses `arrays`.

    file, line: where the source is. signature: the kernel's parameters.
    """

    file: str
    line: int
    signature: Signature
    walked: Walk = attrs.field(repr=False)
    arrays: tuple[ArrayUse, ...]
    flops: float
    """Floating-point operations of an iteration; each math function, minimum and maximum is one."""
    waits: Waits
    """Loads from memory in one iteration, and how often the thread waits for loads in that iteration."""
    nest: LoopNest = attrs.field(repr=False)
    places: Memo[Any, Any] = attrs.field(factory=partial(Memo, 256), init=False, repr=False)
    """Cached results of `ElementTrace.places`, by its arguments and a digest of the arrays' contents."""
    _launches: Memo[Any, LaunchCounts] = attrs.field(factory=partial(Memo, 256), init=False, repr=False)
    """Counts of earlier launches, by their arguments."""

    @classmethod
    def of(cls, nest: LoopNest, name: str | None = None) -> KernelAnalysis:
        """Analyse a loop nest; messages use `name`, or else the name of the nest's function.

        Raises SourceRefused for a bound or an index whose form shows that it is no whole number.
        """
        source = nest.source
        walked, index_parameters = walk(nest)
        distributed = walked.distributed

        def frequency(access: ArrayAccess, shared: Callable[[Loop], bool]) -> float:
            return static_frequency(access.path, distributed, shared)

        uses = []
        for position, parameter in enumerate(source.parameters):
            of_array = [access for access in walked.accesses if access.array == parameter.arg]
            if parameter.arg in nest.arrays:
                size = element_size(parameter, source.names) or 8
                uses.append(_use(parameter.arg, position, of_array, frequency, size))
        flops = 0.0
        for work in walked.work:
            flops += work.operations * static_frequency(work.path, distributed)
        signature = Signature(
            name or source.tree.name,
            nest.parameters,
            frozenset(nest.arrays),
            frozenset(complex_names(nest)),
            index_parameters,
        )
        waiting = waits(walked.accesses, {use.name: use.element_size for use in uses}, frequency)
        return cls(source.file, source.tree.lineno, signature, walked, tuple(uses), flops, waiting, nest)

    @property
    def name(self) -> str:
        return self.signature.kernel

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.signature.parameters

    @property
    def distributed(self) -> tuple[Loop, ...]:
        """Return the distributed loop, whose iterations the device shares out; several loops with `collapse`."""
        return self.walked.distributed

    @property
    def loops(self) -> Sequence[Loop]:
        """Return all loops of the kernel in source order."""
        return self.walked.loops

    @property
    def accesses(self) -> Sequence[ArrayAccess]:
        return self.walked.accesses

    @functools.cached_property
    def without_form(self) -> frozenset[str]:
        """Return the names of the arrays with an index that comes from data or is not affine in the loop variables."""
        return frozenset([each.array for each in self.accesses if each.pattern in ("irregular", "indirect")])

    @property
    def reductions(self) -> Sequence[Reduction]:
        return self.walked.reductions

    @property
    def bytes(self) -> float:
        """Return the bytes that one iteration of the distributed loop moves between memory and compute units."""
        total = 0.0
        for use in self.arrays:
            total += use.bytes
        return total

    @functools.cached_property
    def follows_iterations(self) -> bool:
        """Tell whether every index is affine in the distributed loops alone, so that no inner loop changes it."""
        within = {loop.symbol for loop in self.loops if not loop.distributed}
        return not self.without_form and not any(access.loops & within for access in self.accesses)

    @property
    def guessed(self) -> tuple[str, ...]:
        """Describe, one text each, the branches and loops without `expect` whose frequency can only be guessed."""
        branches = [(part.line, guessed_branch(part.line)) for part in self._branches if part.condition.guessed]
        loops = [loop for loop in self.loops if loop.trips is None and (loop.start is None or loop.stop is None)]
        return tuple(
            message for _, message in sorted({*branches, *((loop.line, guessed_loop(loop)) for loop in loops)})
        )

    @property
    def exact_at_launch(self) -> tuple[int, ...]:
        """Return the source lines of branches on an index range: a compiler guesses them, but a launch counts them."""
        ranges = [part for part in self._branches if part.condition.exact and not part.of_loop]
        return tuple(sorted({part.line for part in ranges}))

    @property
    def _branches(self) -> list[Branch]:
        paths = [access.path for access in self.accesses] + [work.path for work in self.walked.work]
        return [part for path in paths for part in path if isinstance(part, Branch)]

    def use(self, array: str) -> ArrayUse:
        """Return how often an iteration reads and writes an array (`ArrayUse`). KeyError for an unknown array."""
        for use in self.arrays:
            if use.name == array:
                return use
        raise KeyError(array)

    def trip_count(self, *arguments: Any) -> int:
        """Return the distributed loop's number of iterations for these arguments. KernelError for unusable ones."""
        self.signature.check_index_parameters(arguments)
        return round(self.counted_launch(arguments).runs(self.distributed))

    def counted_launch(self, arguments: Sequence[Any]) -> CountedLaunch:
        """Return a launch with these arguments, for counting how often code runs. KernelError for unusable ones."""
        return self.signature.counted_launch(self.walked, arguments)

    def at(self, *arguments: Any) -> LaunchCounts:
        """Count what a launch with these arguments does: iterations, accesses, ranges of indices, flops and bytes.

        The counts are cached, because programs launch a kernel with equal sizes many times. arguments: in the kernel's
        order; an array may lack values (a phantom), because only its shape and type matter. Raises KernelError when a
        scalar or a length that a loop needs is not known, or when an argument makes a bound or an index a float.
        """
        self.signature.check_index_parameters(arguments)
        known = launch_key(arguments)
        try:
            return self._launches[known]
        except (KeyError, TypeError):  # TypeError: an argument that is no key
            counts = count_launch(self.walked, self.arrays, self.counted_launch(arguments), arguments)
        with contextlib.suppress(TypeError):
            self._launches[known] = counts
        return counts


def _use(
    name: str,
    position: int,
    accesses: list[ArrayAccess],
    frequency: Callable[[ArrayAccess, Callable[[Loop], bool]], float],
    size: int,
) -> ArrayUse:
    reads = writes = 0.0
    for access in accesses:
        often = frequency(access, lambda loop: False)
        if access.kind == "read":
            reads += often
        else:
            writes += often
    read, written = elements(accesses, frequency)
    return ArrayUse(
        name,
        position,
        reads,
        writes,
        max((access.pattern for access in accesses), key=_PATTERNS.index, default="constant"),
        min((access.level for access in accesses), default=0),
        read,
        written,
        size,
    )
