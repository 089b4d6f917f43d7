"""Judges of what Eager Maps costs and saves: one prefault call for every map, instead of faults in kernels."""

from __future__ import annotations

from itertools import pairwise

from offloadrt.papers.zerocopy.judges.places import EAGER, IZC, S2, Grid, banded, bench, call, kernel_seconds, runs
from offloadrt.study.judging import Asking, Judgement
from offloadrt.study.measured import listed

PREFAULT = "svm_attributes_set"


@bench.judge(
    "mi300a.eager.cost", f"latencies of {PREFAULT} added up, in the band (Eager, S2, 1 thread); role calibrate"
)
def cost(grid: Grid) -> Asking:
    found = yield from runs(grid, [(S2, 1, EAGER)], grid.whole)
    calls = call(found[S2, 1, EAGER], PREFAULT)
    seconds = calls.total_s / grid.whole
    said = f"{seconds:.3g} s for {calls.count / grid.whole:,.0f} calls"
    return banded("mi300a.eager.cost", seconds, said, "calls are cheaper", "calls are dearer")


@bench.judge("mi300a.eager.saving", "times of all kernels added up, IZC less Eager, in the band (S2, 1 thread)")
def saving(grid: Grid) -> Asking:
    found = yield from runs(grid, [(S2, 1, IZC), (S2, 1, EAGER)], grid.whole)
    izc, eager = (kernel_seconds(found[S2, 1, one]) / grid.whole for one in (IZC, EAGER))
    said = f"{izc - eager:.3g} s of {izc:.4g} s"
    return banded(
        "mi300a.eager.saving",
        izc - eager,
        said,
        "kernels first touch fewer pages of 2 MiB than that takes at the published 17 us a fault: what the program's "
        "arrays need is known, and its number of first touches is not an input",
        "kernels meet more pages than the paper's",
    )


@bench.judge("mi300a.eager.net", "t(Eager) > t(IZC) (S2, 1 thread)")
def net(grid: Grid) -> Asking:
    found = yield from runs(grid, [(S2, 1, IZC), (S2, 1, EAGER)], grid.whole)
    izc, eager = (found[S2, 1, one].elapsed_s for one in (IZC, EAGER))
    return Judgement(f"{eager:.4g} s against {izc:.4g} s", eager > izc, "prefaults cost less than they save")


@bench.judge("mi300a.eager.concurrent", f"mean latency of {PREFAULT} rises with each step of threads (Eager, S2)")
def concurrent(grid: Grid) -> Asking:
    found = yield from runs(grid, [(S2, count, EAGER) for count in grid.threads])
    mean = {f"{count}T": found[S2, count, EAGER].calls[PREFAULT].mean_s * 1e6 for count in grid.threads}
    flat = [f"{a} to {b}" for a, b in pairwise(mean) if mean[b] <= mean[a]]
    return Judgement(f"{listed(mean, '.6g')} (us)", not flat, f"no rise from {', '.join(flat)}")
