"""A user's question: does one thread's copy hide behind another thread's kernel?"""

from __future__ import annotations

import pytest

from offloadrt import Kernel, Run
from offloadrt import openmp as omp

WORK = Kernel("work", flops_per_iteration=4e5)
N = 1 << 20


async def rounds(t: omp.HostThread, count: int) -> None:
    a = t.array("a", N)
    await t.target_enter_data(omp.map(alloc=a))
    for _ in range(count):
        await t.target_update(omp.to(a))
        await t.target(WORK, a, maps=[omp.map(alloc=a)], teams=54, threads=128)
    await t.target_exit_data(omp.map(release=a))


@pytest.mark.offload(phantom=True)
async def test_two_threads_hide_each_others_copies(offload: Run) -> None:
    async def one(t: omp.HostThread) -> None:
        await rounds(t, 8)

    async def half(t: omp.HostThread) -> None:
        await rounds(t, 4)

    async with offload.measure():
        await offload.parallel(one, num_threads=1)
    alone = offload.elapsed
    async with offload.measure():
        await offload.parallel(half, num_threads=2)
    together = offload.elapsed - alone
    assert 0.4 * alone < together < 0.85 * alone
