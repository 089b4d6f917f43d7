"""What does device memory cost that is allocated and freed around each use?"""

from __future__ import annotations

from typing import Annotated, Any

from offloadrt import Range, Run, kernel, scenario
from offloadrt import openmp as omp


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def scale(a: Any) -> None:
    a *= 2.0


@scenario(machine="alex-a100", sweep={"threads": (1, 8, 32), "mib": (1.0, 64.0)})
async def temporaries(
    run: Run,
    threads: Annotated[int, Range(1, 1024)] = 1,
    uses: Annotated[int, Range(1, 100_000)] = 50,
    mib: Annotated[float, Range(1e-3, 1 << 16)] = 1.0,
    launch: bool = True,
) -> dict[str, float]:
    """Each host thread allocates memory, runs a kernel on it and frees it, again and again.

    Parameters:
        threads: of the host
        uses: of a thread
        mib: of an allocation, in MiB
        launch: whether a kernel runs on it
    """
    run.phantom = True
    n = int(mib * 2**20) // 8

    async def body(t: omp.HostThread) -> None:
        for _ in range(uses):
            p = await t.omp_target_alloc(8 * n)
            if launch:
                await t.target(scale, p, teams=108, iterations=n, is_device_ptr=p)
            await t.omp_target_free(p)

    await run.parallel(body, num_threads=threads)
    return {"per_use_s": run.elapsed / uses, "per_use_of_all_s": run.elapsed / uses / threads}
