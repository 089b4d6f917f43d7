"""Ten programs, each with one bottleneck that was put there on purpose."""

from __future__ import annotations

from typing import Any

from offloadrt import Run, kernel, scenario
from offloadrt import openmp as omp

MIB = 1 << 17
"""Doubles."""


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def scale(a: Any) -> None:
    a *= 2.0


@kernel(flops_per_iteration=40_000)
def think(a: Any) -> None:
    a *= 2.0


async def in_threads(run: Run, threads: int, body: Any) -> None:
    run.phantom = True
    await run.parallel(body, num_threads=threads)


@scenario
async def slow_free(run: Run) -> None:
    """Frees take 200 us, and all threads need the lock under which they do."""
    run.set("alloc.cudaFree", "200us")
    run.allocator = "direct"

    async def body(t: omp.HostThread) -> None:
        a = t.array(f"a{t.number}", 1000)
        for _ in range(4):
            await t.target(scale, a, maps=omp.map(tofrom=a), teams=108, iterations=1000)

    await in_threads(run, 8, body)


@scenario
async def hot_entry_lock(run: Run) -> None:
    """All threads copy one array again and again, each copy under the lock of its entry."""
    a = None

    async def body(t: omp.HostThread) -> None:
        nonlocal a
        if t.number == 0:
            a = t.array("a", 64 * MIB)
            await t.target_enter_data(omp.map(to=a))
        await t.barrier()
        for _ in range(3):
            await t.target_enter_data(omp.map(to=a, always=True))

    await in_threads(run, 6, body)


@scenario
async def saturated_copy_engine(run: Run) -> None:
    """Many threads copy arrays in pinned memory at the same time."""

    async def body(t: omp.HostThread) -> None:
        a = t.array(f"a{t.number}", 16 * MIB)
        await t.target_enter_data(omp.map(alloc=a))
        for _ in range(4):
            await t.target_update(omp.to(a))

    run.set("host.memcpy_1t", "1000GB/s")
    run.set("host.memcpy_max", "10000GB/s")
    await in_threads(run, 8, body)


@scenario
async def one_core_too_few(run: Run) -> None:
    """Four threads compute for equally long, on three cores."""
    run.set("cpu.cores", 3)

    async def body(t: omp.HostThread) -> None:
        for _ in range(4):
            await t.compute(0.001)
            await t.barrier()

    await in_threads(run, 4, body)


@scenario(machine="mi300a")
async def fault_storm(run: Run) -> None:
    """A kernel is the first to touch all of a large array."""
    run.configuration = "usm"

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 512 * MIB)
        await t.target(scale, a, teams=228, iterations=512 * MIB)

    await in_threads(run, 1, body)


@scenario
async def always_map(run: Run) -> None:
    """Each kernel is preceded and followed by copies that `always` asks for."""

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 16 * MIB)
        await t.target_enter_data(omp.map(to=a))
        for _ in range(5):
            await t.target(scale, a, maps=omp.map(tofrom=a, always=True), teams=108, iterations=MIB)

    await in_threads(run, 1, body)


@scenario
async def underfilled_kernel(run: Run) -> None:
    """A long kernel has four teams, for 108 SMs."""

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 1000)
        await t.target(think, a, maps=omp.map(tofrom=a), teams=4, threads=128, iterations=100_000)

    await in_threads(run, 1, body)


@scenario
async def uneven_work(run: Run) -> None:
    """One of four threads computes four times as long, and the others wait for it."""

    async def body(t: omp.HostThread) -> None:
        await t.compute(0.004 if t.number == 2 else 0.001)
        await t.barrier()

    await in_threads(run, 4, body)


@scenario(machine="mi300a")
async def small_dma_ring(run: Run) -> None:
    """All copies pass one slow ring."""
    run.configuration = "copy"
    run.set("dma.rings", 1)
    run.set("dma.bw", "2GB/s")

    async def body(t: omp.HostThread) -> None:
        a = t.array(f"a{t.number}", MIB // 2)
        async with t.target_data(omp.map(alloc=a)):
            for _ in range(6):
                await t.target_update(omp.to(a))

    await in_threads(run, 6, body)


@scenario(machine="t4")
async def oversubscribed(run: Run) -> None:
    """A managed array has more pages than the device has memory."""
    run.configuration = "managed"
    run.set("mem.size", "96MiB")
    run.set("mem.reserved", "32MiB")

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 96 * MIB)
        await t.host_access(a)
        for _ in range(2):
            await t.target(scale, a, teams=80, iterations=96 * MIB)

    await in_threads(run, 1, body)
