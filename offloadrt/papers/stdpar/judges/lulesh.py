"""Judges of the figures of LULESH, over its problem size: memory pool, synchronization elision, prefetches, XNACK.

Prefetches are off unless they are what is looked at: that any of them crashes LULESH on the MI100 is an input.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from offloadrt.papers.stdpar.judges.places import MACHINE, MI100, VENDORS, Grid, banded, bench, runs, seconds
from offloadrt.study.judging import Asking, Judgement
from offloadrt.study.measured import number
from offloadrt.study.points import Point
from offloadrt.study.reporting.results import Result
from offloadrt.study.scripts.parameters import Value

PM: Final = "never"
HANDLER: Final = "device 0 page fault handler"
NOTHING: Final[dict[str, Value]] = {"pool": "off", "elision": "off", "prefetch": "never"}
SINGLE: Final[dict[str, dict[str, Value]]] = {
    "pool": {"pool": "on"},
    "elision": {"elision": "on"},
    "prefetch": {"prefetch": "first"},
}
"""One optimization at a time, over none."""


def beside_vendors(grid: Grid) -> Generator[list[Point], list[Result], dict[str, float]]:
    """t(vendor) / t(acpp) at the first size, on systems on which LULESH runs; `yield from` it."""
    size, machines = grid.lulesh[0], (MACHINE, MI100)
    places = [
        place
        for machine in machines
        for place in (
            (machine, grid.of_lulesh(size, VENDORS[machine])),
            (machine, grid.of_lulesh(size, "acpp", prefetch=PM)),
        )
    ]
    found = iter((yield from runs(grid, places)))
    return {machine: seconds(next(found)) / seconds(next(found)) for machine in machines}


@bench.judge("acpp.lulesh.a100.mp", "t(pool) < t(none of pool, elision, prefetch), each size; the largest single gain")
def memory_pool(grid: Grid) -> Asking:
    ways = [NOTHING, *({**NOTHING, **way} for way in SINGLE.values())]
    found = yield from runs(
        grid, [(MACHINE, grid.of_lulesh(size, "acpp", **way)) for size in grid.lulesh for way in ways]
    )
    each, said, wrong = iter(found), [], []
    for size in grid.lulesh:
        none = seconds(next(each))
        gains = {name: none / seconds(next(each)) for name in SINGLE}
        said.append(f"{size}: {', '.join(f'{name} {gain:.3g}' for name, gain in gains.items())}")
        if gains["pool"] <= 1.0 or gains["pool"] < max(gains.values()):
            wrong.append(f"at {size} {max(gains, key=lambda name: gains[name])} gains most")
    return Judgement("; ".join(said), not wrong, ", ".join(wrong))


@bench.judge(
    "acpp.lulesh.a100.se", f"largest t(nvc++) / t(acpp) over the sizes, in the band (elision, pool, prefetch {PM})"
)
def over_nvcpp(grid: Grid) -> Asking:
    places = [
        (MACHINE, parameters)
        for size in grid.lulesh
        for parameters in (grid.of_lulesh(size, "nvcpp"), grid.of_lulesh(size, "acpp", prefetch=PM))
    ]
    found = yield from runs(grid, places)
    ratios = {
        size: seconds(nvcpp) / seconds(acpp)
        for size, nvcpp, acpp in zip(grid.lulesh, found[::2], found[1::2], strict=True)
    }
    said = ", ".join(f"{size}: {ratio:.3g}" for size, ratio in ratios.items())
    best = max(ratios, key=lambda size: ratios[size])
    nvcpp, acpp = found[2 * grid.lulesh.index(best) :][:2]
    without = [seconds(one) - one.devices[HANDLER].busy_s for one in (nvcpp, acpp)]
    host_faults = number(acpp.measured["host_faults"]) / grid.lulesh_steps
    why = (
        f"at {best} the page-fault handler is busy for {_handler_share(nvcpp):.0%} of nvc++'s time and "
        f"{_handler_share(acpp):.0%} of acpp's: host and kernels use the domain's object in turn, and its page comes "
        f"back {host_faults:.0f} times a step; without the handler's time the ratio is {without[0] / without[1]:.3g}"
    )
    return banded("acpp.lulesh.a100.se", ratios[best], said, why)


@bench.judge("acpp.lulesh.a100.elided", "barriers elided / algorithms, in the band at each size")
def elided(grid: Grid) -> Asking:
    found = yield from runs(grid, [(MACHINE, grid.of_lulesh(size, "acpp", prefetch=PM)) for size in grid.lulesh])
    shares = [number(result.measured["elided_share"]) for result in found]
    one = found[0].measured
    every = ", ".join(f"{share:.3g}" for share in sorted(set(shares)))
    said = (
        f"{every}: of {one['algorithms']} algorithms {one['elided']}; "
        f"loads and stores end {one['kept_access']} windows, allocations {one['kept_allocation']}, "
        f"{one['kept_value']} algorithms return a value"
    )
    worst = max(shares, key=lambda share: abs(share - 0.8))
    return banded("acpp.lulesh.a100.elided", worst, said, "windows end elsewhere than in the paper's build")


@bench.judge(
    "acpp.lulesh.mi100.challenged", "t(offloaded, XNACK off) > t(host's algorithms) at each size, acpp and roc-stdpar"
)
def challenged(grid: Grid) -> Asking:
    ways: list[tuple[str, dict[str, Value]]] = [("host", {}), ("acpp", {"prefetch": PM}), ("rocstdpar", {})]
    found = yield from runs(
        grid, [(MI100, grid.of_lulesh(size, name, **way)) for size in grid.lulesh for name, way in ways]
    )
    each, said, wrong = iter(found), [], []
    for size in grid.lulesh:
        host, acpp, roc = (seconds(next(each)) for _ in ways)
        said.append(f"{size}: {acpp / host:.3g} and {roc / host:.3g}")
        if min(acpp, roc) <= host:
            wrong.append(f"offloading gains at {size}")
    return Judgement("t / t(host) " + ", ".join(said), not wrong, "; ".join(wrong))


@bench.judge("acpp.lulesh.mi100.xnack", f"t(XNACK on) > t(XNACK off) at each size (acpp, prefetch {PM})")
def with_xnack(grid: Grid) -> Asking:
    found = yield from runs(
        grid,
        [
            (MI100, grid.of_lulesh(size, "acpp", prefetch=PM, xnack=way))
            for size in grid.lulesh
            for way in ("on", "off")
        ],
    )
    ratios = {
        size: seconds(on) / seconds(off) for size, on, off in zip(grid.lulesh, found[::2], found[1::2], strict=True)
    }
    said = ", ".join(f"{size}: {ratio:.3g}" for size, ratio in ratios.items())
    better = [size for size, ratio in ratios.items() if ratio <= 1.0]
    shares = ", ".join(f"{_handler_share(on):.0%}" for on in found[::2])
    reason = (
        f"on is faster at {', '.join(map(str, better))}: without XNACK all bytes cross the link each time, with it "
        f"they stay once they have migrated; the page-fault handler is busy for {shares} of the time"
    )
    return Judgement(said, not better, reason)


def _handler_share(result: Result) -> float:
    """The part of the time in which the page-fault handler is busy."""
    return result.devices[HANDLER].busy_s / result.elapsed_s
