"""Programs whose concurrency the mutants of `mutants.py` break, and which the runtime as it is survives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np

from offloadrt import Run, kernel
from offloadrt import openmp as omp
from offloadrt.extensions.exploring.tested import ExploredTest
from offloadrt.sim import Signal

Main = Callable[[Run], Awaitable[None]]


def program(main: Main, **options: Any) -> ExploredTest:
    """Make a program of a function of a run."""

    async def test(offload: Run) -> None:
        await main(offload)

    def make(**changes: Any) -> Run:
        return Run(gear="turbo", **{**options, **changes})

    return ExploredTest(main.__name__, Path(__file__), test, {}, make)


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def increment(a: Any, place: int) -> None:
    a[place] += 1.0


async def sharing(run: Run) -> None:
    """Threads map one array again and again, and each increments its own element of it."""
    threads, rounds = 3, 2
    shared: dict[str, omp.HostArray] = {}

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            shared["a"] = t.array("a", threads, fill=0.0)
        await t.barrier()
        await t.compute(t.number * 2e-3)  # one after the other, unless a schedule holds one of them up
        for _ in range(rounds):
            async with t.target_data(omp.map(tofrom=shared["a"])):
                await t.target(increment, shared["a"], t.number, iterations=1)

    await run.parallel(body, num_threads=threads)
    assert (shared["a"].data == rounds).all()
    assert not len(run.openmp.device(0).table)


async def taking_over(run: Run) -> None:
    """A thread maps an array and runs a kernel; another one, which comes later, finds it mapped and runs one, too."""
    a: dict[str, omp.HostArray] = {}

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            a["a"] = t.array("a", 2, fill=0.0)
        await t.barrier()
        await t.compute(t.number * 2e-3)
        async with t.target_data(omp.map(tofrom=a["a"])):
            await t.target(increment, a["a"], t.number, iterations=1)
            await t.compute(3e-3)

    await run.parallel(body, num_threads=2)
    assert (a["a"].data == 1.0).all()


async def pooled(run: Run) -> None:
    """Threads take blocks of a pool, write to them, and read them back."""
    managers: dict[str, omp.GpuMemoryManager] = {}

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            managers["pool"] = omp.GpuMemoryManager(run.openmp)
        await t.barrier()
        mine, back = t.array("mine", 8, fill=float(t.number)), t.array("back", 8)
        for _ in range(2):
            block = await managers["pool"].allocate(t, 64, mine)
            await t.compute(5e-6)
            await managers["pool"].free(t, block, back)
            assert (back.data == t.number).all()

    await run.parallel(body, num_threads=3)


async def evicting(run: Run) -> None:
    """A thread gives the pool back as soon as no block is in use."""
    managers: dict[str, omp.GpuMemoryManager] = {}

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            managers["pool"] = omp.GpuMemoryManager(run.openmp)
        await t.barrier()
        if t.number == 0:
            await t.compute(400e-6)
            while True:
                try:
                    await managers["pool"].release_all(t)
                    return
                except RuntimeError:
                    await t.compute(50e-6)
        mine, back = t.array("mine", 8, fill=1.0), t.array("back", 8)
        block = await managers["pool"].allocate(t, 64, mine)
        await managers["pool"].free(t, block, back)
        assert (back.data == 1.0).all()

    await run.parallel(body, num_threads=2)


async def allocating(run: Run) -> None:
    """Threads allocate and free small blocks, which LLVM's memory manager pools."""

    async def body(t: omp.HostThread) -> None:
        for _ in range(2):
            pointer = await t.omp_target_alloc(64)
            assert pointer is not None
            await t.omp_target_free(pointer)

    await run.parallel(body, num_threads=2)


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def keep(values: Any, own: Any) -> None:
    values[:] = own


async def privatizing(run: Run) -> None:
    """Threads run kernels with firstprivate arrays, whose blocks LLVM's memory manager pools."""

    async def body(t: omp.HostThread) -> None:
        await t.compute(t.number * 800e-6)
        values, own = t.array("values", 8, fill=0.0), t.array("own", 8, fill=1.0 + t.number)
        for _ in range(2):
            async with t.target_data(omp.map(tofrom=values)):
                await t.target(keep, values, own, firstprivate=own, iterations=10_000_000)
            assert (values.data == 1.0 + t.number).all()

    await run.parallel(body, num_threads=2)


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def double(rows: Any) -> None:
    rows[0] *= 2.0


async def attaching(run: Run) -> None:
    """A thread maps the pointee of a mapped pointer again and again, while another one allocates and frees."""

    async def body(t: omp.HostThread) -> None:
        if t.number:
            await t.compute(400e-6)
            pointer = await t.omp_target_alloc(64)
            assert pointer is not None
            await t.compute(5e-3)
            await t.omp_target_free(pointer)
            return
        row, table = t.array("row", 8, fill=1.0), t.array("table", 1, np.dtype([("row", "u8")]))
        table["row"] = row.address
        await t.target_enter_data(omp.map(to=table))
        for _ in range(3):
            await t.target_enter_data(omp.map(to=omp.pointee(table, "row", row, 0)))
            await t.target(double, omp.pointees(table, 8, np.float64, member="row"), iterations=1)
            await t.target_exit_data(omp.map(from_=omp.pointee(table, "row", row, 0)))
        await t.target_exit_data(omp.map(delete=table))
        assert (row.data == 8.0).all()

    await run.parallel(body, num_threads=2)


def neighbours(distance: int = 1, early: bool = False) -> Main:
    """Threads write what their neighbour reads, after its signal and before a barrier."""

    async def exchanging(run: Run) -> None:
        threads = 3
        cells, written = np.zeros(threads), [Signal(run.sim, f"written {n}") for n in range(threads)]

        async def body(t: omp.HostThread) -> None:
            await t.compute((3 - t.number) * 5e-6)
            cells[t.number] = 1.0
            written[t.number].set()
            left = (t.number + 1) % threads
            await written[(t.number + distance) % threads].wait()
            await t.compute(20e-6)
            assert cells[left] >= 1.0, "the neighbour has written"
            if early:
                await t.barrier()
            await t.compute(5e-6)
            cells[t.number] += 1.0
            if not early:
                await t.barrier()
            await t.compute(20e-6)
            assert cells[left] == 2.0, "all have written twice"

        await run.parallel(body, num_threads=threads)

    return exchanging


async def meeting(run: Run) -> None:
    """Threads meet at a barrier again and again."""

    async def body(t: omp.HostThread) -> None:
        for _ in range(3):
            await t.compute((1 + t.number) * 1e-6)
            await t.barrier()

    await run.parallel(body, num_threads=3)


SOUND: dict[str, Main] = {
    "sharing": sharing,
    "taking over": taking_over,
    "pooled": pooled,
    "evicting": evicting,
    "allocating": allocating,
    "exchanging": neighbours(),
    "meeting": meeting,
    "attaching": attaching,
    "privatizing": privatizing,
}
