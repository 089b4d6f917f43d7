"""Judges of Figures 3 and 4: QMCPACK's time under Copy over its time under each configuration."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from offloadrt.papers.zerocopy.judges.places import (
    CONFIGURATIONS,
    COPY,
    IZC,
    S1,
    S2,
    SHORT,
    THREADS,
    USM,
    Grid,
    Place,
    bench,
    in_band,
    measured_kernels,
    named,
    runs,
    spanned,
)
from offloadrt.papers.zerocopy.judges.places import ratios as ratios_of
from offloadrt.study.judging import Asking, Judgement
from offloadrt.study.measured import listed

EVERYWHERE = "every size and thread count"


def _failing(places: Sequence[Place]) -> str:
    return f"not so at {', '.join(map(named, places))}" if places else ""


@bench.judge("mi300a.headline.qmc", f"1.2 <= t(Copy) / t(IZC or USM) <= 2.3 at {EVERYWHERE}")
def headline(grid: Grid) -> Asking:
    found = yield from ratios_of(grid, (IZC, USM))
    outside = [place for place, ratio in found.items() if not in_band("mi300a.headline.qmc", ratio)]
    parts = []
    if above := [place for place in outside if found[place] > 2]:
        parts.append(
            f"above the band at {', '.join(map(named, above))}: all threads' copies wait in order in one DMA ring "
            "(dma.rings, an estimate), also behind copies whose kernels are not over"
        )
    if below := [place for place in outside if found[place] < 2]:
        parts.append(f"below the band at {', '.join(map(named, below))}: kernels are nearly all of the time there")
    return Judgement(spanned(found), not outside, "; ".join(parts))


@bench.judge("mi300a.fig3.always_better.izc", f"t(Copy) / t(IZC) > 1 at {EVERYWHERE}", configuration=IZC)
@bench.judge("mi300a.fig3.always_better.usm", f"t(Copy) / t(USM) > 1 at {EVERYWHERE}", configuration=USM)
def always_better(grid: Grid, configuration: str) -> Asking:
    found = yield from ratios_of(grid, (configuration,))
    worse = [place for place, ratio in found.items() if ratio <= 1.0]
    return Judgement(spanned(found), not worse, _failing(worse))


@bench.judge("mi300a.fig3.izc_eq_usm", f"abs(t(IZC) / t(USM) - 1) <= 0.05 at {EVERYWHERE}")
def same_as_usm(grid: Grid) -> Asking:
    found = yield from runs(
        grid, [(size, count, one) for size in grid.sizes for count in grid.threads for one in (IZC, USM)]
    )
    apart = {
        (size, count, IZC): abs(found[size, count, IZC].elapsed_s / found[size, count, USM].elapsed_s - 1)
        for size in grid.sizes
        for count in grid.threads
    }
    far = [place for place, difference in apart.items() if difference > 0.05]
    return Judgement(f"at most {max(apart.values()):.2g} apart", not far, _failing(far))


@bench.judge("mi300a.fig3.threads_up", "ratio with 8 threads > ratio with 1 thread, at every size (IZC and USM)")
def more_threads_more_gain(grid: Grid) -> Asking:
    found = yield from ratios_of(grid, (IZC, USM), threads=(1, THREADS))
    gains = {
        (size, THREADS, one): found[size, THREADS, one] / found[size, 1, one]
        for size in grid.sizes
        for one in (IZC, USM)
    }
    down = [place for place, gain in gains.items() if gain <= 1.0]
    return Judgement(f"ratio(8T) / ratio(1T): {spanned(gains)}", not down, _failing(down))


@bench.judge("mi300a.fig4.size_down", "Spearman's rank correlation of size and ratio < 0 (8 threads, IZC and USM)")
def gain_falls_with_size(grid: Grid) -> Asking:
    found = yield from ratios_of(grid, (IZC, USM), threads=(THREADS,))
    curves = {one: [found[size, THREADS, one] for size in grid.sizes] for one in (IZC, USM)}
    rank = {SHORT[one]: correlation(curve) for one, curve in curves.items()}
    said = "; ".join(
        f"{SHORT[one]} {listed(dict(zip(grid.sizes, curve, strict=True)))}" for one, curve in curves.items()
    )
    rising = [one for one, value in rank.items() if value >= 0]
    return Judgement(f"{listed(rank)} ({said})", not rising, f"the ratio does not fall with the size for {rising}")


def correlation(curve: Sequence[float]) -> float:
    """Spearman's rank correlation of a curve with its places; equal values share their ranks. 0 for a constant."""
    ordered = sorted(curve)
    ranks = [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in curve]
    middle = (len(curve) - 1) / 2
    product = spread = whole = 0.0
    for place, rank in enumerate(ranks):
        product += (place - middle) * (rank - middle)
        spread += (rank - middle) ** 2
        whole += (place - middle) ** 2
    return product / (spread * whole) ** 0.5 if spread else 0.0


@bench.judge("mi300a.fig4.s2_max", "the largest ratio over all sizes is that of S2 (8 threads, IZC and USM)")
def s2_gains_most(grid: Grid) -> Asking:
    found = yield from ratios_of(grid, (IZC, USM), threads=(THREADS,))
    best = {SHORT[one]: max(grid.sizes, key=lambda size: found[size, THREADS, one]) for one in (IZC, USM)}
    said = ", ".join(f"{one}: {size}" for one, size in best.items())
    return Judgement(said, set(best.values()) == {S2}, f"the largest ratio is elsewhere; {spanned(found)}")


@bench.judge("mi300a.fig3.s1_extreme", "ratio(S1) > ratio(S2) at every thread count (IZC and USM)")
def s1_is_extreme(grid: Grid) -> Asking:
    found = yield from ratios_of(grid, (IZC, USM), sizes=(S1, S2))
    more = {
        (S1, count, one): found[S1, count, one] / found[S2, count, one] for count in grid.threads for one in (IZC, USM)
    }
    less = [place for place, gain in more.items() if gain <= 1.0]
    reason = (
        f"{_failing(less)}: QMCPACK presets twice as many walkers at S1, so that the host's own work for a move, which "
        "no configuration changes, takes up what shorter kernels save"
    )
    return Judgement(f"ratio(S1) / ratio(S2): {spanned(more)}", not less, reason)


@bench.judge(
    "mi300a.opt.no_harm",
    "time per kernel: t(Copy) with 8 threads < with 1, and t(IZC), t(USM) with 8 threads <= with 1 (S2)",
)
def overlap_does_no_harm(grid: Grid) -> Asking:
    found = yield from runs(grid, [(S2, count, one) for count in (1, THREADS) for one in (COPY, IZC, USM)])
    each = {place: result.elapsed_s / measured_kernels(result) for place, result in found.items()}
    gain = {SHORT[one]: each[S2, 1, one] / each[S2, THREADS, one] for one in (COPY, IZC, USM)}
    worse = [one for one, value in gain.items() if value < 1.0 or (one == SHORT[COPY] and value == 1.0)]
    reason = f"with 8 threads the same work takes longer under {', '.join(worse)}"
    return Judgement(f"1 thread over 8, time per kernel: {listed(gain)}", not worse, reason)


@bench.judge(
    "mi300a.eager.small_lower",
    "ratio(Eager) < ratio(IZC), and ratio(IZC) - ratio(Eager) grows with each step of threads, at every size but S128 "
    "(more than one thread)",
)
def eager_gains_less(grid: Grid) -> Asking:
    eager = CONFIGURATIONS[-1]
    sizes = [size for size in grid.sizes if size != "S128"]
    found = yield from ratios_of(grid, (IZC, eager), sizes=sizes)
    gaps = {
        (size, count, eager): found[size, count, IZC] - found[size, count, eager]
        for size in sizes
        for count in grid.threads
    }
    higher = [place for place, gap in gaps.items() if gap <= 0 and place[1] > 1]
    shrinking = [
        (size, more, eager)
        for size in sizes
        for count, more in pairwise(grid.threads)
        if gaps[size, more, eager] <= gaps[size, count, eager]
    ]
    parts = []
    if higher:
        parts.append(f"ratio(Eager) is no lower at {', '.join(map(named, higher))}")
    if shrinking:
        parts.append(
            f"the gap does not grow up to {', '.join(map(named, shrinking))}: prefaults are concurrent but for their "
            "short part under the mmap lock, while Copy's copies queue"
        )
    return Judgement(f"ratio(IZC) - ratio(Eager): {spanned(gaps)}", not parts, "; ".join(parts))
