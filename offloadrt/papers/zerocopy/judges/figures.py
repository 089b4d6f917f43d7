"""The parameters of the zero-copy judges' runs (sizes, threads, configurations), and the judges of QMCPACK's figures.

QMCPACK's figures compare times of the steady state, for which a fraction of the steps is enough. Table I counts calls
of whole runs, start-up included. Those runs make the fraction `counted_fraction` of the steps, and counts at less than
1 are scaled up. A ratio is time(copy) / time(configuration), as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf

import attrs

from offloadrt.extensions.evidence.validation.claims import Claim
from offloadrt.extensions.evidence.validation.judging import (
    Asking,
    Bench,
    Extent,
    Hearing,
    Judgement,
    JudgingGrid,
    Program,
    Reading,
    SensitivityRun,
    listed,
    longer,
    not_rising,
    number,
    unless,
)
from offloadrt.study.reporting.results import CallFigures, Result, Spread
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point

SCENARIO = "qmcpack"
MACHINE = "mi300a"
COPY, IZC, USM, EAGER = "copy", "implicit_zero_copy", "usm", "eager_maps"
CONFIGURATIONS = (COPY, IZC, USM, EAGER)
SHORT = {COPY: "Copy", IZC: "IZC", USM: "USM", EAGER: "Eager"}
"""The paper's names of the configurations."""
S1, S2, S24, S128 = "S1", "S2", "S24", "S128"
THREADS = 8
"""The host threads of Figure 4."""
CANDIDATES: dict[str, dict[str, str]] = {
    "dma.multiple_engines": {"dma.multiple_engines": "true"},
    "stream.sync_copy_back": {"stream.sync_copy_back": "true"},
    "dma.multiple_engines, stream.sync_copy_back": {"dma.multiple_engines": "true", "stream.sync_copy_back": "true"},
}
"""Other settings of AMD's branch, whose version and environment the paper does not state.

Its defaults changed twice within the months in which Eager Maps came: one engine and no wait until the end of 2023,
both on in the source of early 2024 (commit 97d9178), and since AOMP 19.0-0 of March 2024 (bin/debian/changelog) one
engine and a wait, which AMD's script for NiO (run_nio.sh, 29 March 2024) switches off.
"""
_QMCPACK: list[SensitivityRun] = [
    {"size": size, "threads": threads, "configuration": configuration, "fraction": 0.0005}
    for size, threads in ((S2, 1), (S24, THREADS))
    for configuration in (COPY, IZC, EAGER)
]
_SPECACCEL: list[SensitivityRun] = [
    ("specaccel", {"benchmark": benchmark, "configuration": configuration, "fraction": 0.01})
    for benchmark in ("stencil", "ep", "spC")
    for configuration in (COPY, IZC, EAGER)
]
SENSITIVITY = (*_QMCPACK, *_SPECACCEL)
"""Short runs that show whether an entry of the machine's profile has any influence on times."""

bench = Bench.of("offloadrt.papers.zerocopy")

Place = tuple[str, int, str]
"""Where a time is measured: supercell size, number of host threads, configuration."""
Ratios = dict[Place, float]
"""time(copy) / time(configuration) by place."""


@attrs.frozen
class QmcpackGrid(JudgingGrid):
    """The sizes, numbers of threads and steps with which QMCPACK runs to judge the zero-copy paper's claims."""

    sizes: tuple[str, ...]
    """The supercells in order of their size, without S1."""
    threads: tuple[int, ...]
    fraction: float
    """The part of the steps that is run where times are compared."""
    counted_fraction: float
    """The part of the steps that is run where calls of a run are counted."""
    whole: bool
    """Whether SPECaccel's programs run whole. If not, their whole times are extrapolated from two parts of them."""

    @property
    def described(self) -> str:
        """Describe in words the runs on which the paper's claims are judged."""
        threads = ", ".join(map(str, self.threads))
        return (
            f"QMCPACK {', '.join((S1, *self.sizes))} with {threads} threads at {self.fraction:g} of the steps; "
            f"Table I at {self.counted_fraction:g} of the steps; SPECaccel {'whole' if self.whole else 'extrapolated'}"
        )

    def at(self, scenario: Program, parameters: Mapping[str, Value], *, hash: bool = False) -> Point:
        """Describe a run of another scenario, with its parameters by name. hash: whether its trace gets a hash."""
        point = self.point(parameters, scenario=scenario)
        return attrs.evolve(point, options=attrs.evolve(point.options, hash=hash))


def grid(extent: Extent, options: RunSpec) -> QmcpackGrid:
    """Choose the runs that judge the claims; they have ever fewer sizes, threads and steps from `full` to `ends`.

    extent: `full`, `quick` or `ends`. options: those of every run.
    """
    everything = ("S2", "S4", "S8", "S16", "S24", "S32", "S48", "S64", "S128")
    places: dict[str, tuple[tuple[str, ...], tuple[int, ...], float, float, bool]] = {
        "full": (everything, (1, 2, 4, 8), 0.02, 1.0, True),
        "quick": ((S2, S24, S128), (1, 8), 0.01, 0.1, True),
        "ends": ((S2, S24, S128), (1, 8), 0.001, 0.01, False),
    }
    return QmcpackGrid(SCENARIO, *places[extent], options=options)


def runs(grid: QmcpackGrid, places: Iterable[Place], fraction: float | None = None) -> Asking[dict[Place, Result]]:
    """Run a fraction of QMCPACK for each of `places`, (size, threads, configuration), and return the results by place.

    A function that judges a claim calls this with `yield from`, which hands on its requests for runs.
    """
    wanted = list(dict.fromkeys(places))
    results = yield from grid.runs(
        {
            "size": size,
            "threads": threads,
            "configuration": configuration,
            "fraction": grid.fraction if fraction is None else fraction,
        }
        for size, threads, configuration in wanted
    )
    return dict(zip(wanted, results, strict=True))


def ratios_of(
    grid: QmcpackGrid,
    configurations: Iterable[str],
    sizes: Iterable[str] | None = None,
    threads: Iterable[int] | None = None,
) -> Asking[Ratios]:
    """Measure QMCPACK's time(copy) / time(configuration) by size, threads and memory configuration.

    By default all sizes and threads of the grid are measured. A function that judges a claim calls this with `yield
    from`.
    """
    places = [
        (size, count, configuration)
        for size in (grid.sizes if sizes is None else sizes)
        for count in (grid.threads if threads is None else threads)
        for configuration in configurations
    ]
    results = yield from runs(
        grid, [(size, count, either) for size, count, configuration in places for either in (COPY, configuration)]
    )
    return {place: results[(*place[:2], COPY)].elapsed_s / results[place].elapsed_s for place in places}


def by_name(values: Ratios) -> dict[str, float]:
    """Return ratios by a name such as `IZC S2 8T`, in place of (size, threads, configuration)."""
    return {named(place): value for place, value in values.items()}


def named(place: Place) -> str:
    """Return a short name for a place (size, threads, configuration), such as `IZC S2 8T`."""
    size, threads, configuration = place
    return f"{SHORT[configuration]} {size} {threads}T"


def spanned(values: Ratios) -> str:
    """Describe in words the smallest and the largest ratio: value, size, threads and configuration."""
    low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    return f"{values[low]:.3g} ({named(low)}) to {values[high]:.3g} ({named(high)})"


def measured_kernels(result: Result) -> float:
    """Return how many kernels QMCPACK ran in the measured time, after its initialisation. result: of the run."""
    return number(result.measured["kernels"]) - number(result.measured["kernels_in_initialisation"])


def kernel_seconds(result: Result) -> float:
    """Return the total seconds of all kernels of a run, including those of the initialisation."""
    return number(result.measured["kernel_s"])


def api_seconds(result: Result) -> float:
    """Return the total seconds of all calls of the HSA runtime in a run, start-up included."""
    return math.fsum(statistics.total_s for statistics in result.all_calls().values())


def call(result: Result, name: str) -> CallFigures:
    """Return the figures (count and times) of calls of the HSA or driver function `name` in the whole run.

    Start-up is included; all are 0 if it was never called.
    """
    return result.all_calls().get(name, CallFigures(0, 0.0, 0.0, 0.0, 0.0))


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
        f"above the band at {above}: all threads' copies wait in order in one DMA ring (dma.multiple_engines), also "
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
    """Return Spearman's rank correlation (-1 to 1) of the values of a curve with their positions.

    Equal values share ranks; a constant curve has 0.
    """
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
        f"IZC's {izc.count} calls at start-up take {izc.total_s / izc.count * 1e6:.3g} us each; in the "
        "paper they are dearer than Copy's on average, and what they load is not described",
    )


def _over_start_up(grid: QmcpackGrid, copy_s: float, start_up_s: float) -> float:
    """Return the ratio of Copy's latency to IZC's, which is all start-up.

    The part of Copy's latency beyond the start-up is scaled up from the fraction of steps to all steps.
    """
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
"""The two runs between which growth is measured: both sizes with 8 threads, as in the paper's section on sizes."""


@bench.judge("mi300a.scale.kernel_s2_s24")
def kernels_grow(grid: QmcpackGrid) -> Hearing:
    results = yield from runs(grid, [(*place, configuration) for place in GROWING for configuration in (COPY, IZC)])
    seconds = {place: kernel_seconds(result) for place, result in results.items()}
    growth = {
        SHORT[configuration]: seconds[S24, THREADS, configuration] / seconds[S2, THREADS, configuration]
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


PREFAULT = "svm_attributes_set"


@bench.judge("mi300a.eager.cost")
def cost(grid: QmcpackGrid) -> Hearing:
    results = yield from runs(grid, [(S2, 1, EAGER)], grid.counted_fraction)
    calls = call(results[S2, 1, EAGER], PREFAULT)
    seconds = calls.total_s / grid.counted_fraction
    emulated = f"{seconds:.3g} s for {calls.count / grid.counted_fraction:,.0f} calls"
    return Reading(emulated, seconds, "calls are cheaper", "calls are dearer")


@bench.judge("mi300a.eager.saving")
def saving(grid: QmcpackGrid) -> Hearing:
    results = yield from runs(grid, [(S2, 1, IZC), (S2, 1, EAGER)], grid.counted_fraction)
    izc, eager = (
        kernel_seconds(results[S2, 1, configuration]) / grid.counted_fraction for configuration in (IZC, EAGER)
    )
    few = (
        "kernels first touch fewer pages of 2 MiB than that takes at the cost of a fault (fault.service_2m): what the "
        "program's arrays need is known, and its number of first touches is not an input"
    )
    return Reading(f"{izc - eager:.3g} s of {izc:.4g} s", izc - eager, few, "kernels meet more pages than the paper's")


@bench.judge("mi300a.eager.net")
def net(grid: QmcpackGrid) -> Hearing:
    results = yield from runs(grid, [(S2, 1, IZC), (S2, 1, EAGER)], grid.counted_fraction)
    izc, eager = (results[S2, 1, configuration].elapsed_s for configuration in (IZC, EAGER))
    return Judgement(f"{eager:.4g} s against {izc:.4g} s", longer(eager, izc), "prefaults cost less than they save")


@bench.judge("mi300a.eager.concurrent")
def concurrent(grid: QmcpackGrid) -> Hearing:
    results = yield from runs(grid, [(S2, count, EAGER) for count in grid.threads])
    means = {f"{count}T": results[S2, count, EAGER].calls[PREFAULT].mean_s * 1e6 for count in grid.threads}
    flat = [f"{before} to {after}" for before, after in not_rising(means)]
    return Judgement(f"{listed(means, '.6g')} (us)", not flat, f"no rise from {', '.join(flat)}")


REPORTED = {claim.given.get("configuration"): claim.value for id, claim in bench.claims.items() if ".cov." in id}
"""The coefficients of variation that the paper reports, by configuration."""


@bench.judge("mi300a.cov.*")
def variation(grid: QmcpackGrid, configuration: str, declared: float, repeats: int) -> Hearing:
    plain = grid.point(
        {"size": S2, "threads": THREADS, "configuration": configuration, "fraction": grid.fraction},
    )
    options = attrs.evolve(plain.options, overrides={**plain.options.overrides, "noise.run": str(declared)})
    results = yield [attrs.evolve(plain, options=attrs.evolve(options, seed=seed)) for seed in range(repeats)]
    cov = Spread.of([result.elapsed_s for result in results]).cov
    assert cov is not None
    return Judgement(
        f"{cov:.2g}",
        None,
        f"a declared input: with one draw a run for all configurations it comes to {cov:.2g} (paper: "
        f"{REPORTED[configuration]}); different noise for each configuration is not put in",
    )


@bench.judge("mi300a.table2.cov")
def variation_of_specaccel(grid: QmcpackGrid, declared: float, repeats: int) -> Hearing:
    yield []
    return Judgement(
        "–",
        None,
        f"a declared input: noise.run is off by default, {declared} is its candidate ({repeats} runs could vary by "
        f"{math.sqrt(repeats):.2g} at most; the paper's 4.2 and 2.9 of 4 runs are impossible, the most is 2)",
    )


CALLS = {"copies": "memory_async_copy", "allocs": "memory_pool_allocate"}


def _run(grid: QmcpackGrid, threads: int, configuration: str) -> Asking[Result]:
    results = yield from runs(grid, [(S2, threads, configuration)], grid.counted_fraction)
    return results[S2, threads, configuration]


@bench.beside("mi300a.table1.*t.kernels", "mi300a.table1.*t.copies", "mi300a.table1.*t.allocs")
def calls_counted(grid: QmcpackGrid, claim: Claim) -> Asking[Sequence[float]]:
    _, _, threads, what = claim.id.split(".")
    result = yield from _run(grid, int(threads.removesuffix("t")), COPY)
    count = number(result.measured["kernels"]) if what == "kernels" else call(result, CALLS[what]).count
    return (count / grid.counted_fraction,)


@bench.beside("mi300a.eager.calls")
def prefaults(grid: QmcpackGrid, claim: Claim) -> Asking[Sequence[float]]:
    result = yield from _run(grid, 1, EAGER)
    return (call(result, "svm_attributes_set").count / grid.counted_fraction,)
