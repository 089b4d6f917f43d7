"""A user's question: do my threads allocate one after another, and does a memory manager of my own cure it?"""

from __future__ import annotations

from offloadrt import Run
from offloadrt import openmp as omp

SLOW = "50 ms"


async def test_allocations_queue_at_the_table(offload: Run) -> None:
    offload.set("alloc.cudaMalloc_small", SLOW)

    async def body(t: omp.HostThread) -> None:
        await t.target_enter_data(omp.map(to=t.array("a", 8192, kind="static")))

    await offload.parallel(body, num_threads=8)
    assert offload.locks["device table"].contended == 7
    assert offload.elapsed > 7 * 50e-3, "all but the first, which opens a new segment of device memory, take 50 ms"


async def test_a_pool_of_blocks_does_not(offload: Run) -> None:
    offload.set("alloc.cudaMalloc_small", SLOW)
    pool = omp.GpuMemoryManager(offload.openmp)

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 8192)
        block = await pool.allocate(t, a.nbytes, source=a)
        await pool.free(t, block, destination=a)

    await offload.parallel(body, num_threads=8)
    async with offload.measure():
        await offload.parallel(body, num_threads=8)
    assert offload.elapsed < 50e-3, "the second region finds every block there"
    assert offload.calls.table()["cuMemAlloc"].count == 8
    assert offload.locks["device table"].contended == 0
