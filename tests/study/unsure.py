"""Scenarios of which it is known how sure an answer is."""

from __future__ import annotations

from typing import Literal

from offloadrt import Run, kernel, scenario
from offloadrt import openmp as omp


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def scale(a):
    a *= 2.0


@scenario(machine="alex-a100")
async def twins(run: Run, label: int = 0, later_s: float = 0.0, threads: int = 2, steps: int = 1) -> dict[str, float]:
    """Does the same whatever its label is, so many times, and so many seconds more."""

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 512, fill=1.0)
        for _ in range(steps):
            await t.target(scale, a, maps=omp.map(tofrom=a), iterations=512)

    await run.parallel(body, threads)
    await run.sim.sleep(later_s)
    return {"label": float(label)}


@scenario(machine="alex-a100")
async def work(run: Run, where: Literal["device", "host"] = "device", host_s: float = 30e-6) -> None:
    """Frees a block of the device, or sleeps: which is faster depends on what a free takes."""

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 512, fill=1.0)
        async with t.target_data(omp.map(to=a)):
            pass

    await run.parallel(body, 1)
    async with run.measure():
        await run.parallel(body, 1) if where == "device" else await run.sim.sleep(host_s)


@scenario
async def without_a_machine(run: Run, seconds: float = 1.0) -> None:
    await run.sim.sleep(seconds)
