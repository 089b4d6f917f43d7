"""The smallest scenario that shows overlap: threads that map, compute and copy back on their own."""

from __future__ import annotations

from typing import Annotated, Any

from offloadrt import Range, Run, kernel, scenario
from offloadrt import openmp as omp


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def scale(a: Any, s: float) -> None:
    a *= s


@scenario(machine="alex-a100")
async def overlap(
    run: Run,
    threads: Annotated[int, Range(1, 4096)] = 8,
    n: Annotated[int, Range(1)] = 1 << 20,
    configuration: str = "copy",
    phantom: bool = False,
) -> dict[str, float]:
    """Each thread maps its own array, runs one kernel and takes the array back.

    Parameters:
        threads: host threads
        n: doubles in each thread's array
        configuration: what a map means, which offloadrt reads itself: `copy` moves the array, `managed` lets its pages
            go to whoever touches them, `usm` leaves it where it is
        phantom: sizes without numbers
    """

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", n, fill=1.0)
        async with t.target_data(omp.map(tofrom=a)):
            await t.target(scale, a, 2.0, teams=108, iterations=n)
        await t.host_access(a)
        assert run.phantom or a[0] == 2.0

    await run.parallel(body, num_threads=threads)
    return {"per_thread_s": run.elapsed / threads}
