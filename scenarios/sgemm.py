"""A matrix product over managed memory."""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, cuda, scenario
from offloadrt.papers.independent.programs import dense
from offloadrt.papers.independent.programs.managed import FaultRules, KernelLoop
from offloadrt.study.scripts.parameters import Value


@scenario(machine="t4", sweep={"n": (4096, 8192, 16384)})
async def sgemm(
    run: Run,
    n: Annotated[int, Range(1, 1 << 17)] = 8192,
    batch_limit: Annotated[int | None, Range(1, 65536)] = None,
    threshold: Annotated[int | None, Range(0, 100)] = None,
    prefetch: bool = True,
) -> dict[str, Value]:
    """One product of two square matrices of floats; the host has written all three.

    Parameters:
        n: edge of the matrices
        batch_limit: faults that the driver takes from the buffer at a time; none: as the machine's profile says
        threshold: per cent of a subtree above which the driver prefetches it; none: as the profile says
        prefetch: whether the driver prefetches at all
    """
    run.options = cuda.CUDAOptions(phantom=True)
    FaultRules(batch_limit, threshold, prefetch).apply(run)
    loop = KernelLoop(run)
    await run.parallel(lambda t: dense.sgemm(t, loop, n))
    return {"flop_per_s": 2.0 * n**3 / run.elapsed, **loop.figures()}
