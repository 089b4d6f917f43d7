"""Is an `async` clause worth it where all kernels run in order?"""

from __future__ import annotations

from typing import Annotated, Any

from offloadrt import Range, Run, kernel, scenario
from offloadrt import openacc as acc


@kernel(flops_per_iteration=2, bytes_per_iteration=24)
def short(a: Any) -> None:
    a += 1.0


@scenario(machine="dgx1-v100")
async def acc_async(
    run: Run,
    asynchronous: bool = True,
    n: Annotated[int, Range(1, 1 << 32)] = 1 << 16,
    kernels: Annotated[int, Range(1, 1_000_000)] = 300,
) -> dict[str, float]:
    """A time loop of short kernels on present data.

    Parameters:
        asynchronous: all kernels go into one async queue
        n: doubles that a kernel works on
        kernels: of the loop
    """
    run.options = acc.OpenACCOptions(phantom=True)

    async def body(t: acc.HostThread) -> None:
        a = t.array("a", n)
        await t.enter_data(acc.copyin(a))
        async with run.measure():
            for _ in range(kernels):
                await t.parallel(short, a, default="present", iterations=n, async_=1 if asynchronous else None)
            await t.wait()

    await run.parallel(body)
    return {"per_kernel_s": run.elapsed / kernels}
