"""Every page of a managed array in order, a thread a page: what does a fault cost that nothing hides?"""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, cuda, scenario
from offloadrt.papers.independent.programs import sweeps
from offloadrt.papers.independent.programs.managed import FaultRules, KernelLoop
from offloadrt.study.scripts.parameters import Value


@scenario(machine="t4", sweep={"nbytes": (1 << 20, 1 << 24, 1 << 28), "prefetch": (True, False)})
async def touch_pages(
    run: Run,
    nbytes: Annotated[int, Range(1, 1 << 40)] = 1 << 26,
    batch_limit: Annotated[int | None, Range(1, 65536)] = None,
    threshold: Annotated[int | None, Range(0, 100)] = None,
    prefetch: bool = True,
) -> dict[str, Value]:
    """One kernel that touches each 4 KiB page of an array that the host has written.

    Parameters:
        nbytes: of the array
        batch_limit: faults that the driver takes from the buffer at a time; none: as the machine's profile says
        threshold: per cent of a subtree above which the driver prefetches it; none: as the profile says
        prefetch: whether the driver prefetches at all
    """
    run.options = cuda.CUDAOptions(phantom=True)
    FaultRules(batch_limit, threshold, prefetch).apply(run)
    loop = KernelLoop(run)
    await run.parallel(lambda t: sweeps.touch_pages(t, loop, nbytes))
    return loop.figures()
