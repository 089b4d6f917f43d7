"""`split_loop`: a loop nest as MACC runs it on several devices, by splitting the outermost distributed loop.

Each device does a part of the iterations, and nothing of the others, so that computation is divided too. That needs a
proof that no iteration touches an element that another one stores: along one dimension of each written array, the
indices of iteration i of all loads and stores lie in a block that starts at c·i and is no longer than c. At a launch
with which such an index may be below zero, and so count from the end, the kernel is not split. What it reduces into
scalars is combined afterwards (`partial_values.py`).
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

import attrs

from offloadrt.compilers.multi_device.divided import (
    DividedKernel,
    Share,
    counts_from_the_front,
    nest_body,
    split_values,
)
from offloadrt.compilers.multi_device.filtering import Names
from offloadrt.compilers.multi_device.partial_values import combination, separate
from offloadrt.compilers.multi_device.reduced_elements import with_scalars
from offloadrt.compilers.multi_device.written_regions import WrittenRegion, written_regions
from offloadrt.kernels.accesses import ArrayAccess, Loop, loops_of
from offloadrt.kernels.algebra import Polynomial
from offloadrt.kernels.counting import Range, extent
from offloadrt.kernels.errors import KernelError
from offloadrt.kernels.kernel import Kernel
from offloadrt.kernels.loop_kernel import of_source, written
from offloadrt.kernels.ranges import Box
from offloadrt.kernels.source import Source


@attrs.frozen(eq=False)
class SplitKernel(DividedKernel):
    """A kernel whose outermost distributed loop runs from one bound to another."""

    def split(self, devices: int, arguments: Sequence[Any]) -> tuple[Share, ...]:
        self._check(devices, arguments)
        analysis = self.original.analysis
        assert analysis is not None
        counting = self._counting(self.original, arguments)
        along = {region.name: region.dimension for region in self.written}
        for access in analysis.accesses:
            if (dimension := along.get(access.array)) is not None:
                counts_from_the_front(self.original, access, dimension, counting)
        bounds = split_values(self.original, analysis.distributed[0], counting, devices)
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
    """Make the kernel for several devices, its outermost distributed loop split.

    KernelError for a kernel without source; SourceRefused, with file and line, where iterations are not proven to be
    apart.
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
    """Return the leftmost dimension in which each iteration has indices of its own. Raises SourceRefused."""
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
    """Return the distance between the blocks of neighbouring values of the loop's variable, and a block's ends."""
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
