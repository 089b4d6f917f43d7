"""What does an array of structs cost at each kernel whose mapper goes through its elements?"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from offloadrt import Range, Run, kernel, scenario
from offloadrt import openmp as omp


@kernel(flops_per_iteration=2, bytes_per_iteration=24)
def work(a: Any) -> None:
    pass


@scenario(machine="mi300a", sweep={"how": ("block", "elements"), "elements": (10, 100, 1000)})
async def mapped_elements(
    run: Run,
    how: Literal["block", "elements"] = "elements",
    elements: Annotated[int, Range(1, 100_000)] = 1000,
    components: Annotated[int, Range(1, 64)] = 4,
    kernels: Annotated[int, Range(1, 10_000)] = 5,
) -> dict[str, float]:
    """Kernels on an array of structs that is present.

    Parameters:
        how: the array is mapped as one block, or each component of each element
        elements: of the array
        components: of an element, two doubles each
        kernels: that are timed
    """
    run.phantom = True
    n = 2 * components * elements

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", n)
        await t.target_enter_data(omp.map(to=a))
        parts = [a] if how == "block" else [omp.section(a, 2 * i, 2) for i in range(elements * components)]
        async with run.measure():
            for _ in range(kernels):
                await t.target(work, a, maps=omp.map(tofrom=parts), teams=64, iterations=n)

    await run.parallel(body)
    return {"per_kernel_s": run.elapsed / kernels}
