"""The quality of the compilers' code: factors of kernels' times, which no runtime can produce. All are inputs.

A kernel's flops and bytes are counted from its source. What it takes on one V100 is known for groups of kernels
(`Timed`). A factor is the measured time over the time of a code at the machine's limits.
"""

from __future__ import annotations

import functools
from typing import Final

from offloadrt.machine import load
from offloadrt.machine.compute.compute_spec import ComputeSpec
from offloadrt.models.host.launch import launch_of
from offloadrt.models.openacc import Effects
from offloadrt.papers.jacc.programs.benchmark import Benchmark, extent

MACHINE: Final = "dgx1-v100"
"""The machine on which the paper measured."""

FASTER_WITH_RESTRICT: Final = 1.2339
"""The factor of BT and LU with PGI (claim jacc.opt.restrict_up gives the better of the two)."""
SLOWER_WITH_RESTRICT: Final = 1 / (1 - 0.0559)
"""The factor of EP with GCC (claim jacc.opt.restrict_down)."""
SLOWER_WITH_VAR_OPT: Final = 1.05
"""The factor of EP and SP with GCC.

Claim jacc.opt.varopt says that they get slower; by how much is an engineering estimate.
"""
EP_BY_GCC: Final = 1.3831
"""GCC's code for EP relative to PGI's (claim jacc.gcc.ep)."""

RELATIVE: Final = {
    ("BT", "pgi"): Effects(restrict=1 / FASTER_WITH_RESTRICT),
    ("LU", "pgi"): Effects(restrict=1 / FASTER_WITH_RESTRICT),
    ("EP", "gcc"): Effects(generated=EP_BY_GCC, restrict=SLOWER_WITH_RESTRICT, var_opt=SLOWER_WITH_VAR_OPT),
    ("SP", "gcc"): Effects(var_opt=SLOWER_WITH_VAR_OPT),
}
"""Factors of each benchmark and compiler, relative to PGI's code without specializations.

Generated code is taken to be as good as the original program's, because claim jacc.base.change gives no number.
"""


@functools.cache
def factors(benchmark: Benchmark) -> dict[str, float]:
    """Return, for each kernel, its time on one V100 over the time of its counts at the machine's limits."""
    compute = load(MACHINE).read(ComputeSpec)
    executions = benchmark.program(extent).executions()
    alone: dict[str, float] = {}
    for call, times in executions.items():
        seconds = compute.seconds_on_idle_device(launch_of(call.kernel, call.values))
        alone[call.kernel.name] = alone.get(call.kernel.name, 0.0) + times * seconds
    named = {name for group in benchmark.timed for name in group.kernels}
    at_limits = sum(alone[name] for group in benchmark.timed if group.seconds is None for name in group.kernels)
    by_kernel: dict[str, float] = {}
    for group in benchmark.timed:
        names = group.kernels or tuple(name for name in alone if name not in named)
        factor = 1.0
        if group.seconds is not None:
            rest = 0.0 if group.kernels else at_limits
            factor = (group.seconds - rest) / sum(alone[name] for name in names)
        by_kernel |= dict.fromkeys(names, factor)
    return by_kernel


def effects(benchmark: Benchmark, compiler: str) -> dict[str, Effects]:
    """Return the factors of each kernel under JACC's runtime."""
    relative = RELATIVE.get((benchmark.name, compiler), Effects())
    return {
        name: Effects(factor * relative.generated, relative.restrict, relative.var_opt)
        for name, factor in factors(benchmark).items()
    }
