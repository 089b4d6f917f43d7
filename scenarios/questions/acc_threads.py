"""Do several host threads of an OpenACC program help or block one another?"""

from __future__ import annotations

from typing import Annotated, Any

from offloadrt import Range, Run, kernel, scenario
from offloadrt import openacc as acc


@kernel(flops_per_iteration=50, bytes_per_iteration=16)
def work(a: Any) -> None:
    a += 1.0


@scenario(machine="dgx1-v100", sweep={"threads": (1, 2, 4, 8, 16)})
async def acc_threads(
    run: Run,
    threads: Annotated[int, Range(1, 1024)] = 8,
    regions: Annotated[int, Range(1, 100_000)] = 320,
    kib: Annotated[int, Range(1, 1 << 20)] = 256,
    arrays: Annotated[int, Range(1, 64)] = 4,
) -> dict[str, float]:
    """Host threads share data regions, each with kernels in a queue of its thread.

    Parameters:
        threads: of the host
        regions: of all threads together
        kib: of an array, in KiB
        arrays: copied in and out by a region, with a kernel each
    """
    run.options = acc.OpenACCOptions(phantom=True)

    async def body(t: acc.HostThread) -> None:
        mine = [t.array(f"a{i}", kib << 7) for i in range(arrays)]
        for _ in range(t.number, regions, threads):
            async with t.data(acc.copy(*mine)):
                for a in mine:
                    await t.parallel(work, a, default="present", iterations=kib << 7, async_=t.number)
                await t.wait(t.number)

    await run.parallel(body, num_threads=threads)
    return {"per_region_s": run.elapsed / regions}
