"""Judges of Table I, which counts and times the calls of whole runs of S2, and of what grows from S2 to S24."""

from __future__ import annotations

from math import inf

from offloadrt.papers.zerocopy.judges.places import (
    COPY,
    IZC,
    S2,
    S24,
    SHORT,
    THREADS,
    USM,
    QmcpackGrid,
    api_seconds,
    bench,
    call,
    kernel_seconds,
    runs,
)
from offloadrt.study.validation.judging import Hearing, Judgement, Reading
from offloadrt.study.validation.measured import listed, number

WAIT = "signal_wait_scacquire"
ALLOCATE = "memory_pool_allocate"
ASYNC_COPY = "memory_async_copy"
HANDLER = "signal_async_handler"
TABLE1 = (WAIT, ALLOCATE, ASYNC_COPY, HANDLER)
"""The rows of Table I."""


@bench.judge("mi300a.table1.1t.waits_copy", "mi300a.table1.1t.handler")
def counted(grid: QmcpackGrid, api: str) -> Hearing:
    results = yield from runs(grid, [(S2, 1, COPY)], grid.counted_fraction)
    result = results[S2, 1, COPY]
    count = call(result, api).count / grid.counted_fraction
    kernels, copies = (number(result.measured[name]) / grid.counted_fraction for name in ("kernels", "copies"))
    return Reading(
        f"{count:,.0f} for {kernels:,.0f} kernels and {copies:,.0f} copies{_scaled(grid)}",
        count,
        "fewer than published: more of the copies would have to be waited for, or be staged, on their own",
        "more than published: fewer of the copies would have to be waited for, or be staged, on their own",
    )


def _scaled(grid: QmcpackGrid) -> str:
    return "" if grid.counted_fraction == 1 else f" ({grid.counted_fraction:g} of the steps, scaled up)"


@bench.judge("mi300a.table1.1t.lat_*")
def latency(grid: QmcpackGrid, api: str) -> Hearing:
    results = yield from runs(grid, [(S2, 1, COPY), (S2, 1, IZC)], grid.counted_fraction)
    copy, izc = (call(results[S2, 1, configuration], api) for configuration in (COPY, IZC))
    emulated = (
        f"Copy {copy.count:,} calls, {copy.total_s:.3g} s; IZC {izc.count:,} calls, {izc.total_s:.3g} s{_scaled(grid)}"
    )
    if not izc.total_s:
        return Judgement(emulated, False, f"no call of {api} under IZC")
    ratio = copy.total_s / izc.total_s if api == WAIT else _over_start_up(grid, copy.total_s, izc.total_s)
    return Reading(
        f"{ratio:.3g} ({emulated})",
        ratio,
        f"a call of {api} costs Copy less, or IZC's few calls at start-up more, than in the paper",
        f"IZC's {izc.count} calls at start-up take {izc.total_s / izc.count * 1e6:.3g} us each, as any other; in the "
        "paper they are dearer than Copy's on average, and what they load is not described",
    )


def _over_start_up(grid: QmcpackGrid, copy_s: float, start_up_s: float) -> float:
    """Divide Copy's latency by IZC's, which is all start-up; Copy's part beyond that is scaled to all steps."""
    return (start_up_s + (copy_s - start_up_s) / grid.counted_fraction) / start_up_s


@bench.judge("mi300a.table1.copy_dominates")
def copying_dominates(grid: QmcpackGrid) -> Hearing:
    results = yield from runs(grid, [(S2, 1, COPY), (S2, 1, IZC)], grid.counted_fraction)
    copy, izc = (call(results[S2, 1, configuration], ASYNC_COPY).total_s for configuration in (COPY, IZC))
    ratio = _over_start_up(grid, copy, izc) if izc else inf
    return Reading(f"{ratio:.4g}{_scaled(grid)}", ratio, "Copy's copies take less than 1000 times IZC's")


@bench.judge("mi300a.mech.shared_stack")
def calls_get_longer(grid: QmcpackGrid) -> Hearing:
    results = yield from runs(grid, [(S2, 1, COPY), (S2, THREADS, COPY)])
    with_one, with_eight = ([call(results[S2, count, COPY], name) for name in TABLE1] for count in (1, THREADS))
    growth = {
        name: after.mean_s / before.mean_s
        for name, before, after in zip(TABLE1, with_one, with_eight, strict=True)
        if before.count and after.count
    }
    others = bench.claims["mi300a.mech.shared_stack"].outside(growth)
    longer, rest = (
        listed({name: ratio for name, ratio in growth.items() if (name in others) is is_other}) or "none"
        for is_other in (False, True)
    )
    reason = f"not longer with more threads: {', '.join(others)}" if growth else "none of the calls occurs in both"
    emulated = f"8 threads over 1, longer: {longer}; not longer: {rest}"
    return Judgement(emulated, bool(growth) and not others, reason)


@bench.judge("mi300a.mech.usm_map_noop")
def maps_store_nothing(grid: QmcpackGrid) -> Hearing:
    results = yield from runs(grid, [(S2, count, USM) for count in (1, THREADS)])
    made = {
        f"{name} {count}T": result.calls[name].count
        for (_, count, _), result in results.items()
        for name in (ALLOCATE, ASYNC_COPY)
        if name in result.calls
    }
    return Judgement(listed(made, ",") or "none of either", not made, "maps allocate or copy")


GROWING = ((S2, THREADS), (S24, THREADS))
"""Where growth is measured: both sizes with 8 threads, as in the paper's section on sizes."""


@bench.judge("mi300a.scale.kernel_s2_s24")
def kernels_grow(grid: QmcpackGrid) -> Hearing:
    results = yield from runs(grid, [(size, 1, configuration) for size in (S2, S24) for configuration in (COPY, IZC)])
    growth = {
        SHORT[configuration]: kernel_seconds(results[S24, 1, configuration])
        / kernel_seconds(results[S2, 1, configuration])
        for configuration in (COPY, IZC)
    }
    reason = "an input of the program's kernel work (no band is given); the figure is what it came to"
    return Judgement(listed(growth), None, reason)


@bench.judge("mi300a.scale.hsa_copy", "mi300a.scale.hsa_izc")
def calls_grow(grid: QmcpackGrid, configuration: str) -> Hearing:
    results = yield from runs(grid, [(*place, configuration) for place in GROWING])
    small, large = (api_seconds(results[(*place, configuration)]) for place in GROWING)
    return Reading(
        f"{large / small:.3g} ({small:.3g} s, {large:.3g} s at {grid.fraction:g} of the steps)",
        large / small,
        "what does not grow with the size (latencies, submissions) is a larger part of the calls than in the paper",
        "calls wait for kernels, which grow tenfold, more than in the paper",
    )


@bench.judge("mi300a.scale.hsa_abs")
def calls_cost_less(grid: QmcpackGrid) -> Hearing:
    results = yield from runs(grid, [(*place, configuration) for place in GROWING for configuration in (COPY, IZC)])
    parts = {place[0]: api_seconds(results[(*place, IZC)]) / api_seconds(results[(*place, COPY)]) for place in GROWING}
    reason = "both configurations wait for the same kernels, and what Copy adds is not as much again"
    return Reading(listed(parts), parts, reason)


@bench.judge("mi300a.scale.half_rate")
def calls_grow_at_half_rate(grid: QmcpackGrid) -> Hearing:
    results = yield from runs(grid, [(*place, configuration) for place in GROWING for configuration in (COPY, IZC)])
    small, large = (api_seconds(results[(*place, COPY)]) - api_seconds(results[(*place, IZC)]) for place in GROWING)
    before, after = (kernel_seconds(results[(*place, COPY)]) for place in GROWING)
    seconds = f"{small:.3g} s, {large:.3g} s"
    if small <= 0:
        return Judgement(seconds, False, "Copy's calls take no longer than IZC's at S2")
    overhead, kernels = large / small, after / before
    rate = overhead / kernels
    return Reading(
        f"{rate:.3g} (overhead {overhead:.3g} x: {seconds}; kernels {kernels:.3g} x)",
        rate,
        "what Copy's calls add hardly grows with the kernels",
        "what Copy's calls add grows nearly as kernels do, or faster",
    )
