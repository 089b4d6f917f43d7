"""`KernelAnalysis`: what a compiler knows of a kernel from its source alone, before it sees an argument.

All numbers are for each iteration of the distributed loop, by the block frequencies of `frequency.py`: a nested loop of
unknown trip count counts 32 times, whatever it will run, which is why OTM underestimates the density of SRAD's images.
What a launch really does is counted by `KernelAnalysis.at`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs

from offloadrt.kernels.accesses.access import ArrayAccess, Reduction, Walk
from offloadrt.kernels.accesses.frequency import Branch, Loop, guessed_branch, guessed_loop, static_frequency
from offloadrt.kernels.accesses.traffic import elements
from offloadrt.kernels.accesses.values import complex_names, element_size
from offloadrt.kernels.accesses.walk import walk
from offloadrt.kernels.array_use import ArrayUse, Pattern
from offloadrt.kernels.costs.counts import LaunchCounts, count_launch
from offloadrt.kernels.costs.signature import Signature, launch_key
from offloadrt.kernels.costs.waits import Waits, waits
from offloadrt.kernels.counting.counting import Counting
from offloadrt.kernels.memo import Memo
from offloadrt.kernels.source.subset import LoopNest

_PATTERNS: tuple[Pattern, ...] = ("constant", "affine", "irregular", "indirect")


@attrs.frozen(eq=False)
class KernelAnalysis:
    """A kernel's source, read."""

    file: str
    line: int
    signature: Signature
    walked: Walk = attrs.field(repr=False)
    arrays: tuple[ArrayUse, ...]
    flops: float
    """Floating-point operations of an iteration; each math function, minimum and maximum is one."""
    waits: Waits
    """Loads from memory of an iteration, and how often its thread waits for some."""
    _launches: Memo[Any, LaunchCounts] = attrs.field(factory=partial(Memo, 256), init=False, repr=False)
    """Counts of launches that were counted before, by their arguments."""

    @classmethod
    def of(cls, nest: LoopNest, name: str | None = None) -> KernelAnalysis:
        """Analyse a loop nest; messages call it by its function's name unless another one is given.

        Raises SourceRefused for a bound or an index that is no whole number by its form.
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
        return cls(source.file, source.tree.lineno, signature, walked, tuple(uses), flops, waiting)

    @property
    def name(self) -> str:
        return self.signature.kernel

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.signature.parameters

    @property
    def distributed(self) -> tuple[Loop, ...]:
        """Return the loop whose iterations the device shares out; several with `collapse`."""
        return self.walked.distributed

    @property
    def loops(self) -> Sequence[Loop]:
        """Return all loops, in the order of the source."""
        return self.walked.loops

    @property
    def accesses(self) -> Sequence[ArrayAccess]:
        return self.walked.accesses

    @property
    def reductions(self) -> Sequence[Reduction]:
        return self.walked.reductions

    @property
    def bytes(self) -> float:
        """Return the bytes that an iteration moves between memory and compute units."""
        total = 0.0
        for use in self.arrays:
            total += use.bytes
        return total

    @property
    def guessed(self) -> tuple[str, ...]:
        """Name the branches and loops of which no launch can tell how often they run, unless `expect` says so."""
        branches = [(part.line, guessed_branch(part.line)) for part in self._branches if part.probability.guessed]
        loops = [loop for loop in self.loops if loop.trips is None and (loop.start is None or loop.stop is None)]
        return tuple(
            message for _, message in sorted({*branches, *((loop.line, guessed_loop(loop)) for loop in loops)})
        )

    @property
    def exact_at_launch(self) -> tuple[int, ...]:
        """Return the lines of branches that are ranges of an index: a compiler guesses them, a launch counts them."""
        ranges = [part for part in self._branches if part.probability.exact and not part.of_loop]
        return tuple(sorted({part.line for part in ranges}))

    @property
    def _branches(self) -> list[Branch]:
        paths = [access.path for access in self.accesses] + [work.path for work in self.walked.work]
        return [part for path in paths for part in path if isinstance(part, Branch)]

    def use(self, array: str) -> ArrayUse:
        """Return what is done with an array. KeyError when the kernel has none of that name."""
        for use in self.arrays:
            if use.name == array:
                return use
        raise KeyError(array)

    def trip_count(self, *arguments: Any) -> int:
        """Return the iterations of the distributed loop for these arguments. KernelError as for `at`."""
        self.signature.check_index_parameters(arguments)
        return round(self.counting(arguments).runs(self.distributed))

    def counting(self, arguments: Sequence[Any]) -> Counting:
        """Make the numbers of a launch, for those who count its blocks. Raises KernelError."""
        return self.signature.counting(self.walked, arguments)

    def at(self, *arguments: Any) -> LaunchCounts:
        """Count what a launch with these arguments does: iterations, accesses, ranges of indices, flops and bytes.

        The counts are kept, because programs launch a kernel with equal sizes many times.
        arguments: in the kernel's order; an array may be a phantom, only its shape and type matter. KernelError when a
        scalar or a length that a loop needs is not known, or an argument makes a bound or an index a float.
        """
        self.signature.check_index_parameters(arguments)
        known = launch_key(arguments)
        try:
            return self._launches[known]
        except (KeyError, TypeError):  # TypeError: an argument that is no key
            counts = count_launch(self.walked, self.arrays, self.counting(arguments), arguments)
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
