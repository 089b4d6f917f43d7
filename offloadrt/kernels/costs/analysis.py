"""`KernelAnalysis`: what a compiler knows of a kernel from its source alone, before it sees an argument.

All numbers are for each iteration of the distributed loop, by the block frequencies of `frequency.py`: a nested loop of
unknown trip count counts 32 times, whatever it will run, which is why OTM underestimates the density of SRAD's images.
What a launch really does is counted by `KernelAnalysis.at`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from offloadrt.kernels.accesses.access import Access, Reduction, Walk
from offloadrt.kernels.accesses.frequency import Branch, Loop, guessed_branch, guessed_loop, static_frequency
from offloadrt.kernels.accesses.number_kinds import IndexParameter, check_index_parameters
from offloadrt.kernels.accesses.traffic import elements
from offloadrt.kernels.accesses.values import complex_names, element_size
from offloadrt.kernels.accesses.walk import walk
from offloadrt.kernels.array_use import ArrayUse, Pattern
from offloadrt.kernels.costs.waits import Waits, waits
from offloadrt.kernels.source.subset import LoopNest

if TYPE_CHECKING:
    from offloadrt.kernels.costs.counts import LaunchCounts

_PATTERNS: tuple[Pattern, ...] = ("constant", "affine", "irregular", "indirect")


@attrs.frozen(eq=False)
class KernelAnalysis:
    """A kernel's source, read."""

    name: str
    file: str
    line: int
    parameters: tuple[str, ...]
    distributed: tuple[Loop, ...]
    """The loop whose iterations the device shares out; several with `collapse`."""
    loops: tuple[Loop, ...]
    """All loops, in the order of the source."""
    accesses: tuple[Access, ...]
    arrays: tuple[ArrayUse, ...]
    reductions: tuple[Reduction, ...]
    flops: float
    """Floating-point operations of an iteration; each math function, minimum and maximum is one."""
    waits: Waits
    """Loads from memory of an iteration, and how often its thread waits for some."""
    walked: Walk = attrs.field(repr=False)
    index_parameters: tuple[IndexParameter, ...] = attrs.field(repr=False)
    """Parameters that bounds and indices are made of."""
    complex_parameters: frozenset[str] = attrs.field(repr=False)
    """Parameters that are annotated as complex."""
    counted: dict[Any, LaunchCounts] = attrs.field(factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, nest: LoopNest, name: str | None = None) -> KernelAnalysis:
        """The analysis of a loop nest; messages call it by its function's name unless another one is given.

        Raises SourceRefused for a bound or an index that is no whole number by its form.
        """
        walked, index_parameters = walk(nest)
        distributed = tuple(loop for loop in walked.loops if loop.distributed)

        def frequency(access: Access, shared: Callable[[Loop], bool]) -> float:
            return static_frequency(access.path, distributed, shared)

        parameters = {argument.arg: argument for argument in nest.source.parameters}

        def size_of(array: str) -> int:
            return element_size(parameters[array], nest.source.names) or 8

        uses = []
        for position, array in enumerate(nest.parameters):
            mine = [access for access in walked.accesses if access.array == array]
            if array in nest.arrays:
                uses.append(_use(array, position, mine, frequency, size_of(array)))
        flops = 0.0
        for work in walked.work:
            flops += work.operations * static_frequency(work.path, distributed)
        source = nest.source
        return cls(
            name or source.tree.name,
            source.file,
            source.tree.lineno,
            nest.parameters,
            distributed,
            tuple(walked.loops),
            tuple(walked.accesses),
            tuple(uses),
            tuple(walked.reductions),
            flops,
            waits(walked.accesses, {use.name: use.element_size for use in uses}, frequency),
            walked,
            index_parameters,
            frozenset(complex_names(nest)),
        )

    @property
    def bytes(self) -> float:
        """Bytes that an iteration moves between memory and compute units."""
        total = 0.0
        for use in self.arrays:
            total += use.bytes
        return total

    @property
    def guessed(self) -> tuple[str, ...]:
        """Branches and loops of which no launch can tell how often they run, unless `expect` says so."""
        branches = [(part.line, guessed_branch(part.line)) for part in self._branches if part.probability.guessed]
        loops = [loop for loop in self.loops if loop.trips is None and (loop.start is None or loop.stop is None)]
        return tuple(said for _, said in sorted({*branches, *((loop.line, guessed_loop(loop)) for loop in loops)}))

    @property
    def exact_at_launch(self) -> tuple[int, ...]:
        """Lines of branches that are ranges of an index: a compiler guesses them, a launch knows the numbers."""
        ranges = [part for part in self._branches if part.probability.exact and not part.of_loop]
        return tuple(sorted({part.line for part in ranges}))

    @property
    def _branches(self) -> list[Branch]:
        paths = [access.path for access in self.accesses] + [work.path for work in self.walked.work]
        return [part for path in paths for part in path if isinstance(part, Branch)]

    def use(self, array: str) -> ArrayUse:
        """What is done with an array. KeyError when the kernel has none of that name."""
        for use in self.arrays:
            if use.name == array:
                return use
        raise KeyError(array)

    def trip_count(self, *arguments: Any) -> int:
        """Iterations of the distributed loop for these arguments. KernelError as for `at`."""
        from offloadrt.kernels.costs.counts import trip_count

        self.check_index_parameters(arguments)
        return trip_count(self, arguments)

    def check_index_parameters(self, arguments: Sequence[Any]) -> None:
        """KernelError for an argument that makes a bound or an index a float or a truth value."""
        if len(arguments) == len(self.parameters):
            check_index_parameters(self.name, self.index_parameters, arguments)

    def at(self, *arguments: Any) -> LaunchCounts:
        """What a launch with these arguments does: iterations, accesses, ranges of indices, flops and bytes.

        arguments: in the kernel's order; an array may be a phantom, only its shape and type are looked at. KernelError
        when a scalar or a length that a loop needs is not known, or an argument makes a bound or an index a float.
        """
        from offloadrt.kernels.costs.counts import counts_of

        self.check_index_parameters(arguments)
        return counts_of(self, arguments)


def _use(
    name: str,
    position: int,
    accesses: list[Access],
    frequency: Callable[[Access, Callable[[Loop], bool]], float],
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
