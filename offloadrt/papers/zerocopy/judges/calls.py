"""Judges of Table I, which counts and times the calls of whole runs of S2, and of what grows from S2 to S24."""

from __future__ import annotations

from offloadrt.papers.zerocopy.judges.places import (
    COPY,
    IZC,
    S2,
    S24,
    SHORT,
    THREADS,
    Grid,
    api_seconds,
    banded,
    bench,
    call,
    in_band,
    kernel_seconds,
    runs,
)
from offloadrt.study.judging import Asking, Judgement
from offloadrt.study.measured import listed, number

WAIT = "signal_wait_scacquire"
ALLOCATE = "memory_pool_allocate"
ASYNC_COPY = "memory_async_copy"
HANDLER = "signal_async_handler"
TABLE1 = (WAIT, ALLOCATE, ASYNC_COPY, HANDLER)
"""The rows of Table I."""


@bench.judge("mi300a.table1.1t.waits_copy", f"calls of {WAIT} (Copy, S2, 1 thread), in the band", name=WAIT)
@bench.judge("mi300a.table1.1t.handler", f"calls of {HANDLER} (Copy, S2, 1 thread), in the band", name=HANDLER)
def counted(grid: Grid, name: str) -> Asking:
    found = yield from runs(grid, [(S2, 1, COPY)], grid.whole)
    result = found[S2, 1, COPY]
    count = call(result, name).count / grid.whole
    of = f"{count:,.0f} for {number(result.measured['kernels']) / grid.whole:,.0f} kernels and "
    said = of + f"{number(result.measured['copies']) / grid.whole:,.0f} copies" + _scaled(grid)
    claim = f"mi300a.table1.1t.{'waits_copy' if name == WAIT else 'handler'}"
    return banded(
        claim,
        count,
        said,
        "fewer than published: more of the copies would have to be waited for, or be staged, on their own",
        "more than published: fewer of the copies would have to be waited for, or be staged, on their own",
    )


def _scaled(grid: Grid) -> str:
    return "" if grid.whole == 1 else f" ({grid.whole:g} of the steps, scaled up)"


@bench.judge("mi300a.table1.1t.lat_wait", f"latency of {WAIT}, Copy over IZC, in the band", name=WAIT)
@bench.judge("mi300a.table1.1t.lat_alloc", f"latency of {ALLOCATE}, Copy over IZC, in the band", name=ALLOCATE)
@bench.judge("mi300a.table1.1t.lat_copy", f"latency of {ASYNC_COPY}, Copy over IZC, in the band", name=ASYNC_COPY)
def latency(grid: Grid, name: str) -> Asking:
    found = yield from runs(grid, [(S2, 1, COPY), (S2, 1, IZC)], grid.whole)
    copy, izc = (call(found[S2, 1, one], name) for one in (COPY, IZC))
    said = (
        f"Copy {copy.count:,} calls, {copy.total_s:.3g} s; IZC {izc.count:,} calls, {izc.total_s:.3g} s{_scaled(grid)}"
    )
    if not izc.total_s:
        return Judgement(said, False, f"no call of {name} under IZC")
    ratio = copy.total_s / izc.total_s if name == WAIT else _over_start_up(grid, copy.total_s, izc.total_s)
    claim = {WAIT: "wait", ALLOCATE: "alloc", ASYNC_COPY: "copy"}[name]
    return banded(
        f"mi300a.table1.1t.lat_{claim}",
        ratio,
        f"{ratio:.3g} ({said})",
        f"a call of {name} costs Copy less, or IZC's few calls at start-up more, than in the paper",
        f"IZC's {izc.count} calls at start-up take {izc.total_s / izc.count * 1e6:.3g} us each, as any other; in the "
        "paper they are dearer than Copy's on average, and what they load is not described",
    )


def _over_start_up(grid: Grid, copy_s: float, start_up_s: float) -> float:
    """Copy's latency over IZC's, all of it start-up, when Copy's part beyond that is scaled to all steps."""
    return (start_up_s + (copy_s - start_up_s) / grid.whole) / start_up_s


@bench.judge("mi300a.table1.copy_dominates", f"latency of {ASYNC_COPY}, Copy over IZC, > 1000 (S2, 1 thread)")
def copying_dominates(grid: Grid) -> Asking:
    found = yield from runs(grid, [(S2, 1, COPY), (S2, 1, IZC)], grid.whole)
    copy, izc = (call(found[S2, 1, one], ASYNC_COPY).total_s for one in (COPY, IZC))
    ratio = _over_start_up(grid, copy, izc) if izc else float("inf")
    return Judgement(f"{ratio:.4g}{_scaled(grid)}", ratio > 1000, "Copy's copies take less than 1000 times IZC's")


@bench.judge(
    "mi300a.mech.shared_stack",
    "mean latency with 8 threads > with 1, of each call of Table I that occurs in both (Copy, S2, whole run)",
)
def calls_get_longer(grid: Grid) -> Asking:
    found = yield from runs(grid, [(S2, 1, COPY), (S2, THREADS, COPY)])
    one, eight = ([call(found[S2, count, COPY], name) for name in TABLE1] for count in (1, THREADS))
    growth = {
        name: after.mean_s / before.mean_s
        for name, before, after in zip(TABLE1, one, eight, strict=True)
        if before.count and after.count
    }
    longer = {name: ratio for name, ratio in growth.items() if ratio > 1 + 1e-9}
    others = {name: ratio for name, ratio in growth.items() if name not in longer}
    said = f"8 threads over 1, longer: {listed(longer) or 'none'}; not longer: {listed(others) or 'none'}"
    reason = f"not longer with more threads: {', '.join(others)}" if growth else "none of the calls occurs in both"
    return Judgement(said, bool(growth) and not others, reason)


@bench.judge(
    "mi300a.mech.usm_map_noop",
    f"calls of {ALLOCATE} and {ASYNC_COPY} in the measured time under USM: none (S2, 1 and 8 threads)",
)
def maps_store_nothing(grid: Grid) -> Asking:
    found = yield from runs(grid, [(S2, count, "usm") for count in (1, THREADS)])
    made = {
        f"{name} {place[1]}T": result.calls[name].count
        for place, result in found.items()
        for name in (ALLOCATE, ASYNC_COPY)
        if name in result.calls
    }
    return Judgement(listed(made, ",") or "none of either", not made, "maps allocate or copy")


GROWING = ((S2, THREADS), (S24, THREADS))
"""Where growth is looked at: the paper's section on sizes has 8 threads."""


@bench.judge(
    "mi300a.scale.kernel_s2_s24",
    "times of all kernels added up, S24 over S2 (Copy and IZC, 1 thread); role calibrate",
)
def kernels_grow(grid: Grid) -> Asking:
    found = yield from runs(grid, [(size, 1, one) for size in (S2, S24) for one in (COPY, IZC)])
    growth = {SHORT[one]: kernel_seconds(found[S24, 1, one]) / kernel_seconds(found[S2, 1, one]) for one in (COPY, IZC)}
    return Judgement(
        listed(growth), None, "an input of the program's kernel work (no band is given); the figure is what it came to"
    )


@bench.judge("mi300a.scale.hsa_copy", "latencies of all calls added up, S24 over S2 (Copy, 8 threads)", one=COPY)
@bench.judge("mi300a.scale.hsa_izc", "latencies of all calls added up, S24 over S2 (IZC, 8 threads)", one=IZC)
def calls_grow(grid: Grid, one: str) -> Asking:
    found = yield from runs(grid, [(*place, one) for place in GROWING])
    times = [api_seconds(found[(*place, one)]) for place in GROWING]
    ratio = times[1] / times[0]
    claim = "mi300a.scale.hsa_copy" if one == COPY else "mi300a.scale.hsa_izc"
    return banded(
        claim,
        ratio,
        f"{ratio:.3g} ({times[0]:.3g} s, {times[1]:.3g} s at {grid.fraction:g} of the steps)",
        "what does not grow with the size (latencies, submissions) is a larger part of the calls than in the paper",
        "calls wait for kernels, which grow tenfold, more than in the paper",
    )


@bench.judge("mi300a.scale.hsa_abs", "latencies of all calls added up, IZC over Copy, < 0.5 (S2 and S24, 8 threads)")
def calls_cost_less(grid: Grid) -> Asking:
    found = yield from runs(grid, [(*place, one) for place in GROWING for one in (COPY, IZC)])
    parts = {place[0]: api_seconds(found[(*place, IZC)]) / api_seconds(found[(*place, COPY)]) for place in GROWING}
    return Judgement(
        listed(parts),
        all(part < 0.5 for part in parts.values()),
        "both configurations wait for the same kernels, and what Copy adds is not as much again",
    )


@bench.judge(
    "mi300a.scale.half_rate",
    "growth of the calls' latencies, Copy less IZC, over growth of Copy's kernel time, S2 to S24, in the band "
    "(8 threads)",
)
def calls_grow_at_half_rate(grid: Grid) -> Asking:
    found = yield from runs(grid, [(*place, one) for place in GROWING for one in (COPY, IZC)])
    small, large = (api_seconds(found[(*place, COPY)]) - api_seconds(found[(*place, IZC)]) for place in GROWING)
    before, after = (kernel_seconds(found[(*place, COPY)]) for place in GROWING)
    seconds = f"{small:.3g} s, {large:.3g} s"
    if small <= 0:
        return Judgement(seconds, False, "Copy's calls take no longer than IZC's at S2")
    overhead, kernels = large / small, after / before
    rate = overhead / kernels
    return Judgement(
        f"{rate:.3g} (overhead {overhead:.3g} x: {seconds}; kernels {kernels:.3g} x)",
        in_band("mi300a.scale.half_rate", rate),
        "what Copy's calls add grows nearly as kernels do, or faster"
        if rate > 0.7
        else "what Copy's calls add hardly grows with the kernels",
    )
