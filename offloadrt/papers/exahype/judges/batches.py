"""Judges of Figure 1 and of what the paper says about batches, saturation and many threads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf

from offloadrt.papers.exahype.judges.curves import CASES, PROBES, ScalingGrid, bench, saturations, strong, weak
from offloadrt.study.validation.judging import Hearing, Judgement, Reading, not_falling
from offloadrt.study.validation.measured import listed, longer, number

NEEDS_ALL = Judgement("–", None, "needs 128 threads")


@bench.judge("exahype.obs1.batching")
def batching(grid: ScalingGrid, largest: int) -> Hearing:
    batches = [batch for batch in grid.batches if batch <= largest]
    t = yield from weak(grid, "map", threads=grid.ends, batches=batches)
    rising = [
        f"t({count}, {b}) = {t[count, b]:.3g} s after t({count}, {a}) = {t[count, a]:.3g} s"
        for count in grid.ends
        for a, b in not_falling({batch: t[count, batch] for batch in batches})
    ]
    gains = {count: t[count, 1] / t[count, batches[-1]] for count in grid.ends}
    return Judgement(f"t(T, 1) / t(T, 16) at T = {listed(gains)}", not rising, "; ".join(rising))


@bench.judge("exahype.obs1.sat2d")
def saturates_at_16(grid: ScalingGrid) -> Hearing:
    t = yield from weak(grid, "map", threads=grid.ends, batches=(16, 32))
    ratios = {count: t[count, 32] / t[count, 16] for count in grid.ends}
    reason = "at T = {outside} larger batches still pay: the cost per batch is not yet hidden"
    return Reading(f"t(T, 32) / t(T, 16) at T = {listed(ratios)}", ratios, reason)


@bench.judge("exahype.obs1.inflight")
def in_flight(grid: ScalingGrid) -> Hearing:
    if grid.most < 128:
        yield []
        return NEEDS_ALL
    batch_of = yield from saturations(partial(weak, grid, "map"), (128,), (4, 8, 16, 32))
    batch = batch_of[128]
    if batch is None:
        reason = "each doubling of the batch up to 32 still pays more than 15 %"
        return Judgement("no saturation up to n = 32", False, reason)
    volumes = 128 * batch * 17**2
    return Reading(f"{volumes} volumes (n = {batch})", volumes, f"saturation comes at n = {batch}, not at 16")


@bench.judge("exahype.obs2.degrade")
def degrades(grid: ScalingGrid) -> Hearing:
    if grid.most < 128:
        yield []
        return NEEDS_ALL
    t = yield from weak(grid, "map", threads=(1, 128), batches=(16,), per_thread=True)
    ratio = t[128, 16] / t[1, 16]
    reason = (
        "pure serialisation would give 128; what threads do in parallel (staging, waiting for their own copies and "
        "kernels) keeps the ratio below 100, and nothing in the machine makes serialised work dearer with more threads"
    )
    return Reading(f"{ratio:.3g} x", ratio, reason)


@bench.judge("exahype.obs2.expect")
def scales_to_queues(grid: ScalingGrid, part: float) -> Hearing:
    queues = grid.machine.count("gpu.hw_queues")
    with_map = yield from weak(grid, "map", threads=(1, queues), batches=(16,))
    with_pool = yield from weak(grid, "pool", threads=(1, queues), batches=(16,))
    gain_map, gain_pool = with_map[1, 16] / with_map[queues, 16], with_pool[1, 16] / with_pool[queues, 16]
    emulated = f"Q = {queues}: map {gain_map:.3g} x, pool {gain_pool:.3g} x"
    if gain_map >= queues / part:
        return Judgement(emulated, False, "map scales nearly to the number of queues")
    return Judgement(emulated, longer(gain_pool, gain_map), "pool gains no more from threads than map")


@bench.judge("exahype.obs3.sat_euler3d", "exahype.fig2.sat8")
def saturates_at_8(grid: ScalingGrid, cases: Sequence[str]) -> Hearing:
    batches: dict[str, int | None] = {}
    for case in cases:
        at = yield from saturations(partial(strong, grid, CASES[case], "map"), grid.ends, (1, 2, 4, 8, 16, 32))
        batches |= {f"{case} T={count}": batch for count, batch in at.items()}
    emulated = ", ".join(f"{place}: {batch or 'above 16'}" for place, batch in batches.items())
    figures = {place: batch or inf for place, batch in batches.items()}
    return Reading(emulated, figures, "outside the band at {outside}")


@bench.judge("exahype.obs4.alloc")
def allocations_delay_kernels(grid: ScalingGrid) -> Hearing:
    counts = (0, 1, 4, 16)
    facts = yield from grid.facts(f"{PROBES}:neighbours", [{"neighbours": count} for count in counts])
    walls = dict(zip(counts, (number(fact["kernel_wall_s"]) for fact in facts), strict=True))
    ratios = {count: walls[count] / walls[0] for count in counts[1:]}
    reason = (
        f"under {grid.halt} allocations and frees leave running kernels alone, or wait for them without slowing them"
    )
    rises = longer(ratios[16], 1.0) and ratios[1] <= ratios[4] <= ratios[16]
    return Judgement(f"with neighbours {listed(ratios)}", rises, reason)
