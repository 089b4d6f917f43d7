"""How much longer than the next one does a program's first target region take?"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from offloadrt import Range, Run, kernel, scenario
from offloadrt import openmp as omp


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def add_one(a: Any) -> None:
    a += 1.0


@scenario(machine="alex-a100", sweep={"start": ("warm", "loaded", "cold")})
async def first_region(
    run: Run, start: Literal["warm", "loaded", "cold"] = "cold", n: Annotated[int, Range(1, 1 << 32)] = 1 << 20
) -> dict[str, float]:
    """Two target regions, one after the other, on an array that they map.

    Parameters:
        start: what the first region finds: everything; driver and context; nothing
        n: doubles in the array
    """
    run.set("runtime.start", start)
    run.phantom = True
    times: list[float] = []

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", n)
        for _ in range(2):
            begin = run.sim.now
            await t.target(add_one, a, teams=108, iterations=n)
            times.append(run.sim.now - begin)

    await run.parallel(body)
    return {"first_s": times[0], "second_s": times[1]}
