"""Numbers of the benchmarks that the paper reports, beside what is emulated: wrong kernels divided would show here."""

from __future__ import annotations

from collections.abc import Sequence

from offloadrt.papers.jacc.judges.multi import ADAPTIVE, SINGLE
from offloadrt.papers.jacc.judges.places import AllIterations, BenchmarkGrid, all_iterations, bench
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.validation.claims import Claim
from offloadrt.study.validation.judging import Asking
from offloadrt.study.validation.measured import number


def _run(grid: BenchmarkGrid, claim: Claim, strategy: dict[str, Value]) -> Asking[AllIterations]:
    """Run the benchmark that a claim is about."""
    name = claim.id.split(".")[2]
    (run,) = yield from all_iterations(grid, [(name, strategy)])
    return run


@bench.beside("jacc.bench.*")
def memory_and_kernels(grid: BenchmarkGrid, claim: Claim) -> Asking[Sequence[float]]:
    run = yield from _run(grid, claim, ADAPTIVE)
    kernels = sum(name.endswith(".executions") for name in run.more.measured)
    return number(run.more.measured["array_bytes"]) / 1e9, kernels


@bench.beside("jacc.detail.*.dup")
def time_on_one_device(grid: BenchmarkGrid, claim: Claim) -> Asking[Sequence[float]]:
    run = yield from _run(grid, claim, SINGLE)
    return (1e3 * run.of("kernel_s"),)


@bench.beside("jacc.detail.*.launches")
def executions(grid: BenchmarkGrid, claim: Claim) -> Asking[Sequence[float]]:
    run = yield from _run(grid, claim, ADAPTIVE)
    return (run.of("executions"),)


@bench.beside("jacc.detail.*.adapted")
def divided_kernels(grid: BenchmarkGrid, claim: Claim) -> Asking[Sequence[float]]:
    run = yield from _run(grid, claim, ADAPTIVE)
    return (len(run.adapted),)


@bench.beside("jacc.detail.*.write")
def bytes_written(grid: BenchmarkGrid, claim: Claim) -> Asking[Sequence[float]]:
    run = yield from _run(grid, claim, ADAPTIVE)
    return (number(run.more.measured["write_bytes"]) / 1e6,)
