"""Small recorded runs that show a mechanism of the ExaHyPE paper at work; they measure facts counted in the trace."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Any, Literal

from offloadrt.extensions.evidence.validation.judging import Facts, Span, copies, kernels, recorded
from offloadrt.kernels import Kernel
from offloadrt.models import openmp as omp
from offloadrt.papers.exahype.program import Experiment, Setup
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.definition import scenario
from offloadrt.study.scripts.parameters import Range
from offloadrt.trace import events


@scenario
async def exahype_counts(
    run: Run,
    memory: Literal["map", "pool"] = "map",
    threads: Annotated[int, Range(1, 64)] = 1,
    batch: Annotated[int, Range(1, 64)] = 4,
    batches: Annotated[int, Range(1, 64)] = 2,
    gather: Literal["batch", "patch"] = "batch",
    equations: Literal["euler2d", "euler3d", "ccz4"] = "euler2d",
    allocator: Literal["llvm", "direct"] = "llvm",
) -> Facts:
    """Run ExaHyPE's algorithms once; count their directives, allocations, copies and kernels per batch of patches.

    Each of `threads` host threads has `batches` batches of `batch` patches. memory: map clauses, or the GPU memory
    manager. gather: whether a batch or each patch is copied at once. allocator: that of device memory.
    """
    setup = Setup(
        equations=equations,
        batch=batch,
        threads=threads,
        patches=batch * batches,
        scaling="weak",
        memory=memory,
        gather=gather,
        phantom=True,
    )
    run.phantom = True
    await Experiment(run.openmp, setup).update()
    directives: dict[str, int] = {}
    for directive in recorded(run, events.DirectiveBegin):
        name = directive.name.replace(" nowait", "")
        directives[name] = directives.get(name, 0) + 1
    transfers = recorded(run, events.CopyBegin)
    counts = {
        "enters": directives.get("target enter data", 0),
        "exits": directives.get("target exit data", 0),
        "regions": directives.get("target", 0),
        "kernels": len(recorded(run, events.KernelEnd)),
        "entries_made": len(recorded(run, events.MapInsert)),
        "entries_removed": len(recorded(run, events.MapRemove)),
        "lookups": len(recorded(run, events.MapLookup)),
        "allocations": len(recorded(run, events.Allocate)),
        "frees": len(recorded(run, events.Free)),
        "h2d": sum(copy.direction == "h2d" for copy in transfers),
        "d2h": sum(copy.direction == "d2h" for copy in transfers),
    }
    all_batches = batches * threads
    facts: Facts = {name: count / all_batches for name, count in counts.items()}
    facts |= {"batches": all_batches, "copies": len(transfers)}
    facts["pinned"] = sum(copy.memory == "pinned" for copy in transfers)
    return facts | _table_exclusion(run)


def _most(spans: list[Span[Any]]) -> int:
    """Return the largest number of spans that overlap at one time."""
    changes = sorted([(span.begin, 1) for span in spans] + [(span.end, -1) for span in spans])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def _table_exclusion(run: Run) -> Facts:
    """Check whether the device table was always used by the one actor that held its lock."""
    holder: int | None = None
    holds = overlapping = outside = 0
    uses = (events.MapInsert, events.MapRemove, events.MapLookup)
    for event in recorded(run, events.LockAcquire, events.LockRelease, *uses):
        match event:
            case events.LockAcquire(lock="device table"):
                overlapping += holder is not None
                holder = event.actor
                holds += 1
            case events.LockRelease(lock="device table"):
                holder = None
            case events.MapInsert() | events.MapRemove() | events.MapLookup():
                outside += holder != event.actor
    return {"table_holds": holds, "table_overlaps": overlapping, "table_uses_without_lock": outside}


@scenario
async def manager(run: Run, threads: Annotated[int, Range(2, 64)] = 8, devices: Literal[2] = 2) -> Facts:
    """Check with one thread, and then with several at once, what the GPU memory manager promises; return the facts.

    These are its rules: a block in use is given to no other thread, a free block is used again for a request of the
    same size on the same device, nothing is freed, and one thread at a time is served.
    """
    run.phantom = True
    pool = omp.GpuMemoryManager(run.openmp)
    seen: Facts = {}

    async def alone(t: omp.HostThread) -> None:
        first = await pool.allocate(t, 4096)
        second = await pool.allocate(t, 4096)
        await pool.free(t, first)
        other_size = await pool.allocate(t, 8192)
        other_device = await pool.allocate(t, 4096, device=1)
        again = await pool.allocate(t, 4096)
        seen["in_use_is_not_handed_out"] = second.address != first.address
        seen["free_block_is_reused"] = again.address == first.address
        seen["size_is_part_of_the_key"] = other_size.address not in (first.address, second.address)
        seen["device_is_part_of_the_key"] = other_device.device == 1
        seen["allocations_by_key"] = pool.statistics().allocations
        for block in (again, second, other_size, other_device):
            await pool.free(t, block)

    await run.parallel(alone)
    held: dict[int, set[int]] = {}
    in_use: set[int] = set()
    twice = 0

    async def crowd(t: omp.HostThread) -> None:
        nonlocal twice
        for _ in range(4):
            block = await pool.allocate(t, 1 << 16)
            twice += block.address in in_use
            in_use.add(block.address)
            held.setdefault(block.address, set()).add(t.number)
            await t.compute(1e-6 * (1 + t.number % 3))
            in_use.discard(block.address)
            await pool.free(t, block)

    await run.parallel(crowd, num_threads=threads)
    seen["handed_out_twice"] = twice
    seen["blocks_seen_by_several_threads"] = len([block for block, users in held.items() if len(users) > 1])
    seen["device_frees"] = len(recorded(run, events.Free))
    ends: list[float] = []

    async def at_once(t: omp.HostThread) -> None:
        await t.barrier()
        block = await pool.allocate(t, 1 << 16)
        ends.append(run.sim.now)
        await t.barrier()
        await pool.free(t, block)

    await run.parallel(at_once, num_threads=min(threads, len(held)))
    cost = run.spec.value("gpu_memory_manager.hand_out") * (1 - 1e-9)
    seen["hand_outs"] = len(ends)
    seen["hand_outs_together"] = sum(later - earlier < cost for earlier, later in pairwise(sorted(ends)))
    return seen


@scenario
async def neighbours(run: Run, neighbours: Annotated[int, Range(0, 64)] = 0) -> Facts:
    """Time the kernels of thread 0 while `neighbours` other threads do nothing but map and unmap."""
    run.phantom = True
    busy = Kernel("busy", flops_per_iteration=2e5)
    done = False

    async def body(t: omp.HostThread) -> None:
        nonlocal done
        if t.number == 0:
            pool = omp.GpuMemoryManager(run.openmp)
            block = await pool.allocate(t, 1 << 20)
            for _ in range(8):
                await t.target(busy, block, teams=32, threads=128, iterations=32 * 128)
            done = True
        else:
            array = t.array("neighbour", 1 << 16)
            while not done:
                await t.target_enter_data(omp.map(to=array))
                await t.target_exit_data(omp.map(release=array))

    await run.parallel(body, num_threads=1 + neighbours)
    walls = [(span.end - span.begin) * 1e-12 for span in kernels(run)]
    changes, during, progress = _progress(run)
    transfers = copies(run)
    beside = [copy for copy in transfers for begin, end in progress if max(copy.begin, begin) < min(copy.end, end)]
    return {
        "kernel_wall_s": math.fsum(walls) / len(walls),
        "allocations_and_frees": changes,
        "allocations_and_frees_in_progress": during,
        "copies": len(transfers),
        "copies_in_progress": len(beside),
    }


def _progress(run: Run) -> tuple[int, int, list[tuple[int, int]]]:
    """Count allocations and frees, and those made while a kernel made progress; also return when kernels did (ps)."""
    resident = halts = changes = during = 0
    since: int | None = None
    progress = []
    kinds = (events.KernelStart, events.KernelEnd, events.Drain, events.Resume, events.Allocate, events.Free)
    for event in recorded(run, *kinds):
        match event:
            case events.KernelStart():
                resident += 1
            case events.KernelEnd():
                resident -= 1
            case events.Drain():
                halts += 1
            case events.Resume():
                halts -= 1
            case _:
                changes += 1
                during += resident > 0 and halts == 0
        if resident > 0 and halts == 0:
            since = event.time_ps if since is None else since
        elif since is not None:
            progress.append((since, event.time_ps))
            since = None
    return changes, during, progress


@scenario
async def crowd_of_kernels(run: Run, threads: Annotated[int, Range(1, 512)] = 160) -> Facts:
    """Count the kernels that run at one time when every thread launches a long kernel with a single team."""
    run.phantom = True
    long = Kernel("long", flops_per_iteration=1e7)

    async def body(t: omp.HostThread) -> None:
        await t.target(long, teams=1, threads=128, iterations=128)

    await run.parallel(body, num_threads=threads)
    return {"most_kernels": _most(kernels(run))}


Threads = Annotated[int, Range(1, 128)]
Batch = Annotated[int, Range(1, 64)]
Case = Literal["euler2d", "euler3d", "ccz4"]


@scenario
async def unified(run: Run, threads: Threads = 1, batch: Batch = 4, batches: Annotated[int, Range(1, 64)] = 2) -> Facts:
    """Run ExaHyPE in managed memory, then map an ordinary array: count copies, page faults and managed allocations.

    The counts say whether the host, by copies, or the kernels, by faults, bring data to the device, and whether the
    ordinary array becomes managed memory. Each of `threads` host threads has `batches` batches of `batch` patches.
    """
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
    """Measure how much one pass over all patches uses the link and the page-fault handler.

    An earlier pass, which is not measured, has paid all costs that occur only once. The results: `peak` is the most
    bytes that were moved over the link in any `window_us` of the pass, as a rate. `one_kernel` is the time for which
    link and page-fault handler were busy, over the time for which kernels were on the device. threads, batches, batch:
    host threads, batches of each, and patches of a batch. patch: volumes per dimension of a patch.
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
    """Return the migrations of managed memory so far, and the transfers that the program or the runtime requested."""
    begun = recorded(run, events.CopyBegin)
    return [copy for copy in begun if copy.memory == "managed"], [copy for copy in begun if copy.memory != "managed"]


def _peak(transfers: list[Span[events.CopyBegin]], window: float) -> float:
    """Return the most bytes that move in one window. The bytes of a transfer are spread evenly over its time (ps)."""
    moved: dict[int, float] = {}
    for span in transfers:
        for number in range(int(span.begin // window), int(span.end // window) + 1):
            part = min(span.end, (number + 1) * window) - max(span.begin, number * window)
            share = part / (span.end - span.begin) if span.end > span.begin else 1.0
            moved[number] = moved.get(number, 0.0) + share * span.first.bytes
    return max(moved.values(), default=0.0)
