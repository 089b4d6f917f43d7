"""What does one more small map cost at each launch?"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from offloadrt import Range, Run, kernel, scenario
from offloadrt import openmp as omp


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def add(a: Any, s: Any) -> None:
    a += s[0]


@scenario(machine="isambard-mi100", sweep={"how": ("present", "mapped", "always", "update", "firstprivate")})
async def mapped_scalar(
    run: Run,
    how: Literal["present", "mapped", "always", "update", "firstprivate"] = "mapped",
    n: Annotated[int, Range(1, 1 << 32)] = 1 << 14,
    kernels: Annotated[int, Range(1, 1_000_000)] = 200,
) -> dict[str, float]:
    """Kernels on a present array and a scalar.

    Parameters:
        how: the scalar is present; mapped by each region; mapped with `always`; updated before; or firstprivate
        n: doubles in the array
        kernels: that are timed
    """
    run.phantom = True

    async def body(t: omp.HostThread) -> None:
        a, s = t.array("a", n), t.array("s", 1)
        await t.target_enter_data(omp.map(to=a if how == "mapped" else [a, s]))
        maps = {"mapped": [omp.map(to=s)], "always": [omp.map(to=s, always=True)]}.get(how, [])
        private = [s] if how == "firstprivate" else []
        async with run.measure():
            for _ in range(kernels):
                if how == "update":
                    await t.target_update(omp.to(s))
                await t.target(add, a, s, maps=maps, firstprivate=private, teams=108, iterations=n)

    await run.parallel(body)
    return {"per_kernel_s": run.elapsed / kernels}
