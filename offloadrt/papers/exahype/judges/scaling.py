"""Judges of Figures 2 and 3: strong scaling with map clauses and with the GPU memory manager."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from offloadrt.papers.exahype.judges.curves import BATCH, CASES, ScalingGrid, bench, strong
from offloadrt.study.reporting.results import Result
from offloadrt.study.validation.judging import Hearing, Judgement, Reading, not_falling, unless
from offloadrt.study.validation.measured import listed, longer


@bench.judge("exahype.fig2.*.plateau")
def plateau(grid: ScalingGrid, case: str, most_threads: int) -> Hearing:
    t = yield from strong(grid, CASES[case], "map")
    curve = {count: t[count, BATCH] for count in grid.threads}
    best = min(curve, key=curve.__getitem__)
    rise = curve[grid.most] / curve[best]
    emulated = f"best at T = {best}, t({grid.most}) / min = {rise:.4g}"
    if best > most_threads:
        return Judgement(emulated, False, f"more threads still help at T = {best}")
    reason = (
        "a plateau and no rise: the serialised work per batch (table lock, driver context) costs the same however many "
        "threads wait for it"
    )
    return Judgement(emulated, longer(curve[grid.most], curve[best]), reason)


@bench.judge("exahype.fig3.*.robust")
def robust(grid: ScalingGrid, case: str) -> Hearing:
    t = yield from strong(grid, CASES[case], "pool")
    worst, at = _worst_doubling({count: t[count, BATCH] for count in grid.threads})
    return Reading(f"at most {worst:.3g} (T = {at})", worst, f"more threads cost time beyond T = {at}")


def _worst_doubling(curve: Mapping[int, float]) -> tuple[float, int]:
    """Find the largest t(next) / t(T) over neighbouring thread counts, and its T."""
    return max((curve[later] / curve[count], count) for count, later in pairwise(sorted(curve)))


@bench.judge("exahype.fig2.batch_pays", "exahype.fig3.batch_key")
def batch_pays(grid: ScalingGrid, memory: str) -> Hearing:
    curves: dict[str, dict[int, float]] = {}
    for name, case in CASES.items():
        t = yield from strong(grid, case, memory, threads=(1,), batches=grid.alone)
        curves[name] = {n: t[1, n] for n in grid.alone}
    rising = [
        f"{name}: t(1, {b}) = {curve[b]:.3g} s, t(1, {a}) = {curve[a]:.3g} s"
        for name, curve in curves.items()
        for a, b in not_falling(curve)
    ]
    small, large = curves["euler3d_p5"], curves["euler3d_p9"]
    rising += [f"p = 9 is not better than p = 5 at n = {n}" for n in grid.alone if not longer(small[n], large[n])]
    gains = (f"{name}: {curve[grid.alone[0]] / curve[grid.alone[-1]]:.3g} x" for name, curve in curves.items())
    return Judgement(f"from n = 1 to {grid.alone[-1]}: {', '.join(gains)}", not rising, "; ".join(rising[:4]))


@bench.judge("exahype.fig2.penalty")
def penalty(grid: ScalingGrid) -> Hearing:
    rises = {}
    for name, case in CASES.items():
        t = yield from strong(grid, case, "map")
        rises[name] = t[grid.most, BATCH] / min(t[count, BATCH] for count in grid.threads)
    reason = "a plateau without a rise: nothing in the machine makes serialised work dearer with more threads"
    return Reading(f"t({grid.most}) / min = {listed(rises, '.4g')}", rises, reason)


@bench.judge("exahype.fig2.speedup_iff")
def speedup_iff(grid: ScalingGrid, most_threads: int, largest: int) -> Hearing:
    t = yield from strong(grid, CASES["euler3d_p5"], "map", batches=grid.batches)
    places = {(count, n) for count in grid.threads[1:] for n in grid.batches}
    fast = {(count, n) for count, n in places if longer(t[1, n], t[count, n])}
    expected = {(count, n) for count, n in places if count <= most_threads and n <= largest}
    emulated = f"speedup at {len(fast)} of {len(places)} places, expected at {len(expected)}"
    extra, lacking = (", ".join(map(str, sorted(some))) for some in (fast - expected, expected - fast))
    wrong = {f"no speedup at (T, n) = {lacking}": lacking, f"speedup also at (T, n) = {extra}": extra}
    return unless(emulated, wrong)


@bench.judge("exahype.fig3.vs_map")
def pool_beats_map(grid: ScalingGrid, least_threads: int) -> Hearing:
    counts = [count for count in grid.threads if count >= least_threads]
    least = {}
    for name, case in CASES.items():
        with_map = yield from strong(grid, case, "map", threads=counts)
        with_pool = yield from strong(grid, case, "pool", threads=counts)
        least[name] = min(with_map[place] / with_pool[place] for place in with_map)
    return Reading(f"map / pool at least {listed(least)}", least, "the pool is not faster everywhere")


@bench.judge("exahype.headline.order")
def headline(grid: ScalingGrid) -> Hearing:
    gains: dict[str, float] = {}
    for name, case in CASES.items():
        with_map = yield from strong(grid, case, "map", batches=grid.gains)
        with_pool = yield from strong(grid, case, "pool", batches=grid.gains)
        gains |= {f"{name}, T = {T}, n = {n}": time / with_pool[T, n] for (T, n), time in with_map.items()}
    where = max(gains, key=gains.__getitem__)
    emulated = f"{gains[where]:.3g} x ({where})"
    return Reading(emulated, gains[where], f"the largest gain is {emulated}")


@bench.judge("exahype.concl.obs_invalid")
def no_degradation(grid: ScalingGrid) -> Hearing:
    worst = {}
    for name in ("euler3d_p5", "ccz4_p5"):
        t = yield from strong(grid, CASES[name], "pool")
        worst[name], _ = _worst_doubling({count: t[count, BATCH] for count in grid.threads})
    return Reading(f"at most {listed(worst)}", worst, "the pool degrades with threads")


@bench.judge("exahype.fig3.warm_allocs")
def warm_allocations(grid: ScalingGrid, each: int, sizes: int, few: int, many: int) -> Hearing:
    threads, batch = 16, 8
    base = {**CASES["euler3d_p5"], "memory": "pool", "scaling": "weak", "threads": threads, "batch": batch}
    short, long = yield from grid.runs({**base, "patches": batch * batches} for batches in (few, many))
    counts = [_calls(result, "cuMemAlloc") for result in (short, long)]
    frees = _calls(long, "cuMemFree")
    grow = counts[1] > counts[0]
    reason = f"allocations grow with batches: {counts}" if grow else f"{counts[1]} allocations, {frees} frees"
    holds = max(counts) <= each * threads * sizes and frees == 0
    return Judgement(f"{counts[0]} and {counts[1]} allocations, {frees} frees, {threads} threads", holds, reason)


def _calls(result: Result, call: str) -> int:
    return result.calls[call].count if call in result.calls else 0
