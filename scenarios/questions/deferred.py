"""How many `target nowait` regions are in flight, and what bounds them?"""

from __future__ import annotations

from typing import Annotated, Any

from offloadrt import Range, Run, kernel, scenario
from offloadrt import openmp as omp


@kernel(flops_per_iteration=2_000_000, bytes_per_iteration=16)
def small(a: Any) -> None:
    a += 1.0


@scenario(machine="alex-a100")
async def deferred(
    run: Run, regions: Annotated[int, Range(1, 100_000)] = 80, teams: Annotated[int, Range(1, 4096)] = 6
) -> dict[str, float]:
    """One thread defers small target regions (`nowait`) and waits for all of them.

    Parameters:
        regions: that are deferred
        teams: of a region
    """
    run.phantom = True

    async def body(t: omp.HostThread) -> None:
        p = await t.omp_target_alloc(8 * 128 * teams)
        async with run.measure():
            for _ in range(regions):
                await t.target(small, p, teams=teams, threads=128, iterations=128 * teams, is_device_ptr=p, nowait=True)
            await t.taskwait()

    await run.parallel(body)
    at_once = run.device().compute.statistics().wall_s / run.elapsed
    return {"per_region_s": run.elapsed / regions, "kernels_at_once": at_once}
