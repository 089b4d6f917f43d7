"""A user's question about an OpenACC program: what is saved by waiting once, and not after every kernel?"""

from __future__ import annotations

import pytest

from offloadrt import Kernel, Run
from offloadrt import openacc as acc
from offloadrt.study import UserError

STEP = Kernel("step", flops_per_iteration=1e4)
N = 1 << 16


async def steps(t: acc.HostThread, queue: int | None) -> None:
    a = t.array("a", N)
    async with t.data(acc.create(a)):
        for _ in range(20):
            await t.parallel(STEP, a, iterations=N, async_=queue)
        await t.wait()


async def seconds(run: Run, queue: int | None) -> float:
    before = run.elapsed
    async with run.measure():
        await run.parallel(lambda t: steps(t, queue))
    return run.elapsed - before


@pytest.mark.offload(model="openacc", phantom=True)
async def test_a_queue_saves_the_waits(offload: Run) -> None:
    waiting, queued = await seconds(offload, None), await seconds(offload, 1)
    assert queued < waiting
    assert offload.calls.count("cuLaunchKernel") == 40
    assert offload.openacc.compiler.name == "pgi"


@pytest.mark.parametrize("pools", [False, True])
async def test_gcc_asks_the_driver_for_each_launch(offload: Run, pools: bool) -> None:
    offload.options = acc.OpenACCOptions(compiler="gcc", pools=pools, phantom=True)
    await seconds(offload, None)
    assert (offload.calls.count("cuMemAlloc") > 20) is not pools


async def test_a_run_has_one_model(offload: Run) -> None:
    offload.options = acc.OpenACCOptions()
    with pytest.raises(UserError, match=r"run\.openmp: the program's model is openacc"):
        _ = offload.openmp
    other = Run()
    other.options = acc.OpenACCOptions()
    with pytest.raises(UserError, match="a program of openacc has no option 'configuration'"):
        other.configuration = "managed"
