"""Is a solver slower on host memory in place than on copies, once everything has been touched?"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from offloadrt import Range, Run, kernel, scenario
from offloadrt import openmp as omp


@kernel(flops_per_iteration=10, bytes_per_iteration=48)
def step(a: Any, b: Any) -> None:
    b += a


@scenario(machine="mi300a", sweep={"configuration": ("copy", "usm", "implicit_zero_copy", "eager_maps")})
async def solver_steps(
    run: Run,
    mib: Annotated[float, Range(1e-3, 1 << 16)] = 1024.0,
    steps: Annotated[int, Range(1, 100_000)] = 100,
    configuration: Literal["copy", "usm", "implicit_zero_copy", "eager_maps"] = "implicit_zero_copy",
) -> dict[str, float]:
    """A step over two arrays that the host has written and that stay mapped, again and again.

    Parameters:
        mib: of an array, in MiB
        steps: that are timed, after a first one
        configuration: what a map means
    """
    run.phantom = True
    n = int(mib * 2**17)

    async def body(t: omp.HostThread) -> None:
        a, b = t.array("a", n), t.array("b", n)
        await t.first_touch(a)
        await t.first_touch(b)
        async with t.target_data(omp.map(to=a), omp.map(tofrom=b)):
            await t.target(step, a, b, teams=912, iterations=n)
            async with run.measure():
                for _ in range(steps):
                    await t.target(step, a, b, teams=912, iterations=n)

    await run.parallel(body)
    return {"per_step_s": run.elapsed / steps}
