"""Small recorded runs that show a mechanism of the zero-copy paper at work; they measure facts counted in the trace.

The parameter `configuration` is the memory configuration of a run, such as `copy` or `usm`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal

from offloadrt.extensions.evidence.validation.judging import Facts, Span, calls, copies, kernels, recorded
from offloadrt.kernels import Kernel
from offloadrt.models import openmp as omp
from offloadrt.papers.zerocopy.qmcpack import QmcpackExperiment, QmcpackSetup
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.definition import scenario
from offloadrt.study.scripts.parameters import Range
from offloadrt.trace import events

Configuration = Literal["copy", "usm", "implicit_zero_copy", "eager_maps", "environment"]
PAGE = 2 << 20
SMALL = 64 << 10
"""Bytes of an array that is too large for the pool of small blocks, and small enough for a copy by a DMA ring."""
DOUBLE = 8
READ = Kernel("read", flops_per_iteration=1, bytes_per_iteration=DOUBLE)
COPIED = 8 << 20
"""Bytes that are copied while a kernel runs."""
SWEEP = Kernel("sweep", bytes_per_iteration=1 << 20)
"""A kernel that memory's bandwidth limits."""


def _ps(run: Run) -> int:
    return round(run.sim.now * 1e12)


def _allocated_since(run: Run, since: int) -> list[int]:
    """Return the bytes of each block of device memory that was allocated at the time `since` (ps) or later.

    Host memory is left out: the runtime allocates it from pools, too, for signals and kernel arguments, not for maps.
    """
    return [event.size for event in recorded(run, events.Allocate) if event.time_ps >= since]


@scenario(machine="mi300a")
async def maps(run: Run, configuration: Configuration = "copy") -> Facts:
    """Run a target region with an array mapped to and another mapped from the device; count the calls for it."""
    since = mapped = 0

    async def body(t: omp.HostThread) -> None:
        nonlocal since, mapped
        a = t.array("a", SMALL // DOUBLE, fill=1.0)
        b = t.array("b", SMALL // DOUBLE, fill=2.0)
        c = t.array("c", 1 << 20, fill=0.0)
        await t.target(READ, c, maps=omp.map(to=c), teams=1, iterations=1)
        since = _ps(run)
        async with t.target_data(omp.map(to=a), omp.map(from_=b)):
            await t.target(READ, a, b, maps=omp.map(alloc=[a, b]), teams=1, iterations=SMALL // DOUBLE)
        mapped = a.nbytes + b.nbytes

    await run.parallel(body)
    last = kernels(run)[-1]
    copied = [copy.end for copy in copies(run) if copy.end >= since]
    return {
        "allocations": len(_allocated_since(run, since)),
        "copies_before_kernel": len([end for end in copied if end <= last.begin]),
        "copies_after_kernel": len([end for end in copied if end > last.end]),
        "copies": len(copied),
        "pool_bytes": sum(_allocated_since(run, since)),
        "mapped_bytes": mapped,
        "faults": run.device().fault_statistics().faults,
    }


@scenario(machine="mi300a")
async def regions(run: Run, configuration: Configuration = "copy", threads: Annotated[int, Range(2, 24)] = 4) -> Facts:
    """Run target regions of several threads at once; count what each region waits for before its kernel starts."""
    arrays, turns = 3, 5

    async def body(t: omp.HostThread) -> None:
        arrays_of_thread = [t.array(f"array {t.number} {number}", PAGE // DOUBLE, fill=0.0) for number in range(arrays)]
        await t.barrier()
        for _ in range(turns):
            await t.target(READ, *arrays_of_thread, maps=omp.map(to=arrays_of_thread), teams=1, iterations=1)

    await run.parallel(body, num_threads=threads)
    submitted = {event.cause: event.time_ps for event in recorded(run, events.KernelSubmit)}
    allocations: dict[object, list[tuple[int, int]]] = {}
    for call in calls(run, "memory_pool_allocate"):
        allocations.setdefault(call.first.cause, []).append((call.begin, call.end))
    return allocated_for(submitted, allocations, arrays)


def allocated_for(submitted: Mapping[Any, int], calls: Mapping[Any, list[tuple[int, int]]], arrays: int) -> Facts:
    """Count regions, and those whose device allocations are too few, overlap, or end after the kernel was submitted.

    `submitted`: by region, when its kernel was submitted. `calls`: by region, when each of its allocations began and
    ended. `arrays`: how many allocations a region needs.
    """
    own = {region: sorted(calls.get(region, [])) for region in submitted}
    lasted = sorted((each[0][0], submitted[region]) for region, each in own.items() if each)
    return {
        "regions": len(submitted),
        "regions_side_by_side": any(a[1] > b[0] for a, b in pairwise(lasted)),
        "regions_with_fewer_allocations": sum(len(each) < arrays for each in own.values()),
        "launches_before_an_allocation_ended": sum(
            any(end > submitted[region] for _, end in each) for region, each in own.items()
        ),
        "regions_with_overlapping_allocations": sum(
            any(a[1] > b[0] for a, b in pairwise(each)) for each in own.values()
        ),
    }


@scenario(machine="mi300a")
async def copies_beside_a_kernel(
    run: Run,
    configuration: Configuration = "copy",
    piece: Annotated[int, Range(1, COPIED)] = COPIED,
) -> Facts:
    """Time a kernel that reads memory at full bandwidth, alone and while another thread copies to the device.

    piece: the bytes of each copy.
    """

    async def body(t: omp.HostThread) -> None:
        source = t.array("source", COPIED // DOUBLE, fill=0.0)
        await t.target_enter_data(omp.map(to=source))
        for copying in (False, True):
            await t.barrier()
            if t.number == 0:
                await t.target(SWEEP, teams=1 << 16, iterations=1 << 15)
            elif copying:
                await t.compute(100e-6)  # the kernel has started
                for at in range(0, COPIED, piece):
                    await t.target_update(omp.to(omp.section(source, at // DOUBLE, piece // DOUBLE)))
            await t.barrier()

    await run.parallel(body, num_threads=2)
    alone, beside = [span for span in kernels(run) if span.first.name == SWEEP.name]
    copied = [copy for copy in copies(run) if copy.begin >= alone.end]
    longer = (beside.duration - alone.duration) * 1e-12
    return {
        "copied_in_kernel": sum(copy.first.bytes for copy in copied if copy.end <= beside.end) == COPIED
        and all(copy.begin >= beside.begin for copy in copied),
        "engine": ", ".join(sorted({copy.first.engine for copy in copied})),
        "traffic_per_byte": longer * run.spec.value("mem.bw") / COPIED,
    }


@scenario(machine="mi300a")
async def global_variable(run: Run, configuration: Configuration = "usm") -> Facts:
    """Change a global variable on the host; tell what kernels see with and without mapping it, and what is copied."""
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
    *_, with_global, without = kernels(run)
    return {
        "copies_per_map": counted["copies"],
        "seen_unmapped": counted["unmapped"],
        "seen_mapped": counted["mapped"],
        "more_time_s": (with_global.duration - without.duration) * 1e-12,
    }


@scenario(machine="mi300a")
async def pages(
    run: Run,
    configuration: Configuration = "implicit_zero_copy",
    count: Annotated[int, Range(1, 4096)] = 8,
    filled: bool = True,
    beside: bool = False,
) -> Facts:
    """Run two kernels on an array of `count` pages, which is mapped anew for each; count page faults and prefaults.

    A second array is never mapped; the facts say whether the device's page table has it all the same. filled: whether
    the host has written the arrays before. A prefault is a call that fills the device's page table before the kernel.
    """
    facts: Facts = {}

    async def body(t: omp.HostThread) -> None:
        values = count * PAGE // DOUBLE
        array = t.array("array", values, fill=0.0 if filled else None)
        other = t.array("other", values, fill=0.0 if filled else None)
        table, statistics = run.machine.apu().pages, run.device().fault_statistics
        teams = max(1, values // 256)
        await t.target(READ, teams=1, iterations=1)  # the program is loaded
        first_map = _ps(run)
        for turn in ("first", "again"):
            faults, begin = statistics().faults, _ps(run)
            async with t.target_data(omp.map(to=array)):
                facts[f"covered_{turn}"] = table.covers(array.address, array.nbytes)
                await t.target(READ, array, maps=omp.map(to=array), teams=teams, iterations=values)
            facts[f"faults_{turn}"] = statistics().faults - faults
            prefaults = [call for call in calls(run, "svm_attributes_set") if call.begin >= begin]
            facts[f"prefault_{turn}_s"] = prefaults[0].duration * 1e-12 if prefaults else 0.0
        facts["allocations_from_first_map"] = len(_allocated_since(run, first_map))
        facts["copies_from_first_map"] = sum(call.begin >= first_map for call in calls(run, "memory_async_copy"))
        facts["other_covered"] = bool(table.missing(other.address, other.nbytes) == [])
        facts["other_touched"] = len(table.missing(other.address, other.nbytes)) != 1

    await run.parallel(body)
    first, again = kernels(run)[-2:]
    ended = recorded(run, events.PageFaultEnd)
    begun = recorded(run, events.PageFaultBegin)
    stalls = [Span(fault.time_ps, end.time_ps, fault) for fault, end in zip(begun, ended, strict=True)]
    facts["kernel_first_s"] = first.duration * 1e-12
    facts["kernel_again_s"] = again.duration * 1e-12
    facts["stalled_s"] = math.fsum(stall.duration for stall in stalls) * 1e-12
    facts["faults_in_kernel"] = all(first.begin <= stall.begin <= stall.end <= first.end for stall in stalls)
    facts["most_pages_a_fault"] = max((end.pages for end in ended), default=0)
    facts["pages"] = count
    return facts


@scenario(machine="mi300a")
async def touches_unmapped(run: Run, configuration: Configuration = "eager_maps", xnack: bool = False) -> Facts:
    """Read in a kernel an array that is mapped, and another behind a pointer that is not; tell which read fails.

    xnack: whether the device can take page faults, so that it reads unmapped memory of the host.
    """
    run.set("gpu.xnack", xnack)
    facts: Facts = {}

    async def body(t: omp.HostThread) -> None:
        for name in ("mapped", "unmapped"):
            array = t.array(name, PAGE // DOUBLE, fill=1.0, kind="heap")
            clauses: Any = [omp.map(to=array)] if name == "mapped" else []
            try:
                await t.target(READ, array, maps=clauses, teams=1, iterations=PAGE // DOUBLE)
            except Exception as error:
                facts[name] = f"{type(error).__name__}: {error}"
            else:
                facts[name] = "ok"

    await run.parallel(body)
    return facts


@scenario(machine="mi300a")
async def without_unified_memory(run: Run, configuration: Configuration = "usm") -> Facts:
    """Run a program that requires unified shared memory on a device that has none; return its error and its copies.

    The error is None if the program runs.
    """
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
    """Count the calls of a run that copy."""
    return sum(call.count for name, call in run.calls.table().items() if "copy" in name.lower())


@scenario(machine="mi300a")
async def waits(run: Run, configuration: Configuration = "copy") -> Facts:
    """Run 0.5 % of QMCPACK at size S2 with one thread; count what the host's calls to wait for a signal wait for.

    The counts are over all directives: waits for a kernel, for copies, and for nothing that was still to be done.
    """
    run.phantom = True
    program = QmcpackExperiment(run.openmp, QmcpackSetup.create(size="S2", threads=1, fraction=0.005))
    await program.initialise()
    await program.advance()
    asked = {"memory_async_copy": "copy", "signal_wait_scacquire": "wait"}
    return waited_for(
        (event.cause, asked[event.api] if isinstance(event, events.CallBegin) else "kernel")
        for event in recorded(run, events.KernelSubmit, events.CallBegin)
        if not isinstance(event, events.CallBegin) or event.api in asked
    )


def waited_for(asked: Iterable[tuple[object, str]]) -> Facts:
    """Count all waits by what they are for: a kernel, copies, or nothing.

    asked: in order of time, (directive, what it did): "kernel" (it submitted one), "copy" (it asked for one) or "wait".
    A directive's wait is for the kernel that it has submitted since its last wait; without a kernel it is for the
    copies since then, else for nothing.
    """
    counts: dict[str, int] = dict.fromkeys(("kernel", "copy", "wait", "for kernel", "for copy", "for nothing"), 0)
    pending: dict[object, str] = {}
    for directive, what in asked:
        counts[what] += 1
        if what == "wait":
            counts[f"for {pending.pop(directive, 'nothing')}"] += 1
        elif pending.get(directive) != "kernel":
            pending[directive] = what
    return {
        "waits": counts["wait"],
        "kernels": counts["kernel"],
        "for_kernels": counts["for kernel"],
        "for_copies": counts["for copy"],
        "for_nothing": counts["for nothing"],
    }


@scenario(machine="mi300a")
async def steps(run: Run, configuration: Configuration = "implicit_zero_copy", large: bool = False) -> Facts:
    """Run a loop of kernels on three mapped arrays; count the allocations and copies from the first kernel's start on.

    The program has no global variable. large: whether an array has 4 MiB, rather than 64 KiB.
    """
    size = (4 << 20) if large else SMALL

    async def body(t: omp.HostThread) -> None:
        arrays = [t.array(f"array {number}", size // DOUBLE, fill=0.0) for number in range(3)]
        for _ in range(4):
            async with t.target_data(*(omp.map(tofrom=array) for array in arrays)):
                await t.target(READ, *arrays, maps=omp.map(to=arrays), teams=64, iterations=size // DOUBLE)

    await run.parallel(body)
    first = kernels(run)[0].begin
    return {
        f"{name}_after_first_kernel": sum(call.begin >= first for call in calls(run, name))
        for name in ("memory_pool_allocate", "memory_async_copy")
    }
