"""One map: copy, kernel, copy back; a second map of the same array in the same region copies nothing."""

from __future__ import annotations

from typing import Any, Literal

from offloadrt import Run, kernel, scenario
from offloadrt import openmp as omp


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def add_one(a: Any) -> None:
    a += 1.0


@scenario(machine="alex-a100", sweep={"mapped": ("each time", "once")})
async def one_map(run: Run, mapped: Literal["each time", "once"] = "each time") -> dict[str, float]:
    """One thread runs a kernel twice on an array of 1 MiB.

    Parameters:
        mapped: around each kernel, or once around both
    """

    async def body(t: omp.HostThread) -> float:
        a = t.array("a", 1 << 17, fill=1.0)

        async def twice() -> None:
            for _ in range(2):
                await t.target(add_one, a, maps=omp.map(tofrom=a), iterations=1 << 17)

        if mapped == "once":
            async with t.target_data(omp.map(tofrom=a)):
                await twice()
        else:
            await twice()
        return float(a[0])

    (first,) = await run.parallel(body)
    return {"first": first}
