"""A Fourier transform in managed memory."""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, scenario
from offloadrt.papers.independent.programs import managed
from offloadrt.papers.independent.programs.managed import AS_PROFILED, FaultRules
from offloadrt.study.scripts.parameters import Value


@scenario(machine="t4", sweep={"n": (1 << 26, 1 << 27, 1 << 28)})
async def cufft(
    run: Run,
    n: Annotated[int, Range(2, 1 << 34)] = 1 << 27,
    rules: FaultRules = AS_PROFILED,
) -> dict[str, Value]:
    """One transform, in place, of single-precision complex numbers that the host has written.

    Parameters:
        n: points
    """
    loop = rules.loop(run)
    await run.parallel(lambda t: managed.cufft(t, loop, n))
    return loop.figures()
