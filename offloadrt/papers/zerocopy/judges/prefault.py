"""Judges of what Eager Maps costs and saves: one prefault call for every map, instead of faults in kernels."""

from __future__ import annotations

from offloadrt.papers.zerocopy.judges.places import EAGER, IZC, S2, QmcpackGrid, bench, call, kernel_seconds, runs
from offloadrt.study.validation.judging import Hearing, Judgement, Reading, not_rising
from offloadrt.study.validation.measured import listed, longer

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
