"""STREAM's triad over managed arrays: how fast do the pages of a sweep migrate?"""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, cuda, scenario
from offloadrt.papers.independent.programs import sweeps
from offloadrt.papers.independent.programs.managed import FaultRules, KernelLoop
from offloadrt.study.scripts.parameters import Value


@scenario(machine="t4", sweep={"elements": (1 << 27, 1 << 28, 1 << 29)})
async def stream(
    run: Run,
    elements: Annotated[int, Range(1, 1 << 34)] = 1 << 27,
    batch_limit: Annotated[int | None, Range(1, 65536)] = None,
    threshold: Annotated[int | None, Range(0, 100)] = None,
    prefetch: bool = True,
) -> dict[str, Value]:
    """One triad over three managed arrays of floats that the host has written.

    Parameters:
        elements: of each array
        batch_limit: faults that the driver takes from the buffer at a time; none: as the machine's profile says
        threshold: per cent of a subtree above which the driver prefetches it; none: as the profile says
        prefetch: whether the driver prefetches at all
    """
    run.options = cuda.CUDAOptions(phantom=True)
    FaultRules(batch_limit, threshold, prefetch).apply(run)
    loop = KernelLoop(run)
    await run.parallel(lambda t: sweeps.stream(t, loop, elements))
    return {"touched_bytes_per_s": 3 * 4 * elements / run.elapsed, **loop.figures()}
