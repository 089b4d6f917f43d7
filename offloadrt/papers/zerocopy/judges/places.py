"""Where the judges of the zero-copy claims look: sizes, threads, configurations, and how much of a run is made.

QMCPACK's figures compare times of the steady state, which a fraction of the steps shows. Table I counts calls of whole
runs, start-up included: those are made at the fraction `whole`, and counts at less than 1 are scaled up. A ratio is
time(copy) / time(configuration), as in the paper.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping

import attrs

from offloadrt.study.claims import claims_of
from offloadrt.study.judging import Bench, Extent, Judgement, Places
from offloadrt.study.measured import number
from offloadrt.study.points import Options, Point
from offloadrt.study.reporting.results import CallFigures, Result
from offloadrt.study.scripts.parameters import Value

SCENARIO = "qmcpack"
MACHINE = "mi300a"
COPY, IZC, USM, EAGER = "copy", "implicit_zero_copy", "usm", "eager_maps"
CONFIGURATIONS = (COPY, IZC, USM, EAGER)
SHORT = {COPY: "Copy", IZC: "IZC", USM: "USM", EAGER: "Eager"}
"""The names of the claims' relations."""
S1, S2, S24, S128 = "S1", "S2", "S24", "S128"
THREADS = 8
"""Of Figure 4."""
CANDIDATES: dict[str, dict[str, str]] = {"dma.rings": {"dma.rings": "2"}}
"""The other reading of how many copy engines one process uses."""
SENSITIVITY: tuple[dict[str, Value], ...] = tuple(
    {"size": size, "threads": threads, "configuration": configuration, "fraction": 0.005}
    for size, threads in ((S2, 1), (S2, THREADS), (S24, THREADS))
    for configuration in (COPY, IZC, EAGER)
)
"""Runs that show whether an entry of the machine matters at all."""

bench = Bench()
claims = {claim.id: claim for claim in claims_of("offloadrt.papers.zerocopy")}

Place = tuple[str, int, str]
"""Size, threads, configuration."""
Runs = Generator[list[Point], list[Result], dict[Place, Result]]


@attrs.frozen
class Grid(Places):
    """Sizes and threads of QMCPACK, and how much of a run is made."""

    sizes: tuple[str, ...]
    """In order, without S1."""
    threads: tuple[int, ...]
    fraction: float
    """Of the steps, where times are compared."""
    whole: float
    """Of the steps, where calls of a run are counted."""

    @property
    def described(self) -> str:
        """How much is looked at, in words."""
        threads = ", ".join(map(str, self.threads))
        return (
            f"QMCPACK {', '.join((S1, *self.sizes))} with {threads} threads at {self.fraction:g} of the steps; "
            f"Table I at {self.whole:g} of the steps"
        )

    def at(self, scenario: str, parameters: Mapping[str, Value], *, hash: bool = False, **overrides: str) -> Point:
        """A run of another scenario, with entries of the machine replaced (`_` for the dots of their names)."""
        point = self.point(parameters, scenario=scenario)
        changed = {name.replace("__", "."): value for name, value in overrides.items()}
        options = attrs.evolve(point.options, hash=hash, overrides={**point.options.overrides, **changed})
        return attrs.evolve(point, options=options)


def grid(extent: Extent, options: Options) -> Grid:
    """Where the judges look; from `full` over `quick` to `ends`, fewer sizes and threads, and fewer steps."""
    everything = ("S2", "S4", "S8", "S16", "S24", "S32", "S48", "S64", "S128")
    places: dict[str, tuple[tuple[str, ...], tuple[int, ...], float, float]] = {
        "full": (everything, (1, 2, 4, 8), 0.02, 1.0),
        "quick": ((S2, S24, S128), (1, 8), 0.01, 0.1),
        "ends": ((S2, S24, S128), (1, 8), 0.002, 0.01),
    }
    return Grid(SCENARIO, *places[extent], options=options)


def runs(grid: Grid, places: Iterable[Place], fraction: float | None = None) -> Runs:
    """QMCPACK at these places; `yield from` it."""
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
    grid: Grid, configurations: Iterable[str], sizes: Iterable[str] | None = None, threads: Iterable[int] | None = None
) -> Generator[list[Point], list[Result], dict[Place, float]]:
    """time(copy) / time(configuration) by size, threads and configuration."""
    places = [
        (size, count, configuration)
        for size in (grid.sizes if sizes is None else sizes)
        for count in (grid.threads if threads is None else threads)
        for configuration in configurations
    ]
    found = yield from runs(grid, [(size, count, of) for size, count, one in places for of in (COPY, one)])
    return {place: found[(*place[:2], COPY)].elapsed_s / found[place].elapsed_s for place in places}


def named(place: Place) -> str:
    """`IZC S2 8T`."""
    size, threads, configuration = place
    return f"{SHORT[configuration]} {size} {threads}T"


def spanned(values: Mapping[Place, float]) -> str:
    """The smallest and the largest of some ratios, and where they are."""
    low, high = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    return f"{values[low]:.3g} ({named(low)}) to {values[high]:.3g} ({named(high)})"


def measured_kernels(result: Result) -> float:
    """Kernels of QMCPACK in the measured time."""
    return number(result.measured["kernels"]) - number(result.measured["kernels_in_initialisation"])


def kernel_seconds(result: Result) -> float:
    """The times of all kernels of a run added up, those of the initialisation included."""
    return number(result.measured["kernel_s"])


def api_seconds(result: Result) -> float:
    """The latencies of all calls of the HSA runtime of a run added up, start-up included."""
    return math.fsum(one.total_s for one in result.all_calls().values())


def call(result: Result, name: str) -> CallFigures:
    """A call of the whole run, start-up included; none of it when there was none."""
    return result.all_calls().get(name, CallFigures(0, 0.0, 0.0, 0.0, 0.0))


def in_band(claim: str, value: float) -> bool:
    """Whether `value` lies in the band that counts as right."""
    lo, hi = claims[claim].lo, claims[claim].hi
    return (lo is None or value >= lo) and (hi is None or value <= hi)


def banded(claim: str, value: float, said: str, low: str, high: str) -> Judgement:
    """Whether `value` is in the claim's band; `low` and `high` are why it would be below and above it."""
    lo = claims[claim].lo
    return Judgement(said, in_band(claim, value), low if lo is not None and value < lo else high)
