"""The arrays that a kernel writes, and the dimension along which several devices share each of them out.

JACC divides a written region along the dimension with the most parallel iterators, the leftmost one of equals (in C).
Parallel are the distributed loops, by declaration, and the loops inside whose iterations share no scalar and no
element. Where no parallel loop runs along a dimension (a reduction), every device writes all of the array.
"""

from __future__ import annotations

import attrs

from offloadrt.kernels.accesses import ArrayAccess, Loop, Walk, loops_of
from offloadrt.kernels.loop_subset import LoopNest, reads_first
from offloadrt.kernels.source import RangeLoop, assignments, within


@attrs.frozen
class WrittenRegion:
    """A written array."""

    name: str
    position: int
    """Which of the kernel's arguments it is, from 0."""
    dimension: int | None
    """The dimension along which it is divided, from 0 for the leftmost; None when every device writes all of it."""
    line: int
    """The line of its first store."""


def written_regions(nest: LoopNest, walked: Walk) -> tuple[WrittenRegion, ...]:
    """Return the written arrays of a nest in the order of its parameters."""
    parallel = parallel_loops(nest, walked)
    regions = []
    for position, name in enumerate(nest.parameters):
        stores = [access for access in walked.accesses if access.array == name and access.kind == "write"]
        if stores:
            line = min(access.line for access in stores)
            regions.append(WrittenRegion(name, position, _dimension(stores, parallel), line))
    return tuple(regions)


def _dimension(stores: list[ArrayAccess], parallel: set[str]) -> int | None:
    iterators = [0] * len(stores[0].index)
    from_data = None
    for access in stores:
        for dimension, index in enumerate(access.index):
            if index is not None:
                iterators[dimension] += len(index.symbols & parallel)
            elif access.loops & parallel and from_data is None:
                from_data = dimension
    return iterators.index(max(iterators)) if any(iterators) else from_data


def parallel_loops(nest: LoopNest, walked: Walk) -> set[str]:
    """Return the symbols of the loops that are parallel."""
    loops = [node for node in within(nest.body) if isinstance(node, RangeLoop)]
    return {loop.symbol for loop in loops if loop.node in nest.distributed or _is_parallel(loop, walked)}


def _is_parallel(loop: RangeLoop, walked: Walk) -> bool:
    if any(node.scalar and reads_first(loop.body, node.scalar) for node in assignments(loop.body)):
        return False
    symbol = loop.symbol
    inside = [access for access in walked.accesses if any(_is(part, symbol) for part in access.path)]
    written = {access.array for access in inside if access.kind == "write"}
    return all(_is_apart([access for access in inside if access.array == name], symbol) for name in sorted(written))


def _is(part: object, symbol: str) -> bool:
    return isinstance(part, Loop) and part.symbol == symbol


def _is_apart(accesses: list[ArrayAccess], symbol: str) -> bool:
    """Tell whether each iteration has elements of its own, by one of the dimensions."""
    inner = {
        loop.symbol
        for access in accesses
        for loop in loops_of(access.path[[_is(part, symbol) for part in access.path].index(True) + 1 :])
    }
    for dimension, index in enumerate(accesses[0].index):
        if index is None or index.symbols & inner or not index.is_affine_in({symbol}):
            continue
        if index.coefficient(symbol).constant and all(access.index[dimension] == index for access in accesses):
            return True
    return False
