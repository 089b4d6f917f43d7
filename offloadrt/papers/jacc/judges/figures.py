"""Where the judges of the JACC claims look (its benchmarks on a DGX-1), and the judges of its figures.

Iterations are alike once the adaptive controller has decided, which takes it five executions of a kernel. So two runs
of a few iterations each tell what all of them take: what the longer one took, and for each further iteration what the
two differ by (`AllIterations`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from offloadrt.papers.jacc.programs import BENCHMARKS, benchmark
from offloadrt.papers.jacc.programs.benchmark import extent
from offloadrt.study.reporting.results import Result
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec
from offloadrt.study.validation.claims import Claim
from offloadrt.study.validation.judging import (
    Asking,
    Bench,
    Extent,
    Hearing,
    Judgement,
    JudgingGrid,
    Reading,
    listed,
    longer,
    mean,
    not_rising,
    number,
    numbers,
    unless,
)

SCENARIO = "jacc"
MACHINE = "dgx1-v100"
HIMENO_SIZES = ("M", "L", "XL")
CANDIDATES: dict[str, dict[str, str]] = {}
SENSITIVITY: tuple[dict[str, Value], ...] = (
    {"benchmark": "Himeno", "gpus": 4, "fraction": 0.01},
    {"benchmark": "EP", "gpus": 4, "fraction": 0.02},
    {"benchmark": "CG", "gpus": 1, "strategy": "single", "compiler": "gcc", "fraction": 0.0005},
)
"""Short runs that show whether an entry of the machine has any influence on times."""

SHORT = ("CG", "EP", "FT", "MG", "Himeno", "CloverLeaf")
"""Benchmarks whose iterations take few launches: those of the smallest grid."""

bench = Bench.of("offloadrt.papers.jacc")

Case = tuple[str, Mapping[str, Value]]
"""A benchmark and the parameters of its run."""


@attrs.frozen
class AllIterations:
    """All iterations of a benchmark, from two runs of `fewer` and `more` of them."""

    iterations: int
    fewer: Result
    more: Result

    def of(self, figure: str) -> float:
        """Extrapolate a measured figure that grows with the iterations."""
        return self._ran(self.more, figure) + self.each(figure) * (self.iterations - self._ran(self.more, "iterations"))

    def each(self, figure: str) -> float:
        """Extrapolate a figure of one iteration, once the controller has decided."""
        more, fewer = (self._ran(run, figure) for run in (self.more, self.fewer))
        return (more - fewer) / (self._ran(self.more, "iterations") - self._ran(self.fewer, "iterations"))

    def execution_s(self, kernel: str) -> float:
        """Compute the time of one execution of a kernel, once the controller has decided."""
        return self.each(f"{kernel}.kernel_s") / self.each(f"{kernel}.executions")

    @property
    def adapted(self) -> list[str]:
        """Return the kernels that are divided in the end."""
        names = [name.removesuffix(".adapted") for name, value in self.more.measured.items() if value is True]
        return [name for name in names if f"{name}.adapted" in self.more.measured]

    @property
    def adapted_s(self) -> float:
        """Return the time of their divided executions."""
        return math.fsum(self.of(f"{name}.divided") * self.execution_s(name) for name in self.adapted)

    @property
    def both_s(self) -> float:
        """Return the time of kernels and exchanges."""
        return self.of("kernel_s") + self.of("communication_s")

    @staticmethod
    def _ran(run: Result, figure: str) -> float:
        return number(run.measured[figure])


@attrs.frozen
class BenchmarkGrid(JudgingGrid):
    """Iterations of each benchmark that are run: on one GPU, and on several, where the controller decides first."""

    alone: tuple[int, int]
    several: tuple[int, int]
    benchmarks: tuple[str, ...]

    def lacks(self, *names: str) -> Judgement | None:
        """Judge that a claim cannot be judged here if one of these benchmarks is not among those of the grid."""
        lacking = [name for name in names if name not in self.benchmarks]
        return Judgement("–", None, f"needs {', '.join(lacking)}") if lacking else None

    @property
    def described(self) -> str:
        """Say in words how much is looked at."""
        return (
            f"{', '.join(self.benchmarks)}: {self.alone[0]} and {self.alone[1]} iterations on one GPU, "
            f"{self.several[0]} and {self.several[1]} on several"
        )


def grid(extent: Extent, options: RunSpec) -> BenchmarkGrid:
    """Choose where the judges look; the smaller grids run fewer iterations."""
    counts = {"full": ((2, 4), (7, 10)), "quick": ((1, 2), (6, 8)), "ends": ((1, 2), (6, 7))}
    alone, several = counts[extent]
    benchmarks = SHORT if extent == "ends" else tuple(BENCHMARKS)
    return BenchmarkGrid(SCENARIO, alone, several, benchmarks, options=options)


def all_iterations(grid: BenchmarkGrid, cases: Iterable[Case]) -> Asking[list[AllIterations]]:
    """Extrapolate benchmarks as if all their iterations were run; `yield from` it."""
    wanted = list(cases)
    points = []
    for name, asked in wanted:
        counts = grid.alone if asked.get("strategy") == "single" else grid.several
        points += [
            grid.point(
                {"benchmark": name, "fraction": count / iterations_of(name, str(asked.get("size", ""))), **asked}
            )
            for count in counts
        ]
    results: list[Result] = yield points
    return [
        AllIterations(iterations_of(name, str(asked.get("size", ""))), *results[2 * place : 2 * place + 2])
        for place, (name, asked) in enumerate(wanted)
    ]


@functools.cache
def iterations_of(name: str, size: str = "") -> int:
    """Count the iterations that a benchmark has."""
    return benchmark(name).program(extent, size).iterations


DETAILED = ("BT", "CG", "EP", "SP", "Himeno")
"""Benchmarks whose rows of the detail table are judged."""
ADAPTIVE: dict[str, Value] = {"gpus": 4, "strategy": "adaptive"}
SINGLE: dict[str, Value] = {"gpus": 1, "strategy": "single"}

COLUMNS: dict[str, Callable[[AllIterations], float]] = {
    "kernels and exchanges": lambda run: run.both_s,
    "kernels": lambda run: run.of("kernel_s"),
    "divided kernels": lambda run: run.adapted_s,
    "exchanges": lambda run: run.of("communication_s"),
}
"""Columns of the detail table: the time of all iterations."""


@bench.judge(*(f"jacc.detail.*.{column}" for column in ("commkernel", "ktotal", "kadapted", "comm")))
def detail(grid: BenchmarkGrid, name: str, what: str) -> Hearing:
    """Judge one figure of a row of the detail table."""
    if lacking := grid.lacks(name):
        yield []
        return lacking
    (run,) = yield from all_iterations(grid, [(name, ADAPTIVE)])
    value = 1e3 * COLUMNS[what](run)
    divided = sum(run.of(f"{kernel}.divided") for kernel in run.adapted)
    written, rate = numbers(run.more.measured, "write_bytes", "bandwidth_gb_s")
    times_ms = {kernel: 1e3 * run.execution_s(kernel) for kernel in sorted(run.adapted, key=run.execution_s)}
    kernels = ", ".join(f"{kernel} {ms:.3g} ms" for kernel, ms in times_ms.items())
    emulated = f"{value:.5g} ms ({len(times_ms)} kernels divided, {divided:.3g} executions, {written / 1e6:.3g} MB)"
    reason = (
        f"{what} take that long: an execution of divided kernels takes {kernels or 'nothing, as there is none'}; "
        f"exchanges of {written / 1e6:.3g} MB a pair (paper: {_reported_mb(name)} MB) run at {rate:.3g} GB/s"
    )
    return Reading(emulated, value, reason)


@bench.judge("jacc.detail.*.bw")
def bandwidth(grid: BenchmarkGrid, name: str) -> Hearing:
    """Judge WriteSize over the mean time of an exchange."""
    if lacking := grid.lacks(name):
        yield []
        return lacking
    (run,) = yield from all_iterations(grid, [(name, ADAPTIVE)])
    written, value = numbers(run.more.measured, "write_bytes", "bandwidth_gb_s")
    emulated = f"{value:.3g} GB/s ({written / 1e6:.3g} MB, {written / value / 1e3:.4g} us)"
    reason = (
        "an exchange is copies over links of 23.95 GB/s, with the calls that start them and the wait for the last one; "
        f"here it is one of {written / 1e6:.3g} MB, in the paper of {_reported_mb(name)} MB"
    )
    return Reading(emulated, value, reason)


def _reported_mb(name: str) -> object:
    """Look up the paper's WriteSize."""
    return bench.claims[f"jacc.detail.{name}.write"].value


def one_and_four(grid: BenchmarkGrid, name: str, compiler: str = "pgi") -> Asking[list[AllIterations]]:
    """Run a benchmark on one GPU and on four."""
    strategies = [{**strategy, "compiler": compiler} for strategy in (SINGLE, ADAPTIVE)]
    return (yield from all_iterations(grid, [(name, strategy) for strategy in strategies]))


@bench.judge("jacc.multi.kernel.*")
def kernel_speedup(grid: BenchmarkGrid, name: str, compiler: str) -> Hearing:
    if lacking := grid.lacks(name):
        yield []
        return lacking
    alone, four = yield from one_and_four(grid, name, compiler)
    if not four.adapted:
        return Judgement("–", False, "no kernel is divided")
    speedups = {kernel: alone.execution_s(kernel) / four.execution_s(kernel) for kernel in four.adapted}
    together = sum(alone.execution_s(kernel) for kernel in speedups) / sum(
        four.execution_s(kernel) for kernel in speedups
    )
    low = "what every device does anew, and accesses that no predicate divides, stay as they are"
    high = "the accesses of these kernels are divided almost completely"
    return Reading(f"{together:.3g} ({listed(speedups)})", together, low, high)


@bench.judge("jacc.multi.ep")
def compute_bound(grid: BenchmarkGrid) -> Hearing:
    alone, four = yield from one_and_four(grid, "EP")
    value = four.both_s / alone.of("kernel_s")
    return Reading(f"{value:.4g}", value, "computation is divided", "exchanges take long")


@bench.judge("jacc.multi.other")
def other_factors(grid: BenchmarkGrid) -> Hearing:
    names = [name for name in DETAILED if name in grid.benchmarks]
    results = yield from all_iterations(grid, [(name, strategy) for name in names for strategy in (SINGLE, ADAPTIVE)])
    total, inner = {}, {}
    for name, alone, four in zip(names, results[::2], results[1::2], strict=True):
        total[name] = alone.of("total_s") / four.of("total_s")
        inner[name] = alone.both_s / four.both_s
    more = [name for name in names if longer(total[name], inner[name])]
    wrong = {
        f"the total gains more in {', '.join(more)}": more,
        "what else the host does takes no longer with four GPUs": not longer(
            mean(inner.values()), mean(total.values())
        ),
    }
    return unless(f"total {listed(total)}; kernels and exchanges {listed(inner)}", wrong)


def himeno(grid: BenchmarkGrid, size: str, gpus: int) -> Asking[AllIterations]:
    """Run Himeno at a size, on several GPUs with all kernels divided that can be."""
    strategy: dict[str, Value] = SINGLE if gpus == 1 else {"gpus": gpus, "strategy": "always"}
    (run,) = yield from all_iterations(grid, [("Himeno", {**strategy, "size": size})])
    return run


def ratios(grid: BenchmarkGrid, size: str) -> Asking[tuple[float, float]]:
    """Measure the speed-up of the long kernel from one GPU to four, and of exchanges from two to four."""
    on_one = yield from himeno(grid, size, 1)
    on_two = yield from himeno(grid, size, 2)
    on_four = yield from himeno(grid, size, 4)
    kernel = on_one.execution_s("jacobi") / on_four.execution_s("jacobi")
    return kernel, on_two.each("jacobi.communication_s") / on_four.each("jacobi.communication_s")


@bench.judge("jacc.himeno.XL.kernel")
def himeno_kernel(grid: BenchmarkGrid) -> Hearing:
    kernel, _ = yield from ratios(grid, "XL")
    return Reading(f"{kernel:.3g}", kernel, "planes are read twice", "accesses are divided")


@bench.judge("jacc.himeno.XL.comm")
def himeno_exchange(grid: BenchmarkGrid) -> Hearing:
    _, exchange = yield from ratios(grid, "XL")
    reason = "each GPU sends half or a quarter of the array to each other one, over a link of its own"
    return Reading(f"{exchange:.4g}", exchange, reason)


@bench.judge("jacc.himeno.size_trend")
def himeno_sizes(grid: BenchmarkGrid) -> Hearing:
    kernel, exchange = {}, {}
    for size in HIMENO_SIZES:
        kernel[size], exchange[size] = yield from ratios(grid, size)
    emulated = f"kernel {listed(kernel, '.4g')}; exchange {listed(exchange, '.4g')}"
    names = [name for name, curve in (("kernel", kernel), ("exchange", exchange)) if not_rising(curve)]
    reason = f"{' and '.join(names)}: the speed-up does not rise; mean {mean(kernel.values()):.3g}"
    return Judgement(emulated, not names, reason)


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
