"""The example program of the zero-copy paper (its Figure 2): two mapped arrays and a global, in a loop."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from offloadrt import Range, Run, kernel, scenario
from offloadrt import openmp as omp


@kernel(flops_per_iteration=2, bytes_per_iteration=24)
def add_scaled(a: Any, b: Any, alpha: Any) -> None:
    a += alpha[0] * b


@scenario(machine="mi300a")
async def fig2_zerocopy(
    run: Run,
    n: Annotated[int, Range(1)] = 1 << 20,
    iterations: Annotated[int, Range(1)] = 4,
    configuration: Literal["copy", "usm", "implicit_zero_copy", "eager_maps", "environment"] = "copy",
    phantom: bool = False,
) -> dict[str, Any]:
    """Two arrays are mapped around a loop; the host changes a global before each kernel and maps it with `always`.

    Under `copy` the arrays move once and the global with every kernel; under `usm` nothing moves, and the kernel sees
    what the host wrote. Under `implicit_zero_copy` and `eager_maps` only the global moves; the latter fills the GPU's
    page table at each map of an array, where the others have the first kernel fault.

    Parameters:
        n: doubles in each array
        iterations: kernels, each after a new value of the global
        configuration: what a map means; `environment`: as the runtime chooses (`--env HSA_XNACK=0`)
        phantom: sizes without numbers
    """
    alpha = run.openmp.declare_target("alpha", 1, fill=0.0)

    async def body(t: omp.HostThread) -> float:
        a = t.array("a", n, fill=1.0)
        b = t.array("b", n, fill=2.0)
        async with t.target_data(omp.map(tofrom=a), omp.map(to=b)):
            for iteration in range(iterations):
                if not run.phantom:
                    alpha[0] = float(iteration)
                await t.target(add_scaled, a, b, alpha, maps=[omp.map(to=alpha, always=True)], teams=108, iterations=n)
        return 0.0 if run.phantom else float(a[0])

    (value,) = await run.parallel(body, num_threads=1)
    assert run.phantom or value == 1.0 + iterations * (iterations - 1)
    return {"per_iteration_s": run.elapsed / iterations, "a0": value}
