"""Where the judges of the zero-copy claims look: sizes, threads, configurations, and how much of a run is made.

QMCPACK's figures compare times of the steady state, which a fraction of the steps shows. Table I counts calls of whole
runs, start-up included: those are made at the fraction `counted_fraction`, and counts at less than 1 are scaled up. A
ratio is time(copy) / time(configuration), as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import attrs

from offloadrt.study.points import Options, Point
from offloadrt.study.reporting.results import CallFigures, Result
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.validation.judging import Asking, Bench, Extent, JudgingGrid
from offloadrt.study.validation.measured import number
from offloadrt.study.validation.paper import SensitivityRun

SCENARIO = "qmcpack"
MACHINE = "mi300a"
COPY, IZC, USM, EAGER = "copy", "implicit_zero_copy", "usm", "eager_maps"
CONFIGURATIONS = (COPY, IZC, USM, EAGER)
SHORT = {COPY: "Copy", IZC: "IZC", USM: "USM", EAGER: "Eager"}
"""The names of the claims' relations."""
S1, S2, S24, S128 = "S1", "S2", "S24", "S128"
THREADS = 8
"""The host threads of Figure 4."""
CANDIDATES: dict[str, dict[str, str]] = {"dma.rings": {"dma.rings": "2"}}
"""The other reading of how many copy engines one process uses."""
_QMCPACK: list[SensitivityRun] = [
    {"size": size, "threads": threads, "configuration": configuration, "fraction": 0.0005}
    for size, threads in ((S2, 1), (S24, THREADS))
    for configuration in (COPY, IZC, EAGER)
]
_SPECACCEL: list[SensitivityRun] = [
    ("specaccel", {"benchmark": benchmark, "configuration": configuration, "fraction": 0.01})
    for benchmark in ("stencil", "ep", "spC")
    for configuration in (COPY, IZC, EAGER)
]
SENSITIVITY = (*_QMCPACK, *_SPECACCEL)
"""Short runs that show whether an entry of the machine has any influence on times."""

bench = Bench.of("offloadrt.papers.zerocopy")

Place = tuple[str, int, str]
"""Supercell size, number of host threads, configuration."""
Ratios = dict[Place, float]
"""time(copy) / time(configuration) by place."""


@attrs.frozen
class QmcpackGrid(JudgingGrid):
    """Sizes and threads of QMCPACK, and how much of a run is made."""

    sizes: tuple[str, ...]
    """Supercells in order of their size, without S1."""
    threads: tuple[int, ...]
    fraction: float
    """The part of the steps that is run where times are compared."""
    counted_fraction: float
    """The part of the steps that is run where calls of a run are counted."""
    whole: bool
    """Whether SPECaccel's programs run whole; otherwise two parts of them tell what the whole takes."""

    @property
    def described(self) -> str:
        """Say in words how much is looked at."""
        threads = ", ".join(map(str, self.threads))
        return (
            f"QMCPACK {', '.join((S1, *self.sizes))} with {threads} threads at {self.fraction:g} of the steps; "
            f"Table I at {self.counted_fraction:g} of the steps; SPECaccel {'whole' if self.whole else 'extrapolated'}"
        )

    def at(self, scenario: str, parameters: Mapping[str, Value], *, hash: bool = False) -> Point:
        """Describe a run of another scenario, whose trace is hashed or not."""
        point = self.point(parameters, scenario=scenario)
        return attrs.evolve(point, options=attrs.evolve(point.options, hash=hash))


def grid(extent: Extent, options: Options) -> QmcpackGrid:
    """Choose where the judges look: from `full` over `quick` to `ends`, fewer sizes and threads, and fewer steps."""
    everything = ("S2", "S4", "S8", "S16", "S24", "S32", "S48", "S64", "S128")
    places: dict[str, tuple[tuple[str, ...], tuple[int, ...], float, float, bool]] = {
        "full": (everything, (1, 2, 4, 8), 0.02, 1.0, True),
        "quick": ((S2, S24, S128), (1, 8), 0.01, 0.1, True),
        "ends": ((S2, S24, S128), (1, 8), 0.001, 0.01, False),
    }
    return QmcpackGrid(SCENARIO, *places[extent], options=options)


def runs(grid: QmcpackGrid, places: Iterable[Place], fraction: float | None = None) -> Asking[dict[Place, Result]]:
    """Run QMCPACK at these places; `yield from` it."""
    wanted = list(dict.fromkeys(places))
    results = yield from grid.runs(
        {
            "size": size,
            "threads": threads,
            "configuration": configuration,
            "fraction": grid.fraction if fraction is None else fraction,
        }
        for size, threads, configuration in wanted
    )
    return dict(zip(wanted, results, strict=True))


def ratios(
    grid: QmcpackGrid,
    configurations: Iterable[str],
    sizes: Iterable[str] | None = None,
    threads: Iterable[int] | None = None,
) -> Asking[Ratios]:
    """Measure time(copy) / time(configuration) by size, threads and configuration."""
    places = [
        (size, count, configuration)
        for size in (grid.sizes if sizes is None else sizes)
        for count in (grid.threads if threads is None else threads)
        for configuration in configurations
    ]
    results = yield from runs(
        grid, [(size, count, either) for size, count, configuration in places for either in (COPY, configuration)]
    )
    return {place: results[(*place[:2], COPY)].elapsed_s / results[place].elapsed_s for place in places}


def by_name(values: Ratios) -> dict[str, float]:
    """Label some figures by the names of their places."""
    return {named(place): value for place, value in values.items()}


def named(place: Place) -> str:
    """Name a place: `IZC S2 8T`."""
    size, threads, configuration = place
    return f"{SHORT[configuration]} {size} {threads}T"


def spanned(values: Ratios) -> str:
    """Write the smallest and the largest of some ratios, and where they are."""
    low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    return f"{values[low]:.3g} ({named(low)}) to {values[high]:.3g} ({named(high)})"


def measured_kernels(result: Result) -> float:
    """Count the kernels of QMCPACK in the measured time."""
    return number(result.measured["kernels"]) - number(result.measured["kernels_in_initialisation"])


def kernel_seconds(result: Result) -> float:
    """Add up the times of all kernels of a run, those of the initialisation included."""
    return number(result.measured["kernel_s"])


def api_seconds(result: Result) -> float:
    """Add up the latencies of all calls of the HSA runtime of a run, start-up included."""
    return math.fsum(statistics.total_s for statistics in result.all_calls().values())


def call(result: Result, name: str) -> CallFigures:
    """Read the figures of a call in the whole run, start-up included; zeros when there was none."""
    return result.all_calls().get(name, CallFigures(0, 0.0, 0.0, 0.0, 0.0))
