"""`offloadrt why`: what limits a run, its critical path, its resources, and what would make it faster.

with executor("process", 2) as pool:
    page = explain(find_scenario("exahype"), {"threads": 64, "memory": "map"}, pool, jobs=2, budget_s=60)
page.limit.sentence

`how_sure.py` checks whether the sentence also holds in draws of all uncertain entries of the machine, and whether a
gain turns into a loss there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import attrs
import msgspec

from offloadrt.extensions.drawing.notebook import MOST_IN_HTML, html_page, html_table
from offloadrt.extensions.explaining.how_sure import (
    Robustness,
    SobolIndices,
    deciding,
    groups_of,
    order_effects,
    robustness_of,
    total_order,
    with_curves,
    with_gains_in_draws,
    with_rival,
)
from offloadrt.extensions.explaining.lines import Verdict, lines_of, verdicts_of
from offloadrt.extensions.explaining.sentence import (
    Limit,
    Observed,
    PathShare,
    ResourceUse,
    by_call,
    by_line,
    by_phase,
    by_resource,
    grouped,
    limit_of,
    observe,
    spoken,
)
from offloadrt.extensions.explaining.what_if import (
    Proposal,
    Trials,
    Tried,
    command_of,
    decisions,
    merit_of,
    proposals,
    switches,
)
from offloadrt.study.errors import UserError
from offloadrt.study.reporting.words import percent, seconds
from offloadrt.study.running.execution import patient_collector
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec

_DRAWS = 16
"""The number of draws if the caller gives none."""
_MOST_SHARES = 3
"""So many shares of the host threads' time are named."""
_OF_CHANGES, _OF_DRAWS, _OF_GAINS, _OF_CURVES = 0.5, 0.7, 0.82, 0.88
"""Ends of the stages as parts of the budget: changes, draws, gains in draws, parts of costs; then deciders."""

Stage = Callable[[str, int, int], object]
"""Called as work advances, with the stage's name, the runs done in it and the runs that it has in all."""


@attrs.frozen
class Page:
    """All that `why` prints about a run. Times of the critical path are integer picoseconds.

    `command` is the command line that repeats the run, and `elapsed_s` its measured time in virtual seconds. `limit` is
    the sentence on what limits it. `path_by_resource`, `path_by_call` and `path_by_line` are the shares of the critical
    path, the largest first; `resources` says how much each lock and part of the machine was used; `tried` are the
    changes that were tried. `scenario`, `parameters`, `machine` and `runtime` are what was run and on what.
    """

    scenario: str
    parameters: dict[str, Value]
    machine: str
    runtime: str
    command: str
    elapsed_s: float
    elapsed_ps: int
    """The sum of the parts of the critical path: the measured time."""
    phases: tuple[str, ...]
    """A line for each sampled phase: how many of its instances were left out, and the error of its estimated time."""
    limit: Limit
    waited: float
    """The share of the critical path, 0 to 1, in which an actor (thread or part of the machine) waited for its turn."""
    path_by_resource: tuple[PathShare, ...]
    path_by_call: tuple[PathShare, ...]
    path_by_line: tuple[PathShare, ...]
    path_by_phase: tuple[PathShare, ...]
    """The shares of the phases that the program names; empty if it names none."""
    resources: tuple[ResourceUse, ...]
    tried: Tried
    sure: Robustness | None
    """In how many random samples of the costs (draws) the sentence in `limit` holds; None if no draws were made."""
    indices: SobolIndices | None
    """How much the share of the limiting resource depends on each entry of the machine; None unless asked for."""
    verdicts: tuple[Verdict, ...] = ()
    """For each line with target regions, the longest first: whether they belong on the device or host, by estimate."""
    host_time: dict[str, float] = attrs.field(factory=dict)
    """The largest shares of the time of all host threads together, 0 to 1, under the names that `run` prints."""
    order_effects: tuple[str, ...] = ()
    """Changes with an unexpected gain: slower in some draws, or a cheaper cost that makes the run slower."""

    def to_json(self) -> bytes:
        """Encode the page as one JSON object on one line."""
        record = attrs.asdict(self)
        for row, what_if in zip(record["tried"]["what_ifs"], self.tried.what_ifs, strict=True):
            row["change"]["name"] = what_if.change.name
        return msgspec.json.encode(record)

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the sentence, the critical path, and what changes would gain."""
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
                ("by phase", self.path_by_phase),
            )
            if shares
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


@patient_collector()
def explain(
    scenario: Scenario,
    given: Mapping[str, Any],
    pool: Executor,
    *,
    options: RunSpec | None = None,
    jobs: int = 1,
    budget_s: float = 50.0,
    draws: int | None = None,
    sobol: int = 0,
    stage: Stage = lambda name, done, asked: None,
    watched: Callable[[Observed], object] = lambda observed: None,
) -> Page:
    """Run a scenario, say what limits it, and try changes for the rest of `budget_s` seconds of real time.

    draws: the number of random samples of all uncertain entries in which it is checked whether the sentence on the
    limit holds; None: 16 if there is a budget. sobol: base samples for the Sobol indices of the limiting resource's
    share; they get a third of the budget. With a budget of 0, draws and base samples take as long as they need. jobs:
    runs at a time. watched: called with the run that is explained, once it has ended.

    given: the program's parameters by name. options: how it is run. pool: the executor that makes the runs. stage:
    called with a title, the runs done and those asked for. Raises what `execute` raises; `Interrupted` for Ctrl-C after
    the run itself has ended.
    """
    begun = time.monotonic()
    if draws is None:
        draws = _DRAWS if budget_s > 0 or sobol else 0
    part_s = budget_s / (1.5 if sobol else 1.0)
    options = options or RunSpec()
    parameters = scenario.bind(given)

    def until(part: float) -> float:
        return begun + part * part_s if budget_s else math.inf

    def told(name: str) -> Callable[[int, int], object]:
        return lambda done, asked: stage(name, done, asked)

    deadline = begun + (_OF_CHANGES if draws else 1.0) * part_s
    trials = Trials(scenario, parameters, options, pool, jobs, deadline, has_budget=budget_s > 0)
    observed: Observed | None = None
    tried: Tried | None = None
    sure: Robustness | None = None
    indices: SobolIndices | None = None
    try:
        chosen = _decisions(trials) if budget_s > 0 else []
        observed = _observe(trials, chosen, stage, watched)
        tried = _try_changes(trials, observed, chosen, stage)
        of_path = limit_of(observed)
        point, result = trials.point_of(None), observed.result
        drawn = robustness_of(
            of_path, point, result, trials.merit, pool, draws, jobs, until(_OF_DRAWS), told("draws")
        )  # fmt: skip
        if drawn is not None:
            sure = drawn.robustness
            if budget_s > 0:
                tried = with_gains_in_draws(tried, trials, drawn, until(_OF_GAINS), told("gains in draws"))
                tried = with_curves(tried, trials, result, until(_OF_CURVES), told("parts of costs"))
                left_s = max((1.0 - _OF_CURVES) * part_s, until(1.0) - time.monotonic())
                sure = deciding(drawn, tried, point, result, pool, jobs, left_s, told("what decides"))
        if sobol and drawn is not None:
            groups = groups_of(drawn.places, drawn.shares)
            indices = total_order(of_path.resource, point, groups, sobol, pool, jobs, until(1.5), told("Sobol"))
    except KeyboardInterrupt:
        if observed is None:
            raise
        raise Interrupted(_page(trials, observed, tried or trials.known(observed.result, ()), sure, indices)) from None
    return _page(trials, observed, tried, sure, indices)


def check_sobol(samples: int) -> None:
    """Raise UserError unless a number of base samples is 0 or a power of two."""
    if samples < 0 or samples & (samples - 1):
        raise UserError(f"--sobol {samples}: it is a power of two, as 16 or 64")


class Interrupted(KeyboardInterrupt):
    """Raised for Ctrl-C after the explained run has ended; `page` has the results so far."""

    def __init__(self, page: Page) -> None:
        super().__init__("interrupted")
        self.page = page


_GAINS = 1.05
"""A change of another resource contradicts the sentence only if it gains at least this factor."""
_PART = 0.25
"""The named resource's best gain must be at least this part of the best gain of all, each minus 1."""


def checked(limit: Limit, observed: Observed, tried: Tried) -> Limit:
    """Check the sentence on what limits a run: changes that make the named resource cheaper must make the run faster.

    If these changes gain little, but changes of another resource of the critical path gain much, a sentence is returned
    that names the other resource and says why. A resource that no change makes cheaper, such as the program's own work,
    stays named, and so does a resource of which few changes were tried. limit: the sentence. observed: the run. tried:
    the changes that were tried.
    """
    own = None if limit.resource == "program" or limit.resource in tried.unknown else tried.best.get(limit.resource)
    best = max(tried.best.values(), key=lambda one: one.gain, default=None)
    if own is None or best is None or best.gain < _GAINS or own.gain - 1.0 >= _PART * (best.gain - 1.0):
        return limit
    named = limit_of(observed, best.change.resource)
    why = (
        f" {best.change.name} makes the run {best.gain:.3g} times as fast; what has {100 * limit.share:.0f} % of the "
        f"critical path, {spoken(limit)}, gains {own.gain:.3g} at most when it is cheaper."
    )
    return attrs.evolve(named, sentence=named.sentence + why)


def _decisions(trials: Trials) -> list[Proposal]:
    return sorted(
        decisions(trials.scenario, trials.given, trials.options.configuration), key=lambda change: -change.promise
    )


def _observe(
    trials: Trials, chosen: Sequence[Proposal], stage: Stage, watched: Callable[[Observed], object]
) -> Observed:
    """Run the scenario and record it.

    Proposals of other parameters (`decisions`) do not depend on this run. So if `jobs` is above 1, the other processes
    try some of them meanwhile.
    """
    trials.start(chosen[: trials.jobs - 1])
    observed = observe(trials.scenario, trials.given, trials.options)
    trials.work = observed.work
    watched(observed)
    stage("the run", 1, 1)
    trials.merit = merit_of(trials.scenario, observed.result)
    return observed


def _try_changes(trials: Trials, observed: Observed, chosen: Sequence[Proposal], stage: Stage) -> Tried:
    """Try changes of the run, the most promising first; none without a budget. chosen: proposed decisions."""
    options, scenario = trials.options, trials.scenario
    changes = [
        *chosen[trials.jobs - 1 :],
        *switches(observed.spec, observed.path, options, observed.model, scenario),
        *proposals(observed.spec, observed.path, options.overrides, evicts=observed.evicts),
    ]
    return trials.finish(
        observed.result,
        observed.spec,
        changes if trials.has_budget else (),
        lambda done, asked: stage("what if", done, asked),
    )


def _page(
    trials: Trials, observed: Observed, tried: Tried, sure: Robustness | None, indices: SobolIndices | None
) -> Page:
    of_path = limit_of(observed)
    limit = checked(of_path, observed, tried)
    if sure is not None and limit.resource == of_path.resource:
        limit = with_rival(limit, sure)
    scenario, parameters, result = trials.scenario, trials.given, observed.result
    by_part = grouped(observed.path, by_resource)
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
        waited=sum(part.share * part.waited for part in by_part),
        path_by_resource=tuple(by_part),
        path_by_call=tuple(grouped(observed.path, by_call)),
        path_by_line=tuple(grouped(observed.path, by_line)),
        path_by_phase=tuple(by_phase(observed)),
        resources=observed.resources,
        tried=tried,
        sure=sure,
        indices=indices,
        verdicts=tuple(verdicts_of(observed, lines_of(observed))),
        host_time={name: part.share for name, part in list(result.where_time_went.items())[:_MOST_SHARES]},
        order_effects=(*order_effects(tried), *(() if sure is None else sure.slower_for_less)),
    )
