"""The quality of the compilers' code: factors of kernels' times, which no runtime can produce. All are inputs.

A kernel's flops and bytes are counted from its source. What all kernels of a program take together on one V100 is an
input (`Benchmark.dup_s`), and gives each program one factor. How the program's time divides among its kernels follows
from the counts.
"""

from __future__ import annotations

import functools
import math
from typing import Final

from offloadrt.machine import load
from offloadrt.machine.compute.residency import ComputeSpec
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
def factor(benchmark: Benchmark) -> float:
    """Return the time of all kernels on one V100 over the time of their counts at the machine's limits."""
    compute = load(MACHINE).read(ComputeSpec)
    executions = benchmark.program(extent).executions()
    at_limits = math.fsum(
        times * compute.seconds_on_idle_device(launch_of(call.kernel, call.values))
        for call, times in executions.items()
    )
    return benchmark.dup_s / at_limits


def effects(benchmark: Benchmark, compiler: str) -> dict[str, Effects]:
    """Return the factors of each kernel under JACC's runtime, which are the same for all of them."""
    relative = RELATIVE.get((benchmark.name, compiler), Effects())
    of_program = Effects(factor(benchmark) * relative.generated, relative.restrict, relative.var_opt)
    return dict.fromkeys(benchmark.program(extent).launches(), of_program)
