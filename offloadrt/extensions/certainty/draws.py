"""How sure an answer is: all runs at the same draws, intervals of their figures, and rankings that hold.

    points = grid(find_scenario("exahype"), {"memory": ("map", "pool")}, RunSpec())
    nominal = sweep(points, pool).finished
    drawn = sample(points, nominal, pool, Effort(draws=64))
    print(drawn.with_intervals(nominal)[0].interval)            # 27.1 to 40.3 ms in 80 % of 64 draws
    print(order_of(points, nominal, drawn).sentences())

A *draw* is a position in every range at once: in the ranges of the machine's and the runtime's entries, and of the
program's inputs. Draws are one scrambled Sobol sequence (`scipy.stats.qmc`), which fills a space of many dimensions
evenly with few points. Positions in a range are on a logarithmic scale, as is its mean. All runs that are compared are
made at the same draws (common random numbers), so that what they share cancels. An entry that several machines have
from one source is one dimension: if LLVM's table is slow on one machine, it is slow on the other (`Draws.of`).

An interval shows how the uncertain entries change a figure. It does not show how wrong the emulator's mechanisms are.
"""

from __future__ import annotations

import importlib.resources
import io
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np

from offloadrt.machine import MachineSpec, ProfileEntry
from offloadrt.registry import Registry
from offloadrt.study.certainty import LEAST, MOST, Effort, RankedVariant, Ranking, clock_of, over
from offloadrt.study.errors import library
from offloadrt.study.inputs import InputRange, named_range
from offloadrt.study.reporting.compare import Case
from offloadrt.study.reporting.results import Interval, PredictionInterval, Result
from offloadrt.study.reporting.words import word
from offloadrt.study.running import profiles
from offloadrt.study.scripts import registry
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point, SweepOutcome, sweep

CLEAR: Final = 16
"""No more draws are made of a point whose order against all others was the same in the first so many draws."""
IDLE: Final = 4
"""No more draws are made if none of the first so many has changed any run."""
SEED: Final = 2026
_WIDTH: Final = 512
"""The stored dimensions of the sequence; runs with fewer use the first ones."""
_STEPS: Final = 1 << 16
"""The number of steps into which a range is divided."""
NOTED: Final = 0.005
"""A relative difference of two times below this is no order effect."""
_SAME: Final = 1e-9
"""Times with a smaller relative difference are equal: virtual time is rounded to picoseconds."""

SCREENINGS: Final = Registry[Any]("screening", "offloadrt.screenings")
"""Modules with three functions: `idle_entries` finds entries that need not be drawn, `decided` names the entries that
decide a ranking, and `turned` lists steps of a sweep whose effect changes its sign in some draws.
"""


@cache
def _sequence(count: int, width: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the first `count` points of the sequence, each with a position from 0 to 1 in every dimension.

    `draws.npy` has the first 64 points of 512 dimensions, so that SciPy, which takes a second to import, is not needed.
    Raises UserError if more are asked for and SciPy is not installed.
    """
    if count <= MOST and width <= _WIDTH:
        with (importlib.resources.files("offloadrt.extensions.certainty") / "draws.npy").open("rb") as file:
            steps = np.load(file)
    else:
        steps = steps_of(count, max(width, _WIDTH))
    places: np.ndarray[Any, np.dtype[np.float64]] = (steps[:count].astype(float) + 0.5) / _STEPS
    return places


def steps_of(count: int, width: int) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """Compute at least `count` quasi-random points in `width` dimensions, by SciPy's Sobol sequence.

    Such points fill the unit cube evenly. Returns an array of whole numbers of shape (number of points, `width`). Each
    coordinate, from 0 to 1, is divided into 65,536 equal steps; a number says in which of them (from 0) the point lies.
    """
    sobol = library("scipy.stats").qmc.Sobol(width, rng=SEED)
    steps: np.ndarray[Any, np.dtype[np.uint16]]
    steps = np.floor(sobol.random_base2(max(count - 1, MOST - 1).bit_length()) * _STEPS).astype(np.uint16)
    return steps


def uncertain(spec: MachineSpec) -> dict[str, ProfileEntry]:
    """Return the entries (costs, rates) of the machine profile `spec` of which only a range is known, by name."""
    found = {key: spec.entries[key] for key in spec.ranges()}
    return {key: entry for key, entry in found.items() if entry.low != entry.high}


def _source_of(key: str, spec: MachineSpec) -> tuple[object, ...]:
    """Return a key for the uncertainty of an entry: entries with the same key share a dimension of the draws.

    Entries with one name and one source do so. Estimates must have the same range as well: two different guesses were
    made independently.
    """
    entry = spec.entries[key]
    estimated = entry.source_type == "engineering estimate"
    return key, spec.sources.get(entry.source, entry.source), (entry.low, entry.high) if estimated else ()


def is_free(key: str, options: RunSpec) -> bool:
    """Tell whether an uncertain entry (cost or rate of a machine) may be varied in a run with these options.

    It may not if the options fix its value, or its position in its range. `key` is the entry's name.
    """
    ends = options.range_end
    return not isinstance(ends, str) and key not in ends and key not in options.overrides


@attrs.frozen
class Draws:
    """Samples all uncertain entries and inputs at random: draw number k gives each of them a position in its range.

    Uncertain are those costs and rates of a machine's profile, and those inputs of a program, of which only a range is
    known. In one draw, an entry has the same position in the ranges of all machines. `seed` starts the random
    generator.
    """

    columns: Mapping[str, Mapping[str, int]]
    """For each machine with its runtime (by a hash of both), and each uncertain entry: the position of the entry's
    random number in a draw.
    """
    inputs: Mapping[str, tuple[int, float]]
    """By name of an input: the position of its random number in a draw, and the highest quantile of its range that is
    drawn.
    """
    seed: int = SEED
    idle: frozenset[str] = frozenset()
    """Entries that are not drawn but stay at their means, since neither end of their ranges changes a run."""

    @classmethod
    def of(cls, specs: Iterable[MachineSpec], inputs: Iterable[InputRange] = ()) -> Draws:
        """Make the generator for these machines and inputs, with a random number for each source of uncertainty.

        Entries of several machines that have the same name and the same source share one.
        """
        dimensions: dict[tuple[object, ...], int] = {}
        columns = {
            spec.digest: {key: dimensions.setdefault(_source_of(key, spec), len(dimensions)) for key in uncertain(spec)}
            for spec in specs
        }
        taken = {one.name: (dimensions.setdefault((one.name,), len(dimensions)), one.highest) for one in inputs}
        return cls(columns, taken)

    @property
    def entries(self) -> list[str]:
        """Return the names of all uncertain entries (costs and rates of the machines) and program inputs, each once."""
        return [*dict.fromkeys(key for of in self.columns.values() for key in of), *self.inputs]

    @property
    def width(self) -> int:
        """Return how many independent random numbers a sample has: one per source of uncertainty, one per input."""
        return len({column for of in self.columns.values() for column in of.values()}) + len(self.inputs)

    def at(self, number: int, spec: MachineSpec, options: RunSpec) -> RunSpec:
        """Return the options of a run on a machine in draw `number` (a random sample of the uncertain values).

        Entries of the profile and inputs that the `options` already set stay as they are.
        """
        place = _sequence(1 << max(number, MOST - 1).bit_length(), self.width)[number]
        ends = {
            key: float(place[column])
            for key, column in self.columns[spec.digest].items()
            if key not in self.idle and is_free(key, options)
        }
        inputs = {name: float(place[column]) * most for name, (column, most) in self.inputs.items()}
        there = options.with_ends(ends) if ends else options
        return attrs.evolve(there, inputs={**inputs, **options.inputs})


@attrs.frozen
class DrawnRuns:
    """The results of points of a sweep, all run with the same random samples of uncertain values (`draws`)."""

    draws: Draws
    rows: Sequence[Sequence[Result | None]]
    """For each draw, the results in the order of the points; None for a point that was not run, because its rank was
    clear already."""
    numbers: Sequence[int]
    """The number of each row's draw; draws in which a run failed are missing."""
    failed: int = 0
    """Number of draws in which a run ended with an error; they have no row."""
    matters: bool = True
    """False if no draw changed any run."""

    def figures(self, name: str, number: int) -> list[float] | None:
        """Return the values of one figure (a named result) of point `number`, one for each draw in which it was run.

        A draw is a run with a random sample of the uncertain values. Returns None if there is no value, or if the
        figure is no number in some draw.
        """
        values = [_figure(name, own) for row in self.rows if (own := row[number]) is not None]
        known = [value for value in values if value is not None]
        return known if known and len(known) == len(values) else None

    def pairs(self, one: int, other: int) -> list[tuple[float, float]]:
        """Return the elapsed seconds of two points (indices) for all draws (random samples) that both of them ran."""
        rows = [(row[one], row[other]) for row in self.rows]
        return [(a.elapsed_s, b.elapsed_s) for a, b in rows if a is not None and b is not None]

    def with_intervals(self, nominal: Sequence[Result]) -> list[Result]:
        """Return the nominal results (each range at its mean), with intervals of their figures over random samples.

        They also get the interval in which a real machine's time should lie, where similar programs were measured.
        """
        intervals = [self._intervals(result, number) for number, result in enumerate(nominal)]
        return [
            attrs.evolve(result, intervals=of, prediction_interval=predicted(result, of.get("elapsed_s")))
            for result, of in zip(nominal, intervals, strict=True)
        ]

    def _intervals(self, result: Result, number: int) -> dict[str, Interval]:
        if not self.rows or not self.matters:
            return {}
        found = {}
        for name in ("elapsed_s", *result.measured):
            own, values = _figure(name, result), self.figures(name, number)
            if own is not None and values is not None and any(value != own for value in values):
                found[name] = Interval.of(own, values, self.draws.seed)
        return found


def _figure(name: str, result: Result) -> float | None:
    value = result.elapsed_s if name == "elapsed_s" else result.measured.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def spec_of(point: Point) -> MachineSpec:
    """Return the machine of a run (`point`), with its offloading runtime, without the user's overrides."""
    scenario = registry.find(point.scenario)
    return profiles.load(point.options.machine or scenario.machine, runtime=point.options.runtime or scenario.runtime)


def sample(
    points: Sequence[Point],
    nominal: Sequence[Result],
    pool: Executor,
    effort: Effort,
    *,
    cases: Sequence[Sequence[int]] = (),
    jobs: int = 1,
    file: Path | None = None,
    advanced: Callable[[int, int], object] = lambda done, asked: None,
) -> DrawnRuns:
    """Run all points of a sweep with each of several draws (random samples) of the uncertain values.

    nominal: the results of the points with each range at its mean. cases: the indices of the points that are ranked
    against each other, for each case. file: keeps finished runs, so that a later call need not repeat them. advanced:
    called with the runs done and asked for. pool, jobs: the executor that makes the runs, and how many it makes at a
    time.

    effort: how many draws, and for how much time. If `effort.draws` is None, the user left their number open: then
    sampling stops if the first draws change nothing; a point is no longer run once 16 draws have ranked it against
    every other point of its case in the same way; and the result has no draw if there was time for fewer than 8. Where
    16 draws or more are asked for, entries that change no run are searched for first, and are not drawn.
    """
    inputs = dict.fromkeys(name for result in nominal for name in result.inputs)
    specs = [spec_of(point) for point in points]
    draws = Draws.of(specs, (one for one in map(named_range, inputs) if one is not None))
    asked = effort.most if effort.draws is None else effort.draws
    if not asked or not draws.entries:
        return DrawnRuns(draws, [], [], matters=bool(draws.entries))
    clock, count = clock_of(jobs), len(points)
    deadline = clock() + effort.budget_s
    if asked >= CLEAR:
        for module in SCREENINGS.installed():
            idle = module.idle_entries(points, nominal, pool, jobs=jobs, budget_s=_OF_SCREENING * effort.budget_s)
            draws = attrs.evolve(draws, idle=draws.idle | idle)
    plain = [attrs.evolve(point.options, repeat=1, hash=None, record=False) for point in points]
    drawn = [
        attrs.evolve(point, options=draws.at(number, spec, options))
        for number in range(asked)
        for point, spec, options in zip(points, specs, plain, strict=True)
    ]
    results: list[Result | None] = [None for _ in drawn]
    failed: set[int] = set()

    def make(ahead: Sequence[int]) -> None:
        begun = clock()
        begin = ahead[0] if ahead else 0

        def enough(outcome: SweepOutcome) -> bool:
            advanced(begin + len(outcome.finished) + len(outcome.failures), len(drawn))
            made, now = outcome.done, clock()
            hopeless = begin == 0 and made >= jobs and effort.is_hopeless((now - begun) / made * count)
            few = outcome.results[: IDLE * count]
            idle = effort.draws is None and None not in few and not _changed(few, nominal)
            return hopeless or now >= deadline or (idle and made >= IDLE * count)

        outcome = sweep([drawn[number] for number in ahead], pool, jobs=jobs, file=file, enough=enough)
        broken = {id(failure.point) for failure in outcome.failures}
        failed.update(number // count for number in ahead if id(drawn[number]) in broken)
        for number, result in zip(ahead, outcome.results, strict=True):
            results[number] = result

    def made_rows() -> dict[int, list[Result | None]]:
        rows = {number: results[number * count : (number + 1) * count] for number in range(asked)}
        whole = {number: range(count) if number < first else unsure or range(count) for number in rows}
        return {number: row for number, row in rows.items() if all(row[own] is not None for own in whole[number])}

    first, unsure = asked if effort.draws is not None else min(asked, CLEAR), set(range(count))
    with redirect_stdout(io.StringIO()):  # the nominal run has printed the same already
        make(range(first * count))
        rows = made_rows()
        if len(rows) + len(failed) >= first < asked:
            unsure = _unsure([*rows.values()], cases or [[number] for number in range(count)])
            make([number for number in range(first * count, asked * count) if number % count in unsure])
            rows = made_rows()
    matters = any(_changed(row, nominal) for row in rows.values())
    if effort.draws is None and matters and len(rows) < LEAST:
        return DrawnRuns(draws, [], [])
    return DrawnRuns(draws, list(rows.values()), list(rows), len(failed), matters)


_OF_SCREENING = 0.1
"""The part of a budget for the search for entries that need not be drawn; entries not tried by then are drawn."""


def banded(
    outcome: SweepOutcome,
    pool: Executor,
    effort: Effort,
    *,
    sweep_s: float = 0.0,
    jobs: int = 1,
    file: Path | None = None,
    advanced: Callable[[int, int], object] = lambda done, asked: None,
) -> bool:
    """Add intervals to a sweep's results, and a list of the steps that are faster in some draws, slower in others.

    A draw is a random sample of the uncertain values; a step goes from one value of an axis to the next. outcome: the
    sweep's points and results, which are changed. effort: how many draws, and for how much time. sweep_s: how many
    seconds the runs of the sweep itself took, from which the time of a draw is estimated. file: keeps finished runs.
    pool, jobs: the executor that makes the runs, and how many it makes at a time. advanced: called with the runs done
    and asked for. Returns False if the budget is too small for enough draws.
    """
    nominal, fresh = outcome.finished, outcome.done - outcome.kept
    if effort.draws == 0 or not nominal:
        return True
    if fresh and effort.is_hopeless(sweep_s / fresh * len(nominal)):
        return False
    points = [point for point, one in zip(outcome.points, outcome.results, strict=True) if one is not None]
    drawn = sample(points, nominal, pool, effort, jobs=jobs, file=file, advanced=advanced)
    sure = iter(drawn.with_intervals(nominal))
    outcome.results = [one and next(sure) for one in outcome.results]
    for module in SCREENINGS.installed():
        outcome.order_effects = module.turned(points, nominal, drawn)
    return bool(drawn.rows) or not drawn.matters


def _changed(row: Sequence[Result | None], nominal: Sequence[Result]) -> bool:
    """Tell whether a result of draws, which repeat the order of the points, differs from the nominal one."""
    return any(own and facts(own) != facts(nominal[number % len(nominal)]) for number, own in enumerate(row))


def _unsure(rows: Sequence[Sequence[Result | None]], cases: Sequence[Sequence[int]]) -> set[int]:
    """Return the indices of points whose order against another one varied between draws, or which are alone."""
    unsure = {case[0] for case in cases if len(case) == 1}
    for case in cases:
        for one, other in itertools.combinations(case, 2):
            orders = {_faster(a.elapsed_s, b.elapsed_s) for row in rows if (a := row[one]) and (b := row[other])}
            unsure |= {one, other} if len(orders) > 1 else set()
    return unsure


def facts(result: Result) -> tuple[object, ...]:
    """Return what must be equal in two results for the runs to count as equal: times, number of events, figures."""
    return result.elapsed_s, result.events, tuple(result.measured.items())


def _faster(one: float, other: float) -> float:
    """Return 1 if the first time is shorter, 0 if the second is, and 0.5 if they are equal."""
    return 0.5 if math.isclose(one, other, rel_tol=_SAME) else float(one < other)


# ---------------------------------------------------------------------- what no draw knows
@attrs.frozen
class MeasuredKind:
    """Says by which factors the predicted times of one kind of programs have differed from measured ones.

    programs, where: the kind of programs and the machines, in words. values: how many measured values there are. All
    factors are at least 1: predicted over measured time, or its inverse.
    """

    programs: str
    where: str
    values: int
    most: float
    """The factor that four in five values do not exceed."""
    p90: float
    """The factor that nine in ten values do not exceed."""

    def widened(self, interval: Interval) -> PredictionInterval:
        """Return an interval of seconds, widened by the error that four in five measured values do not exceed."""
        return PredictionInterval(interval.low / self.most, interval.high * self.most, self.most, str(self))

    def __str__(self) -> str:
        return (
            f"{self.values} measured times of {self.programs} ({self.where}) were off by a factor of at most "
            f"{self.most:.2g} in four of five cases, and of {self.p90:.2g} in nine of ten"
        )


MEASURED_KINDS: Final = (
    MeasuredKind("programs with managed memory", "T4, Titan V, RTX 5070 Ti and 5090", 53, 1.8, 2.4),
    MeasuredKind("OpenMP programs", "H200", 60, 1.7, 1.9),
    MeasuredKind("CUDA programs with several threads", "H200", 69, 2.9, 3.9),
)
"""From `bench/validation/independent.txt` (single_thread_workload) and `bench/hardware/h200/predicted.txt`."""


def measured_kind(result: Result) -> MeasuredKind | None:
    """Return how far predictions of similar programs were off; None where no such program was measured."""
    managed, openmp, cuda = MEASURED_KINDS
    if not result.devices:
        return None
    if result.managed:
        return managed
    if "device table" in result.locks:
        return openmp
    return cuda if any(name.startswith("cu") for name in result.calls) else None


def predicted(result: Result, interval: Interval | None) -> PredictionInterval | None:
    """Return where the time that a real machine takes should lie, in four cases of five.

    interval: where one of the times in `result` lies, in seconds, over random samples of the uncertain costs. Such
    samples show only the effect of costs: none of them tells of missing or wrong mechanisms. So the interval is widened
    by how far predictions of similar programs were off. Returns None without an interval, or if no such program was
    measured.
    """
    kind = measured_kind(result)
    return None if kind is None or interval is None else kind.widened(interval)


# ---------------------------------------------------------------------- orders
def order_of(
    nominal: Sequence[Result], named: Sequence[Mapping[str, Any]], base: int, drawn: DrawnRuns, of: Sequence[int]
) -> Ranking | None:
    """Rank variants by how often each is faster than the others, over all draws of the uncertain values.

    A draw is a random sample of all costs and inputs of which only a range is known. nominal: each variant's result
    with every range at its mean. named: each variant's parameters, by name. base: the number of the variant that is the
    baseline. drawn: runs of many points, repeated in every draw. of: for each variant, the index of its point in
    `drawn`. Returns None if there were no draws, or if none of them changed anything.
    """
    if not drawn.rows or not drawn.matters:
        return None
    times = [[made.elapsed_s for row in drawn.rows if (made := row[number]) is not None] for number in of]
    share = [
        [statistics.fmean(map(_faster, one, other)) if one is not other else 0.5 for other in times] for one in times
    ]
    places = sorted(range(len(of)), key=lambda place: (-math.fsum(share[place]), nominal[place].elapsed_s, place))
    ranked, effects = [], []
    for place, after in zip(places, [*places[1:], None], strict=True):
        own, ratios = nominal[place].elapsed_s, [over(b, v) for b, v in zip(times[base], times[place], strict=False)]
        beside = len(times[place]) if after is None else min(len(times[place]), len(times[after]))
        ahead = 1.0 if after is None else share[place][after]
        elapsed, ratio = (
            Interval.of(value, values, drawn.draws.seed)
            for value, values in ((own, times[place]), (over(nominal[base].elapsed_s, own), ratios))
        )
        ranked.append(RankedVariant(place, dict(named[place]), elapsed, ratio, ahead, beside))
        if after is not None and own > nominal[after].elapsed_s * (1.0 + NOTED) and ahead > 0.5:
            one, other = (" ".join(map(word, named[number].values())) for number in (place, after))
            often = f"{ahead * beside:g} of {beside} draws"
            effects.append(f"{one} is slower than {other} as it stands, and faster in {often}")
    return Ranking(
        draws=len(drawn.rows),
        seed=drawn.draws.seed,
        entries=len(drawn.draws.entries),
        failed=drawn.failed,
        ranked=ranked,
        shares=[[share[one][other] for other in places] for one in places],
        idle=len(drawn.draws.idle),
        order_effects=effects,
    )


_OF_DRAWS = 0.7
"""The part of a budget for draws; the rest is for finding the entries that decide a ranking."""


def ordered(
    cases: Sequence[Case],
    outcome: SweepOutcome,
    pool: Executor,
    effort: Effort,
    jobs: int,
    stage: Callable[[str, int, int], object],
) -> list[Case]:
    """Rank the variants of a comparison by repeated runs with random samples (draws) of the uncertain values.

    cases: the comparison's cases, whose variants are ranked against each other. outcome: their runs so far. Returns the
    cases with intervals and ranks. What is left of the budget is used to find the entries that decide between the two
    nearest variants of a ranking. stage: called with a title, the runs done and those asked for. pool, jobs: the
    executor that makes the runs, and how many it makes at a time. effort: how many draws, and for how much time.
    """
    clock = clock_of(jobs)
    begun = clock()
    made = [(point, one) for point, one in zip(outcome.points, outcome.results, strict=True) if one is not None]
    points, nominal = [point for point, _ in made], [one for _, one in made]
    numbers = {id(one): number for number, one in enumerate(nominal)}
    of_cases = [[numbers[id(variant.result)] for variant in case.variants] for case in cases]
    drawn = sample(
        points, nominal, pool, attrs.evolve(effort, budget_s=_OF_DRAWS * effort.budget_s), cases=of_cases, jobs=jobs,
        advanced=lambda done, asked: stage("draws", done, asked),
    )  # fmt: skip
    ordered = []
    for case, of in zip(cases, of_cases, strict=True):
        results = [nominal[number] for number in of]
        order = order_of(results, [variant.parameters for variant in case.variants], 0, drawn, of)
        kind = measured_kind(results[0])
        if order is not None and kind is not None and len({spec_of(points[number]).name for number in of}) > 1:
            told = f"no draw knows how wrong mechanisms are, which does not cancel between machines: {kind}"
            order = attrs.evolve(order, beyond=told)
        if order is not None and (near := order.nearest()) is not None:
            pair = [of[order.ranked[rank].number] for rank in near]
            for module in SCREENINGS.installed():
                order = module.decided(
                    order, points, nominal, drawn, pair, pool, jobs=jobs, budget_s=effort.budget_s - (clock() - begun),
                    advanced=lambda done, asked: stage("which entries decide", done, asked),
                )  # fmt: skip
        sure = drawn.with_intervals(nominal)
        variants = [
            attrs.evolve(variant, result=sure[number]) for variant, number in zip(case.variants, of, strict=True)
        ]
        ordered.append(attrs.evolve(case, variants=variants, order=order))
    return ordered
