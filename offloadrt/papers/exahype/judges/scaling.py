"""Judges of Figures 2 and 3: strong scaling with map clauses and with the GPU memory manager."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from offloadrt.papers.exahype.judges.curves import (
    BATCH,
    CASES,
    bench,
    in_band,
    strong,
)
from offloadrt.study.judging import Asking, Grid, Judgement, Registration
from offloadrt.study.reporting.results import Result


def _plateau(case: str) -> Registration:
    return bench.judge(
        f"exahype.fig2.{case}.plateau",
        f"argmin over T of t(T, {BATCH}) <= 16 and t(128, {BATCH}) > min (map, strong)",
        case=case,
    )


@_plateau("euler3d_p5")
@_plateau("euler3d_p9")
@_plateau("ccz4_p5")
def plateau(grid: Grid, case: str) -> Asking:
    t = yield from strong(grid, CASES[case], "map")
    curve = {count: t[count, BATCH] for count in grid.threads}
    best = min(curve, key=lambda count: curve[count])
    rise = curve[128] / curve[best]
    reason = (
        f"more threads still help at T = {best}"
        if best > 16
        else "a plateau and no rise: the serialised work per batch (table lock, driver context) costs the same however "
        "many threads wait for it"
    )
    return Judgement(f"best at T = {best}, t(128) / min = {rise:.4g}", best <= 16 and rise > 1.0, reason)


def _robust(case: str) -> Registration:
    return bench.judge(
        f"exahype.fig3.{case}.robust", f"max over T of t(2T, {BATCH}) / t(T, {BATCH}) <= 1.1 (pool, strong)", case=case
    )


@_robust("euler3d_p5")
@_robust("euler3d_p9")
@_robust("ccz4_p5")
def robust(grid: Grid, case: str) -> Asking:
    t = yield from strong(grid, CASES[case], "pool")
    worst, at = _worst_doubling({count: t[count, BATCH] for count in grid.threads})
    return Judgement(f"at most {worst:.3g} (T = {at})", worst <= 1.1, f"more threads cost time beyond T = {at}")


def _worst_doubling(curve: Mapping[int, float]) -> tuple[float, int]:
    """The largest t(next) / t(T) over neighbouring thread counts, and its T."""
    counts = sorted(curve)
    return max((curve[later] / curve[count], count) for count, later in pairwise(counts))


@bench.judge(
    "exahype.fig2.batch_pays",
    "t(1, n) decreases in n, and from p = 5 to 9 (map, strong, Euler 3D and CCZ4)",
    memory="map",
)
@bench.judge(
    "exahype.fig3.batch_key",
    "t(1, n) decreases in n, and from p = 5 to 9 (pool, strong, Euler 3D and CCZ4)",
    memory="pool",
)
def batch_pays(grid: Grid, memory: str) -> Asking:
    rising = []
    gains = {}
    curves = {}
    for name, case in CASES.items():
        t = yield from strong(grid, case, memory, threads=(1,), batches=grid.alone)
        curves[name] = {n: t[1, n] for n in grid.alone}
        gains[name] = curves[name][grid.alone[0]] / curves[name][grid.alone[-1]]
        for a, b in pairwise(grid.alone):
            if curves[name][b] >= curves[name][a]:
                rising.append(f"{name}: t(1, {b}) = {curves[name][b]:.3g} s, t(1, {a}) = {curves[name][a]:.3g} s")
    small, large = curves["euler3d_p5"], curves["euler3d_p9"]
    rising += [f"p = 9 is not better than p = 5 at n = {n}" for n in grid.alone if large[n] >= small[n]]
    said = ", ".join(f"{name}: {gain:.3g} x" for name, gain in gains.items())
    return Judgement(f"from n = 1 to {grid.alone[-1]}: {said}", not rising, "; ".join(rising[:4]))


@bench.judge("exahype.fig2.penalty", f"t(128, {BATCH}) > min over T of t(T, {BATCH}), in each 3D case (map, strong)")
def penalty(grid: Grid) -> Asking:
    rises = {}
    for name, case in CASES.items():
        t = yield from strong(grid, case, "map")
        rises[name] = t[128, BATCH] / min(t[count, BATCH] for count in grid.threads)
    said = ", ".join(f"{name}: {rise:.4g}" for name, rise in rises.items())
    reason = "a plateau without a rise: nothing in the machine makes serialised work dearer with more threads"
    return Judgement(f"t(128) / min = {said}", all(rise > 1.0 for rise in rises.values()), reason)


@bench.judge(
    "exahype.fig2.speedup_iff", "t(1, n) / t(T, n) > 1 exactly where T <= 8 and n <= 4 (Euler 3D p=5, map, strong)"
)
def speedup_iff(grid: Grid) -> Asking:
    t = yield from strong(grid, CASES["euler3d_p5"], "map", batches=grid.batches)
    fast = {(count, n) for count in grid.threads[1:] for n in grid.batches if t[1, n] / t[count, n] > 1.0}
    expected = {(count, n) for count in grid.threads[1:] for n in grid.batches if count <= 8 and n <= 4}
    extra, lacking = sorted(fast - expected), sorted(expected - fast)
    said = f"speedup at {len(fast)} of {len(grid.threads[1:]) * len(grid.batches)} places, expected at {len(expected)}"
    parts = [f"no speedup at (T, n) = {', '.join(map(str, lacking))}"] if lacking else []
    parts += [f"speedup also at (T, n) = {', '.join(map(str, extra))}"] if extra else []
    reason = "; ".join(parts)
    return Judgement(said, fast == expected, reason)


@bench.judge("exahype.fig3.vs_map", f"t(T, {BATCH}) with pool < with map for all T >= 16, in each 3D case (strong)")
def pool_beats_map(grid: Grid) -> Asking:
    counts = [count for count in grid.threads if count >= 16]
    least = {}
    for name, case in CASES.items():
        with_map = yield from strong(grid, case, "map", threads=counts)
        with_pool = yield from strong(grid, case, "pool", threads=counts)
        least[name] = min(with_map[place] / with_pool[place] for place in with_map)
    said = ", ".join(f"{name}: {ratio:.3g}" for name, ratio in least.items())
    return Judgement(
        f"map / pool at least {said}", all(ratio > 1 for ratio in least.values()), "the pool is not faster everywhere"
    )


@bench.judge("exahype.headline.order", "max over T, n and 3D case of t with map / t with pool, >= 10 (strong)")
def headline(grid: Grid) -> Asking:
    best, where = 0.0, ""
    for name, case in CASES.items():
        with_map = yield from strong(grid, case, "map", batches=grid.gains)
        with_pool = yield from strong(grid, case, "pool", batches=grid.gains)
        for place, time in with_map.items():
            if time / with_pool[place] > best:
                best, where = time / with_pool[place], f"{name}, T = {place[0]}, n = {place[1]}"
    reason = f"the largest gain is {best:.3g} x ({where})"
    return Judgement(f"{best:.3g} x ({where})", in_band("exahype.headline.order", best), reason)


@bench.judge(
    "exahype.concl.obs_invalid",
    f"max over T of t(2T, {BATCH}) / t(T, {BATCH}) <= 1.1 with pool, Euler and CCZ4 alike (strong)",
)
def no_degradation(grid: Grid) -> Asking:
    worst = {}
    for name in ("euler3d_p5", "ccz4_p5"):
        t = yield from strong(grid, CASES[name], "pool")
        worst[name], _ = _worst_doubling({count: t[count, BATCH] for count in grid.threads})
    said = ", ".join(f"{name}: {ratio:.3g}" for name, ratio in worst.items())
    return Judgement(f"at most {said}", all(ratio <= 1.1 for ratio in worst.values()), "the pool degrades with threads")


@bench.judge(
    "exahype.fig3.warm_allocs",
    "with pool: cuMemAlloc calls <= 2 T per size (2 sizes), also with 32 batches a thread instead of 8; no cuMemFree",
)
def warm_allocations(grid: Grid) -> Asking:
    threads, batch = 16, 8
    base = {**CASES["euler3d_p5"], "memory": "pool", "scaling": "weak", "threads": threads, "batch": batch}
    few, many = yield from grid.runs({**base, "patches": batch * batches} for batches in (8, 32))
    counts = [calls_of(result, "cuMemAlloc") for result in (few, many)]
    frees = calls_of(many, "cuMemFree")
    holds = counts[0] <= 2 * threads * 2 and counts[1] <= 2 * threads * 2 and frees == 0
    reason = (
        f"allocations grow with batches: {counts}"
        if counts[1] > counts[0]
        else f"{counts[1]} allocations, {frees} frees"
    )
    return Judgement(f"{counts[0]} and {counts[1]} allocations, {frees} frees, {threads} threads", holds, reason)


def calls_of(result: Result, call: str) -> int:
    return result.calls[call].count if call in result.calls else 0
