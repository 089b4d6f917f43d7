"""Judges of the figures of BabelStream and of the mini-apps, on each of the paper's systems."""

from __future__ import annotations

from collections.abc import Generator

from offloadrt.papers.stdpar.judges.lulesh import PM, beside_vendors
from offloadrt.papers.stdpar.judges.places import (
    APPLICATIONS,
    MAX1550,
    MI100,
    MILAN,
    TITLES,
    VENDORS,
    Grid,
    banded,
    bench,
    runs,
    seconds,
)
from offloadrt.study.judging import Asking, Judgement
from offloadrt.study.measured import number
from offloadrt.study.points import Point
from offloadrt.study.reporting.results import Result

MUCH_LESS = 0.1
"""Of a bandwidth, or less: not competitive."""
COMPARABLE = 0.8
"""Of the bandwidth of explicit copies, as the claim has it."""
NEAR, LARGE = 1.1, 2.0
"""Times over native that are about the same, and large."""

FASTER = 1.01
"""Times over another one that a bar chart shows."""

Ratios = Generator[list[Point], list[Result], dict[str, dict[str, float]]]


@bench.judge("acpp.babel.cpu", "triad's bytes/s: AdaptiveCpp's stdpar > its SYCL (2x EPYC 7713)")
def babelstream_on_the_host(grid: Grid) -> Asking:
    rates = yield from _triads(grid, MILAN, "acpp", "sycl")
    said = f"{rates['acpp']:.4g} and {rates['sycl']:.4g} GB/s; SYCL's layers take longer, an input, on equal kernels"
    return Judgement(said, rates["acpp"] > rates["sycl"], "submissions cost as much")


@bench.judge(
    "acpp.babel.roc", f"triad without XNACK: roc-stdpar <= both directions of the link, and <= {MUCH_LESS:g} of acpp"
)
def roc_without_xnack(grid: Grid) -> Asking:
    rates = yield from _triads(grid, MI100, "acpp", "rocstdpar")
    link = sum(grid.entry(MI100, f"link.{way}_pinned") for way in ("h2d", "d2h")) / 1e9
    said = f"roc-stdpar {rates['rocstdpar']:.3g}, acpp {rates['acpp']:.4g} GB/s; the link {link:.3g} in both directions"
    holds = rates["rocstdpar"] <= min(link, MUCH_LESS * rates["acpp"])
    return Judgement(said, holds, "kernels do not wait for the link")


@bench.judge(
    "acpp.babel.acpp_noxnack", f"triad without XNACK: acpp with prefetches >= {COMPARABLE:g} of SYCL's with copies"
)
def acpp_without_xnack(grid: Grid) -> Asking:
    rates = yield from _triads(grid, MI100, "acpp", "sycl")
    (never,) = yield from runs(grid, [(MI100, grid.of("babelstream", "acpp", prefetch="never"))])
    without = number(never.measured["triad_gbs"])
    said = (
        f"{rates['acpp']:.4g} and {rates['sycl']:.4g} GB/s, {without:.3g} without prefetches; that a prefetch moves "
        "pages here is an input (usm.prefetch)"
    )
    reason = "a prefetch moves nothing, so that kernels reach memory of the host over the link"
    return Judgement(said, rates["acpp"] >= COMPARABLE * rates["sycl"], reason)


def _triads(grid: Grid, machine: str, *names: str) -> Generator[list[Point], list[Result], dict[str, float]]:
    found = yield from runs(grid, [(machine, grid.of("babelstream", name)) for name in names])
    return {name: number(result.measured["triad_gbs"]) for name, result in zip(names, found, strict=True)}


# mini-apps


def against_vendors(grid: Grid) -> Ratios:
    """time(vendor's stdpar) / time(acpp) by system and application; `yield from` it."""
    places = [
        (machine, grid.of(application, name))
        for machine, vendor in VENDORS.items()
        for application in APPLICATIONS
        for name in (vendor, "acpp")
    ]
    found = iter((yield from runs(grid, places)))
    return {
        machine: {application: seconds(next(found)) / seconds(next(found)) for application in APPLICATIONS}
        for machine in VENDORS
    }


def _told(ratios: dict[str, dict[str, float]]) -> str:
    return "; ".join(
        f"{TITLES[machine]}: {', '.join(f'{name} {ratio:.4g}' for name, ratio in each.items())}"
        for machine, each in ratios.items()
    )


def _losses(ratios: dict[str, dict[str, float]]) -> str:
    lost = [
        f"{name} on the {TITLES[machine]} ({ratio:.4g})"
        for machine, each in ratios.items()
        for name, ratio in each.items()
        if ratio < FASTER
    ]
    return (
        f"not faster: {', '.join(lost)}. Kernels are the same under all compilers here, what one does better inside a "
        "kernel is an input of 1; where all barriers stay and all data has moved nothing is left to gain, and looking "
        "up pointers costs a little"
    )


@bench.judge("acpp.apps.two_thirds", f"on each GPU, of 3 mini-apps at least 2 with t(vendor) / t(acpp) >= {FASTER:g}")
def two_thirds(grid: Grid) -> Asking:
    ratios = yield from against_vendors(grid)
    wins = [sum(ratio >= FASTER for ratio in each.values()) for each in ratios.values()]
    return Judgement(_told(ratios), min(wins) >= 2, _losses(ratios))


@bench.judge("acpp.apps.order_of_mag", "the largest t(vendor) / t(acpp) of a mini-app on a GPU, in the band")
def order_of_magnitude(grid: Grid) -> Asking:
    ratios = yield from against_vendors(grid)
    best, machine, name = max(
        (ratio, machine, name) for machine, each in ratios.items() for name, ratio in each.items()
    )
    said = f"{best:.3g} ({name} on the {TITLES[machine]})"
    return banded("acpp.apps.order_of_mag", best, said, "no vendor's data stays so far away")


@bench.judge(
    "acpp.apps.icpx", f"t(icpx) / t(native) on the Max 1550: CloverLeaf, TeaLeaf >= {LARGE:g}; miniBUDE <= {NEAR:g}"
)
def icpx(grid: Grid) -> Asking:
    places = [(MAX1550, grid.of(one, name)) for one in APPLICATIONS for name in ("icpx", "native")]
    found = iter((yield from runs(grid, places)))
    ratio = {application: seconds(next(found)) / seconds(next(found)) for application in APPLICATIONS}
    holds = ratio["minibude"] <= NEAR and min(ratio["cloverleaf"], ratio["tealeaf"]) >= LARGE
    said = ", ".join(f"{name} {value:.3g}" for name, value in ratio.items())
    reason = (
        "a wait behind each algorithm is all that icpx has more here; the paper suspects its memory interposition, of "
        "which nothing is known, and shared memory that has moved to the device costs no more than device memory"
    )
    return Judgement(said, holds, reason)


@bench.judge(
    "acpp.concl.majority",
    f"on each GPU, of mini-apps and LULESH (prefetch {PM}) more than half {FASTER:g} times as fast",
)
def majority(grid: Grid) -> Asking:
    ratios = yield from against_vendors(grid)
    for machine, ratio in (yield from beside_vendors(grid)).items():
        ratios[machine]["lulesh"] = ratio
    holds = all(2 * sum(ratio >= FASTER for ratio in each.values()) > len(each) for each in ratios.values())
    said = f"{_told(ratios)} (LULESH does not run on the Max 1550: an input)"
    return Judgement(said, holds, _losses(ratios))
