"""A Fourier transform in managed memory."""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, cuda, scenario
from offloadrt.papers.independent.programs import dense
from offloadrt.papers.independent.programs.managed import FaultRules, KernelLoop
from offloadrt.study.scripts.parameters import Value


@scenario(machine="t4", sweep={"n": (1 << 26, 1 << 27, 1 << 28)})
async def cufft(
    run: Run,
    n: Annotated[int, Range(2, 1 << 34)] = 1 << 27,
    batch_limit: Annotated[int | None, Range(1, 65536)] = None,
    threshold: Annotated[int | None, Range(0, 100)] = None,
    prefetch: bool = True,
) -> dict[str, Value]:
    """One transform, in place, of single-precision complex numbers that the host has written.

    Parameters:
        n: points
        batch_limit: faults that the driver takes from the buffer at a time; none: as the machine's profile says
        threshold: per cent of a subtree above which the driver prefetches it; none: as the profile says
        prefetch: whether the driver prefetches at all
    """
    run.options = cuda.CUDAOptions(phantom=True)
    FaultRules(batch_limit, threshold, prefetch).apply(run)
    loop = KernelLoop(run)
    await run.parallel(lambda t: dense.cufft(t, loop, n))
    return loop.figures()
