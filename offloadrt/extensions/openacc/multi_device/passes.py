"""The passes that divide a loop nest among devices: JACC's `predicate` and MACC's `split_loop`.

JACC's filtering by predicates duplicates the kernel on every device, with all its iterations and its arithmetic. Each
written array is divided along one dimension (`WrittenRegion`). A device makes an access only if that feeds a part of a
written array that the device owns (`dependence.py`): memory accesses are divided, computation is not. Every device
computes what iterations of the distributed loop hand to one another, except for reductions (`divided.py`): the device
that owns the element which an iteration stores makes that iteration's contribution. If the iteration stores to no
divided array, the contributions are divided by the iterations of the outermost distributed loop.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

import attrs

from offloadrt.extensions.openacc.multi_device.dependence import (
    Filter,
    Guards,
    Names,
    Predicate,
    WrittenRegion,
    contribution_of,
    guards_of,
    tested_plainly,
    written_regions,
)
from offloadrt.extensions.openacc.multi_device.divided import (
    DividedKernel,
    Share,
    combination,
    counts_from_the_front,
    evenly,
    nest_body,
    separate,
    split_values,
    with_scalars,
    written,
)
from offloadrt.kernels.accesses import ArrayAccess, Loop, Path, Reduction, Walk, loops_of
from offloadrt.kernels.algebra import Polynomial
from offloadrt.kernels.array_use import KernelError
from offloadrt.kernels.counting import CountedLaunch, Range, extent
from offloadrt.kernels.kernel import Kernel, of_source
from offloadrt.kernels.loop_subset import LoopNest
from offloadrt.kernels.ranges import Box
from offloadrt.kernels.source import Source


@attrs.frozen(eq=False)
class PredicatedKernel(DividedKernel):
    """A kernel changed so that each device runs all iterations, but accesses only what its part of the arrays needs.

    This is JACC's predicate-based filtering.
    """

    _plain: tuple[tuple[ArrayAccess, int], ...] = attrs.field(repr=False)
    """Accesses, each with a dimension in which its index must not be below zero."""
    _contributions: tuple[tuple[Reduction, Predicate], ...] = attrs.field(repr=False)
    _loop: Loop | None = attrs.field(repr=False)
    """The loop whose iterations divide the contributions to reductions that no written region divides; None without
    any.
    """

    @property
    def divided(self) -> tuple[WrittenRegion, ...]:
        """Return the written arrays that are divided among the devices.

        The kernel takes a pair of bounds for each, and then one for the loop whose iterations are split.
        """
        return tuple(region for region in self.written if region.dimension is not None)

    def split(self, devices: int, arguments: Sequence[Any]) -> tuple[Share, ...]:
        self._check(devices, arguments)
        launch = self._counted_launch(self.original, arguments)
        for access, dimension in self._plain:
            counts_from_the_front(self.original, access, dimension, launch)
        parts = []
        for region in self.divided:
            low, high = self._written_range(region, launch, arguments[region.position].shape)
            pieces = evenly(high - low + 1, devices)
            parts.append([(low + first, low + after - 1) for first, after in pieces])
        if self._loop is not None:
            parts.append(split_values(self.original, self._loop, launch, devices))
        return tuple(Share(device, bounds) for device, bounds in enumerate(zip(*parts, strict=True)))

    def accessing(self, share: Share, arguments: Sequence[Any]) -> float:
        now, undivided = self._counted_launches_of(share, arguments)
        paths = [distributed_part(access.path) for access in self._accesses]
        most = max((undivided.runs(path) for path in paths if path), default=0.0)
        return max(now.runs(path) for path in paths if path) / most if most else 1.0

    def owned(self, region: WrittenRegion, share: Share, arguments: Sequence[Any]) -> list[Box]:
        box = [(0, length - 1) for length in arguments[region.position].shape]
        assert region.dimension is not None
        box[region.dimension] = share.bounds[self.divided.index(region)]
        return [tuple(box)]

    def _written_range(self, region: WrittenRegion, launch: CountedLaunch, shape: Sequence[int]) -> tuple[int, int]:
        """Return the first and the last index along a region's dimension that may be stored to."""
        assert self.original.analysis is not None and region.dimension is not None
        length = shape[region.dimension]
        lows, highs = [], []
        for access in self.original.analysis.accesses:
            if access.array != region.name or access.kind != "write" or not launch.runs(access.path):
                continue
            index = access.index[region.dimension]
            low, high = (index is not None and launch.extent(index, access.path)) or (0, length - 1)
            if high < 0 and index is not None and index.constant is not None:
                low, high = low + length, high + length
            elif -length <= low < 0:  # some of it counts from the end
                low, high = 0, max(high, length - 1)
            bounds = [bound for loop in loops_of(access.path) for bound in (loop.start, loop.stop) if bound is not None]
            exact = not access.guarded and not any("@" in symbol for bound in bounds for symbol in bound.symbols)
            if exact and not 0 <= low <= high < length:
                raise KernelError(
                    f"{self.original.analysis.file}:{access.line}: kernel {self.original.name!r}: {access.text} is "
                    f"stored at {low} to {high}, which is not in 0 to {length - 1}"
                )
            lows.append(max(low, 0))
            highs.append(min(high, length - 1))
        for reduction, predicate in self._contributions:
            if predicate.region == region.name and launch.runs(reduction.path):
                assert predicate.index is not None
                ends = launch.extent(predicate.index, reduction.path)
                if ends is None or not 0 <= ends[0] <= ends[1] < length:
                    raise KernelError(
                        f"{self.original.analysis.file}:{reduction.line}: kernel {self.original.name!r}: which device "
                        f"reduces into {reduction.target} cannot be told, as {predicate.show()} is not known to be an "
                        f"index of {region.name}; run it on one device"
                    )
                lows.append(ends[0])
                highs.append(ends[1])
        return (min(lows), max(highs)) if lows else (0, -1)


def distributed_part(path: Path) -> Path:
    """Return the loops and branches on the way to an access that decide which distributed iterations make it.

    These are the distributed loops, and the branches that no other loop decides. Returns nothing for an access outside
    of distributed loops.
    """
    within = {loop.symbol for loop in loops_of(path) if not loop.distributed}
    kept = tuple(part for part in path if (part.distributed if isinstance(part, Loop) else not part.symbols & within))
    return kept if loops_of(kept) else ()


def predicate(kernel: Kernel) -> PredicatedKernel:
    """Make the kernel in which each device accesses only what it needs.

    Raises KernelError for a kernel without source, and SourceRefused, with file and line, where every device would have
    to make every access. If an index to a written array may be below zero at a launch although the source does not say
    so, `split` raises KernelError.
    """
    nest_body(kernel)
    reducing, element_of = with_scalars(kernel)
    nest = nest_body(reducing).nest
    source = nest.source
    assert reducing.analysis is not None
    walked, loop = reducing.analysis.walked, reducing.analysis.distributed[0]
    names = Names(source)
    separated = separate(nest, names, element_of, walked.complex_scalars)
    left, partials = (nest, ()) if separated is None else (separated.nest, separated.partials)
    scalars = [reduction.scalar for reduction in partials]
    reductions = [reduction for reduction in walked.reductions if reduction.target in scalars]
    written_parts = written_regions(nest, walked)
    if not written_parts:
        source.refuse(source.tree, "it writes no array", "run it on one device")
    guards, contributions, divided = _divide(left, walked, written_parts, reductions, scalars)
    if not divided and not partials:
        store = next(access for access in walked.accesses if (access.node, "write") in guards)
        why = guards[store.node, "write"].always
        assert why is not None
        source.refuse(why.node, f"{store.text} cannot be divided: {why.what}", "run it on one device")
    regions = tuple(
        region if region.name in divided else attrs.evolve(region, dimension=None) for region in written_parts
    )
    split = any(predicate.region == loop.name for predicate in contributions.values())
    if split and (loop.start is None or loop.stop is None):
        what = "the bounds of the loop whose reductions are divided are read from data"
        source.refuse(nest.distributed[0], what, "run it on one device")
    shared = [*(name for name in nest.parameters if name in divided), *([loop.name] if split else [])]
    bounds = {name: (names.fresh(f"{name}_lb"), names.fresh(f"{name}_ub")) for name in shared}
    body = Filter(left, guards, bounds, names).block(left.source.body)
    body += [] if separated is None else separated.stores
    added = [ast.arg(name) for pair in bounds.values() for name in pair]
    added += () if separated is None else separated.parameters
    used = {node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    parameters = [argument for argument in (*source.parameters, *added) if argument.arg in used]
    text = written(source.tree.name, len(nest.distributed), parameters, body)
    return PredicatedKernel(
        kernel,
        of_source(kernel, source.rewritten(text, "predicated"), len(nest.distributed)),
        text,
        regions,
        None if separated is None else combination(kernel, nest, separated),
        tested_plainly(nest, walked, regions),
        tuple(contributions.items()),
        loop if split else None,
    )


def _divide(
    nest: LoopNest,
    walked: Walk,
    regions: Sequence[WrittenRegion],
    reductions: Sequence[Reduction],
    scalars: Sequence[str],
) -> tuple[Guards, dict[Reduction, Predicate], set[str]]:
    """Find the guards of all accesses, on which device each reduction is done, and which written arrays are divided.

    A reduction is done on the device that owns an element of a divided array. Whether an array is divided depends on
    the guards, so arrays that turn out not to be are removed from the candidates, and the search starts again. scalars:
    the reduced scalars.
    """
    loop, candidates = walked.distributed[0], tuple(regions)
    while True:
        in_iteration = Predicate(loop.name, Polynomial.symbol(loop.symbol))  # of the device that runs the iteration
        contributions = {
            reduction: contribution_of(nest, walked, candidates, reduction) or in_iteration for reduction in reductions
        }
        feeding = {reduction.statement: predicate for reduction, predicate in contributions.items()}
        guards = guards_of(nest, walked, regions, feeding, scalars)
        stores = [access for access in walked.accesses if (access.node, "write") in guards]
        divided = {access.array for access in stores if guards[access.node, "write"].restricts}
        if all(predicate.region in {*divided, loop.name} for predicate in contributions.values()):
            return guards, contributions, divided
        candidates = tuple(region for region in candidates if region.name in divided)


@attrs.frozen(eq=False)
class SplitKernel(DividedKernel):
    """A kernel changed so that each device runs a part of the iterations of the outermost distributed loop.

    This is the pass of MACC, an earlier compiler of OpenACC for several devices with which the JACC paper compares.
    """

    def split(self, devices: int, arguments: Sequence[Any]) -> tuple[Share, ...]:
        self._check(devices, arguments)
        analysis = self.original.analysis
        assert analysis is not None
        launch = self._counted_launch(self.original, arguments)
        along = {region.name: region.dimension for region in self.written}
        for access in analysis.accesses:
            if (dimension := along.get(access.array)) is not None:
                counts_from_the_front(self.original, access, dimension, launch)
        bounds = split_values(self.original, analysis.distributed[0], launch, devices)
        return tuple(Share(device, (pair,)) for device, pair in enumerate(bounds))

    def owned(self, region: WrittenRegion, share: Share, arguments: Sequence[Any]) -> list[Box]:
        low, high = share.bounds[0]
        stores = [access for access in self._accesses if access.array == region.name and access.kind == "write"]
        stored = self.reach(stores, share, arguments, region.dimension) if low <= high else []
        if stored is None:
            what = f"where {region.name} is stored in a part of the loop is not known; divide it by predicates"
            where = f"{analysis.file}:{stores[0].line}: " if (analysis := self.original.analysis) else ""
            raise KernelError(f"{where}kernel {self.original.name!r}: {what}")
        return stored


def split_loop(kernel: Kernel) -> SplitKernel:
    """Make the kernel of which each device runs a part of the outermost distributed loop.

    Raises KernelError for a kernel without source, and SourceRefused, with file and line, where iterations are not
    proven to store different elements.
    """
    nest_body(kernel)
    reducing, element_of = with_scalars(kernel)
    nest = nest_body(reducing).nest
    source, analysis = nest.source, reducing.analysis
    assert analysis is not None
    outer, loop = nest.distributed[0], analysis.distributed[0]
    names = Names(source)
    separated = separate(nest, names, element_of, analysis.walked.complex_scalars)
    left = nest if separated is None else separated.nest
    for statement in left.source.body[left.source.body.index(outer) + 1 :]:
        source.refuse(statement, "it stands after the loop that is split", "run it on one device")
    for reduction in analysis.reductions:
        if "[" in reduction.target:
            what = "is reduced by the loop that is split, but not in each iteration, or it is used besides"
            source.refuse(
                reduction.statement, f"{reduction.target} {what}", "reduce a scalar, and store that afterwards"
            )
    if loop.start is None or loop.stop is None:
        source.refuse(outer, "the bounds of the loop that is split are read from data", "run it on one device")
    regions = []
    for region in written_regions(nest, analysis.walked):
        accesses = [access for access in analysis.accesses if access.array == region.name and loop in access.path]
        stored = any(access.kind == "write" for access in accesses)
        regions.append(attrs.evolve(region, dimension=_own_dimension(source, accesses, loop) if stored else None))
    low, high = names.fresh(f"{loop.name}_lb"), names.fresh(f"{loop.name}_ub")
    ends = f"{low}, {high} + 1" if loop.step > 0 else f"{high}, {low} - 1"
    split = copy.copy(outer)
    split.iter = ast.parse(f"range({ends}{'' if loop.step == 1 else f', {loop.step}'})", mode="eval").body
    body = [split if statement is outer else statement for statement in left.source.body]
    body += [] if separated is None else separated.stores
    used = {node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    parameters = [argument for argument in source.parameters if argument.arg in used]
    added = [ast.arg(low), ast.arg(high), *(() if separated is None else separated.parameters)]
    text = written(source.tree.name, len(nest.distributed), [*parameters, *added], body)
    changed = of_source(kernel, source.rewritten(text, "split"), len(nest.distributed))
    combining = None if separated is None else combination(kernel, nest, separated)
    return SplitKernel(kernel, changed, text, tuple(regions), combining)


def _own_dimension(source: Source, accesses: list[ArrayAccess], loop: Loop) -> int:
    """Return the leftmost dimension in which each iteration has indices of its own. Raises SourceRefused if none."""
    for access in accesses:
        if access.through:
            what = f"{access.text} is scattered: {', '.join(sorted(access.through))} decides which element it is"
            source.refuse(access.node, what, "divide it by predicates")
    for dimension in range(len(accesses[0].index)):
        if _blocks_are_apart([_block(access, dimension, loop) for access in accesses]):
            return dimension
    what = f"iterations of the loop over {loop.name} are not proven to store different elements of {accesses[0].array}"
    return source.refuse(accesses[0].node, what, "divide it by predicates")


def _block(access: ArrayAccess, dimension: int, loop: Loop) -> tuple[Polynomial, Range] | None:
    """Return how far apart the blocks of indices of two neighbouring iterations are, and the ends of one block.

    Returns None where they are not known.
    """
    index = access.index[dimension]
    if index is None or not index.is_affine_in({loop.symbol}):
        return None
    inner = access.path[access.path.index(loop) + 1 :]
    variables = {loop.symbol for loop in loops_of(inner)}
    distance = index.coefficient(loop.symbol)
    ends = extent(index.without({loop.symbol}), inner, {})
    if ends is None or distance.symbols & variables or any("@" in symbol for end in ends for symbol in end.symbols):
        return None
    return distance, ends


def _blocks_are_apart(blocks: list[tuple[Polynomial, Range] | None]) -> bool:
    known_blocks = [block for block in blocks if block is not None]
    distance = known_blocks[0][0] if len(known_blocks) == len(blocks) else Polynomial.number(0)
    if distance.constant == 0 or distance.sign is None or any(other != distance for other, _ in known_blocks):
        return False
    length = distance if distance.sign > 0 else distance * Polynomial.number(-1)
    beyond = [
        high - low + Polynomial.number(1) - length for _, (_, high) in known_blocks for _, (low, _) in known_blocks
    ]
    return all(more.constant == 0 or more.sign == -1 for more in beyond)
