"""Small recorded runs that show a mechanism of the zero-copy paper at work; they measure facts counted in the trace."""

from __future__ import annotations

import contextlib
import math
from itertools import pairwise
from typing import Annotated, Any, Literal

from offloadrt.kernels import Kernel
from offloadrt.models import openmp as omp
from offloadrt.study.definition import scenario
from offloadrt.study.parameters import Range
from offloadrt.study.run import Run
from offloadrt.trace import EVENTS, Row

Facts = dict[str, int | float | bool | str | None]
Configuration = Literal["copy", "usm", "implicit_zero_copy", "eager_maps", "environment"]
PAGE = 2 << 20
SMALL = 64 << 10
"""Bytes of an array that is too large for the pool of small blocks, and small enough for a copy through a DMA ring."""
DOUBLE = 8
READ = Kernel("read", flops_per_iteration=1, bytes_per_iteration=DOUBLE)


def _rows(run: Run, *names: str) -> list[Row]:
    """The recorded rows of some kinds of event, in order."""
    assert run.trace is not None, "a probe is run with a recording"
    assert all(name in EVENTS for name in names)
    wanted = frozenset(names)
    return [row for row in run.trace.rows if row[0] in wanted]


def _calls(run: Run, api: str, since: int) -> list[tuple[int, int]]:
    """Begin and end, in ps, of the calls of that name that began after `since`, in order of their ends."""
    begun: dict[object, int] = {}
    found = []
    for row in _rows(run, "CallBegin", "CallEnd"):
        if row[6] == api and row[0] == "CallBegin":
            begun[row[2]] = row[1]
        elif row[6] == api and row[2] in begun:
            begin = begun.pop(row[2])
            if begin >= since:
                found.append((begin, row[1]))
    return found


def _kernels(run: Run) -> list[tuple[int, int]]:
    """Start and end, in ps, of every kernel, in order of their starts."""
    starts = {row[6]: row[1] for row in _rows(run, "KernelStart")}
    ends = {row[6]: row[1] for row in _rows(run, "KernelEnd")}
    return sorted((start, ends[number]) for number, start in starts.items())


def _ps(run: Run) -> int:
    return round(run.now * 1e12)


@scenario(machine="mi300a")
async def maps(run: Run, configuration: Configuration = "copy") -> Facts:
    """One target region with an array mapped to and another mapped from the device, and what was called for it."""
    since = mapped = 0

    async def body(t: omp.HostThread) -> None:
        nonlocal since, mapped
        a = t.array("a", SMALL // DOUBLE, fill=1.0)
        b = t.array("b", SMALL // DOUBLE, fill=2.0)
        c = t.array("c", 1 << 24, fill=0.0)
        await t.target(READ, c, maps=omp.map(to=c), teams=1, iterations=1)
        since = _ps(run)
        async with t.target_data(omp.map(to=a), omp.map(from_=b)):
            await t.target(READ, a, b, maps=omp.map(alloc=[a, b]), teams=1, iterations=SMALL // DOUBLE)
        mapped = a.nbytes + b.nbytes

    await run.parallel(body)
    start, end = _kernels(run)[-1]
    (submit,) = [row[1] for row in _rows(run, "KernelSubmit") if row[1] >= since]
    allocations = _calls(run, "memory_pool_allocate", since)
    copies = [row[1] for row in _rows(run, "CopyEnd") if row[1] >= since]
    return {
        "allocations": len(allocations),
        "allocations_before_launch": all(end <= submit for _, end in allocations),
        "allocations_overlap": any(a[1] > b[0] for a, b in pairwise(allocations)),
        "copies_before_kernel": len([at for at in copies if at <= start]),
        "copies_after_kernel": len([at for at in copies if at > end]),
        "copies": len(copies),
        "pool_bytes": sum(int(row[7]) for row in _rows(run, "Allocate") if row[1] >= since),
        "mapped_bytes": mapped,
        "faults": run.device().fault_statistics().faults,
    }


@scenario(machine="mi300a")
async def global_variable(run: Run, configuration: Configuration = "usm") -> Facts:
    """A global that the host changes: what kernels see with a map and without, and what a map of it copies."""
    factor = run.openmp.declare_target("factor", 1, fill=1.0)
    counted: dict[str, Any] = {}

    def look(out: Any, factor: Any) -> None:
        out[0] = factor[0]

    seeing = Kernel("look", look, flops_per_iteration=1, bytes_per_iteration=DOUBLE)
    blind = Kernel("look", lambda out: None, flops_per_iteration=1, bytes_per_iteration=DOUBLE)

    async def body(t: omp.HostThread) -> None:
        out = t.array("out", 1, fill=0.0)

        async def seen(*clauses: Any) -> float:
            await t.target(seeing, out, factor, maps=[omp.map(tofrom=out), *clauses], teams=1, iterations=1)
            return float(out[0])

        await seen(omp.map(to=factor, always=True))
        factor[0] = 2.0
        counted["unmapped"] = await seen()
        before = run.calls.count("memory_async_copy")
        counted["mapped"] = await seen(omp.map(to=factor, always=True))
        with_global = run.calls.count("memory_async_copy") - before
        await t.target(blind, out, maps=omp.map(tofrom=out), teams=1, iterations=1)
        counted["copies"] = with_global - (run.calls.count("memory_async_copy") - before - with_global)

    await run.parallel(body)
    (*_, (one, two), (three, four)) = _kernels(run)
    return {
        "copies_per_map": counted["copies"],
        "seen_unmapped": counted["unmapped"],
        "seen_mapped": counted["mapped"],
        "more_time_s": ((two - one) - (four - three)) * 1e-12,
    }


@scenario(machine="mi300a")
async def pages(
    run: Run,
    configuration: Configuration = "implicit_zero_copy",
    count: Annotated[int, Range(1, 4096)] = 8,
    filled: bool = True,
    beside: bool = False,
) -> Facts:
    """A kernel sweeps twice over an array of some pages that is mapped anew each time; another array is not mapped."""
    facts: Facts = {}

    async def body(t: omp.HostThread) -> None:
        values = count * PAGE // DOUBLE
        array = t.array("array", values, fill=0.0 if filled else None)
        other = t.array("other", values, fill=0.0 if filled else None)
        table, statistics = run.device().pages, run.device().fault_statistics
        teams = max(1, values // 256)
        for turn in ("first", "again"):
            faults, begin = statistics().faults, _ps(run)
            async with t.target_data(omp.map(to=array)):
                facts[f"covered_{turn}"] = table.covers(array.address, array.nbytes)
                await t.target(READ, array, maps=omp.map(to=array), teams=teams, iterations=values)
            facts[f"faults_{turn}"] = statistics().faults - faults
            prefaults = _calls(run, "svm_attributes_set", begin)
            facts[f"prefault_{turn}_s"] = (prefaults[0][1] - prefaults[0][0]) * 1e-12 if prefaults else 0.0
        facts["other_covered"] = bool(table.missing(other.address, other.nbytes) == [])
        facts["other_touched"] = len(table.missing(other.address, other.nbytes)) != 1

    await run.parallel(body)
    first, again = _kernels(run)[-2:]
    begun = _rows(run, "PageFaultBegin")
    ended = _rows(run, "PageFaultEnd")
    stalls = [(b[1], e[1]) for b, e in zip(begun, ended, strict=True)]
    facts["kernel_first_s"] = (first[1] - first[0]) * 1e-12
    facts["kernel_again_s"] = (again[1] - again[0]) * 1e-12
    facts["stalled_s"] = math.fsum(end - begin for begin, end in stalls) * 1e-12
    facts["faults_in_kernel"] = all(first[0] <= begin <= end <= first[1] for begin, end in stalls)
    facts["most_pages_a_fault"] = max((int(row[7]) for row in ended), default=0)
    facts["pages"] = count
    facts["allocations"] = run.calls.count("memory_pool_allocate")
    facts["copies"] = run.calls.count("memory_async_copy")
    return facts


@scenario(machine="mi300a")
async def touches_unmapped(run: Run, configuration: Configuration = "eager_maps", xnack: bool = False) -> Facts:
    """A kernel reads an array that is mapped, then one behind a pointer that is not; which of them fails."""
    run.set("gpu.xnack", xnack)
    facts: Facts = {"mapped": "not run", "unmapped": "not run"}

    async def body(t: omp.HostThread) -> None:
        for name in ("mapped", "unmapped"):
            array = t.array(name, PAGE // DOUBLE, fill=1.0, kind="heap")
            clauses: Any = [omp.map(to=array)] if name == "mapped" else []
            facts[name] = "error"
            await t.target(READ, array, maps=clauses, teams=1, iterations=PAGE // DOUBLE)
            facts[name] = "ok"

    with contextlib.suppress(Exception):
        await run.parallel(body)
    return facts


@scenario(machine="mi300a")
async def without_unified_memory(run: Run, configuration: Configuration = "usm") -> Facts:
    """A program built with `requires unified_shared_memory` on a device that has none."""
    run.set("gpu.unified_memory", False)

    async def body(t: omp.HostThread) -> None:
        array = t.array("array", 1024, fill=1.0)
        await t.target(READ, array, maps=omp.map(to=array), teams=1, iterations=1024)

    try:
        await run.parallel(body)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}", "copies": _copies(run)}
    return {"error": None, "copies": _copies(run)}


def _copies(run: Run) -> int:
    """Calls of a run that copy."""
    return sum(call.count for name, call in run.calls.table().items() if "copy" in name.lower())


@scenario(machine="mi300a")
async def steps(run: Run, configuration: Configuration = "implicit_zero_copy", large: bool = False) -> Facts:
    """A loop of kernels on mapped arrays, without a global: what the first kernel finds done."""
    size = (4 << 20) if large else SMALL

    async def body(t: omp.HostThread) -> None:
        arrays = [t.array(f"array {number}", size // DOUBLE, fill=0.0) for number in range(3)]
        for _ in range(4):
            async with t.target_data(*(omp.map(tofrom=array) for array in arrays)):
                await t.target(READ, *arrays, maps=omp.map(to=arrays), teams=64, iterations=size // DOUBLE)

    await run.parallel(body)
    first = _kernels(run)[0][0]
    return {
        f"{name}_after_first_kernel": len([begin for begin, _ in _calls(run, name, 0) if begin >= first])
        for name in ("memory_pool_allocate", "memory_async_copy")
    }
