"""A five-point stencil between two managed grids, which fit into the device's memory or not."""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, scenario
from offloadrt.papers.independent.programs import managed
from offloadrt.papers.independent.programs.managed import AS_PROFILED, FaultRules
from offloadrt.study.scripts.parameters import Value


@scenario(machine="t4", sweep={"n": (4000, 8000, 16000), "prefetch": (True, False)})
async def stencil(
    run: Run,
    n: Annotated[int, Range(3, 1 << 17)] = 8000,
    iterations: Annotated[int, Range(1, 100_000)] = 20,
    occupied_mib: Annotated[int, Range(0, 1 << 17)] = 0,
    rules: FaultRules = AS_PROFILED,
) -> dict[str, Value]:
    """Kernels go to and fro between two managed grids that the host has written, with one synchronisation at the end.

    Parameters:
        n: edge of the grids
        iterations: kernels
        occupied_mib: MiB of device memory that the program allocates before, and does not use
    """
    loop = rules.loop(run)
    await run.parallel(lambda t: managed.stencil(t, loop, n, iterations, occupied_mib))
    return loop.figures()
