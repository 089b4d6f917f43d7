"""Small recorded runs of ExaHyPE in managed memory, and what is counted in their traces."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from offloadrt.models import openmp as omp
from offloadrt.papers.exahype.judges.probes import Facts, pairs, rows
from offloadrt.papers.exahype.program import Experiment, Setup
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.definition import scenario
from offloadrt.study.scripts.parameters import Range
from offloadrt.trace import Row

Threads = Annotated[int, Range(1, 128)]
Batch = Annotated[int, Range(1, 64)]
Case = Literal["euler2d", "euler3d", "ccz4"]


@scenario
async def unified(run: Run, threads: Threads = 1, batch: Batch = 4, batches: Annotated[int, Range(1, 64)] = 2) -> Facts:
    """ExaHyPE in managed memory, then an ordinary array that is mapped: who copies, who faults, what is managed."""
    run.phantom = True
    setup = Setup.create(memory="managed", batch=batch, threads=threads, patches=batch * batches)
    updated = await Experiment(run.openmp, setup).update()
    migrations, explicit = _copies(run)
    last_kernel = max(row[1] for row in rows(run, "KernelEnd"))
    kernels = len(rows(run, "KernelEnd"))
    host = run.statistics.engines["host memory"]
    alone_s = host.bytes / run.spec.value("host.memcpy_1t")

    async def ordinary(t: omp.HostThread) -> bool:
        array = t.array("ordinary", 1 << 12)
        await t.target_enter_data(omp.map(to=array))
        await t.target_exit_data(omp.map(release=array))
        return array.managed

    (managed,) = await run.parallel(ordinary)
    return {
        "kernels": kernels,
        "device_copies": len(explicit),
        "kernels_that_faulted": len({row[6] for row in rows(run, "PageFaultBegin")}),
        "host_faults": run.statistics.faults["cpu_page_fault_count"],
        "migrations_after_the_last_kernel": sum(row[7] == "d2h" and row[1] >= last_kernel for row in migrations),
        "overlapped_s": max(alone_s + host.wait_s - host.busy_s, 0.0),
        "copies_s": alone_s + host.wait_s,
        "blocks": updated.blocks,
        "hits": updated.hits,
        "managed_allocations": run.calls.table()["cuMemAllocManaged"].count,
        "ordinary_is_managed": bool(managed),
        "ordinary_copies": len(_copies(run)[1]) - len(explicit),
    }


@scenario
async def link_demand(
    run: Run,
    memory: Literal["pool", "managed"] = "managed",
    equations: Case = "euler3d",
    patch: int | None = None,
    threads: Threads = 1,
    batch: Batch = 8,
    batches: Annotated[int, Range(1, 64)] = 4,
    window_us: Annotated[float, Range(1, None)] = 100.0,
) -> Facts:
    """One pass over all patches, after another one that met all first-use costs: what it asks of link and handler.

    `peak`: the most bytes that any `window_us` of the pass moved over the link, as a rate. `one_kernel`: how long link
    and page-fault handler were busy, over the time that kernels were on the device.
    """
    run.phantom = True
    setup = Setup.create(
        memory=memory, equations=equations, patch=patch, threads=threads, batch=batch, patches=batch * batches
    )
    experiment = Experiment(run.openmp, setup)
    await experiment.warm_up()
    before, begin = run.statistics.engines, run.sim.now
    async with run.measure():
        await experiment.update()
    kernels = [one for one in pairs(run, "Kernel", "KernelStart", "KernelEnd") if one[0] >= begin * 1e12]
    on_device_s = math.fsum((end - start) * 1e-12 for start, end, _ in kernels)

    def busy(name: str) -> float:
        after = run.statistics.engines
        return float(after[name].busy_s - before[name].busy_s) if name in after else 0.0

    transfers = [one for one in pairs(run, "Copy") if one[0] >= begin * 1e12]
    return {
        "elapsed_s": run.elapsed,
        "kernels": len(kernels),
        "on_device_s": on_device_s,
        "handler_s": busy("device 0 page fault handler"),
        "link_s": busy("device 0 copy engine h2d"),
        "peak_bytes_per_s": _peak(transfers, window_us * 1e6) / (window_us * 1e-6),
        "bytes": sum(int(row[9]) for _, _, row in transfers),
    }


def _copies(run: Run) -> tuple[list[Row], list[Row]]:
    """Transfers so far: migrations of managed memory, and those that the program or the runtime asked for."""
    found = rows(run, "CopyBegin")
    return [row for row in found if row[10] == "managed"], [row for row in found if row[10] != "managed"]


def _peak(transfers: list[tuple[int, int, Row]], window: float) -> float:
    """The most bytes that move in one window; a transfer's bytes are spread evenly over its time (ps)."""
    found: dict[int, float] = {}
    for begin, end, row in transfers:
        for number in range(int(begin // window), int(end // window) + 1):
            part = min(end, (number + 1) * window) - max(begin, number * window)
            share = part / (end - begin) if end > begin else 1.0
            found[number] = found.get(number, 0.0) + share * int(row[9])
    return max(found.values(), default=0.0)
