"""`predicate`: a loop nest as JACC runs it on several devices, by predicate-based filtering.

The kernel is duplicated on every device, with all its iterations and its arithmetic. Each written array is divided
along one dimension (`written_regions.py`), and each access is made only where one of the written parts that it feeds is
the device's own (`dependence.py`, `filtering.py`): memory accesses are divided, computation is not. Reductions, and
what iterations of the distributed loop hand to one another, are done by every device.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import attrs

from offloadrt.kernels.accesses import Access
from offloadrt.kernels.boxes import Box
from offloadrt.kernels.counting import Counting
from offloadrt.kernels.counts import counting_of
from offloadrt.kernels.dependence import guards_of, tested_plainly
from offloadrt.kernels.divided import DividedKernel, Share, counts_from_the_front, evenly, nest_body
from offloadrt.kernels.errors import KernelError
from offloadrt.kernels.filtering import Filter, Names
from offloadrt.kernels.frequency import Loop
from offloadrt.kernels.kernel import Kernel
from offloadrt.kernels.loop_kernel import of_source, written
from offloadrt.kernels.written_regions import WrittenRegion, written_regions


@attrs.frozen(eq=False)
class PredicatedKernel(DividedKernel):
    """A kernel whose accesses are filtered by the predicates of the written regions that they feed."""

    _plain: tuple[tuple[Access, int], ...] = attrs.field(repr=False)
    """Accesses and dimensions of which no index may be below zero."""

    @property
    def divided(self) -> tuple[WrittenRegion, ...]:
        """The written regions that are divided; the kernel takes a pair of bounds for each."""
        return tuple(region for region in self.written if region.dimension is not None)

    def split(self, devices: int, arguments: Sequence[Any]) -> tuple[Share, ...]:
        self._check(devices, arguments)
        assert self.original.analysis is not None
        counting = counting_of(self.original.analysis, arguments)
        for access, dimension in self._plain:
            counts_from_the_front(self.original, access, dimension, counting)
        parts = []
        for region in self.divided:
            low, high = self._written_range(region, counting, arguments[region.position].shape)
            pieces = evenly(high - low + 1, devices)
            parts.append([(low + first, low + after - 1) for first, after in pieces])
        return tuple(Share(device, bounds) for device, bounds in enumerate(zip(*parts, strict=True)))

    def owned(self, region: WrittenRegion, share: Share, arguments: Sequence[Any]) -> list[Box]:
        box = [(0, length - 1) for length in arguments[region.position].shape]
        assert region.dimension is not None
        box[region.dimension] = share.bounds[self.divided.index(region)]
        return [tuple(box)]

    def _written_range(self, region: WrittenRegion, counting: Counting, shape: Sequence[int]) -> tuple[int, int]:
        """The indices along a region's dimension that may be stored to."""
        assert self.original.analysis is not None and region.dimension is not None
        length = shape[region.dimension]
        lows, highs = [], []
        for access in self.original.analysis.accesses:
            if access.array != region.name or access.kind != "write" or not counting.runs(access.path):
                continue
            index = access.index[region.dimension]
            low, high = (index is not None and counting.extent(index, access.path)) or (0, length - 1)
            if high < 0 and index is not None and index.constant is not None:
                low, high = low + length, high + length
            elif -length <= low < 0:  # some of it counts from the end
                low, high = 0, max(high, length - 1)
            loops = [part for part in access.path if isinstance(part, Loop)]
            bounds = [bound for loop in loops for bound in (loop.start, loop.stop) if bound is not None]
            exact = not access.guarded and not any("@" in symbol for bound in bounds for symbol in bound.symbols)
            if exact and not 0 <= low <= high < length:
                raise KernelError(
                    f"{self.original.analysis.file}:{access.line}: kernel {self.original.name!r}: {access.text} is "
                    f"stored at {low} to {high}, which is not in 0 to {length - 1}"
                )
            lows.append(max(low, 0))
            highs.append(min(high, length - 1))
        return (min(lows), max(highs)) if lows else (0, -1)


def predicate(kernel: Kernel) -> PredicatedKernel:
    """The kernel for several devices. KernelError for one without source; SourceRefused, with file and line, where
    every device would have to do every access.

    At a launch with which an index to a written array may be below zero although the source does not say so, `split`
    raises KernelError.
    """
    nest = nest_body(kernel).nest
    source = nest.source
    assert kernel.analysis is not None
    walked = kernel.analysis.walked
    regions = written_regions(nest, walked)
    if not regions:
        source.refuse(source.tree, "it writes no array", "run it on one device")
    guards = guards_of(nest, walked, regions)
    stores = [access for access in walked.accesses if access.kind == "write"]
    divided = {access.array for access in stores if guards[access.node, "write"].restricts}
    if not divided:
        why = guards[stores[0].node, "write"].always
        assert why is not None
        source.refuse(why.node, f"{stores[0].text} cannot be divided: {why.what}", "run it on one device")
    regions = tuple(region if region.name in divided else attrs.evolve(region, dimension=None) for region in regions)
    names = Names(source.tree)
    bounds = {
        name: (names.fresh(f"{name}_lb"), names.fresh(f"{name}_ub")) for name in nest.parameters if name in divided
    }
    body = Filter(nest, guards, regions, bounds, names).block(source.body)
    added = [name for pair in bounds.values() for name in pair]
    used = {node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    parameters = [argument for argument in (*source.parameters, *map(ast.arg, added)) if argument.arg in used]
    text = written(nest, parameters, body)
    changed = of_source(kernel, source.rewritten(text, "predicated"), len(nest.distributed))
    return PredicatedKernel(kernel, changed, text, regions, tested_plainly(nest, walked, regions))
