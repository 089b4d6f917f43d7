"""Updates the host while a kernel in an async queue may still run."""

from typing import Any

from offloadrt import Run, kernel, scenario
from offloadrt import openacc as acc


@kernel
def double(a: Any, n: int) -> None:
    for i in range(n):
        a[i] = a[i] * 2.0


@scenario(machine="alex-a100")
async def updated(run: Run, wait: bool = False) -> None:
    run.options = acc.OpenACCOptions()

    async def body(t: acc.HostThread) -> None:
        a = t.array("a", 1024, fill=1.0)
        async with t.data(acc.copyin(a)):
            await t.parallel(double, a, 1024, async_=1)
            if wait:
                await t.wait(1)
            await t.update(acc.host(a))
            await t.wait()

    await run.parallel(body)
