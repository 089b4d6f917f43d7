"""What does a launch with its wait cost, by the number of threads and devices?"""

from __future__ import annotations

from typing import Annotated, Any

from offloadrt import Range, Run, kernel, scenario
from offloadrt import openmp as omp


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def add_one(a: Any) -> None:
    a += 1.0


@scenario(machine="alex-a100", sweep={"threads": (1, 2, 4, 8)})
async def launch_and_wait(
    run: Run,
    threads: Annotated[int, Range(1, 1024)] = 1,
    devices: Annotated[int, Range(1, 64)] = 1,
    launches: Annotated[int, Range(1, 1_000_000)] = 300,
    n: Annotated[int, Range(1, 1 << 32)] = 4096,
) -> dict[str, float]:
    """Each host thread runs small target regions on an array that is mapped already.

    Parameters:
        threads: of the host; they are dealt out to the devices
        devices: that are used
        launches: of a thread
        n: doubles in a thread's array
    """
    run.phantom = True

    async def body(t: omp.HostThread) -> None:
        t.omp_set_default_device(t.number % devices)
        a = t.array("a", n)
        await t.target_enter_data(omp.map(to=a))
        for _ in range(launches):
            await t.target(add_one, a, teams=4, iterations=n)

    await run.parallel(body, num_threads=threads)
    return {"per_launch_s": run.elapsed / launches, "per_launch_of_all_s": run.elapsed / launches / threads}
