"""How good the compilers' code is: factors of kernels' times, which no runtime can produce. All are inputs.

A kernel's flops and bytes are counted from its source; what it takes on one V100 is known for groups of kernels
(`Timed`). A factor is the one over the other: the time that was measured over that of a code at the machine's limits.
"""

from __future__ import annotations

import functools
from typing import Final

from offloadrt.machine import load
from offloadrt.machine.compute_spec import ComputeSpec
from offloadrt.models.host.launch import launch_of
from offloadrt.models.openacc import Effects
from offloadrt.papers.jacc.programs.benchmark import Benchmark, extent

MACHINE: Final = "dgx1-v100"
"""On which the paper measured."""

FASTER_WITH_RESTRICT: Final = 1.2339
"""BT and LU, PGI (jacc.opt.restrict_up: the better of both)."""
SLOWER_WITH_RESTRICT: Final = 1 / (1 - 0.0559)
"""EP, GCC (jacc.opt.restrict_down)."""
SLOWER_WITH_VAR_OPT: Final = 1.05
"""EP and SP, GCC: jacc.opt.varopt says that they get slower; how much is an engineering estimate."""
EP_BY_GCC: Final = 1.3831
"""GCC's code for EP over PGI's (jacc.gcc.ep)."""

RELATIVE: Final = {
    ("BT", "pgi"): Effects(restrict=1 / FASTER_WITH_RESTRICT),
    ("LU", "pgi"): Effects(restrict=1 / FASTER_WITH_RESTRICT),
    ("EP", "gcc"): Effects(generated=EP_BY_GCC, restrict=SLOWER_WITH_RESTRICT, var_opt=SLOWER_WITH_VAR_OPT),
    ("SP", "gcc"): Effects(var_opt=SLOWER_WITH_VAR_OPT),
}
"""By benchmark and compiler, relative to PGI's code without specializations. Generated code is taken to be as good as
that of the original program: jacc.base.change has no number.
"""


@functools.cache
def factors(benchmark: Benchmark) -> dict[str, float]:
    """By kernel: what it takes on one V100 over what its counts take there at the machine's limits."""
    compute = load(MACHINE).read(ComputeSpec)
    executions = benchmark.program(extent).executions()
    alone: dict[str, float] = {}
    for call, times in executions.items():
        seconds = compute.time_alone(launch_of(call.kernel, call.values))
        alone[call.kernel.name] = alone.get(call.kernel.name, 0.0) + times * seconds
    named = {name for group in benchmark.timed for name in group.kernels}
    at_limits = sum(alone[name] for group in benchmark.timed if group.seconds is None for name in group.kernels)
    found: dict[str, float] = {}
    for group in benchmark.timed:
        names = group.kernels or tuple(name for name in alone if name not in named)
        factor = 1.0
        if group.seconds is not None:
            rest = 0.0 if group.kernels else at_limits
            factor = (group.seconds - rest) / sum(alone[name] for name in names)
        found |= dict.fromkeys(names, factor)
    return found


def effects(benchmark: Benchmark, compiler: str) -> dict[str, Effects]:
    """By kernel, for JACC's runtime."""
    relative = RELATIVE.get((benchmark.name, compiler), Effects())
    return {
        name: Effects(factor * relative.generated, relative.restrict, relative.var_opt)
        for name, factor in factors(benchmark).items()
    }
