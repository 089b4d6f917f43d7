"""Small recorded runs of ExaHyPE in managed memory, and what is counted in their traces."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from offloadrt.models import openmp as omp
from offloadrt.papers.exahype.program import Experiment, Setup
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.definition import scenario
from offloadrt.study.scripts.parameters import Range
from offloadrt.study.validation.probing import Facts, Span, copies, kernels, recorded
from offloadrt.trace import events

Threads = Annotated[int, Range(1, 128)]
Batch = Annotated[int, Range(1, 64)]
Case = Literal["euler2d", "euler3d", "ccz4"]


@scenario
async def unified(run: Run, threads: Threads = 1, batch: Batch = 4, batches: Annotated[int, Range(1, 64)] = 2) -> Facts:
    """Run ExaHyPE in managed memory, then map an ordinary array: who copies, who faults, what is managed."""
    run.phantom = True
    setup = Setup(memory="managed", batch=batch, threads=threads, patches=batch * batches)
    updated = await Experiment(run.openmp, setup).update()
    migrations, explicit = _copies(run)
    ends = [end.time_ps for end in recorded(run, events.KernelEnd)]
    host = run.statistics.engines["host memory"]
    alone_s = host.bytes / run.spec.value("host.memcpy_1t")

    async def ordinary(t: omp.HostThread) -> bool:
        array = t.array("ordinary", 1 << 12)
        await t.target_enter_data(omp.map(to=array))
        await t.target_exit_data(omp.map(release=array))
        return array.managed

    (managed,) = await run.parallel(ordinary)
    return {
        "kernels": len(ends),
        "device_copies": len(explicit),
        "kernels_that_faulted": len({fault.kernel for fault in recorded(run, events.PageFaultBegin)}),
        "host_faults": run.statistics.faults["cpu_page_fault_count"],
        "migrations_after_the_last_kernel": sum(
            copy.direction == "d2h" and copy.time_ps >= max(ends) for copy in migrations
        ),
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
    """Measure what one pass over all patches asks of link and handler, after another one met all first-use costs.

    `peak`: the most bytes that any `window_us` of the pass moved over the link, as a rate. `one_kernel`: how long link
    and page-fault handler were busy, over the time that kernels were on the device.
    """
    run.phantom = True
    setup = Setup(
        memory=memory, equations=equations, patch=patch, threads=threads, batch=batch, patches=batch * batches
    )
    experiment = Experiment(run.openmp, setup)
    await experiment.warm_up()
    before, begin = run.statistics.engines, run.sim.now
    async with run.measure():
        await experiment.update()
    ran = [span for span in kernels(run) if span.begin >= begin * 1e12]

    def busy(name: str) -> float:
        after = run.statistics.engines
        return float(after[name].busy_s - before[name].busy_s) if name in after else 0.0

    transfers = [span for span in copies(run) if span.begin >= begin * 1e12]
    return {
        "elapsed_s": run.elapsed,
        "kernels": len(ran),
        "on_device_s": math.fsum((span.end - span.begin) * 1e-12 for span in ran),
        "handler_s": busy("device 0 page fault handler"),
        "link_s": busy("device 0 copy engine h2d"),
        "peak_bytes_per_s": _peak(transfers, window_us * 1e6) / (window_us * 1e-6),
        "bytes": sum(span.first.bytes for span in transfers),
    }


def _copies(run: Run) -> tuple[list[events.CopyBegin], list[events.CopyBegin]]:
    """Separate the migrations of managed memory so far from transfers that the program or the runtime asked for."""
    begun = recorded(run, events.CopyBegin)
    return [copy for copy in begun if copy.memory == "managed"], [copy for copy in begun if copy.memory != "managed"]


def _peak(transfers: list[Span[events.CopyBegin]], window: float) -> float:
    """Find the most bytes that move in one window; a transfer's bytes are spread evenly over its time (ps)."""
    moved: dict[int, float] = {}
    for span in transfers:
        for number in range(int(span.begin // window), int(span.end // window) + 1):
            part = min(span.end, (number + 1) * window) - max(span.begin, number * window)
            share = part / (span.end - span.begin) if span.end > span.begin else 1.0
            moved[number] = moved.get(number, 0.0) + share * span.first.bytes
    return max(moved.values(), default=0.0)
