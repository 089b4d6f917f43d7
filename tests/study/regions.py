"""One region with its transfers, on the host, and with its data mapped before: what a verdict compares."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from offloadrt import kernel, scenario
from offloadrt import openmp as omp
from offloadrt.study import Run

N = 4_000_000


@kernel
def scale(a: NDArray[np.float64]) -> None:
    for i in range(len(a)):
        a[i] = 2.0 * a[i] + 1.0


@scenario(machine="alex-a100")
async def region(run: Run, where: Literal["device", "host", "mapped"] = "device") -> None:
    """Run a region four times."""

    async def program(t: omp.HostThread) -> None:
        a = t.array("a", N)
        if where == "mapped":
            await t.target_enter_data(omp.map(to=a))
        async with run.measure():
            with run.phase("scaling"):
                for _ in range(4):
                    await t.target(scale, a, maps=omp.map(tofrom=a), if_=where != "host")

    await run.parallel(program)
