"""One pool: memory that is kept when it is freed costs no call of the driver the next time."""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, scenario
from offloadrt import openmp as omp


@scenario(machine="alex-a100", sweep={"allocator": ("direct", "pool"), "threads": (1, 4)})
async def one_pool(run: Run, threads: Annotated[int, Range(1, 256)] = 1, allocator: str = "direct") -> dict[str, float]:
    """Each thread allocates device memory and frees it, ten times.

    Parameters:
        threads: host threads
        allocator: direct (cuMemAlloc and cuMemFree each time), or pool, which keeps blocks
    """
    run.options = omp.OpenMPOptions(allocator=allocator)

    async def body(t: omp.HostThread) -> float:
        await t.barrier()  # behind the start of the runtime
        begin = t.sim.now
        for _ in range(10):
            await t.omp_target_free(await t.omp_target_alloc(1 << 20))
        return (t.sim.now - begin) / 10

    times = await run.parallel(body, num_threads=threads)
    return {"pair_s": max(times)}
