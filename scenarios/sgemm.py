"""A matrix product over managed memory."""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, scenario
from offloadrt.papers.independent.programs import managed
from offloadrt.papers.independent.programs.managed import AS_PROFILED, FaultRules
from offloadrt.study.scripts.parameters import Value


@scenario(machine="t4", sweep={"n": (4096, 8192, 16384)})
async def sgemm(
    run: Run,
    n: Annotated[int, Range(1, 1 << 17)] = 8192,
    rules: FaultRules = AS_PROFILED,
) -> dict[str, Value]:
    """One product of two square matrices of floats; the host has written all three.

    Parameters:
        n: edge of the matrices
    """
    loop = rules.loop(run)
    await run.parallel(lambda t: managed.sgemm(t, loop, n))
    return {"flop_per_s": 2.0 * n**3 / run.elapsed, **loop.figures()}
