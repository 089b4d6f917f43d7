"""From a function that is a loop nest to its kernel: source, subset, analysis and body together."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from offloadrt.kernels.analysis import KernelAnalysis
from offloadrt.kernels.execution import NestBody
from offloadrt.kernels.kernel import Kernel
from offloadrt.kernels.source import Source, is_loop_nest
from offloadrt.kernels.subset import read


def as_loop_nest(kernel: Kernel, function: Callable[..., None], collapse: int) -> Kernel:
    """The kernel with body, costs and arrays from its function's source; as it is when that is no loop nest.

    Raises SourceRefused, and KernelError when the source cannot be read.
    """
    source = Source.of(function, "kernel")
    if not is_loop_nest(source):
        return kernel
    nest = read(source, collapse)
    analysis = KernelAnalysis.of(nest, kernel.name)
    return attrs.evolve(
        kernel,
        body=NestBody(nest, analysis),
        flops_per_iteration=analysis.flops,
        bytes_per_iteration=analysis.bytes,
        arrays=analysis.arrays,
        analysis=analysis,
    )
