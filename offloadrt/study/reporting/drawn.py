"""`offloadrt compare --draws N`: the variants at the same places, drawn in all ranges of the machine.

A ratio that holds at the mean of all ranges may not hold elsewhere. So all variants run at each place, and it is told
how the ratio to the baseline is distributed and which variant is the fastest in how many of the draws.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import attrs
import msgspec

from offloadrt.study.errors import UserError
from offloadrt.study.inputs import draws_of
from offloadrt.study.reporting.compared_axes import base_of, baseline_of, read_axes, refuse_failures, swept_in
from offloadrt.study.reporting.html_tables import html_page, html_table
from offloadrt.study.reporting.results import Result
from offloadrt.study.reporting.words import named, where
from offloadrt.study.running import profiles
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import SweepOutcome, grid, sweep

_INTERVAL = 0.9


@attrs.frozen
class DrawnVariant:
    """A variant over all draws; ratios are time(baseline) / time(variant) in one draw."""

    parameters: dict[str, Value]
    median: float
    low: float
    """Below it are 5 % of the ratios."""
    high: float
    """Above it are 5 % of the ratios."""
    wins: int
    """In how many draws no other variant is faster."""
    ratios: tuple[float, ...]


@attrs.frozen
class DrawnComparison:
    """All variants at the same draws, in the order of their values, or the one that wins most first."""

    scenario: str
    machine: str
    runtime: str
    baseline: dict[str, Value]
    draws: int
    entries: tuple[str, ...]
    """The entries of the machine that were drawn."""
    variants: list[DrawnVariant]

    def to_json(self) -> bytes:
        """Encode the comparison as one JSON object on one line."""
        return msgspec.json.encode(attrs.asdict(self))

    def _repr_html_(self) -> str:
        """Show in a notebook the ratios of each variant over all draws."""
        rows = [
            (named(one.parameters), f"{one.median:.4g}", f"{one.low:.4g} to {one.high:.4g}", str(one.wins))
            for one in self.variants
        ]
        remark = f"baseline: {named(self.baseline)}; a ratio is the baseline's time over the variant's"
        title = f"{self.scenario} at {self.draws} places in the ranges of {where(self)}"
        return html_page(title, remark, html_table("", ("", "median ratio", "90 % of the draws", "wins in"), rows))


def compare_drawn(
    scenario: Scenario,
    axes: Mapping[str, Sequence[Any]],
    pool: Executor,
    *,
    draws: int,
    baseline: Mapping[str, Any] | None = None,
    options: RunSpec | None = None,
    jobs: int = 1,
    rank: bool = False,
    advanced: Callable[[SweepOutcome], None] | None = None,
) -> DrawnComparison:
    """Run all combinations of `axes` at each of `draws` places on `pool`.

    Raises UserError when nothing is swept or nothing can be drawn, for a baseline that is none of the values or leaves
    some open, and when a run cannot be made; ScriptFailed when the program raises; ParameterError for a bad parameter.
    """
    options = options or RunSpec()
    if draws < 1:
        raise UserError(f"--draws {draws}: at least one")
    read = read_axes(scenario, axes)
    chosen = baseline_of(scenario, read, baseline or {})
    if {"machine", "runtime"} & read.keys() - scenario.parameters.keys():
        raise UserError("compare --draws: draws the costs of one machine; give one machine and one runtime")
    swept = swept_in(read)
    if missing := [name for name in swept if name not in chosen]:
        raise UserError(f"compare --draws: the baseline leaves {', '.join(missing)} open; give each one value to have")
    machine = profiles.machine_of(scenario.name, scenario.path, scenario.machine, options.machine)
    spec = profiles.load(machine, options.overrides, runtime=options.runtime or scenario.runtime)
    places = draws_of(spec, {}, options, draws)
    if not places:
        raise UserError(f"compare --draws: no entry of {machine} is a range that is left open")
    points = [point for place in places for point in grid(scenario, read, place)]
    outcome = sweep(points, pool, jobs=jobs, advanced=advanced)
    refuse_failures(outcome, read)
    count = len(points) // len(places)
    by_draw = [outcome.finished[start : start + count] for start in range(0, len(points), count)]
    first = outcome.finished[0]
    variants = _variants(by_draw, chosen, swept)
    if rank:
        variants.sort(key=lambda variant: (-variant.wins, -variant.median))
    entries = tuple(key for key in places[0].range_end if key not in options.range_end)
    return DrawnComparison(scenario.name, first.machine, first.runtime, chosen, len(places), entries, variants)


def _variants(
    by_draw: Sequence[Sequence[Result]], chosen: Mapping[str, Value], swept: Iterable[str]
) -> list[DrawnVariant]:
    ratios: list[list[float]] = [[] for _ in by_draw[0]]
    wins = [0 for _ in by_draw[0]]
    for results in by_draw:
        base = base_of(results, chosen)
        fastest = min(one.elapsed_s for one in results)
        for number, one in enumerate(results):
            ratios[number].append(base.elapsed_s / one.elapsed_s if one.elapsed_s else math.inf)
            wins[number] += one.elapsed_s == fastest
    return [
        DrawnVariant(
            parameters={name: one.parameters[name] for name in swept},
            median=statistics.median(of),
            low=_quantile(of, (1.0 - _INTERVAL) / 2.0),
            high=_quantile(of, (1.0 + _INTERVAL) / 2.0),
            wins=won,
            ratios=tuple(of),
        )
        for one, of, won in zip(by_draw[0], ratios, wins, strict=True)
    ]


def _quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lies, between two of them in proportion."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
