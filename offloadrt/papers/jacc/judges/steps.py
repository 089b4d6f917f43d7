"""Judges of JACC on one GPU: asynchronous execution, overlapping kernels, GCC with pools."""

from __future__ import annotations

from offloadrt.papers.jacc.judges.places import BenchmarkGrid, all_iterations, bench
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.validation.judging import Asking, Hearing, Reading
from offloadrt.study.validation.measured import listed, mean


def improvement(grid: BenchmarkGrid, compiler: str, before: str, after: str) -> Asking[dict[str, float]]:
    """Measure by benchmark how much faster one execution step is than the one before, in percent of its time."""
    times = {}
    for execution in (before, after):
        parameters: dict[str, Value] = {"gpus": 1, "strategy": "single", "compiler": compiler, "execution": execution}
        results = yield from all_iterations(grid, [(name, parameters) for name in grid.benchmarks])
        times[execution] = [run.of("total_s") for run in results]
    pairs = zip(grid.benchmarks, times[before], times[after], strict=True)
    return {name: 100.0 * (slow / fast - 1.0) for name, slow, fast in pairs}


def lacking(grid: BenchmarkGrid) -> str:
    """Say how many of the ten benchmarks there are."""
    return "" if len(grid.benchmarks) == 10 else f" ({len(grid.benchmarks)} of 10 benchmarks)"


@bench.judge("jacc.async.pgi", "jacc.async.gcc")
def asynchronous(grid: BenchmarkGrid, compiler: str) -> Hearing:
    results = yield from improvement(grid, compiler, "sync", "async")
    most = max(results, key=lambda name: results[name])
    emulated = f"{mean(results.values()):.3g} %{lacking(grid)}: {listed(results)}"
    low = (
        "what the host no longer waits for (the end of each kernel, under GCC also the calls for its block of "
        "arguments) is microseconds a launch, which only benchmarks of short kernels feel"
    )
    high = f"the wait for each kernel costs {most} the most: its kernels are short"
    return Reading(emulated, mean(results.values()), low, high)


@bench.judge("jacc.async.gcc_gt_pgi")
def more_with_gcc(grid: BenchmarkGrid) -> Hearing:
    gcc = yield from improvement(grid, "gcc", "sync", "async")
    pgi = yield from improvement(grid, "pgi", "sync", "async")
    gain_gcc, gain_pgi = mean(gcc.values()), mean(pgi.values())
    emulated = f"{gain_gcc:.3g} and {gain_pgi:.3g} %{lacking(grid)}"
    reason = (
        f"{gain_gcc / gain_pgi:.3g} times: under GCC the calls for each launch's block of arguments are "
        "hidden behind kernels as well, but kernels that are longer than these calls gain as little as under PGI"
    )
    return Reading(emulated, gain_gcc / gain_pgi, reason)


@bench.judge("jacc.async.overlap")
def overlapping(grid: BenchmarkGrid) -> Hearing:
    results = yield from improvement(grid, "pgi", "async", "overlap")
    value = abs(mean(results.values()))
    reason = "kernels that depend on one another are put on several queues, or independent ones share the device"
    return Reading(f"{value:.2g} %{lacking(grid)}: {listed(results)}", value, reason)


@bench.judge("jacc.gcc.pool_competitive")
def pools(grid: BenchmarkGrid) -> Hearing:
    names = [name for name in grid.benchmarks if name != "EP"]
    pgi: dict[str, Value] = {"gpus": 1, "strategy": "single", "compiler": "pgi"}
    results = yield from all_iterations(grid, [(name, pgi) for name in names])
    pooled = yield from all_iterations(grid, [(name, {**pgi, "compiler": "gcc", "pools": True}) for name in names])
    percent = {
        name: 100.0 * (with_pgi.of("total_s") / with_gcc.of("total_s") - 1.0)
        for name, with_pgi, with_gcc in zip(names, results, pooled, strict=True)
    }
    claim = bench.claims["jacc.gcc.pool_competitive"]
    reason = (
        f"{{outside}} lie outside {claim.lo:g} to {claim.hi:g} %: a copy of each launch's block of arguments "
        "is left, which a short kernel does not hide"
    )
    return Reading(f"{listed(percent)}{lacking(grid)}", percent, reason)
