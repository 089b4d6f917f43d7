"""Judges of Figures 3 and 4: QMCPACK's time under Copy over its time under each configuration."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from offloadrt.papers.zerocopy.judges.places import (
    COPY,
    EAGER,
    IZC,
    S1,
    S2,
    S128,
    SHORT,
    THREADS,
    USM,
    QmcpackGrid,
    bench,
    by_name,
    measured_kernels,
    named,
    runs,
    spanned,
)
from offloadrt.papers.zerocopy.judges.places import ratios as ratios_of
from offloadrt.study.validation.judging import Hearing, Judgement, Reading, unless
from offloadrt.study.validation.measured import listed, longer

NOT_SO = "not so at {outside}"


@bench.judge("mi300a.headline.qmc")
def headline(grid: QmcpackGrid) -> Hearing:
    claim = bench.claims["mi300a.headline.qmc"]
    ratios = yield from ratios_of(grid, (IZC, USM))
    above, below = (
        ", ".join(named(place) for place, ratio in ratios.items() if is_outside(ratio))
        for is_outside in (claim.is_above, claim.is_below)
    )
    wrong = {
        f"above the band at {above}: all threads' copies wait in order in one DMA ring (dma.rings, an estimate), also "
        "behind copies whose kernels are not over": above,
        f"below the band at {below}: kernels are nearly all of the time there": below,
    }
    return unless(spanned(ratios), wrong)


@bench.judge("mi300a.fig3.always_better.*")
def always_better(grid: QmcpackGrid, configuration: str) -> Hearing:
    ratios = yield from ratios_of(grid, (configuration,))
    return Reading(spanned(ratios), by_name(ratios), NOT_SO)


@bench.judge("mi300a.fig3.izc_eq_usm")
def same_as_usm(grid: QmcpackGrid) -> Hearing:
    places = [(size, count) for size in grid.sizes for count in grid.threads]
    results = yield from runs(grid, [(*place, configuration) for place in places for configuration in (IZC, USM)])
    apart = {
        (*place, IZC): abs(results[(*place, IZC)].elapsed_s / results[(*place, USM)].elapsed_s - 1) for place in places
    }
    return Reading(f"at most {max(apart.values()):.2g} apart", by_name(apart), NOT_SO)


@bench.judge("mi300a.fig3.threads_up")
def more_threads_more_gain(grid: QmcpackGrid) -> Hearing:
    ratios = yield from ratios_of(grid, (IZC, USM), threads=(1, THREADS))
    gains = {
        (size, THREADS, configuration): ratios[size, THREADS, configuration] / ratios[size, 1, configuration]
        for size in grid.sizes
        for configuration in (IZC, USM)
    }
    return Reading(f"ratio(8T) / ratio(1T): {spanned(gains)}", by_name(gains), NOT_SO)


@bench.judge("mi300a.fig4.size_down")
def gain_falls_with_size(grid: QmcpackGrid) -> Hearing:
    ratios = yield from ratios_of(grid, (IZC, USM), threads=(THREADS,))
    curves = {
        SHORT[configuration]: {size: ratios[size, THREADS, configuration] for size in grid.sizes}
        for configuration in (IZC, USM)
    }
    ranks = {name: correlation(list(curve.values())) for name, curve in curves.items()}
    emulated = "; ".join(f"{name} {listed(curve)}" for name, curve in curves.items())
    return Reading(f"{listed(ranks)} ({emulated})", ranks, "the ratio does not fall with the size for {outside}")


def correlation(curve: Sequence[float]) -> float:
    """Correlate the ranks of a curve with its places (Spearman); equal values share their ranks; 0 for a constant."""
    ordered = sorted(curve)
    ranks = [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in curve]
    middle = (len(curve) - 1) / 2
    product = spread_of_ranks = spread_of_places = 0.0
    for place, rank in enumerate(ranks):
        product += (place - middle) * (rank - middle)
        spread_of_ranks += (rank - middle) ** 2
        spread_of_places += (place - middle) ** 2
    return product / (spread_of_ranks * spread_of_places) ** 0.5 if spread_of_ranks else 0.0


@bench.judge("mi300a.fig4.s2_max")
def s2_gains_most(grid: QmcpackGrid) -> Hearing:
    ratios = yield from ratios_of(grid, (IZC, USM), threads=(THREADS,))
    best = {
        SHORT[configuration]: max(grid.sizes, key=lambda size: ratios[size, THREADS, configuration])
        for configuration in (IZC, USM)
    }
    emulated = ", ".join(f"{name}: {size}" for name, size in best.items())
    return Judgement(emulated, set(best.values()) == {S2}, f"the largest ratio is elsewhere; {spanned(ratios)}")


@bench.judge("mi300a.fig3.s1_extreme")
def s1_is_extreme(grid: QmcpackGrid) -> Hearing:
    ratios = yield from ratios_of(grid, (IZC, USM), sizes=(S1, S2))
    more = {
        (S1, count, configuration): ratios[S1, count, configuration] / ratios[S2, count, configuration]
        for count in grid.threads
        for configuration in (IZC, USM)
    }
    reason = (
        f"{NOT_SO}: QMCPACK presets twice as many walkers at S1, so that the host's own work for a move, which "
        "no configuration changes, takes up what shorter kernels save"
    )
    return Reading(f"ratio(S1) / ratio(S2): {spanned(more)}", by_name(more), reason)


@bench.judge("mi300a.opt.no_harm")
def overlap_does_no_harm(grid: QmcpackGrid) -> Hearing:
    results = yield from runs(
        grid, [(S2, count, configuration) for count in (1, THREADS) for configuration in (COPY, IZC, USM)]
    )
    per_kernel_s = {place: result.elapsed_s / measured_kernels(result) for place, result in results.items()}
    gain = {
        SHORT[configuration]: per_kernel_s[S2, 1, configuration] / per_kernel_s[S2, THREADS, configuration]
        for configuration in (COPY, IZC, USM)
    }
    worse = [name for name, value in gain.items() if value < 1.0 or (name == SHORT[COPY] and not longer(value, 1.0))]
    reason = f"with 8 threads the same work takes longer under {', '.join(worse)}"
    return Judgement(f"1 thread over 8, time per kernel: {listed(gain)}", not worse, reason)


@bench.judge("mi300a.eager.small_lower")
def eager_gains_less(grid: QmcpackGrid) -> Hearing:
    sizes = [size for size in grid.sizes if size != S128]
    ratios = yield from ratios_of(grid, (IZC, EAGER), sizes=sizes)
    gaps = {
        (size, count, EAGER): ratios[size, count, IZC] - ratios[size, count, EAGER]
        for size in sizes
        for count in grid.threads
    }
    higher = ", ".join(named(place) for place, gap in gaps.items() if gap <= 0 and place[1] > 1)
    shrinking = ", ".join(
        named((size, more, EAGER))
        for size in sizes
        for count, more in pairwise(grid.threads)
        if gaps[size, more, EAGER] <= gaps[size, count, EAGER]
    )
    wrong = {
        f"ratio(Eager) is no lower at {higher}": higher,
        f"the gap does not grow up to {shrinking}: prefaults are concurrent but for their short part under the mmap "
        "lock, while Copy's copies queue": shrinking,
    }
    return unless(f"ratio(IZC) - ratio(Eager): {spanned(gaps)}", wrong)
