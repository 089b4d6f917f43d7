"""Judges of the OTM paper's claims: each asks for the runs that its claim needs.

First come the parameters of the runs. Then come the judges of Rodinia under explicit copies and under managed memory,
below and above 16 GB (Figures 1 and 2), of Rodinia under OTM, of the synthetic program of Table 2 and of density; at
last those of how OTM works, with the small recorded runs of `probes`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from offloadrt.extensions.evidence.validation.judging import (
    Asking,
    Bench,
    Extent,
    Hearing,
    Judgement,
    JudgingGrid,
    Paper,
    Program,
    Reading,
    inputs_of,
    listed,
    longer,
    mean,
    number,
    unless,
)
from offloadrt.extensions.otm.configuration import placements_of
from offloadrt.extensions.otm.ranking import HostProgram
from offloadrt.papers.otm import probes
from offloadrt.papers.otm import rodinia as inputs
from offloadrt.papers.otm.probes import DENSITY, LAF, ROUNDS
from offloadrt.papers.otm.rodinia import Bfs, Cfd, Srad
from offloadrt.study.reporting.results import Result
from offloadrt.study.running import profiles
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point

SCENARIO = "rodinia"
SYNTHETIC = "unified_memory"
MACHINE = "summitdev-p100"
BENCHMARKS = ("bfs", "cfd", "srad")
EXPLICIT, UM, OTM = "explicit", "um", "otm"
CANDIDATES: dict[str, dict[str, str]] = {
    "otm.reserve": {"otm.reserve": "512 MiB"},
    "otm.strict": {"otm.strict": "true"},
    "otm.evicts": {"otm.evicts": "true"},
}
"""Settings of `otm` under which it works as the authors' public runtime, where that differs from the paper's text.

In order: the runtime has less memory to place objects in, leaves a byte free, and lets better-ranked objects take the
place of others.
"""
SENSITIVITY: tuple[dict[str, Value], ...] = (
    {"benchmark": "bfs", "placement": EXPLICIT, "size_gb": 0.25},
    {"benchmark": "bfs", "placement": UM, "size_gb": 0.625},
    {"benchmark": "srad", "placement": UM, "size_gb": 0.25},
    {"benchmark": "cfd", "placement": OTM, "size_gb": 0.625},
)
"""Runs that show whether an entry of the machine matters at all, with the part of the memory that the smallest grid
uses.
"""
_MEMORY = ("mem.size", "mem.reserved", "otm.reserve")

bench = Bench.of("offloadrt.papers.otm")

Place = tuple[str, float, str]
"""A run: benchmark, size in GB, and placement."""


@attrs.frozen
class RodiniaGrid(JudgingGrid):
    """The sizes in GB at which Rodinia and the program `UnifiedMemory` run to judge the OTM paper's claims."""

    fitting: tuple[float, ...]
    """Sizes of Rodinia that fit into the device's memory."""
    over: tuple[float, ...]
    """Sizes of Rodinia that exceed the device's memory."""
    small: float
    """A size of the synthetic program that fits."""
    large: float
    """A size of the synthetic program that does not."""
    part: float
    """The factor by which the device's memory and all sizes are multiplied; below 1, the runs are shorter."""

    @property
    def described(self) -> str:
        """Describe in words the runs on which the paper's claims are judged."""
        sizes = ", ".join(f"{size:g}" for size in (*self.fitting, *self.over))
        emulated = f"Rodinia at {sizes} GB, the synthetic program at {self.small:g} and {self.large:g} GB"
        return emulated if self.part == 1.0 else f"{emulated}, all sizes and the device's memory times {self.part:g}"

    def point(self, parameters: Mapping[str, Value], *, scenario: Program | None = None, record: bool = False) -> Point:
        """Return the description of one run on the grid's machine, whose device memory is `part` times the real one's.

        On a shorter grid this `part`, a field of the grid, is below 1. parameters: those of the scenario. scenario: by
        default the one of the grid. record: whether to keep the run's events.
        """
        return self.at(scenario or self.scenario, parameters, {}, record=record)

    def at(
        self, scenario: Program, parameters: Mapping[str, Value], overrides: Mapping[str, str], *, record: bool = False
    ) -> Point:
        """Return the description of one run on the grid's machine, with other values for some entries of its profile.

        The device memory is multiplied by the grid's `part`, below 1 on a shorter grid. scenario: what is run.
        parameters: those of the scenario. overrides: the new value of each changed entry, by the entry's name. record:
        whether to keep the run's events.
        """
        point = JudgingGrid.point(self, parameters, scenario=scenario, record=record)
        changed = {**point.options.overrides, **overrides}
        if self.part != 1.0:
            spec = profiles.load(point.options.machine or MACHINE, changed, runtime=point.options.runtime)
            changed |= {key: f"{round(spec.value(key) * self.part)} B" for key in _MEMORY}
        return attrs.evolve(point, options=attrs.evolve(point.options, overrides=changed))

    def sized(self, size: float, parameters: Mapping[str, Value]) -> dict[str, Value]:
        """Return `parameters` with the problem size, multiplied, as the device's memory is, by the grid's `part`.

        size: in GB, before that.
        """
        return {**parameters, "size_gb": size * self.part}


def grid(extent: Extent, options: RunSpec) -> RodiniaGrid:
    """Choose the runs that judge the claims. extent: `full`, `quick` or `ends`, with ever smaller sizes and memory.

    options: those of every run.
    """
    places: dict[str, tuple[tuple[float, ...], tuple[float, ...], float, float, float]] = {
        "full": ((2.0, 4.0, 8.0, 12.0, 14.0), (18.0, 20.0, 24.0, 28.0, 32.0), 8.0, 24.0, 1.0),
        "quick": ((8.0, 14.0), (18.0, 24.0, 32.0), 8.0, 24.0, 0.125),
        "ends": ((8.0, 14.0), (18.0, 24.0), 8.0, 24.0, 0.03125),
    }
    return RodiniaGrid(SCENARIO, *places[extent], options=options)


def runs(grid: RodiniaGrid, places: Iterable[Place]) -> Asking[dict[Place, Result]]:
    """Run Rodinia at each of `places`, (benchmark, size in GB, placement), and return the results by place.

    placement: how objects come to the device: unified memory, explicit copies, or OTM. A function that judges a claim
    calls this with `yield from`, which hands on its requests for runs.
    """
    wanted = list(dict.fromkeys(places))
    results = yield [
        grid.point(grid.sized(size, {"benchmark": benchmark, "placement": placement}))
        for benchmark, size, placement in wanted
    ]
    return dict(zip(wanted, results, strict=True))


def synthetic(grid: RodiniaGrid, many: Iterable[tuple[float, Mapping[str, Value]]]) -> Asking[list[Result]]:
    """Ask for one run of the synthetic program for each item of `many`, (size in GB, parameters); return the results.

    In all these runs the host reads the kernels' results at the end, because explicit copies bring them back anyway. A
    function that judges a claim calls this with `yield from`, which hands on its requests for runs.
    """
    answers: list[Result] = yield [
        grid.point(grid.sized(size, {"read_result": True, **parameters}), scenario=SYNTHETIC)
        for size, parameters in many
    ]
    return answers


def seconds(result: Result) -> float:
    """Return the seconds of computation and data transfer in a run (`result`), which the paper measures."""
    return number(result.measured["time_s"])


def handler_share(result: Result) -> float:
    """Return the part of a run's elapsed time (0 to 1) in which the page-fault handler is busy."""
    return result.devices["device 0 page fault handler"].busy_s / result.elapsed_s


def sizes(values: Iterable[float]) -> str:
    """Return sizes, given in GB, in words: `18, 20 GB`."""
    return ", ".join(f"{size:g}" for size in values) + " GB"


def in_gb(values: Mapping[float, float]) -> dict[str, float]:
    """Return the values with their sizes as text, which is the number of GB: `{"18": …}`."""
    return {f"{size:g}": value for size, value in values.items()}


def fitting(grid: RodiniaGrid, benchmark: str) -> Asking[tuple[dict[float, float], Result, Result]]:
    """Measure how long a benchmark takes with unified memory, relative to copies to the device before its kernels.

    Returns t(unified memory) / t(copies) for each size in GB that fits into device memory, and at the largest of these
    sizes the results with unified memory and with copies. A function that judges a claim calls this with `yield from`.
    """
    results = yield from runs(
        grid, [(benchmark, size, placement) for size in grid.fitting for placement in (UM, EXPLICIT)]
    )
    ratios = {
        size: seconds(results[benchmark, size, UM]) / seconds(results[benchmark, size, EXPLICIT])
        for size in grid.fitting
    }
    largest = grid.fitting[-1]
    return ratios, results[benchmark, largest, UM], results[benchmark, largest, EXPLICIT]


@bench.judge("otm.obs1.bfs")
def bfs_gains(grid: RodiniaGrid) -> Hearing:
    ratios, um, explicit = yield from fitting(grid, "bfs")
    part = number(um.measured["to_device_gb"]) / number(explicit.measured["to_device_gb"])
    reason = (
        f"slower at {{outside}} GB: the search reaches every node and edge of Rodinia's random graphs, so that "
        f"managed memory migrates {part:.3g} of the bytes that explicit copies move, and its page-fault handler is "
        f"busy for {handler_share(um):.0%} of the time; the paper does not describe its graphs"
    )
    return Reading(f"t(UM) / t(explicit): {listed(ratios)}", in_gb(ratios), reason)


@bench.judge("otm.obs1.cfd")
def cfd_loses(grid: RodiniaGrid) -> Hearing:
    ratios, _, _ = yield from fitting(grid, "cfd")
    return Reading(f"t(UM) / t(explicit): {listed(ratios)}", in_gb(ratios), "UM is as fast at {outside} GB")


@bench.judge("otm.obs2.thrash")
def thrashing(grid: RodiniaGrid) -> Hearing:
    results = yield from runs(
        grid, [(benchmark, size, UM) for benchmark in BENCHMARKS for size in (*grid.fitting, *grid.over)]
    )

    def each(benchmark: str, among: tuple[float, ...]) -> float:
        return mean(seconds(results[benchmark, size, UM]) / size for size in among)

    slow = {benchmark: each(benchmark, grid.over) / each(benchmark, grid.fitting) for benchmark in BENCHMARKS}
    wrong = {
        "SRAD slows down as much as BFS": not longer(slow["bfs"], slow["srad"]),
        "CFD does not slow down": not longer(slow["cfd"], 1.0),
    }
    return unless(listed(slow), wrong)


@bench.judge("otm.obs2.bfs_log")
def time_jumps(grid: RodiniaGrid) -> Hearing:
    results = yield from runs(grid, [("bfs", size, UM) for size in (grid.fitting[-1], *grid.over)])
    below = seconds(results["bfs", grid.fitting[-1], UM])
    times = {size: seconds(results["bfs", size, UM]) / below for size in grid.over}
    reason = "evicted blocks come back less often than the paper's log axis suggests"
    return Reading(f"{listed(times)} x", times[grid.over[0]], reason)


@bench.judge("otm.fig2.traffic")
def traffic(grid: RodiniaGrid, jump: float, extra: float) -> Hearing:
    emulated, wrong = [], []
    results = yield from runs(
        grid,
        [
            (benchmark, size, placement)
            for benchmark in BENCHMARKS
            for size in grid.fitting
            for placement in (UM, EXPLICIT)
        ]
        + [(benchmark, grid.over[0], UM) for benchmark in BENCHMARKS],
    )
    for benchmark in BENCHMARKS:
        below, above = grid.fitting[-1], grid.over[0]
        for direction in ("to_device_gb", "to_host_gb"):
            less = number(results[benchmark, below, UM].measured[direction]) / below
            more = number(results[benchmark, above, UM].measured[direction]) / above
            emulated.append(f"{benchmark} {direction.removesuffix('_gb').replace('_', ' ')} x{more / less:.3g}")
            if more < jump * less:
                wrong.append(f"{benchmark} moves only {more / less:.3g} times as much {direction.removesuffix('_gb')}")
        beyond = {
            size: (_to_host(results[benchmark, size, UM]) - _to_host(results[benchmark, size, EXPLICIT]))
            / (size * grid.part)
            for size in grid.fitting
        }
        most = max(beyond, key=beyond.__getitem__)
        if beyond[most] > extra:
            wrong.append(f"{benchmark} moves {beyond[most]:.3g} of its arrays to the host at {most:g} GB, which fit")
    return unless(", ".join(emulated), wrong)


def _to_host(result: Result) -> float:
    return number(result.measured["to_host_gb"])


PROGRAMS: dict[str, Callable[..., Any]] = {"bfs": Bfs.run, "cfd": Cfd.run, "srad": Srad.run}
ALL_IMPLICIT, ALL_EXPLICIT = {"otm.threshold": "2"}, {"otm.threshold": "0"}


def program(benchmark: str) -> HostProgram:
    """Return the target regions and objects of a benchmark, as read from its source: OTM's compiler pass."""
    return HostProgram.of(PROGRAMS[benchmark])


def pinned(result: Result) -> set[str]:
    """Return the names of the objects (arrays) that OTM pinned to CPU memory in a run (`result`)."""
    return {name for name, placement in placements_of(result).items() if placement.place == "cpu"}


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
    ranks = placements_of(results["bfs", grid.over[0], OTM])
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
    """Return in words why OTM takes as long as explicit copies."""
    placements = placements_of(result)
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


LEAST, MOST = 0.02, 0.98
"""The smallest and the largest density between which the crossover is searched."""
STEPS = 6
"""How often the bisection halves the range of densities."""

ALONE: dict[str, Value] = {"arrays": 1}
MANAGED: dict[str, Value] = {**ALONE, "placement": "managed"}
COPIED: dict[str, Value] = {**ALONE, "placement": "explicit"}


@bench.judge("otm.table2.fit_high")
def dense(grid: RodiniaGrid) -> Hearing:
    um, explicit, unread, copied = yield from synthetic(
        grid,
        [(grid.small, {**placement, "read_result": read}) for read in (True, False) for placement in (MANAGED, COPIED)],
    )
    ratio, without = um.elapsed_s / explicit.elapsed_s, unread.elapsed_s / copied.elapsed_s
    emulated = f"{ratio:.3g} ({without:.3g} if the host does not look: explicit copies bring all back, faults nothing)"
    return Reading(emulated, ratio, f"faults and migrations take {ratio:.3g} of what the copies take")


@bench.judge("otm.table2.fit_low")
def sparse(grid: RodiniaGrid, density: float) -> Hearing:
    um, explicit = yield from synthetic(
        grid, [(grid.small, {**placement, "density": density}) for placement in (MANAGED, COPIED)]
    )
    ratio = um.elapsed_s / explicit.elapsed_s
    moved = number(um.measured["to_device_gb"]) / number(explicit.measured["to_device_gb"])
    reason = f"faults cost more than the copies that they save: {moved:.3g} of the bytes migrate"
    return Reading(f"t(UM) / t(explicit) = {ratio:.3g}; {moved:.3g} of the bytes", ratio, reason)


@bench.judge("otm.table2.over_high")
def pinning(grid: RodiniaGrid, reuse: int) -> Hearing:
    both: dict[str, Value] = {"arrays": 2, "reuse": reuse}
    um, pinned = yield from synthetic(
        grid, [(grid.large, {**both, "placement": placement}) for placement in ("managed", "hybrid")]
    )
    ratio = pinned.elapsed_s / um.elapsed_s
    emulated = f"{pinned.elapsed_s:.3g} s and {um.elapsed_s:.3g} s"
    return Reading(emulated, ratio, "reaching one array over the link costs more than evictions")


@bench.judge("otm.table2.over_low", "otm.obs3.noreuse")
def streaming(grid: RodiniaGrid, within: float) -> Hearing:
    below, above = yield from synthetic(grid, [(grid.small, MANAGED), (grid.large, MANAGED)])
    ratio = (above.elapsed_s / grid.large) / (below.elapsed_s / grid.small)
    reason = f"evictions take {ratio - 1:.0%} of the time" if ratio > 1.0 else "what was evicted is on the host already"
    return Judgement(f"{ratio:.3g}", abs(ratio - 1.0) <= within, reason)


@bench.judge("otm.mech.lru")
def least_recent_faults(grid: RodiniaGrid, reuse: int) -> Hearing:
    size = grid.over[0]
    (swept,) = yield from synthetic(grid, [(size, {**MANAGED, "reuse": reuse})])
    hits = 1.0 - number(swept.measured["to_device_gb"]) / (size * grid.part * reuse)
    return Reading(f"{max(hits, 0.0):.2g} at {size:g} GB", hits, "blocks survive until the next sweep")


@bench.judge("otm.fit.density_threshold")
def crossover(grid: RodiniaGrid) -> Hearing:
    low, high = LEAST, MOST
    um, copied, most, again = yield from synthetic(grid, [*_both(grid, low), *_both(grid, high)])
    at_low, at_high = um.elapsed_s / copied.elapsed_s, most.elapsed_s / again.elapsed_s
    if at_low >= 1.0 or at_high <= 1.0:
        emulated = f"none: t(UM) / t(explicit) is {at_low:.3g} at density {low:g} and {at_high:.3g} at {high:g}"
        return Judgement(emulated, False, "one of the two is better at every density")
    for _ in range(STEPS):
        density = (low + high) / 2.0
        um, copied = yield from synthetic(grid, _both(grid, density))
        if um.elapsed_s < copied.elapsed_s:
            low = density
        else:
            high, most = density, um
    value = (low + high) / 2.0
    moved = number(most.measured["to_device_gb"]) / (grid.small * grid.part)
    why = (
        f"at density {high:.2g}, with {moved:.2g} of the bytes moved, the page-fault handler is busy for "
        f"{handler_share(most):.0%} of the time: pages that are met at random lie in all blocks of 2 MiB, and a block "
        "is served again for each few of them"
    )
    return Reading(f"{value:.2g}", value, why, "copies cost more than faults")


def _both(grid: RodiniaGrid, density: float) -> list[tuple[float, dict[str, Value]]]:
    return [(grid.small, {**placement, "density": density}) for placement in (MANAGED, COPIED)]


OBJECTS = probes.objects
EXPLICIT_ALL: dict[str, Value] = {"threshold": 0.0}
IMPLICIT_ALL: dict[str, Value] = {"threshold": 2.0}


@bench.judge("otm.mech.got")
def object_table(grid: RodiniaGrid) -> Hearing:
    size = grid.fitting[0]
    results = yield from runs(grid, [(benchmark, size, OTM) for benchmark in BENCHMARKS])
    emulated, wrong = [], []
    for benchmark in BENCHMARKS:
        result, host_program = results[benchmark, size, OTM], program(benchmark)
        made = {name.removesuffix("_bytes"): nbytes for name, nbytes in result.measured.items() if "_bytes" in name}
        entries = {name: placement.nbytes for name, placement in placements_of(result).items()}
        emulated.append(f"{benchmark}: {len(entries)} entries for {len(made)} arrays")
        if entries != made:
            wrong.append(f"{benchmark}: entries and arrays differ")
        for name in entries:
            ranked = host_program.object(name)
            if not ranked.regions or not all(region.laf(name) > 0 for region in ranked.regions):
                wrong.append(f"{benchmark}: {name} has no uses")
            if placements_of(result)[name].gaf != ranked.gaf:
                wrong.append(f"{benchmark}: {name}'s GAF is not what the compiler says")
    return unless("; ".join(emulated), wrong)


@bench.judge("otm.mech.laf")
def local_frequency(grid: RodiniaGrid) -> Hearing:
    (fact,) = yield from grid.facts(OBJECTS)
    frequencies = [
        region.laf(name) for benchmark in BENCHMARKS for region in program(benchmark).regions for name in region.objects
    ]
    counted = {name: number(fact[f"{name}_gaf"]) / ROUNDS for name in LAF}
    emulated = f"{min(frequencies):g} to {max(frequencies):g} in {len(frequencies)} uses; counted: {counted}"
    wrong = {"some are negative": min(frequencies) < 0, "not as by hand": counted != LAF}
    return unless(emulated, wrong)


@bench.judge("otm.mech.gaf")
def global_frequency(grid: RodiniaGrid) -> Hearing:
    (fact,) = yield from grid.facts(OBJECTS)
    wrong, count = [], 0
    for benchmark in BENCHMARKS:
        host_program = program(benchmark)
        for ranked in host_program.objects:
            count += 1
            total = math.fsum(
                region.frequency * use.laf
                for region in host_program.regions
                for use, name in zip(region.kernel.arrays, region.objects, strict=True)
                if name == ranked.name
            )
            if not math.isclose(total, ranked.gaf):
                wrong.append(f"{benchmark}'s {ranked.name}: {ranked.gaf:g}, not {total:g}")
    for name, laf in LAF.items():
        count += 1
        if number(fact[f"{name}_gaf"]) != ROUNDS * laf:
            wrong.append(f"the probe's {name}: {fact[f'{name}_gaf']}, not {ROUNDS * laf:g}")
    return unless(f"{count - len(wrong)} of {count} objects", wrong)


@bench.judge("otm.mech.rank")
def ranks(grid: RodiniaGrid) -> Hearing:
    size = grid.fitting[0]
    results = yield from runs(grid, [(benchmark, size, OTM) for benchmark in BENCHMARKS])
    emulated, wrong = [], []
    for benchmark in BENCHMARKS:
        placements = placements_of(results[benchmark, size, OTM])
        order = sorted(placements, key=lambda name: placements[name].rank)
        gafs = [placements[name].gaf for name in order]
        emulated.append(f"{benchmark}: {', '.join(order)}")
        if [placements[name].rank for name in order] != list(range(1, len(order) + 1)):
            wrong.append(f"{benchmark}'s are no permutation")
        if gafs != sorted(gafs, reverse=True):
            wrong.append(f"{benchmark}'s are not in order of GAF")
    return unless("; ".join(emulated), wrong)


@bench.judge("otm.mech.density")
def density(grid: RodiniaGrid) -> Hearing:
    places = [(benchmark, size, OTM) for benchmark in BENCHMARKS for size in (grid.fitting[0], grid.over[0])]
    results = yield from runs(grid, places)
    (fact,) = yield from grid.facts(OBJECTS)
    densities = [placement.density for result in results.values() for placement in placements_of(result).values()]
    estimated = {name: number(fact[f"{name}_density"]) for name in DENSITY}
    wrong = {
        "some lie outside": not all(0.0 <= density_of_object <= 1.0 for density_of_object in densities),
        "the probe's are not min(LAF * iterations / elements, 1)": estimated != DENSITY,
    }
    return unless(f"{min(densities):.3g} to {max(densities):.3g}; probe: {estimated}", wrong)


@bench.judge("otm.mech.map_order")
def greedy(grid: RodiniaGrid) -> Hearing:
    places = [(benchmark, size, OTM) for benchmark in BENCHMARKS for size in grid.over]
    results = yield from runs(grid, places)
    wrong, count = [], 0
    for place, result in results.items():
        expected = _greedy(result)
        count += len(expected)
        wrong += [f"{name} of {place[0]} at {place[1]:g} GB" for name in expected ^ pinned(result)]
    emulated = f"{len(wrong)} of the placements of {len(results)} runs are others; {count} objects are pinned in all"
    return Judgement(emulated, not wrong, f"placed otherwise: {', '.join(wrong)}")


def _greedy(result: Result) -> set[str]:
    """Return the names of the objects that must be pinned: each that does not fit beside those of better rank."""
    free, left_out = result.figures("otm")["budget_bytes"], set()
    for name, placement in sorted(placements_of(result).items(), key=lambda item: item[1].rank):
        if placement.nbytes <= free:
            free -= placement.nbytes
        else:
            left_out.add(name)
    return left_out


@bench.judge("otm.mech.pin")
def pin(grid: RodiniaGrid) -> Hearing:
    (fact,) = yield from grid.facts(OBJECTS, [{**EXPLICIT_ALL, "room": 2.0}])
    remote, advice = number(fact["remote_bytes"]), fact["advice"]
    emulated = f"b: {fact['b_mechanism']}, {advice} advice, {fact['migrated']} B migrate, {remote:,.0f} B over the link"
    wrong = {
        "b is not pinned": fact["b_mechanism"] != "pinned" or advice != 1,
        "it migrates": fact["migrated"],
        "nobody reaches it over the link": remote <= 0,
    }
    return unless(emulated, wrong)


@bench.judge("otm.mech.explicit")
def explicit(grid: RodiniaGrid) -> Hearing:
    (fact,) = yield from grid.facts(OBJECTS, [EXPLICIT_ALL])
    (values,) = yield from grid.facts(probes.in_the_kernel, [EXPLICIT_ALL])
    all_bytes = number(fact["objects"]) * number(fact["object_bytes"])
    emulated = (
        f"{fact['blocks']} blocks for {fact['objects']} objects, {fact['copied_in']:,} B copied in, "
        f"{fact['copied_out']:,} B out, {fact['kernel_faults']} faults; the original is {values['inside']:g} after the "
        f"kernel, {values['after']:g} at the end"
    )
    wrong = {
        "not a block each": fact["blocks"] != fact["objects"] or fact["entries"] != fact["objects"],
        "not copied once each way": (fact["copied_in"], fact["copied_out"]) != (all_bytes, all_bytes),
        "kernels fault": fact["kernel_faults"] or fact["migrated"],
        "the kernel writes to the original": (values["inside"], values["after"]) != (0.0, 1.0),
    }
    return unless(emulated, wrong)


@bench.judge("otm.mech.implicit")
def implicit(grid: RodiniaGrid) -> Hearing:
    (fact,) = yield from grid.facts(OBJECTS, [IMPLICIT_ALL])
    (values,) = yield from grid.facts(probes.in_the_kernel, [IMPLICIT_ALL])
    all_bytes = number(fact["objects"]) * number(fact["object_bytes"])
    emulated = (
        f"{fact['blocks']} blocks, {fact['copied_in']} B copied in, {fact['kernel_faults']} faults, "
        f"{fact['migrated']:,} of {all_bytes:,.0f} B migrate; the original is {values['inside']:g} after the kernel"
    )
    wrong = {
        "there are blocks or copies": fact["blocks"] or fact["copied_in"] or fact["copied_out"],
        "kernels do not fault": not fact["kernel_faults"] or fact["migrated"] != all_bytes,
        "the kernel does not write to the original": values["inside"] != 1.0,
    }
    return unless(emulated, wrong)


@bench.judge("otm.mech.counters")
def counters(grid: RodiniaGrid) -> Hearing:
    exact, less = yield from grid.facts(OBJECTS, [{}, {"lacking": 1}])
    each = number(exact["object_bytes"])
    counted = (number(exact["explicit_bytes"]) / each, number(exact["implicit_bytes"]) / each)
    short = number(less["explicit_bytes"]) + number(less["implicit_bytes"])
    emulated = (
        f"room for 3: {counted[0]:g} explicit, {counted[1]:g} implicit; "
        f"{3 * each - number(less['budget_bytes']):.0f} B less: {short / each:g} placed, b {less['b_mechanism']}"
    )
    wrong = {
        "the counters are not the sizes of what is placed": counted != (2.0, 1.0) or short != 2 * each,
        "an object that fits exactly is pinned": exact["b_mechanism"] != "implicit",
        "an object that lacks a byte is placed": less["b_mechanism"] != "pinned",
    }
    return unless(emulated, wrong)


@bench.judge("otm.mech.table")
def active_table(grid: RodiniaGrid) -> Hearing:
    once, late = yield from grid.facts(OBJECTS, [{}, {"room": 2.0, "late": True}])
    emulated = (
        f"{once['decisions']} decisions on {once['objects']} objects in {ROUNDS} calls; c of rank {late['c_rank']} "
        f"comes late: a {late['a_mechanism']}, b {late['b_mechanism']}, c {late['c_mechanism']}"
    )
    kept = late["a_decisions"] == late["b_decisions"] == 1
    wrong = {
        "an object is decided on again while it is active": once["decisions"] != once["objects"],
        "what is active gives way": not kept or "pinned" in (late["a_mechanism"], late["b_mechanism"]),
        "c takes a place that there is not": late["c_rank"] != 1 or late["c_mechanism"] != "pinned",
    }
    return unless(emulated, wrong)


@bench.judge("otm.mech.trad_fail")
def no_room(grid: RodiniaGrid) -> Hearing:
    places = [(benchmark, size) for benchmark in BENCHMARKS for size in (*grid.fitting, *grid.over)]
    facts = yield from grid.facts(
        probes.traditional, [grid.sized(size, {"benchmark": benchmark}) for benchmark, size in places]
    )
    failed = {place: fact["failed"] for place, fact in zip(places, facts, strict=True)}
    above = [place for place in places if place[1] in grid.over]
    wrong = [
        f"{benchmark} at {size:g} GB"
        for benchmark, size in places
        if bool(failed[benchmark, size]) is not (size in grid.over)
    ]
    lacking = sum(bool(failed[place]) for place in above)
    fewer = sum(bool(results) for place, results in failed.items() if place not in above)
    emulated = f"{lacking} of {len(above)} runs above fail, {fewer} of {len(places) - len(above)} below"
    return Judgement(emulated, not wrong, f"otherwise: {', '.join(wrong)}")


@bench.judge("otm.mech.um_bw")
def slower_on_demand(grid: RodiniaGrid) -> Hearing:
    managed, copied = yield from grid.facts(probes.bandwidth, [{"placement": "managed"}, {"placement": "explicit"}])
    demand, copy = number(managed["bytes_per_s"]), number(copied["bytes_per_s"])
    emulated = f"{demand / 1e9:.3g} and {copy / 1e9:.3g} GB/s (pageable)"
    return Reading(emulated, demand / copy, "faults take less time than the host's copy into a pinned buffer")


PAPER = Paper("otm", MACHINE, bench, grid, SENSITIVITY, CANDIDATES, inputs=inputs_of(inputs), uses=["stream.interrupt"])
