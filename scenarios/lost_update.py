"""A program that OpenMP allows, and that loses an update: LLVM counts a mapping down before the kernel has ended."""

from __future__ import annotations

from typing import Annotated, Any

from offloadrt import Range, Run, kernel, scenario
from offloadrt import openmp as omp


@kernel(flops_per_iteration=3e3)
def increment(a: Any, i: int) -> None:
    for j in range(i, i + 1):
        a[j] = a[j] + 1.0


@scenario(machine="mi300x", results=("arrived",))
async def lost_update(run: Run, gap_us: Annotated[float, Range(0.0, 1e6)] = 10.0) -> dict[str, float]:
    """Two threads add one to elements of their own of an array that both map; the last one to unmap it copies back.

    A region's reference ends with its kernel, so that OpenMP brings back all. The last kernel takes 90 us.
    gap_us: how much later the second thread goes on. Measures how many increments the host's array has at the end.
    """
    shared: list[omp.HostArray] = []

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            shared.append(t.array("a", 512, fill=0.0))
        await t.barrier()
        a = shared[0]
        await t.target_enter_data(omp.map(to=a))
        await t.target(increment, a, t.number)
        await t.sleep(gap_us * 1e-6 * t.number)
        if t.number == 0:
            await t.target_exit_data(omp.map(from_=a))
            await t.target(increment, a, 2, maps=omp.map(tofrom=a), teams=1, iterations=1024)
        else:
            await t.target(increment, a, 1, maps=omp.map(tofrom=a))
            await t.target_exit_data(omp.map(from_=a))

    await run.parallel(body, num_threads=2)
    return {"increments": 4.0, "arrived": float(shared[0].data.sum())}
