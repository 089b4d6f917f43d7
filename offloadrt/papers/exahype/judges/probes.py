"""Small recorded runs that show a mechanism of the ExaHyPE paper at work; they measure facts counted in the trace."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Literal

from offloadrt.kernels import Kernel
from offloadrt.models import openmp as omp
from offloadrt.papers.exahype.program import Experiment, Setup
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.definition import scenario
from offloadrt.study.scripts.parameters import Range
from offloadrt.trace import EVENTS, Row

Facts = dict[str, int | float | bool | str | None]


def rows(run: Run, *names: str) -> list[Row]:
    """The recorded rows of some kinds of event."""
    assert run.trace is not None, "a probe is run with a recording"
    assert all(name in EVENTS for name in names)
    wanted = frozenset(names)
    return [row for row in run.trace.rows if row[0] in wanted]


def _intervals(recorded: list[Row], begin: str, end: str, key: tuple[int, ...]) -> list[tuple[int, int, Row]]:
    """(begin, end, first row), in ps, of all that a pair of events encloses; the columns `key` tell pairs apart."""
    open_: dict[tuple[object, ...], Row] = {}
    found = []
    for row in recorded:
        place = tuple(row[column] for column in key)
        if row[0] == begin:
            open_[place] = row
        elif row[0] == end and place in open_:
            first = open_.pop(place)
            found.append((first[1], row[1], first))
    return found


def pairs(run: Run, what: str, begin: str | None = None, end: str | None = None) -> list[tuple[int, int, Row]]:
    """The intervals of all calls (of an actor, by name), copies or kernels (by number)."""
    first, last = begin or f"{what}Begin", end or f"{what}End"
    return _intervals(rows(run, first, last), first, last, (2, 6) if what == "Call" else (6,))


def _overlap(first: list[tuple[int, int, Row]], second: list[tuple[int, int, Row]]) -> int:
    """How many of `first` overlap one of `second` for more than an instant."""
    count = 0
    for begin, end, _ in first:
        count += any(max(begin, other[0]) < min(end, other[1]) for other in second)
    return count


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
    """ExaHyPE's algorithms, their directives, allocations, copies and kernels counted per batch."""
    setup = Setup.create(
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
    for row in rows(run, "DirectiveBegin"):
        name = str(row[-1]).replace(" nowait", "")
        directives[name] = directives.get(name, 0) + 1
    copies = rows(run, "CopyBegin")
    whole = batches * threads
    facts: Facts = {
        "batches": whole,
        "enters": directives.get("target enter data", 0) / whole,
        "exits": directives.get("target exit data", 0) / whole,
        "regions": directives.get("target", 0) / whole,
        "kernels": len(rows(run, "KernelEnd")) / whole,
        "entries_made": len(rows(run, "MapInsert")) / whole,
        "entries_removed": len(rows(run, "MapRemove")) / whole,
        "lookups": len(rows(run, "MapLookup")) / whole,
        "allocations": len(rows(run, "Allocate")) / whole,
        "frees": len(rows(run, "Free")) / whole,
        "h2d": sum(row[7] == "h2d" for row in copies) / whole,
        "d2h": sum(row[7] == "d2h" for row in copies) / whole,
        "pinned": sum(row[10] == "pinned" for row in copies),
        "copies": len(copies),
    }
    facts |= _table_exclusion(run)
    return facts


def _most(intervals: list[tuple[int, int, Row]]) -> int:
    """The largest number of intervals that hold at one time."""
    changes = sorted([(begin, 1) for begin, _, _ in intervals] + [(end, -1) for _, end, _ in intervals])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def _table_exclusion(run: Run) -> Facts:
    """Whether the device table was always used by the one actor that held its lock."""
    holder: int | None = None
    holds = overlapping = outside = 0
    for row in rows(run, "LockAcquire", "LockRelease", "MapInsert", "MapRemove", "MapLookup"):
        if row[0] == "LockAcquire" and row[6] == "device table":
            overlapping += holder is not None
            holder = row[2]
            holds += 1
        elif row[0] == "LockRelease" and row[6] == "device table":
            holder = None
        elif row[0].startswith("Map"):
            outside += holder != row[2]
    return {"table_holds": holds, "table_overlaps": overlapping, "table_uses_without_lock": outside}


@scenario
async def manager(run: Run, threads: Annotated[int, Range(2, 64)] = 8, devices: Literal[2] = 2) -> Facts:
    """The GPU memory manager's rules, one by one."""
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
    seen["device_frees"] = len(rows(run, "Free"))
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
    """One thread runs kernels while its neighbours do nothing but map and unmap: how long do the kernels take?"""
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
    walls = [(end - begin) * 1e-12 for begin, end, _ in pairs(run, "Kernel", "KernelStart", "KernelEnd")]
    changes, during, progress = _progress(run)
    copies = pairs(run, "Copy")
    return {
        "kernel_wall_s": math.fsum(walls) / len(walls),
        "allocations_and_frees": changes,
        "allocations_and_frees_in_progress": during,
        "copies": len(copies),
        "copies_in_progress": _overlap(copies, progress),
    }


def _progress(run: Run) -> tuple[int, int, list[tuple[int, int, Row]]]:
    """Allocations and frees, those of them that happened while a kernel made progress, and when kernels did."""
    resident = halts = changes = during = 0
    since: Row | None = None
    progress = []
    for row in rows(run, "KernelStart", "KernelEnd", "Drain", "Resume", "Allocate", "Free"):
        match row[0]:
            case "KernelStart":
                resident += 1
            case "KernelEnd":
                resident -= 1
            case "Drain":
                halts += 1
            case "Resume":
                halts -= 1
            case _:
                changes += 1
                during += resident > 0 and halts == 0
        if resident > 0 and halts == 0:
            since = since or row
        elif since is not None:
            progress.append((since[1], row[1], since))
            since = None
    return changes, during, progress


@scenario
async def crowd_of_kernels(run: Run, threads: Annotated[int, Range(1, 512)] = 160) -> Facts:
    """Every thread launches one long kernel of one team: how many run at a time?"""
    run.phantom = True
    long = Kernel("long", flops_per_iteration=1e7)

    async def body(t: omp.HostThread) -> None:
        await t.target(long, teams=1, threads=128, iterations=128)

    await run.parallel(body, num_threads=threads)
    return {"most_kernels": _most(pairs(run, "Kernel", "KernelStart", "KernelEnd"))}
