"""Judges of JACC on several GPUs: the detail table, speed-ups of kernels, Himeno by size."""

from __future__ import annotations

import itertools
from collections.abc import Generator

from offloadrt.papers.jacc.judges.places import HIMENO_SIZES, Grid, Whole, banded, bench, claims, wholes
from offloadrt.study.judging import Asking, Judgement
from offloadrt.study.measured import listed, mean, number
from offloadrt.study.points import Point
from offloadrt.study.reporting.results import Result
from offloadrt.study.scripts.parameters import Value

DETAILED = ("BT", "CG", "EP", "SP", "Himeno")
"""Benchmarks whose rows of the detail table are judged."""
ADAPTIVE: dict[str, Value] = {"gpus": 4, "strategy": "adaptive"}
SINGLE: dict[str, Value] = {"gpus": 1, "strategy": "single"}

Pairs = Generator[list[Point], list[Result], tuple[Whole, Whole]]

MS = {"commkernel": "kernels and exchanges", "ktotal": "kernels", "kadapted": "divided kernels", "comm": "exchanges"}
"""Columns of the detail table."""


def _column(whole: Whole, column: str) -> float:
    """Milliseconds of all iterations."""
    seconds = {
        "commkernel": lambda: whole.both_s,
        "ktotal": lambda: whole.of("kernel_s"),
        "kadapted": lambda: whole.adapted_s,
        "comm": lambda: whole.of("communication_s"),
    }
    return 1e3 * seconds[column]()


def detail(grid: Grid, name: str, column: str) -> Asking:
    """One figure of a row of the detail table."""
    (whole,) = yield from wholes(grid, [(name, ADAPTIVE)])
    value = _column(whole, column)
    divided = sum(whole.of(f"{kernel}.divided") for kernel in whole.adapted)
    written = number(whole.more.measured["write_bytes"]) / 1e6
    said = f"{value:.5g} ms ({len(whole.adapted)} kernels divided, {divided:.3g} executions, {written:.3g} MB)"
    kernels = ", ".join(
        f"{kernel} {1e3 * whole.execution_s(kernel):.3g} ms" for kernel in sorted(whole.adapted, key=whole.execution_s)
    )
    reason = (
        f"{MS[column]} take that long: an execution of divided kernels takes {kernels or 'nothing, as there is none'}; "
        f"exchanges of {written:.3g} MB a pair (paper: {claims[f'jacc.detail.{name}.write'].value} MB) run at "
        f"{number(whole.more.measured['bandwidth_gb_s']):.3g} GB/s"
    )
    return banded(f"jacc.detail.{name}.{column}", value, said, reason, reason)


def bandwidth(grid: Grid, name: str) -> Asking:
    """WriteSize over the mean time of an exchange."""
    (whole,) = yield from wholes(grid, [(name, ADAPTIVE)])
    value = number(whole.more.measured["bandwidth_gb_s"])
    written = number(whole.more.measured["write_bytes"])
    said = f"{value:.3g} GB/s ({written / 1e6:.3g} MB, {written / value / 1e3:.4g} us)"
    reason = (
        "an exchange is copies over links of 23.95 GB/s, with the calls that start them and the wait for the last one; "
        f"here it is one of {written / 1e6:.3g} MB, in the paper of {claims[f'jacc.detail.{name}.write'].value} MB"
    )
    return banded(f"jacc.detail.{name}.bw", value, said, reason, reason)


for _name, _what in itertools.product(DETAILED, MS):
    bench.judge(f"jacc.detail.{_name}.{_what}", f"time of {MS[_what]} in all iterations, in the band", name=_name,
                column=_what)(detail)  # fmt: skip
for _name in DETAILED:
    bench.judge(f"jacc.detail.{_name}.bw", "WriteSize over the time of an exchange, in the band", name=_name)(bandwidth)


def one_and_four(grid: Grid, name: str, compiler: str = "pgi") -> Pairs:
    """A benchmark on one GPU and on four."""
    alone, four = yield from wholes(
        grid, [(name, {**SINGLE, "compiler": compiler}), (name, {**ADAPTIVE, "compiler": compiler})]
    )
    return alone, four


@bench.judge("jacc.multi.kernel.BT.pgi", "t(1 GPU) / t(4 GPUs) of divided kernels, in the band", of="BT.pgi")
@bench.judge("jacc.multi.kernel.BT.gcc", "t(1 GPU) / t(4 GPUs) of divided kernels, in the band", of="BT.gcc")
@bench.judge("jacc.multi.kernel.SP.pgi", "t(1 GPU) / t(4 GPUs) of divided kernels, in the band", of="SP.pgi")
@bench.judge("jacc.multi.kernel.SP.gcc", "t(1 GPU) / t(4 GPUs) of divided kernels, in the band", of="SP.gcc")
def kernel_speedup(grid: Grid, of: str) -> Asking:
    name, _, compiler = of.partition(".")
    alone, four = yield from one_and_four(grid, name, compiler)
    if not four.adapted:
        return Judgement("–", False, "no kernel is divided")
    each = {kernel: alone.execution_s(kernel) / four.execution_s(kernel) for kernel in four.adapted}
    together = sum(alone.execution_s(one) for one in each) / sum(four.execution_s(one) for one in each)
    low = "what every device does anew, and accesses that no predicate divides, stay as they are"
    high = "the accesses of these kernels are divided almost completely"
    return banded(f"jacc.multi.kernel.{of}", together, f"{together:.3g} ({listed(each)})", low, high)


@bench.judge("jacc.multi.ep", "time of kernels and exchanges on 4 GPUs over that of kernels on one, in the band (EP)")
def compute_bound(grid: Grid) -> Asking:
    alone, four = yield from one_and_four(grid, "EP")
    value = four.both_s / alone.of("kernel_s")
    return banded("jacc.multi.ep", value, f"{value:.4g}", "computation is divided", "exchanges take long")


@bench.judge("jacc.multi.other", "total time: t(1 GPU) / t(4 GPUs) < that of kernels and exchanges, each benchmark")
def other_factors(grid: Grid) -> Asking:
    found = yield from wholes(grid, [(name, one) for name in DETAILED for one in (SINGLE, ADAPTIVE)])
    total, inner = {}, {}
    for name, alone, four in zip(DETAILED, found[::2], found[1::2], strict=True):
        total[name] = alone.of("total_s") / four.of("total_s")
        inner[name] = alone.both_s / four.both_s
    wrong = [name for name in DETAILED if total[name] >= inner[name]]
    said = f"total {listed(total)}; kernels and exchanges {listed(inner)}"
    return Judgement(said, not wrong, f"not {', '.join(wrong)}: what else the host does takes no longer with four GPUs")


def himeno(grid: Grid, size: str, gpus: int) -> Generator[list[Point], list[Result], Whole]:
    """Himeno at a size; on several GPUs with all kernels divided that can be."""
    asked: dict[str, Value] = SINGLE if gpus == 1 else {"gpus": gpus, "strategy": "always"}
    (whole,) = yield from wholes(grid, [("Himeno", {**asked, "size": size})])
    return whole


def ratios(grid: Grid, size: str) -> Generator[list[Point], list[Result], tuple[float, float]]:
    """Speed-up of the long kernel from one GPU to four, and of exchanges from two to four."""
    one = yield from himeno(grid, size, 1)
    two = yield from himeno(grid, size, 2)
    four = yield from himeno(grid, size, 4)
    kernel = one.execution_s("jacobi") / four.execution_s("jacobi")
    return kernel, two.each("jacobi.communication_s") / four.each("jacobi.communication_s")


@bench.judge("jacc.himeno.XL.kernel", "t(1 GPU) / t(4 GPUs) of the kernel, in the band (XL)")
def himeno_kernel(grid: Grid) -> Asking:
    kernel, _ = yield from ratios(grid, "XL")
    return banded("jacc.himeno.XL.kernel", kernel, f"{kernel:.3g}", "planes are read twice", "accesses are divided")


@bench.judge("jacc.himeno.XL.comm", "time of an exchange among 2 GPUs over that among 4, in the band (XL)")
def himeno_exchange(grid: Grid) -> Asking:
    _, exchange = yield from ratios(grid, "XL")
    reason = "each GPU sends half or a quarter of the array to each other one, over a link of its own"
    return banded("jacc.himeno.XL.comm", exchange, f"{exchange:.4g}", reason, reason)


@bench.judge("jacc.himeno.size_trend", "M < L < XL, of the kernel's speed-up on 4 GPUs and of exchanges from 2 to 4")
def himeno_sizes(grid: Grid) -> Asking:
    kernel, exchange = {}, {}
    for size in HIMENO_SIZES:
        kernel[size], exchange[size] = yield from ratios(grid, size)
    rising = [list(one.values()) == sorted(set(one.values())) for one in (kernel, exchange)]
    said = f"kernel {listed(kernel, '.4g')}; exchange {listed(exchange, '.4g')}"
    names = [name for name, rises in zip(("kernel", "exchange"), rising, strict=True) if not rises]
    return Judgement(
        said, all(rising), f"{' and '.join(names)}: the speed-up does not rise; mean {mean(kernel.values()):.3g}"
    )
