"""How sure the sentence of `why` is: draws, intervals of gains, order effects, and on which entries it depends.

The draws are those of `extensions/certainty`: a scrambled Sobol sequence over the ranges of all uncertain entries. The
sentence holds in a draw if the run drawn there is limited by the same resource and the same call. Gains are computed in
the same draws, with the change and without it.

Order effects are real: if something takes less time, another actor may come first, and the run may take longer. So the
best costs are also tried at 75, 50 and 25 %. Every change that makes the run faster as a whole, but slower in a draw or
at a part of its cost, is reported.

`total_order` computes total-order Sobol indices with SALib. The figure is the share of the critical path that waits for
the limiting resource, or is spent on it. The index of an entry is the part of the figure's variance that would be left
if all other entries were known (Sobol 2001; Saltelli et al. 2010). The entries that matter most in the draws have
indices of their own; all others together are one group.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import attrs
import msgspec

from offloadrt.extensions.certainty.draws import NOTED, SEED, Draws, predicted, spec_of
from offloadrt.extensions.explaining.deciding import correlations, decider, screen, slower_for_less
from offloadrt.extensions.explaining.sentence import Limit, grouped, limit_of, observe
from offloadrt.extensions.explaining.what_if import CurvePoint, Trials, Tried, WhatIf
from offloadrt.study.certainty import Decider
from offloadrt.study.errors import ScriptFailed, UserError, library
from offloadrt.study.inputs import named_range
from offloadrt.study.reporting.results import Interval, PredictionInterval, Result
from offloadrt.study.reporting.words import percent
from offloadrt.study.scripts import registry
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point, SweepOutcome, sweep

_MOST = 3


@attrs.frozen
class Dependence:
    """An uncertain entry of the machine's profile (a cost or rate) on which the sentence of `why` depends.

    The sentence names what limits a run. A draw is the same run with random values of all uncertain entries.
    """

    entry: str
    """The name of the entry, such as `alloc.cudaFree`."""
    correlation: float
    """From -1 to 1, over the draws: positive if the sentence holds more often where the entry's value is high in its
    range, negative if it holds more often where the value is low.
    """


@attrs.frozen
class Robustness:
    """Says how sure the command `why` is of its sentence, which names what limits a run.

    draws: the number of draws, which are runs with random samples of the uncertain costs. holds: in how many of them
    the sentence holds. depends_on: the uncertain entries of the machine's profile that decide this. others: what limits
    the run in other draws.
    """

    holds: int
    draws: int
    depends_on: tuple[Dependence, ...]
    others: Mapping[str, int]
    """By "resource (call)": in how many draws this limits the run instead, the most frequent first."""
    failed: int = 0
    """The number of draws in which the run ended with an error."""
    interval: Interval | None = None
    """The interval of the figure of merit (a time in seconds) over the draws."""
    prediction_interval: PredictionInterval | None = None
    """Where a real machine's figure of merit should lie; None where no similar program was measured."""
    deciders: tuple[Decider, ...] = ()
    """The entries that should be measured next, since their ranges move the time most."""
    screened: str = ""
    """A sentence that says how many entries were tried to find `deciders`, and how many were not."""
    slower_for_less: tuple[str, ...] = ()
    """A sentence for each entry that makes the run slower at the cheap end of its range."""

    def __str__(self) -> str:
        text = f"holds in {self.holds} of {self.draws} draws"
        if self.depends_on:
            text += "; depends on " + ", ".join(one.entry for one in self.depends_on)
        return text


@attrs.frozen
class Drawn:
    """The runs with random samples of the uncertain costs (draws), and what limits each run.

    shares: in each run, the share (0 to 1) of the critical path that belongs to the resource which limits the original
    run. robustness: in how many draws the same resource limits the run. draws: the generator of the samples.
    """

    robustness: Robustness
    draws: Draws
    numbers: tuple[int, ...]
    """The numbers of the draws whose run ended without an error; the next three fields have a value for each."""
    places: tuple[Mapping[str, str | float], ...]
    """The position of each entry in its range, by the entry's name."""
    shares: tuple[float, ...]
    merits: tuple[float, ...]
    """The figure of merit in each, in seconds."""


def shares_at(point: Point) -> bytes:
    """Make one run; return as JSON its limit, its critical path's shares by resource, and its times; or an error.

    point: the run's scenario, parameters and options.
    """
    try:
        observed = observe(registry.find(point.scenario), point.parameters, point.options)
    except (UserError, ScriptFailed) as error:
        return msgspec.json.encode({"error": str(error)})
    shares = {one.name: one.share for one in grouped(observed.path, lambda part: part.blame)}
    figures = {"elapsed_s": observed.result.elapsed_s, **observed.result.measured}
    return msgspec.json.encode({"limit": named(limit_of(observed)), "shares": shares, "figures": figures})


def named(limit: Limit) -> str:
    return f"{limit.resource} ({limit.call})" if limit.call else limit.resource


def robustness_of(
    limit: Limit,
    point: Point,
    result: Result,
    merit: str,
    pool: Executor,
    draws: int,
    jobs: int = 1,
    deadline: float = math.inf,
    advanced: Callable[[int, int], object] = lambda done, asked: None,
) -> Drawn | None:
    """Repeat a run with `draws` random samples of its uncertain entries; compare what limits each with `limit`.

    point, result: the original run and its result. merit: the name of the time that is to be improved. No run is begun
    after `deadline`, a reading of `time.monotonic` in seconds; `jobs` runs are made at a time. Returns None if the
    machine has no uncertain entry, or if there was no time for a run. pool: the executor that makes the runs. advanced:
    called with the runs done and asked for.
    """
    spec = spec_of(point)
    common = Draws.of([spec], (one for one in map(named_range, result.inputs) if one is not None))
    if not common.entries:
        return None
    places = [common.at(number, spec, point.options) for number in range(draws)]
    said = shares_in_time([attrs.evolve(point, options=at) for at in places], pool, jobs, deadline, advanced)
    if not said:
        return None
    numbers = tuple(number for number, one in enumerate(said) if "limit" in one)
    ends = tuple(places[number].ends for number in numbers)
    limits = [said[number]["limit"] for number in numbers]
    merits = tuple(float(said[number]["figures"].get(merit, math.nan)) for number in numbers)
    holds = [one == named(limit) for one in limits]
    others = Counter(one for one in limits if one != named(limit))
    nominal = result.measured.get(merit, result.elapsed_s)
    interval = Interval.of(float(nominal or 0.0), merits, common.seed) if merits else None
    robustness = Robustness(
        sum(holds), len(holds), dependences(holds, ends), dict(others.most_common()), len(said) - len(limits), interval,
        predicted(result, interval),
    )  # fmt: skip
    shares = tuple(said[number]["shares"].get(limit.resource, 0.0) for number in numbers)
    return Drawn(robustness, common, numbers, ends, shares, merits)


_RIVAL = 0.25
"""The sentence also names what limits the run in at least this share of the draws."""


def with_rival(limit: Limit, sure: Robustness) -> Limit:
    """Extend the sentence on a run's limit by what else limits the run in at least a quarter of the draws.

    A draw is a run with a random sample of the uncertain costs. limit: what limits the original run. sure: how many of
    the draws have the same limit, and how many each other one.
    """
    rival, count = next(iter(sure.others.items()), ("", 0))
    if not sure.draws or count < _RIVAL * sure.draws:
        return limit
    return attrs.evolve(limit, sentence=f"{limit.sentence} In {count} of {sure.draws} draws it is {rival}.")


_CHANGES = 3
"""So many of the best changes are also run in draws, which gives their gains an interval."""
_GAIN_DRAWS = 8
_CURVES = 2
"""For so many of the best costs, reductions to 75, 50 and 25 % are tried as well."""


def with_gains_in_draws(
    tried: Tried,
    trials: Trials,
    drawn: Drawn,
    deadline: float,
    advanced: Callable[[int, int], object] = lambda done, asked: None,
) -> Tried:
    """Run the best changes with some random samples of the uncertain values, too.

    Returns `tried` with intervals of the gains. No run begins after `deadline`, a reading of `time.monotonic` in
    seconds. trials: makes the changed runs. drawn: the draws, with the original run's time in each. advanced: called
    with the runs done and asked for.
    """
    best = [one for one in tried.what_ifs if one.gain > 1.0][:_CHANGES]
    numbers = list(zip(drawn.numbers, drawn.merits, strict=True))[:_GAIN_DRAWS]
    spec = spec_of(trials.point_of(None))
    points = []
    for number, _ in numbers:
        for one in best:
            point = trials.point_of(one.change)
            points.append(attrs.evolve(point, options=drawn.draws.at(number, spec, point.options)))
    results = _in_time(points, trials, deadline, advanced)
    gains: dict[int, list[float]] = {place: [] for place in range(len(best))}
    for place, result in enumerate(results):
        if result is not None and (own := trials.merit_in(result)):
            gains[place % len(best)].append(best[place % len(best)].work * numbers[place // len(best)][1] / own)
    intervals = {id(best[place]): Interval.of(best[place].gain, of, SEED) for place, of in gains.items() if len(of) > 1}
    return attrs.evolve(
        tried, what_ifs=tuple(attrs.evolve(one, interval=intervals.get(id(one))) for one in tried.what_ifs)
    )


def with_curves(
    tried: Tried,
    trials: Trials,
    base: Result,
    deadline: float,
    advanced: Callable[[int, int], object] = lambda done, asked: None,
) -> Tried:
    """Try the changes that gain most again, now with 75, 50 and 25 % of the cost left instead of the whole change.

    The profiler Coz does so with lines of code. Returns `tried` with curves of these gains. deadline: a reading of
    `time.monotonic`, in seconds. trials: makes the changed runs. base: the result of the original run. advanced: called
    with the runs done and asked for.
    """
    parts: dict[int, dict[float, Any]] = {}
    for one in [one for one in tried.what_ifs if one.gain > 1.0]:
        if len(parts) < _CURVES and (change := trials.parts_of(one.change)):
            parts[id(one)] = change
    points = [trials.point_of(change) for of in parts.values() for change in of.values()]
    results = iter(_in_time(points, trials, deadline, advanced))
    curves: dict[int, tuple[CurvePoint, ...]] = {}
    for key, of in parts.items():
        made = [(part, next(results)) for part in of]
        own = [(part, trials.merit_in(result)) for part, result in made if result is not None]
        curves[key] = tuple(CurvePoint(part, trials.merit_in(base) / merit) for part, merit in own if merit)
    return attrs.evolve(
        tried, what_ifs=tuple(attrs.evolve(one, curve=curves.get(id(one), ())) for one in tried.what_ifs)
    )


def _in_time(
    points: Sequence[Point], trials: Trials, deadline: float, advanced: Callable[[int, int], object]
) -> list[Result | None]:
    def enough(outcome: SweepOutcome) -> bool:
        advanced(outcome.done + len(outcome.failures), len(points))
        return time.monotonic() >= deadline

    return sweep(points, trials.pool, jobs=trials.jobs, enough=enough).results if points else []


def order_effects(tried: Tried) -> list[str]:
    """Return a sentence for each change of a run whose gain is not what one expects (an order effect).

    Such a change makes a cost cheaper but the run slower. Or it makes the run faster, but slower with some random
    samples of the costs, or when only a part of the change is made. tried: the changes with their gains.
    """
    return [text for one in tried.what_ifs if (text := _turned(one))]


def _turned(one: WhatIf) -> str:
    found = []
    if one.interval is not None and one.gain > 1.0:
        slower = sum(gain < 1.0 - NOTED for gain in one.interval.values)
        if slower:
            found.append(f"makes it slower in {slower} of {one.interval.draws} draws")
    gains = [point.gain for point in one.curve]
    if gains:
        path = [1.0, *gains, one.gain]
        worst = min(gains)
        if worst < 1.0 - NOTED:
            place = one.curve[gains.index(worst)].part
            found.append(f"with {percent(place)} of the step left makes it slower (gain {worst:.4g})")
        elif any(later < earlier * (1.0 - NOTED) for earlier, later in itertools.pairwise(path)):
            told = ", ".join(f"{percent(point.part)} left: {point.gain:.4g}" for point in one.curve)
            found.append(f"does not gain more with each part of the step ({told}, none: {one.gain:.4g})")
    if one.change.kind in ("cost", "hardware") and one.gain < 1.0 - NOTED:
        found.append(f"makes the run {percent(1.0 / one.gain - 1.0)} slower, although nothing takes longer by itself")
    return f"{one.change.name} {' and '.join(found)}" if found else ""


def deciding(
    drawn: Drawn,
    tried: Tried,
    point: Point,
    result: Result,
    pool: Executor,
    jobs: int,
    budget_s: float,
    advanced: Callable[[int, int], object] = lambda done, asked: None,
) -> Robustness:
    """Return `drawn.robustness` (how sure `why`'s sentence on the limit is) with the costs to measure next.

    These are the two entries of the machine's profile whose ranges change the elapsed time most, found by further runs.
    Added are also sentences on entries that make the run slower when they are cheaper. Costs whose change had a gain
    are tried first, since with few random samples chance alone gives a high correlation.

    drawn: the runs with random samples of the costs, and the robustness to complete. tried: the changes that were
    tried, with their gains. point, result: the original run and its result. budget_s: real time for these runs, in
    seconds. pool, jobs: the executor that makes the runs, and how many it makes at a time. advanced: called with the
    runs done and asked for.
    """
    likely = {key: abs(value) for key, value in correlations(drawn.places, drawn.merits).items()}
    for one in tried.what_ifs:
        if one.change.kind == "cost" and one.gain > 0.0:
            likely |= {key: 1.0 + abs(math.log(one.gain)) for key in one.change.overrides if key in likely}
    found = screen([point], [result], pool, likely=likely, jobs=jobs, budget_s=budget_s, advanced=advanced)
    moved = []
    for effect in found.effects:
        times = (*effect.low, *effect.high, result.elapsed_s)
        if min(times) > 0.0:
            moved.append((max(times) / min(times), effect.entry))
    moved.sort(key=lambda one: (-one[0], one[1]))
    deciders = tuple(decider(entry, [point], factor) for factor, entry in moved[:2])
    return attrs.evolve(
        drawn.robustness,
        deciders=deciders,
        screened=str(found),
        slower_for_less=tuple(slower_for_less([point], found)),
    )


def shares_in_time(
    points: Sequence[Point], pool: Executor, jobs: int, deadline: float, advanced: Callable[[int, int], object]
) -> list[Any]:
    """Make the runs `points` until a deadline, and return for each what limits it, as `shares_at` says in JSON.

    A result is a dict: "limit" is the resource that limits the run, "shares" each resource's share of the critical
    path, "figures" its measured times; or "error". Runs that could not begin in time are left out. deadline: a reading
    of `time.monotonic`, in seconds. pool, jobs: the executor that makes the runs, and how many it makes at a time.
    advanced: called with the runs done and asked for.
    """
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


def dependences(holds: Sequence[bool], places: Sequence[Mapping[str, str | float]]) -> tuple[Dependence, ...]:
    """Return the machine's entries on whose values it depends whether `why`'s sentence "X limits this run" holds.

    holds: for each draw (random sample of all uncertain entries), whether the sentence holds. places: for each draw,
    the position of every entry in its range. Only significant correlations count. The threshold is corrected for the
    number of entries (Bonferroni): if no entry matters, there is a chance of 5 % that any is returned. At most three
    are returned, those with the largest correlation.
    """
    if not holds or all(holds) or not any(holds):
        return ()
    errors = statistics.NormalDist().inv_cdf(1.0 - 0.05 / (2 * len(places[0])))
    found = [
        Dependence(entry, correlation)
        for entry, correlation in correlations(places, [float(one) for one in holds]).items()
        if abs(correlation) > errors / math.sqrt(len(holds))
    ]
    return tuple(sorted(found, key=lambda one: -abs(one.correlation))[:_MOST])


Groups = Mapping[str, str]
"""By entry: the name of its group, for which one Sobol index is computed."""
MOST = 6
"""The number of entries that are groups of their own."""
_SEED = 2026
_LEAST = 4
"""With fewer complete base samples no indices are computed."""


@attrs.frozen
class TotalOrder:
    """The total-order Sobol index of an uncertain cost or rate (entry): the part of a variance in which it is involved.

    The variance is that of a figure of the runs. entry: the entry's name, or a word for all other entries together.
    index: that part, from 0 to 1. half_width: half the width of the 95 % confidence interval of the index.
    """

    entry: str
    index: float
    half_width: float


@attrs.frozen
class SobolIndices:
    """The Sobol indices of a resource's share of the critical path, the largest first.

    An index is the part of the share's variance in which an uncertain cost or rate of the machine (entry) is involved.
    resource: the name of the resource. asked: how many base samples were requested; each takes one run for each group
    of entries, and two more. samples: how many were complete within the budget. of: the index of each entry or group of
    entries.
    """

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
    """Divide the uncertain entries into groups for Sobol indices; return the group of each entry.

    Each of the `most` entries that correlate best with a figure is a group by itself; all others share one. places: for
    each draw (random sample), the position of every entry in its range. figures: the figure in each draw.
    """
    found = correlations(places, figures)
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
    """Run base samples, each of as many runs as there are groups plus two, and return the Sobol indices.

    A Sobol index says how much of the variance of a resource's share of the critical path comes from a group of
    uncertain entries (costs or rates). No run is begun after `deadline`, a reading of `time.monotonic` in seconds. A
    base sample that is not complete then, or whose run fails, is not used. point: the run. groups: the entries that are
    varied together, by group. samples: the number of base samples. pool, jobs: the executor that makes the runs, and
    how many it makes at a time. advanced: called with the runs done and asked for. Raises UserError if SALib is not
    installed.
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
