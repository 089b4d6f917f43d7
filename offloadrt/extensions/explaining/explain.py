"""`offloadrt why`: what limits a run, its critical path, its resources, and what would make it faster.

with executor("process", 2) as pool:
    page = explain(find_scenario("exahype"), {"threads": 64, "memory": "map"}, pool, jobs=2, budget_s=60)
page.limit.sentence

It also says how robust the sentence is: whether it holds at points drawn in all ranges of the machine, and which
entries matter.

The draws are those of `study/inputs.py`: a scrambled Sobol sequence over all ranges at once. A sentence holds in a
draw when it names the same resource and the same call.

`total_order` gives total-order Sobol indices, by SALib. The figure is the share of the critical path that waits for
the resource that limits the run, or is spent on it. The index of an entry is the part of the figure's variance that
would be left if all other entries were known (Sobol 2001; Saltelli et al. 2010). Entries that the draws show to matter
most stand for themselves, all others are one group.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import attrs
import msgspec

from offloadrt.extensions.explaining.sentence import (
    Limit,
    Observed,
    PathShare,
    ResourceUse,
    by_call,
    by_line,
    by_resource,
    grouped,
    limit_of,
    observe,
)
from offloadrt.extensions.explaining.what_if import Trials, Tried, command_of, decisions, merit_of, proposals
from offloadrt.machine import MachineSpec
from offloadrt.study.certainty import draws_of
from offloadrt.study.errors import ScriptFailed, UserError, library
from offloadrt.study.reporting.results import MOST_IN_HTML
from offloadrt.study.reporting.words import html_page, html_table, percent, seconds
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point

_MOST = 3


@attrs.frozen
class Dependence:
    """An entry that decides whether the sentence holds: the correlation of its place with that, from -1 to 1."""

    entry: str
    correlation: float


@attrs.frozen
class Robustness:
    """In how many draws the sentence holds, on which entries that depends, and what else limits the run."""

    holds: int
    draws: int
    depends_on: tuple[Dependence, ...]
    others: Mapping[str, int]
    """In how many draws something else limits the run, as "resource (call)"."""
    failed: int = 0
    """Draws in which the run ended with an error."""

    def __str__(self) -> str:
        text = f"holds in {self.holds} of {self.draws} draws"
        if self.depends_on:
            text += "; depends on " + ", ".join(one.entry for one in self.depends_on)
        return text


@attrs.frozen
class Drawn:
    """What the draws said: where they were, and the share of the critical path that the sentence's resource had."""

    robustness: Robustness
    places: tuple[Mapping[str, str | float], ...]
    shares: tuple[float, ...]


def shares_at(point: Point) -> bytes:
    """Run one point, in whichever process; return its limit and the shares of its path as JSON, or an error."""
    try:
        observed = observe(registry.find(point.scenario), point.parameters, point.options)
    except (UserError, ScriptFailed) as error:
        return msgspec.json.encode({"error": str(error)})
    shares = {one.name: one.share for one in grouped(observed.path, lambda part: part.blame)}
    return msgspec.json.encode({"limit": named(limit_of(observed)), "shares": shares})


def named(limit: Limit) -> str:
    return f"{limit.resource} ({limit.call})" if limit.call else limit.resource


def robustness_of(
    limit: Limit,
    scenario: Scenario,
    given: Mapping[str, Value],
    options: RunSpec,
    spec: MachineSpec,
    pool: Executor,
    draws: int,
    jobs: int = 1,
    deadline: float = math.inf,
    advanced: Callable[[int, int], object] = lambda done, asked: None,
) -> Drawn | None:
    """Run at `draws` places and compare their limits with this one; None when nothing is drawn.

    No run is begun after `deadline`, a reading of `time.monotonic`; `jobs` runs are made at a time. Raises UserError
    where SciPy is not installed.
    """
    drawn = draws_of(spec, {}, options, draws)
    reference = registry.reference(scenario)
    points = [Point(reference, dict(given), place) for place in drawn]
    said = shares_in_time(points, pool, jobs, deadline, advanced)
    if not said:
        return None
    places = [place.ends for place, one in zip(drawn, said, strict=False) if "limit" in one]
    limits = [one["limit"] for one in said if "limit" in one]
    holds = [one == named(limit) for one in limits]
    others = Counter(one for one in limits if one != named(limit))
    failed = len(said) - len(limits)
    robustness = Robustness(sum(holds), len(holds), dependences(holds, places), dict(others.most_common()), failed)
    shares = tuple(one["shares"].get(limit.resource, 0.0) for one in said if "limit" in one)
    return Drawn(robustness, tuple(places), shares)


def shares_in_time(
    points: Sequence[Point], pool: Executor, jobs: int, deadline: float, advanced: Callable[[int, int], object]
) -> list[Any]:
    """Return what `shares_at` says of the points, in order, as far as their runs can begin before the deadline."""
    futures: list[Future[bytes]] = []
    said: list[Any] = []
    for done, _ in enumerate(points):
        while len(futures) < min(len(points), done + jobs) and time.monotonic() < deadline:
            futures.append(pool.submit(shares_at, points[len(futures)]))
        if done == len(futures):
            break
        said.append(msgspec.json.decode(futures[done].result()))
        advanced(done + 1, len(points))
    return said


def drawn_correlations(places: Sequence[Mapping[str, str | float]], figures: Sequence[float]) -> dict[str, float]:
    """Return the correlation of each entry's place with a figure; 0 where one of the two does not vary."""
    found = dict.fromkeys(places[0], 0.0) if places else {}
    if len(set(figures)) > 1:
        for entry in found:
            found[entry] = statistics.correlation([float(place[entry]) for place in places], figures)
    return found


def dependences(holds: Sequence[bool], places: Sequence[Mapping[str, str | float]]) -> tuple[Dependence, ...]:
    """Return the entries whose places go with whether the sentence holds, by more than chance (two standard errors)."""
    if not holds or all(holds) or not any(holds):
        return ()
    found = [
        Dependence(entry, correlation)
        for entry, correlation in drawn_correlations(places, [float(one) for one in holds]).items()
        if abs(correlation) > 2.0 / math.sqrt(len(holds))
    ]
    return tuple(sorted(found, key=lambda one: -abs(one.correlation))[:_MOST])


Groups = Mapping[str, str]
"""The group of each entry, by its name."""
MOST = 6
"""Entries that stand for themselves."""
_SEED = 2026
_LEAST = 4
"""Base samples without which nothing is said."""


@attrs.frozen
class TotalOrder:
    """The index of an entry, or of all entries that do not stand for themselves, and its 95 % interval's half."""

    entry: str
    index: float
    half_width: float


@attrs.frozen
class SobolIndices:
    """The indices of a figure, the largest first; `samples` base samples were run to the end, of as many as asked."""

    resource: str
    samples: int
    asked: int
    of: tuple[TotalOrder, ...]

    def __str__(self) -> str:
        figure = f"the share of the critical path of {self.resource}"
        if not self.of:
            return (
                f"{figure}: {self.samples} of {self.asked} base samples were run within the budget, too few for Sobol"
            )
        said = ", ".join(f"{one.entry} {one.index:.2f} ± {one.half_width:.2f}" for one in self.of)
        return f"{figure} depends on (total-order Sobol indices, {self.samples} base samples): {said}"


def groups_of(
    places: Sequence[Mapping[str, str | float]], figures: Sequence[float], most: int = MOST
) -> dict[str, str]:
    """Return the group of each entry: itself for those with which the figure goes most, one name for all others."""
    found = drawn_correlations(places, figures)
    chosen = sorted(found, key=lambda entry: (-abs(found[entry]), entry))[:most]
    rest = f"the other {len(found) - len(chosen)} entries"
    return {entry: entry if entry in chosen else rest for entry in found}


def total_order(
    resource: str,
    point: Point,
    groups: Groups,
    samples: int,
    pool: Executor,
    jobs: int,
    deadline: float,
    advanced: Callable[[int, int], object] = lambda done, asked: None,
) -> SobolIndices:
    """Run base samples, each of as many runs as there are groups and two more, and return the indices.

    No run is begun after `deadline`, a reading of `time.monotonic`; base samples that are not complete then, or of
    which a run fails, do not count. Raises UserError where SALib is not installed.
    """
    problem = {
        "num_vars": len(groups),
        "names": list(groups),
        "bounds": [[0.0, 1.0]] * len(groups),
        "groups": list(groups.values()),
    }
    rows = library("SALib.sample.sobol").sample(problem, samples, calc_second_order=False, seed=_SEED).tolist()
    block = len(set(groups.values())) + 2
    points = [_at(point, groups, row) for row in rows]
    said = shares_in_time(points, pool, jobs, deadline, advanced)
    figures = [one["shares"].get(resource, 0.0) if "shares" in one else None for one in said]
    blocks = [figures[begin : begin + block] for begin in range(0, len(figures) - block + 1, block)]
    whole = [[one for one in values if one is not None] for values in blocks if None not in values]
    if len(whole) < _LEAST:
        return SobolIndices(resource, len(whole), samples, ())
    of = _analyzed(problem, [one for values in whole for one in values])
    return SobolIndices(resource, len(whole), samples, of)


def _at(point: Point, groups: Mapping[str, str], row: Sequence[float]) -> Point:
    options: RunSpec = point.options
    return attrs.evolve(point, options=options.with_ends(dict(zip(groups, row, strict=True))))


def _analyzed(problem: Mapping[str, Any], figures: Sequence[float]) -> tuple[TotalOrder, ...]:
    names = list(dict.fromkeys(problem["groups"]))
    if max(figures) - min(figures) < 1e-12:  # nothing varies, so nothing depends on anything
        return tuple(TotalOrder(name, 0.0, 0.0) for name in names)
    array = library("numpy").array(figures)
    found = library("SALib.analyze.sobol").analyze(problem, array, calc_second_order=False, seed=_SEED)
    of = [
        TotalOrder(name, float(index), float(half))
        for name, index, half in zip(names, found["ST"], found["ST_conf"], strict=True)
    ]
    return tuple(sorted(of, key=lambda one: -one.index))


_DRAWS = 16
"""Draws that choose the entries of Sobol indices where nobody asked for more."""

Stage = Callable[[str, int, int], object]
"""Called with the stage, the runs done and the runs asked for."""


@attrs.frozen
class Page:
    """All that `why` says of a run; times of the critical path are integer picoseconds."""

    scenario: str
    parameters: dict[str, Value]
    machine: str
    runtime: str
    command: str
    elapsed_s: float
    elapsed_ps: int
    """What the parts of the path add up to."""
    phases: tuple[str, ...]
    """What was left out of a long program's repeated phases, and with which error it is estimated."""
    limit: Limit
    waited: float
    """The share of the path in which somebody waited for a turn."""
    path_by_resource: tuple[PathShare, ...]
    path_by_call: tuple[PathShare, ...]
    path_by_line: tuple[PathShare, ...]
    resources: tuple[ResourceUse, ...]
    tried: Tried
    sure: Robustness | None
    """In how many draws the sentence holds; None when nothing was drawn."""
    indices: SobolIndices | None
    """On which entries of the machine the sentence's share depends; None when nobody asked."""

    def to_json(self) -> bytes:
        """Encode the page as one JSON object on one line."""
        record = attrs.asdict(self)
        for row, what_if in zip(record["tried"]["what_ifs"], self.tried.what_ifs, strict=True):
            row["change"]["name"] = what_if.change.name
        return msgspec.json.encode(record)

    def _repr_html_(self) -> str:
        """Show in a notebook the sentence, the critical path and what changes would gain."""
        tables = [
            html_table(
                title,
                ("", "time", "share", "waited"),
                [
                    (one.name, seconds(one.ps * 1e-12), percent(one.share), percent(one.waited))
                    for one in shares[:MOST_IN_HTML]
                ],
            )
            for title, shares in (
                ("the critical path by resource", self.path_by_resource),
                ("by call", self.path_by_call),
                ("by line", self.path_by_line),
            )
        ]
        what_ifs = [
            (one.change.name, one.change.kind, seconds(one.elapsed_s), f"{one.gain:.4g}")
            for one in self.tried.what_ifs[:MOST_IN_HTML]
        ]
        return html_page(
            self.limit.sentence,
            f"{self.command}: {seconds(self.elapsed_s)}, {percent(self.waited)} of the critical path is waiting",
            *tables,
            html_table(f"what if ({self.tried.merit})", ("change", "kind", "elapsed", "gain"), what_ifs),
        )


def explain(
    scenario: Scenario,
    given: Mapping[str, Any],
    pool: Executor,
    *,
    options: RunSpec | None = None,
    jobs: int = 1,
    budget_s: float = 50.0,
    draws: int = 0,
    sobol: int = 0,
    stage: Stage = lambda name, done, asked: None,
    watched: Callable[[Observed], object] = lambda observed: None,
) -> Page:
    """Run a scenario, say what limits it, and try changes for the rest of `budget_s` seconds of real time.

    draws: places in the machine's ranges at which it is looked whether the sentence holds. sobol: base samples for the
    Sobol indices of its share. What-ifs, draws and base samples have equal parts of the budget; where it is 0, draws
    and base samples take as long as they need.
    watched: called with the run that is explained.

    Raises as `execute`.
    """
    begun = time.monotonic()
    draws = draws or (_DRAWS if sobol else 0)
    part_s = budget_s / (1 + bool(draws) + bool(sobol))
    options = options or RunSpec()
    parameters = scenario.bind(given)
    trials = Trials(scenario, parameters, options, pool, jobs, begun + part_s)
    observed, tried = _try_changes(trials, budget_s > 0, stage, watched)
    limit = limit_of(observed)
    drawn = robustness_of(
        limit,
        scenario,
        parameters,
        options,
        observed.spec,
        pool,
        draws,
        jobs,
        begun + 2.0 * part_s if budget_s else math.inf,
        lambda done, asked: stage("draws", done, asked),
    )
    indices = None
    if sobol and drawn is not None:
        indices = total_order(
            limit.resource,
            Point(registry.reference(scenario), parameters, options),
            groups_of(drawn.places, drawn.shares),
            sobol,
            pool,
            jobs,
            begun + budget_s if budget_s else math.inf,
            lambda done, asked: stage("Sobol", done, asked),
        )
    return _page(trials, observed, limit, tried, None if drawn is None else drawn.robustness, indices)


def _try_changes(
    trials: Trials, has_budget: bool, stage: Stage, watched: Callable[[Observed], object]
) -> tuple[Observed, Tried]:
    """Run the scenario, and try changes of it, the most promising first.

    Decisions of the user do not depend on the run. So where there are more processes than this one, they try some of
    these meanwhile.
    """
    scenario, parameters, options = trials.scenario, trials.given, trials.options
    chosen = (
        sorted(decisions(scenario, parameters, options.configuration), key=lambda change: -change.promise)
        if has_budget
        else []
    )
    early, later = chosen[: trials.jobs - 1], chosen[trials.jobs - 1 :]
    trials.start(early)
    observed = observe(scenario, parameters, options)
    watched(observed)
    stage("the run", 1, 1)
    trials.merit = merit_of(scenario, observed.result)
    changes = [*later, *proposals(observed.spec, observed.path, options.overrides)]
    tried = trials.finish(
        observed.result,
        observed.spec,
        changes if has_budget else (),
        lambda done, asked: stage("what if", done, asked),
    )
    return observed, tried


def _page(
    trials: Trials,
    observed: Observed,
    limit: Limit,
    tried: Tried,
    sure: Robustness | None,
    indices: SobolIndices | None,
) -> Page:
    scenario, parameters, result = trials.scenario, trials.given, observed.result
    return Page(
        scenario=scenario.name,
        parameters=dict(parameters),
        machine=result.machine,
        runtime=result.runtime,
        command=command_of(scenario, parameters, trials.options, {}, sampled=bool(result.phases)),
        elapsed_s=result.elapsed_s,
        elapsed_ps=observed.elapsed_ps,
        phases=tuple(str(phase) for phase in result.phases),
        limit=limit,
        waited=_waited(grouped(observed.path, by_resource)),
        path_by_resource=tuple(grouped(observed.path, by_resource)),
        path_by_call=tuple(grouped(observed.path, by_call)),
        path_by_line=tuple(grouped(observed.path, by_line)),
        resources=observed.resources,
        tried=tried,
        sure=sure,
        indices=indices,
    )


def _waited(shares: list[PathShare]) -> float:
    return sum(share.share * share.waited for share in shares)
