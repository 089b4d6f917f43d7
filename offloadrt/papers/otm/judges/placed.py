"""Judges of Rodinia under OTM (section 5.2): what it gains, what it pins, and what decides.

Bytes moved are those of copies and migrations; what kernels reach over the link without moving it is told beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from offloadrt.extensions.otm.ranking import HostProgram
from offloadrt.papers.otm.judges.places import (
    BENCHMARKS,
    EXPLICIT,
    OTM,
    SCENARIO,
    UM,
    RodiniaGrid,
    bench,
    in_gb,
    runs,
    seconds,
    sizes,
)
from offloadrt.papers.otm.rodinia import Bfs, Cfd, Srad
from offloadrt.study.reporting.results import Result
from offloadrt.study.validation.judging import Hearing, Judgement, Reading, unless
from offloadrt.study.validation.measured import listed, longer, mean, number

PROGRAMS: dict[str, Callable[..., Any]] = {"bfs": Bfs.run, "cfd": Cfd.run, "srad": Srad.run}
ALL_IMPLICIT, ALL_EXPLICIT = {"otm.threshold": "2"}, {"otm.threshold": "0"}


def program(benchmark: str) -> HostProgram:
    """Analyse a program as the paper's compiler does."""
    return HostProgram.of(PROGRAMS[benchmark])


def pinned(result: Result) -> set[str]:
    """Name the objects that were pinned to the CPU."""
    return {name for name, placement in result.figures("placements").items() if placement.place == "cpu"}


@bench.judge("otm.bfs.fit.vs_trad")
def against_copies(grid: RodiniaGrid) -> Hearing:
    results = yield from runs(
        grid, [("bfs", size, placement) for size in grid.fitting for placement in (EXPLICIT, OTM)]
    )
    ratio = {
        size: seconds(results["bfs", size, EXPLICIT]) / seconds(results["bfs", size, OTM]) for size in grid.fitting
    }
    value = mean(ratio.values())
    why = _copied(results["bfs", grid.fitting[-1], OTM])
    return Reading(f"{value:.3g} ({listed(ratio)})", value, why)


@bench.judge("otm.bfs.fit.vs_um")
def against_managed(grid: RodiniaGrid) -> Hearing:
    results = yield from runs(grid, [("bfs", size, placement) for size in grid.fitting for placement in (UM, OTM)])
    ratio = {size: seconds(results["bfs", size, OTM]) / seconds(results["bfs", size, UM]) for size in grid.fitting}
    copied = _copied(results["bfs", grid.fitting[-1], OTM])
    return Reading(listed(ratio), in_gb(ratio), f"not at {{outside}} GB: {copied}")


@bench.judge("otm.bfs.over")
def gain_above(grid: RodiniaGrid) -> Hearing:
    results = yield from runs(grid, [("bfs", size, placement) for size in grid.over for placement in (UM, OTM)])
    ratio = {size: seconds(results["bfs", size, UM]) / seconds(results["bfs", size, OTM]) for size in grid.over}
    value = mean(ratio.values())
    most, least = max(ratio, key=ratio.__getitem__), min(ratio, key=ratio.__getitem__)
    um, otm = results["bfs", most, UM], results["bfs", most, OTM]
    why = (
        f"OTM gains most at {most:g} GB, where it pins {_named(pinned(otm))}, and least at {least:g} GB, where it pins "
        f"{_named(pinned(results['bfs', least, OTM]))}. Managed memory moves the graph again at each level that meets "
        f"it: at {most:g} GB {_moved(um) / most / grid.part:.3g} bytes a byte, beside "
        f"{_reached(otm) / most / grid.part:.3g} that OTM moves or reaches over the link"
    )
    return Reading(f"{value:.3g} ({listed(ratio)})", value, why)


@bench.judge("otm.bfs.edges_pinned")
def edges(grid: RodiniaGrid) -> Hearing:
    results = yield from runs(grid, [("bfs", size, OTM) for size in grid.over])
    where = [size for size in grid.over if "edges" in pinned(results["bfs", size, OTM])]
    ranks = results["bfs", grid.over[0], OTM].figures("placements")
    emulated = f"at {sizes(where)}" if where else "at none"
    reason = (
        f"edges have rank {ranks['edges'].rank} with a GAF of {ranks['edges'].gaf:g}, as cost has "
        f"({ranks['cost'].gaf:g}), and come first as the program makes them first: they are placed as long as they "
        "fit, and what comes after them is pinned"
    )
    return Judgement(f"{emulated} of {sizes(grid.over)}", 2 * len(where) > len(grid.over), reason)


@bench.judge("otm.bfs.larger_ok")
def larger(grid: RodiniaGrid, larger_than: float) -> Hearing:
    larger_ones = [size for size in grid.over if size > larger_than]
    results = yield from runs(grid, [("bfs", size, OTM) for size in larger_ones])
    sets = {size: pinned(results["bfs", size, OTM]) for size in larger_ones}
    wrong = [size for size, names in sets.items() if names != {"edges"}]
    emulated = "; ".join(f"{size:g}: {_named(names)}" for size, names in sets.items())
    reason = f"not at {sizes(wrong)}: edges still fit there, and take the place of what ranks below them"
    return Judgement(emulated, not wrong, reason)


@bench.judge("otm.cfd.reason")
def every_region(grid: RodiniaGrid) -> Hearing:
    results = yield from runs(grid, [("cfd", size, OTM) for size in grid.over])
    regions = {region.kernel.name: set(region.objects) for region in program("cfd").regions}
    emulated, wrong = [], []
    for size in grid.over:
        names = pinned(results["cfd", size, OTM])
        emulated.append(f"{size:g}: {_named(names)}")
        free = [kernel for kernel, objects in regions.items() if not objects & names]
        if free:
            wrong.append(f"at {size:g} GB {_named(free)} have none")
    reason = "; ".join(wrong) + ": what ranks last is pinned first, and these do not use it"
    return Judgement("; ".join(emulated), not wrong, reason)


@bench.judge("otm.transfer_minor")
def place_matters_more(grid: RodiniaGrid) -> Hearing:
    size = grid.fitting[0]
    changes = (ALL_EXPLICIT, ALL_IMPLICIT, {"otm.reserve": "1 TB"})
    results = yield [
        grid.at(SCENARIO, grid.sized(size, {"benchmark": benchmark, "placement": OTM}), changed)
        for benchmark in BENCHMARKS
        for changed in changes
    ]
    emulated, wrong = [], []
    for turn, benchmark in enumerate(BENCHMARKS):
        explicit, implicit, host = map(seconds, results[3 * turn : 3 * turn + 3])
        manner = max(explicit, implicit) / min(explicit, implicit)
        best = min(explicit, implicit)
        place = max(host, best) / min(host, best)
        emulated.append(f"{benchmark}: place {place:.3g}, manner {manner:.3g}")
        if not longer(place, manner):
            wrong.append(f"the manner of {benchmark}'s transfers makes more of a difference than the place")
    return unless("; ".join(emulated), wrong)


@bench.judge("otm.traffic_reduced")
def less_traffic(grid: RodiniaGrid) -> Hearing:
    results = yield from runs(
        grid,
        [(benchmark, size, placement) for benchmark in BENCHMARKS for size in grid.over for placement in (UM, OTM)],
    )
    parts = {
        f"{benchmark} at {size:g} GB": _moved(results[benchmark, size, OTM]) / _moved(results[benchmark, size, UM])
        for benchmark in BENCHMARKS
        for size in grid.over
    }
    most = {
        benchmark: max(part for place, part in parts.items() if place.startswith(benchmark)) for benchmark in BENCHMARKS
    }
    remote = {
        benchmark: max(
            _reached(results[benchmark, size, OTM]) / _moved(results[benchmark, size, UM]) for size in grid.over
        )
        for benchmark in BENCHMARKS
    }
    emulated = f"at most {listed(most)} of UM's; with what is reached over the link {listed(remote)}"
    return Reading(emulated, parts, "not less: {outside}")


@bench.judge("otm.mech.overhead")
def overhead(grid: RodiniaGrid) -> Hearing:
    places = [(benchmark, size) for benchmark in BENCHMARKS for size in (grid.fitting[0], grid.over[0])]
    results = yield [
        grid.at(SCENARIO, grid.sized(size, {"benchmark": benchmark, "placement": OTM}), changed)
        for benchmark, size in places
        for changed in ({}, {"otm.decision": "0 us"})
    ]
    parts = {
        f"{benchmark} {size:g}": 1.0 - seconds(results[2 * turn + 1]) / seconds(results[2 * turn])
        for turn, (benchmark, size) in enumerate(places)
    }
    return Reading(listed(parts, ".2g"), parts, "decisions take 1 % or more: {outside}")


def _copied(result: Result) -> str:
    """Explain why OTM takes as long as explicit copies."""
    placements = result.figures("placements")
    dense = [placement.density for placement in placements.values() if placement.mechanism == "explicit"]
    return (
        f"OTM copies {len(dense)} of {len(placements)} objects of BFS, whose estimated densities are "
        f"{min(dense, default=0.0):.2g} or more; what it copies takes as long as explicit copies do"
    )


def _moved(result: Result) -> float:
    return number(result.measured["to_device_gb"]) + number(result.measured["to_host_gb"])


def _reached(result: Result) -> float:
    return _moved(result) + number(result.measured["remote_gb"])


def _named(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
