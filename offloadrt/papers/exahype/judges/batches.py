"""Judges of Figure 1 and of what the paper says about batches, saturation and many threads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

from offloadrt.papers.exahype.judges.curves import (
    CASES,
    MACHINE,
    PROBES,
    SATURATED,
    bench,
    halt_of,
    in_band,
    saturations,
    strong,
    weak,
)
from offloadrt.study.judging import Asking, Grid, Judgement
from offloadrt.study.measured import listed, number
from offloadrt.study.running import profiles


@bench.judge("exahype.obs1.batching", "t(T, n) decreases for n = 1..16, at several T (Euler 2D, map, weak)")
def batching(grid: Grid) -> Asking:
    batches = [batch for batch in grid.batches if batch <= 16]
    t = yield from weak(grid, "map", threads=grid.ends, batches=batches)
    rising = [
        f"t({count}, {b}) = {t[count, b]:.3g} s after t({count}, {a}) = {t[count, a]:.3g} s"
        for count in grid.ends
        for a, b in pairwise(batches)
        if t[count, b] >= t[count, a]
    ]
    gains = {count: t[count, 1] / t[count, batches[-1]] for count in grid.ends}
    return Judgement(f"t(T, 1) / t(T, 16) at T = {listed(gains)}", not rising, "; ".join(rising))


@bench.judge("exahype.obs1.sat2d", "t(T, 32) >= 0.85 t(T, 16) at several T (Euler 2D, map, weak)")
def saturates_at_16(grid: Grid) -> Asking:
    t = yield from weak(grid, "map", threads=grid.ends, batches=(16, 32))
    ratios = {count: t[count, 32] / t[count, 16] for count in grid.ends}
    low = [count for count, ratio in ratios.items() if ratio < SATURATED]
    reason = (
        f"at T = {', '.join(map(str, low))} larger batches still pay: the cost per batch is not yet hidden"
        if low
        else ""
    )
    return Judgement(f"t(T, 32) / t(T, 16) at T = {listed(ratios)}", not low, reason)


@bench.judge("exahype.obs1.inflight", "128 * (saturation batch at T = 128) * 17^2, in the band (Euler 2D, map, weak)")
def in_flight(grid: Grid) -> Asking:
    found = yield from saturations(partial(weak, grid, "map"), (128,), (4, 8, 16, 32))
    batch = found[128]
    if batch is None:
        return Judgement(
            "no saturation up to n = 32", False, "each doubling of the batch up to 32 still pays more than 15 %"
        )
    volumes = 128 * batch * 17**2
    reason = f"saturation comes at n = {batch}, not at 16"
    return Judgement(f"{volumes} volumes (n = {batch})", in_band("exahype.obs1.inflight", volumes), reason)


@bench.judge(
    "exahype.obs2.degrade", "time per one thread's volumes, T = 128 over T = 1, >= 100 (Euler 2D, map, weak, n = 16)"
)
def degrades(grid: Grid) -> Asking:
    t = yield from weak(grid, "map", threads=(1, 128), batches=(16,), per_thread=True)
    ratio = t[128, 16] / t[1, 16]
    reason = (
        "pure serialisation would give 128; what threads do in parallel (staging, waiting for their own copies and "
        "kernels) keeps the ratio below 100, and nothing in the machine makes serialised work dearer with more threads"
    )
    return Judgement(f"{ratio:.3g} x", in_band("exahype.obs2.degrade", ratio), reason)


@bench.judge(
    "exahype.obs2.expect",
    "with Q hardware queues: t(1)/t(Q) < Q/2 with map, and more with pool (Euler 2D, weak, n = 16)",
)
def scales_to_queues(grid: Grid) -> Asking:
    queues = profiles.load(grid.options.machine or MACHINE, grid.options.overrides).count("gpu.hw_queues")
    with_map = yield from weak(grid, "map", threads=(1, queues), batches=(16,))
    with_pool = yield from weak(grid, "pool", threads=(1, queues), batches=(16,))
    gain_map, gain_pool = with_map[1, 16] / with_map[queues, 16], with_pool[1, 16] / with_pool[queues, 16]
    holds = gain_map < queues / 2 and gain_pool > gain_map
    reason = (
        "map scales nearly to the number of queues"
        if gain_map >= queues / 2
        else "pool gains no more from threads than map"
    )
    return Judgement(f"Q = {queues}: map {gain_map:.3g} x, pool {gain_pool:.3g} x", holds, reason)


@bench.judge(
    "exahype.obs3.sat_euler3d",
    "saturation batch at several T, in the band (Euler 3D p=5, map, strong)",
    cases=("euler3d_p5",),
)
@bench.judge(
    "exahype.fig2.sat8",
    "saturation batch at several T, in the band (all 3D cases, map, strong)",
    cases=tuple(CASES),
)
def saturates_at_8(grid: Grid, cases: Sequence[str]) -> Asking:
    found: dict[str, int | None] = {}
    for case in cases:
        at = yield from saturations(partial(strong, grid, CASES[case], "map"), grid.ends, (1, 2, 4, 8, 16, 32))
        found |= {f"{case} T={count}": batch for count, batch in at.items()}
    outside = [place for place, batch in found.items() if batch is None or not in_band("exahype.fig2.sat8", batch)]
    said = ", ".join(f"{place}: {batch or 'above 16'}" for place, batch in found.items())
    return Judgement(said, not outside, f"outside the band at {', '.join(outside)}")


@bench.judge(
    "exahype.obs4.alloc",
    "kernel wall time next to 1, 4, 16 threads that only allocate and free, over its time alone: rises",
)
def allocations_delay_kernels(grid: Grid) -> Asking:
    counts = (0, 1, 4, 16)
    facts = yield from grid.facts(f"{PROBES}:neighbours", [{"neighbours": count} for count in counts])
    walls = dict(zip(counts, (number(fact["kernel_wall_s"]) for fact in facts), strict=True))
    ratios = {count: walls[count] / walls[0] for count in counts[1:]}
    holds = ratios[16] > 1.0 and ratios[1] <= ratios[4] <= ratios[16]
    reason = (
        f"under driver.halt = {halt_of(grid)} allocations and frees leave running kernels alone, "
        "or wait for them without slowing them"
    )
    return Judgement(f"with neighbours {listed(ratios)}", holds, reason)
