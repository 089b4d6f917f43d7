"""Judges of the figures of LULESH, over its problem size: memory pool, synchronization elision, prefetches, XNACK.

Prefetches are off unless they are what is looked at: that any of them crashes LULESH on the MI100 is an input.
"""

from __future__ import annotations

from typing import Final

from offloadrt.papers.stdpar.judges.places import (
    HANDLER,
    MACHINE,
    MI100,
    VENDORS,
    ApplicationGrid,
    bench,
    handler_share,
    runs,
    seconds,
)
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.validation.judging import Asking, Hearing, Judgement, Reading, unless
from offloadrt.study.validation.measured import listed, longer, number

PM: Final = "never"
NOTHING: Final[dict[str, Value]] = {"pool": "off", "elision": "off", "prefetch": "never"}
SINGLE: Final[dict[str, dict[str, Value]]] = {
    "pool": {"pool": "on"},
    "elision": {"elision": "on"},
    "prefetch": {"prefetch": "first"},
}
"""Each optimization alone, compared with a run without any."""


def beside_vendors(grid: ApplicationGrid) -> Asking[dict[str, float]]:
    """Measure t(vendor) / t(acpp) at the first size, on systems on which LULESH runs; `yield from` it."""
    size, machines = grid.lulesh[0], (MACHINE, MI100)
    places = [
        place
        for machine in machines
        for place in (
            (machine, grid.of_lulesh(size, VENDORS[machine])),
            (machine, grid.of_lulesh(size, "acpp", prefetch=PM)),
        )
    ]
    results = iter((yield from runs(grid, places)))
    return {machine: seconds(next(results)) / seconds(next(results)) for machine in machines}


@bench.judge("acpp.lulesh.a100.mp")
def memory_pool(grid: ApplicationGrid) -> Hearing:
    ways = [NOTHING, *({**NOTHING, **way} for way in SINGLE.values())]
    results = yield from runs(
        grid, [(MACHINE, grid.of_lulesh(size, "acpp", **way)) for size in grid.lulesh for way in ways]
    )
    remaining, emulated, wrong = iter(results), [], []
    for size in grid.lulesh:
        none = seconds(next(remaining))
        gains = {name: none / seconds(next(remaining)) for name in SINGLE}
        emulated.append(f"{size}: {', '.join(f'{name} {gain:.3g}' for name, gain in gains.items())}")
        if not longer(gains["pool"], 1.0) or gains["pool"] < max(gains.values()):
            wrong.append(f"at {size} {max(gains, key=lambda name: gains[name])} gains most")
    return Judgement("; ".join(emulated), not wrong, ", ".join(wrong))


@bench.judge("acpp.lulesh.a100.se")
def over_nvcpp(grid: ApplicationGrid) -> Hearing:
    places = [
        (MACHINE, parameters)
        for size in grid.lulesh
        for parameters in (grid.of_lulesh(size, "nvcpp"), grid.of_lulesh(size, "acpp", prefetch=PM))
    ]
    results = yield from runs(grid, places)
    ratios = {
        size: seconds(nvcpp) / seconds(acpp)
        for size, nvcpp, acpp in zip(grid.lulesh, results[::2], results[1::2], strict=True)
    }
    best = max(ratios, key=ratios.__getitem__)
    nvcpp, acpp = results[2 * grid.lulesh.index(best) :][:2]
    without = [seconds(result) - result.devices[HANDLER].busy_s for result in (nvcpp, acpp)]
    host_faults = number(acpp.measured["host_faults"]) / grid.lulesh_steps
    why = (
        f"at {best} the page-fault handler is busy for {handler_share(nvcpp):.0%} of nvc++'s time and "
        f"{handler_share(acpp):.0%} of acpp's: host and kernels use the domain's object in turn, and its page comes "
        f"back {host_faults:.0f} times a step; without the handler's time the ratio is {without[0] / without[1]:.3g}"
    )
    return Reading(listed(ratios), ratios[best], why)


@bench.judge("acpp.lulesh.a100.elided")
def elided(grid: ApplicationGrid) -> Hearing:
    results = yield from runs(grid, [(MACHINE, grid.of_lulesh(size, "acpp", prefetch=PM)) for size in grid.lulesh])
    shares = [number(result.measured["elided_share"]) for result in results]
    measured = results[0].measured
    listed_shares = ", ".join(f"{share:.3g}" for share in sorted(set(shares)))
    emulated = (
        f"{listed_shares}: of {measured['algorithms']} algorithms {measured['elided']}; "
        f"loads and stores end {measured['kept_access']} windows, allocations {measured['kept_allocation']}, "
        f"{measured['kept_value']} algorithms return a value"
    )
    figures = dict(zip(map(str, grid.lulesh), shares, strict=True))
    return Reading(emulated, figures, "windows end elsewhere than in the paper's build")


@bench.judge("acpp.lulesh.mi100.challenged")
def challenged(grid: ApplicationGrid) -> Hearing:
    ways: list[tuple[str, dict[str, Value]]] = [("host", {}), ("acpp", {"prefetch": PM}), ("rocstdpar", {})]
    results = yield from runs(
        grid, [(MI100, grid.of_lulesh(size, name, **way)) for size in grid.lulesh for name, way in ways]
    )
    remaining, emulated, wrong = iter(results), [], []
    for size in grid.lulesh:
        host, acpp, roc = (seconds(next(remaining)) for _ in ways)
        emulated.append(f"{size}: {acpp / host:.3g} and {roc / host:.3g}")
        if not longer(min(acpp, roc), host):
            wrong.append(f"offloading gains at {size}")
    return unless("t / t(host) " + ", ".join(emulated), wrong)


@bench.judge("acpp.lulesh.mi100.xnack")
def with_xnack(grid: ApplicationGrid) -> Hearing:
    results = yield from runs(
        grid,
        [
            (MI100, grid.of_lulesh(size, "acpp", prefetch=PM, xnack=way))
            for size in grid.lulesh
            for way in ("on", "off")
        ],
    )
    ratios = {
        size: seconds(on) / seconds(off) for size, on, off in zip(grid.lulesh, results[::2], results[1::2], strict=True)
    }
    shares = ", ".join(f"{handler_share(on):.0%}" for on in results[::2])
    reason = (
        f"on is faster at {{outside}}: without XNACK all bytes cross the link each time, with it "
        f"they stay once they have migrated; the page-fault handler is busy for {shares} of the time"
    )
    return Reading(listed(ratios), ratios, reason)
