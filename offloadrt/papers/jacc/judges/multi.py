"""Judges of JACC on several GPUs: the detail table, speed-ups of kernels, Himeno by size."""

from __future__ import annotations

from collections.abc import Callable

from offloadrt.papers.jacc.judges.places import HIMENO_SIZES, AllIterations, BenchmarkGrid, all_iterations, bench
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.validation.judging import Asking, Hearing, Judgement, Reading, not_rising, unless
from offloadrt.study.validation.measured import listed, longer, mean, numbers

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
