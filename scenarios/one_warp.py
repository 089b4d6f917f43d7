"""One warp whose lanes are on a page each: how many faults has a batch that nothing else adds to?"""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, cuda, scenario
from offloadrt.papers.independent.programs import pages
from offloadrt.papers.independent.programs.managed import FaultRules, KernelLoop
from offloadrt.study.scripts.parameters import Value


@scenario(machine="t4", sweep={"prefetch": (True, False)})
async def one_warp(
    run: Run,
    batch_limit: Annotated[int | None, Range(1, 65536)] = None,
    threshold: Annotated[int | None, Range(0, 100)] = None,
    prefetch: bool = False,
    phantom: bool = False,
) -> dict[str, Value]:
    """Add two managed arrays with 32 lanes, each on its own page of the three arrays.

    Parameters:
        batch_limit: faults that the driver takes from the buffer at a time; none: as the machine's profile says
        threshold: per cent of a subtree above which the driver prefetches it; none: as the profile says
        prefetch: whether the driver prefetches at all
        phantom: sizes without numbers
    """
    run.options = cuda.CUDAOptions(phantom=phantom)
    FaultRules(batch_limit, threshold, prefetch).apply(run)
    loop = KernelLoop(run)
    await run.parallel(lambda t: pages.one_warp(t, loop))
    batches = run.statistics.fault_batches
    return {**loop.figures(), **{f"batch{number}_faults": batch.faults for number, batch in enumerate(batches, 1)}}
