"""Judges of the figures of BabelStream and of the mini-apps, on each of the paper's systems."""

from __future__ import annotations

from offloadrt.papers.stdpar.judges.lulesh import beside_vendors
from offloadrt.papers.stdpar.judges.places import (
    APPLICATIONS,
    MAX1550,
    MI100,
    MILAN,
    TITLES,
    VENDORS,
    ApplicationGrid,
    bench,
    runs,
    seconds,
)
from offloadrt.study.validation.judging import Asking, Hearing, Judgement, Reading
from offloadrt.study.validation.measured import number

Ratios = dict[str, dict[str, float]]
"""time(vendor's stdpar) / time(acpp) by system and application."""


@bench.judge("acpp.babel.cpu")
def babelstream_on_the_host(grid: ApplicationGrid) -> Hearing:
    rates = yield from _triads(grid, MILAN, "acpp", "sycl")
    emulated = (
        f"{rates['acpp']:.4g} and {rates['sycl']:.4g} GB/s; SYCL's layers take longer, an input, on equal kernels"
    )
    return Reading(emulated, rates["acpp"] / rates["sycl"], "submissions cost as much")


@bench.judge("acpp.babel.roc")
def roc_without_xnack(grid: ApplicationGrid, much_less: float) -> Hearing:
    rates = yield from _triads(grid, MI100, "acpp", "rocstdpar")
    link = sum(grid.entry(MI100, f"link.{way}_pinned") for way in ("h2d", "d2h")) / 1e9
    emulated = (
        f"roc-stdpar {rates['rocstdpar']:.3g}, acpp {rates['acpp']:.4g} GB/s; the link {link:.3g} in both directions"
    )
    holds = rates["rocstdpar"] <= min(link, much_less * rates["acpp"])
    return Judgement(emulated, holds, "kernels do not wait for the link")


@bench.judge("acpp.babel.acpp_noxnack")
def acpp_without_xnack(grid: ApplicationGrid) -> Hearing:
    rates = yield from _triads(grid, MI100, "acpp", "sycl")
    (never,) = yield from runs(grid, [(MI100, grid.of("babelstream", "acpp", prefetch="never"))])
    without = number(never.measured["triad_gbs"])
    emulated = (
        f"{rates['acpp']:.4g} and {rates['sycl']:.4g} GB/s, {without:.3g} without prefetches; that a prefetch moves "
        "pages here is an input (usm.prefetch)"
    )
    reason = "a prefetch moves nothing, so that kernels reach memory of the host over the link"
    return Reading(emulated, rates["acpp"] / rates["sycl"], reason)


def _triads(grid: ApplicationGrid, machine: str, *names: str) -> Asking[dict[str, float]]:
    results = yield from runs(grid, [(machine, grid.of("babelstream", name)) for name in names])
    return {name: number(result.measured["triad_gbs"]) for name, result in zip(names, results, strict=True)}


# mini-apps


def against_vendors(grid: ApplicationGrid) -> Asking[Ratios]:
    """Measure the mini-apps on every system; `yield from` it."""
    places = [
        (machine, grid.of(application, name))
        for machine, vendor in VENDORS.items()
        for application in APPLICATIONS
        for name in (vendor, "acpp")
    ]
    results = iter((yield from runs(grid, places)))
    return {
        machine: {application: seconds(next(results)) / seconds(next(results)) for application in APPLICATIONS}
        for machine in VENDORS
    }


def _written(ratios: Ratios) -> str:
    return "; ".join(
        f"{TITLES[machine]}: {', '.join(f'{name} {ratio:.4g}' for name, ratio in each.items())}"
        for machine, each in ratios.items()
    )


def _losses(ratios: Ratios, faster: float) -> str:
    lost = [
        f"{name} on the {TITLES[machine]} ({ratio:.4g})"
        for machine, each in ratios.items()
        for name, ratio in each.items()
        if ratio < faster
    ]
    return (
        f"not faster: {', '.join(lost)}. Kernels are the same under all compilers here, what one does better inside a "
        "kernel is an input of 1; where all barriers stay and all data has moved nothing is left to gain, and looking "
        "up pointers costs a little"
    )


@bench.judge("acpp.apps.two_thirds")
def two_thirds(grid: ApplicationGrid, faster: float) -> Hearing:
    ratios = yield from against_vendors(grid)
    wins = {machine: sum(ratio >= faster for ratio in each.values()) for machine, each in ratios.items()}
    return Reading(_written(ratios), wins, _losses(ratios, faster))


@bench.judge("acpp.apps.order_of_mag")
def order_of_magnitude(grid: ApplicationGrid) -> Hearing:
    ratios = yield from against_vendors(grid)
    best, machine, name = max(
        (ratio, machine, name) for machine, each in ratios.items() for name, ratio in each.items()
    )
    emulated = f"{best:.3g} ({name} on the {TITLES[machine]})"
    return Reading(emulated, best, "no vendor's data stays so far away")


@bench.judge("acpp.apps.icpx")
def icpx(grid: ApplicationGrid, large: float, near: float) -> Hearing:
    places = [(MAX1550, grid.of(application, name)) for application in APPLICATIONS for name in ("icpx", "native")]
    results = iter((yield from runs(grid, places)))
    ratio = {application: seconds(next(results)) / seconds(next(results)) for application in APPLICATIONS}
    holds = ratio["minibude"] <= near and min(ratio["cloverleaf"], ratio["tealeaf"]) >= large
    emulated = ", ".join(f"{name} {value:.3g}" for name, value in ratio.items())
    reason = (
        "a wait behind each algorithm is all that icpx has more here; the paper suspects its memory interposition, of "
        "which nothing is known, and shared memory that has moved to the device costs no more than device memory"
    )
    return Judgement(emulated, holds, reason)


@bench.judge("acpp.concl.majority")
def majority(grid: ApplicationGrid, faster: float) -> Hearing:
    ratios = yield from against_vendors(grid)
    for machine, ratio in (yield from beside_vendors(grid)).items():
        ratios[machine]["lulesh"] = ratio
    holds = all(2 * sum(ratio >= faster for ratio in each.values()) > len(each) for each in ratios.values())
    emulated = f"{_written(ratios)} (LULESH does not run on the Max 1550: an input)"
    return Judgement(emulated, holds, _losses(ratios, faster))
