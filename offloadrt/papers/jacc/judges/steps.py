"""Judges of JACC on one GPU: asynchronous execution, overlapping kernels, GCC with pools."""

from __future__ import annotations

from collections.abc import Generator

from offloadrt.papers.jacc.judges.places import Grid, banded, bench, claims, in_band, wholes
from offloadrt.study.judging import Asking, Judgement
from offloadrt.study.measured import listed, mean
from offloadrt.study.points import Point
from offloadrt.study.reporting.results import Result
from offloadrt.study.scripts.parameters import Value

TIMES = 3.0
"""GCC's improvement is to be more than so many times PGI's."""

Percent = Generator[list[Point], list[Result], dict[str, float]]


def improvement(grid: Grid, compiler: str, before: str, after: str) -> Percent:
    """By benchmark, how much faster one execution step is than the one before, in percent of its time."""
    times = {}
    for execution in (before, after):
        asked: dict[str, Value] = {"gpus": 1, "strategy": "single", "compiler": compiler, "execution": execution}
        found = yield from wholes(grid, [(name, asked) for name in grid.benchmarks])
        times[execution] = [whole.of("total_s") for whole in found]
    pairs = zip(grid.benchmarks, times[before], times[after], strict=True)
    return {name: 100.0 * (slow / fast - 1.0) for name, slow, fast in pairs}


def lacking(grid: Grid) -> str:
    """How many of the ten benchmarks there are."""
    return "" if len(grid.benchmarks) == 10 else f" ({len(grid.benchmarks)} of 10 benchmarks)"


@bench.judge("jacc.async.pgi", "mean over benchmarks of t(sync) / t(async) - 1, in the band (PGI)", compiler="pgi")
@bench.judge("jacc.async.gcc", "mean over benchmarks of t(sync) / t(async) - 1, in the band (GCC)", compiler="gcc")
def asynchronous(grid: Grid, compiler: str) -> Asking:
    found = yield from improvement(grid, compiler, "sync", "async")
    most = max(found, key=lambda name: found[name])
    said = f"{mean(found.values()):.3g} %{lacking(grid)}: {listed(found)}"
    low = (
        "what the host no longer waits for (the end of each kernel, under GCC also the calls for its block of "
        "arguments) is microseconds a launch, which only benchmarks of short kernels feel"
    )
    high = f"the wait for each kernel costs {most} the most: its kernels are short"
    return banded(f"jacc.async.{compiler}", mean(found.values()), said, low, high)


@bench.judge("jacc.async.gcc_gt_pgi", f"improvement of GCC > {TIMES:g} times that of PGI (mean over benchmarks)")
def more_with_gcc(grid: Grid) -> Asking:
    gcc = yield from improvement(grid, "gcc", "sync", "async")
    pgi = yield from improvement(grid, "pgi", "sync", "async")
    one, other = mean(gcc.values()), mean(pgi.values())
    said = f"{one:.3g} and {other:.3g} %{lacking(grid)}"
    reason = (
        f"{one / other:.3g} times: under GCC the calls for each launch's block of arguments are hidden behind kernels "
        "as well, but kernels that are longer than these calls gain as little as under PGI"
    )
    return Judgement(said, one > TIMES * other, reason)


@bench.judge("jacc.async.overlap", "abs(mean over benchmarks of t(async) / t(overlap) - 1), in the band (PGI)")
def overlapping(grid: Grid) -> Asking:
    found = yield from improvement(grid, "pgi", "async", "overlap")
    value = abs(mean(found.values()))
    reason = "kernels that depend on one another are put on several queues, or independent ones share the device"
    return banded("jacc.async.overlap", value, f"{value:.2g} %{lacking(grid)}: {listed(found)}", reason, reason)


@bench.judge("jacc.gcc.pool_competitive", "t(PGI) / t(GCC with pools) - 1 in the band for each benchmark but EP")
def pools(grid: Grid) -> Asking:
    names = [name for name in grid.benchmarks if name != "EP"]
    pgi: dict[str, Value] = {"gpus": 1, "strategy": "single", "compiler": "pgi"}
    found = yield from wholes(grid, [(name, pgi) for name in names])
    pooled = yield from wholes(grid, [(name, {**pgi, "compiler": "gcc", "pools": True}) for name in names])
    percent = {
        name: 100.0 * (one.of("total_s") / other.of("total_s") - 1.0)
        for name, one, other in zip(names, found, pooled, strict=True)
    }
    outside = [name for name, value in percent.items() if not in_band("jacc.gcc.pool_competitive", value)]
    claim = claims["jacc.gcc.pool_competitive"]
    reason = (
        f"{', '.join(outside)} lie outside {claim.lo:g} to {claim.hi:g} %: a copy of each launch's block of arguments "
        "is left, which a short kernel does not hide"
    )
    return Judgement(f"{listed(percent)}{lacking(grid)}", not outside, reason)
