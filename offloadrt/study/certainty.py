"""How sure an answer is: the same draws for all runs, intervals of their figures, and the orders that hold.

    points = grid(find_scenario("exahype"), {"memory": ("map", "pool")}, RunSpec())
    nominal = sweep(points, pool).finished
    drawn = sample(points, nominal, pool, Effort(draws=64))
    print(drawn.with_intervals(nominal)[0].interval)            # 27.1 to 40.3 ms in 80 % of 64 draws
    print(order_of(points, nominal, drawn).sentences())

A *draw* is a place in every range at once: of the machine's and the runtime's entries, and of the program's inputs.
Draws are one scrambled Sobol sequence (`scipy.stats.qmc`), which fills a space of many dimensions evenly with few
points. A range counts on a logarithmic scale between its ends, as its mean does. All runs that are compared are made
at the same draws (common random numbers), so that what they share cancels. An entry that several machines have from
one source is one dimension: where LLVM's table is slow on one, it is on the other (`Draws.of`).

An interval says what the uncertain entries do to a figure. It does not say how wrong the emulator's mechanisms are.
"""

from __future__ import annotations

import importlib.resources
import io
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np

from offloadrt.machine import MachineSpec, ProfileEntry
from offloadrt.registry import Registry
from offloadrt.study.errors import library
from offloadrt.study.inputs import InputRange, named_range
from offloadrt.study.reporting.results import Interval, Result
from offloadrt.study.running import profiles
from offloadrt.study.scripts import registry
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point, SweepOutcome, sweep

MOST: Final = 64
"""The most draws that are made unasked: a power of two, for which the sequence is balanced."""
CLEAR: Final = 16
"""Draws after which nobody asks for more where each order has held in all of them."""
LEAST: Final = 8
"""Draws without which no interval is given unasked."""
IDLE: Final = 4
"""Draws after which a run that none of them has changed is certain."""
SURE: Final = 0.9
"""The share of the draws in which an order has to hold for two variants to be told apart."""
SEED: Final = 2026
_WIDTH: Final = 512
"""Dimensions of the sequence; a run takes the first ones."""
_STEPS: Final = 1 << 16
"""Places of a range."""
_SAME: Final = 1e-9
"""Times that differ by a smaller part are equal: virtual time has picoseconds."""

MEASUREMENTS: Final = Registry[Callable[[str, str], str]]("way to measure", "offloadrt.measurements")
"""Functions of an entry and a machine that return the command that measures it there, or an empty text."""


@cache
def _sequence(count: int, width: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the first `count` points of the sequence, each a place between 0 and 1 of every dimension.

    `draws.npy` holds the first 64 of 512 dimensions, so that nobody waits for SciPy, which takes a second to import.
    Raises UserError where more are asked for and SciPy is not installed.
    """
    if count <= MOST and width <= _WIDTH:
        with (importlib.resources.files("offloadrt.study") / "draws.npy").open("rb") as file:
            steps = np.load(file)
    else:
        steps = steps_of(count, max(width, _WIDTH))
    places: np.ndarray[Any, np.dtype[np.float64]] = (steps[:count].astype(float) + 0.5) / _STEPS
    return places


def steps_of(count: int, width: int) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """Compute at least `count` points of the sequence by SciPy, in steps of a range."""
    sobol = library("scipy.stats").qmc.Sobol(width, rng=SEED)
    steps: np.ndarray[Any, np.dtype[np.uint16]]
    steps = np.floor(sobol.random_base2(max(count - 1, MOST - 1).bit_length()) * _STEPS).astype(np.uint16)
    return steps


def uncertain(spec: MachineSpec) -> dict[str, ProfileEntry]:
    """Return the entries of a profile that are known as a range only."""
    found = {key: spec.entries[key] for key in spec.ranges()}
    return {key: entry for key, entry in found.items() if entry.low != entry.high}


def _source_of(key: str, spec: MachineSpec) -> tuple[object, ...]:
    """Return what tells the uncertainty of an entry from others: one source, one dimension.

    An estimate is one with those of the same range; two guesses that differ were made apart.
    """
    entry = spec.entries[key]
    estimated = entry.source_type == "engineering estimate"
    return key, spec.sources.get(entry.source, entry.source), (entry.low, entry.high) if estimated else ()


def _is_free(key: str, options: RunSpec) -> bool:
    """Tell whether the user has left open where an entry is taken."""
    ends = options.range_end
    return not isinstance(ends, str) and key not in ends and key not in options.overrides


@attrs.frozen
class Draws:
    """Places in the ranges of some machines and programs; the same draw is the same place for all of them."""

    columns: Mapping[str, Mapping[str, int]]
    """The dimension of each uncertain entry, by the digest of the machine with its runtime."""
    inputs: Mapping[str, tuple[int, float]]
    """The dimension of each input, and the largest quantile that is affordable."""
    seed: int = SEED

    @classmethod
    def of(cls, specs: Iterable[MachineSpec], inputs: Iterable[InputRange] = ()) -> Draws:
        """Give each source a dimension, in the order of the machines and of their entries; then each input."""
        dimensions: dict[tuple[object, ...], int] = {}
        columns = {
            spec.digest: {key: dimensions.setdefault(_source_of(key, spec), len(dimensions)) for key in uncertain(spec)}
            for spec in specs
        }
        taken = {one.name: (dimensions.setdefault((one.name,), len(dimensions)), one.highest) for one in inputs}
        return cls(columns, taken)

    @property
    def entries(self) -> list[str]:
        """Return the names of what is drawn, each once."""
        return [*dict.fromkeys(key for of in self.columns.values() for key in of), *self.inputs]

    @property
    def width(self) -> int:
        """Return the number of dimensions."""
        return len({column for of in self.columns.values() for column in of.values()}) + len(self.inputs)

    def at(self, number: int, spec: MachineSpec, options: RunSpec) -> RunSpec:
        """Return the options of a run of this machine in a draw. What the user has set stays as it is."""
        place = _sequence(1 << max(number, MOST - 1).bit_length(), self.width)[number]
        ends = {
            key: float(place[column]) for key, column in self.columns[spec.digest].items() if _is_free(key, options)
        }
        inputs = {name: float(place[column]) * most for name, (column, most) in self.inputs.items()}
        there = options.with_ends(ends) if ends else options
        return attrs.evolve(there, inputs={**inputs, **options.inputs})


def draws_of(spec: MachineSpec, inputs: Mapping[str, InputRange], options: RunSpec, count: int = MOST) -> list[RunSpec]:
    """Draw `count` places in the ranges of one machine and of inputs; none where nothing is left to draw."""
    draws = Draws.of([spec], inputs.values())
    free = [key for key in draws.entries if key not in options.overrides]
    return [draws.at(number, spec, options) for number in range(count)] if free else []


@attrs.frozen
class Effort:
    """How much certainty may cost: so many draws, or as many as fit into a budget of real time."""

    draws: int | None = None
    """None: as the budget allows, up to `most`; 0: none."""
    budget_s: float = math.inf
    most: int = MOST

    def is_hopeless(self, draw_s: float) -> bool:
        """Tell whether too few draws fit into the budget where one takes so long."""
        return self.draws is None and LEAST * draw_s > self.budget_s


NO_DRAWS: Final = Effort(draws=0)


@attrs.frozen
class DrawnRuns:
    """The runs of several points at the same draws."""

    draws: Draws
    rows: Sequence[Sequence[Result]]
    """The results of each draw, in the order of the points."""
    numbers: Sequence[int]
    """Which draw each row is: those in which a run failed are missing."""
    failed: int = 0
    """Draws in which a run ended with an error."""
    matters: bool = True
    """False where no draw changed any run."""

    def figures(self, name: str, number: int) -> list[float] | None:
        """Return a figure of one point in all draws; None where it is no number in each."""
        values = [_figure(name, row[number]) for row in self.rows]
        known = [value for value in values if value is not None]
        return known if known and len(known) == len(values) else None

    def correlations(self, figures: Sequence[float]) -> dict[str, float]:
        """Return how each entry's place goes with a figure of the draws, from -1 to 1.

        Of an entry that machines have from several sources, that which goes with it most.
        """
        found: dict[str, float] = {}
        if len(figures) > 1 and min(figures) < max(figures):
            places = _sequence(1 << max(max(self.numbers), MOST - 1).bit_length(), self.draws.width)[list(self.numbers)]
            for of in self.draws.columns.values():
                for key, column in of.items():
                    own = statistics.correlation(places[:, column].tolist(), figures)
                    found[key] = max(found.get(key, 0.0), own, key=abs)
        return found

    def with_intervals(self, nominal: Sequence[Result]) -> list[Result]:
        """Return the results with the intervals of their elapsed time and of all that they measured."""
        intervals = [self._intervals(result, number) for number, result in enumerate(nominal)]
        return [attrs.evolve(result, intervals=of) for result, of in zip(nominal, intervals, strict=True)]

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
    """Return the machine of a run with its runtime, without what the user has set."""
    scenario = registry.find(point.scenario)
    return profiles.load(point.options.machine or scenario.machine, runtime=point.options.runtime or scenario.runtime)


def sample(
    points: Sequence[Point],
    nominal: Sequence[Result],
    pool: Executor,
    effort: Effort,
    *,
    jobs: int = 1,
    file: Path | None = None,
    advanced: Callable[[int, int], object] = lambda done, asked: None,
) -> DrawnRuns:
    """Run all points at each of several draws, as many as the effort allows.

    Unasked, it stops where the first draws change nothing, and where every order of the points has held in all of 16;
    of less than 8 it gives nothing. `nominal` are the results of the points as they are. `file` keeps
    each run as that of `sweep` does; `advanced` is called with the runs done and asked for.
    """
    inputs = dict.fromkeys(name for result in nominal for name in result.inputs)
    specs = [spec_of(point) for point in points]
    draws = Draws.of(specs, (one for one in map(named_range, inputs) if one is not None))
    asked = effort.most if effort.draws is None else effort.draws
    if not asked or not draws.entries:
        return DrawnRuns(draws, [], [], matters=bool(draws.entries))
    plain = [attrs.evolve(point.options, repeat=1, hash=None, record=False) for point in points]
    drawn = [
        attrs.evolve(point, options=draws.at(number, spec, options))
        for number in range(asked)
        for point, spec, options in zip(points, specs, plain, strict=True)
    ]
    clock, count = clock_of(jobs), len(points)
    begun = clock()
    still = _Judge(nominal, count)

    def enough(outcome: SweepOutcome) -> bool:
        advanced(len(outcome.finished) + len(outcome.failures), len(drawn))
        made, spent_s = outcome.done, clock() - begun
        late = spent_s >= effort.budget_s or (made >= jobs and effort.is_hopeless(spent_s / made * count))
        return late or (effort.draws is None and still.is_clear(outcome))

    with redirect_stdout(io.StringIO()):  # what the program prints it has printed already
        outcome = sweep(drawn, pool, jobs=jobs, file=file, enough=enough)
    rows = [outcome.results[begin : begin + count] for begin in range(0, len(drawn), count)]
    whole = {number: [one for one in row if one is not None] for number, row in enumerate(rows) if None not in row}
    failed = {drawn.index(failure.point) // count for failure in outcome.failures}
    matters = still.changed(whole.values())
    if effort.draws is None and matters and len(whole) < LEAST:
        return DrawnRuns(draws, [], [])
    return DrawnRuns(draws, list(whole.values()), list(whole), len(failed), matters)


def clock_of(jobs: int) -> Callable[[], float]:
    """Return the clock of a budget: of this process where it makes all runs, which a busy machine does not disturb."""
    return time.process_time if jobs == 1 else time.monotonic


@attrs.frozen
class _Judge:
    """Says when more draws would tell nothing new."""

    nominal: Sequence[Result]
    of_a_draw: int

    def changed(self, rows: Iterable[Sequence[Result]]) -> bool:
        """Tell whether a draw changed any run."""
        return any(_facts(own) != _facts(other) for row in rows for own, other in zip(row, self.nominal, strict=True))

    def is_clear(self, outcome: SweepOutcome) -> bool:
        """Tell whether nothing changes, or each order of two has been the same in enough draws."""
        if self._has_draws(outcome, IDLE) and not self.changed(self._rows(outcome, IDLE)):
            return True
        if self.of_a_draw == 1 or not self._has_draws(outcome, CLEAR):
            return False
        rows = self._rows(outcome, CLEAR)
        return all(
            len({_faster(row[one].elapsed_s, row[other].elapsed_s) for row in rows}) == 1
            for one in range(self.of_a_draw)
            for other in range(one)
        )

    def _has_draws(self, outcome: SweepOutcome, draws: int) -> bool:
        return len(outcome.results) >= draws * self.of_a_draw and None not in outcome.results[: draws * self.of_a_draw]

    def _rows(self, outcome: SweepOutcome, draws: int) -> Iterator[list[Result]]:
        for begin in range(0, draws * self.of_a_draw, self.of_a_draw):
            yield [one for one in outcome.results[begin : begin + self.of_a_draw] if one is not None]


def _facts(result: Result) -> tuple[object, ...]:
    return result.elapsed_s, result.events, tuple(result.measured.items())


def _faster(one: float, other: float) -> float:
    """Return 1 where the first is faster, 0 where the second is, a half where they are equal."""
    return 0.5 if math.isclose(one, other, rel_tol=_SAME) else float(one < other)


# ---------------------------------------------------------------------- orders
@attrs.frozen
class Decider:
    """An uncertain entry that decides an order: what it is today, what its range does, and what measures it."""

    entry: str
    machine: str
    today: str
    """Its range, and what kind of source that has."""
    factor: float
    """By how much its range changes the quotient of the two times, as a factor of at least 1."""
    turns: bool
    """Whether an end of the range turns the order round by itself."""
    command: str
    """What measures it; empty where nothing of this project does."""

    def __str__(self) -> str:
        turned = ", and an end of its range turns the order round" if self.turns else ""
        how = f"; to measure it: {self.command}" if self.command else "; nothing here measures it"
        return f"{self.entry} of {self.machine}, {self.today}: a factor of {self.factor:.3g}{turned}{how}"


@attrs.frozen
class RankedVariant:
    """A variant among others at the same draws."""

    number: int
    """Its place among the variants as they are compared, the baseline first."""
    parameters: dict[str, Any]
    elapsed: Interval
    ratio: Interval
    """The baseline's time over this one's, draw by draw."""
    ahead: float
    """The share of the draws in which it is faster than the next one; ties count half. 1 for the last."""

    @property
    def is_told_apart(self) -> bool:
        """Tell whether it is sure that it is faster than the next one."""
        return self.ahead >= SURE


@attrs.frozen
class Ranking:
    """Variants, the fastest first, as they are in most draws."""

    draws: int
    seed: int
    entries: int
    """How many uncertain entries were drawn together."""
    failed: int
    """Draws that do not count, since a run ended there with an error."""
    ranked: list[RankedVariant]
    shares: list[list[float]]
    """The share of the draws in which the variant of the row is faster than that of the column, in the order of
    `ranked`; ties count half.
    """
    deciders: list[Decider] = attrs.field(factory=list)
    """What to measure next: the entries whose uncertainty decides between the two that are nearest to each other."""
    screened: str = ""
    """What was looked at to find them, and what was left out."""

    def are_told_apart(self, one: int, other: int) -> bool:
        """Tell whether it is sure which of two places of the ranking is faster."""
        return max(self.shares[one][other], self.shares[other][one]) >= SURE

    def nearest(self) -> tuple[int, int] | None:
        """Return the neighbours that are hardest to tell apart; None where every order holds in all draws."""
        unsure = [(variant.ahead, place) for place, variant in enumerate(self.ranked[:-1]) if variant.ahead < 1.0]
        return (min(unsure)[1], min(unsure)[1] + 1) if unsure else None


def order_of(
    nominal: Sequence[Result], named: Sequence[Mapping[str, Any]], base: int, drawn: DrawnRuns, of: Sequence[int]
) -> Ranking | None:
    """Rank variants by the draws. `of` are their numbers among the points of the sample, `base` is the baseline's.

    Returns None where nothing was drawn, or no draw changed anything.
    """
    if not drawn.rows or not drawn.matters:
        return None
    times = [[row[number].elapsed_s for row in drawn.rows] for number in of]
    share = [
        [statistics.fmean(map(_faster, one, other)) if one is not other else 0.5 for other in times] for one in times
    ]
    places = sorted(range(len(of)), key=lambda place: (-math.fsum(share[place]), nominal[place].elapsed_s, place))
    ranked = []
    for rank, place in enumerate(places):
        own, ratios = nominal[place].elapsed_s, [_over(b, v) for b, v in zip(times[base], times[place], strict=True)]
        ahead = share[place][places[rank + 1]] if rank + 1 < len(places) else 1.0
        ranked.append(
            RankedVariant(
                place,
                dict(named[place]),
                Interval.of(own, times[place], drawn.draws.seed),
                Interval.of(_over(nominal[base].elapsed_s, own), ratios, drawn.draws.seed),
                ahead,
            )
        )
    return Ranking(
        draws=len(drawn.rows),
        seed=drawn.draws.seed,
        entries=len(drawn.draws.entries),
        failed=drawn.failed,
        ranked=ranked,
        shares=[[share[one][other] for other in places] for one in places],
    )


def _over(base: float, own: float) -> float:
    return base / own if own else math.inf if base else 1.0


# ---------------------------------------------------------------------- screening
@attrs.frozen
class EntryEffect:
    """What both ends of an entry's range do to the times of some runs, all else as it stands."""

    entry: str
    low: tuple[float, ...]
    """The times of the runs at its low end."""
    high: tuple[float, ...]


@attrs.frozen
class Screening:
    """Which entries matter at all: groups at both ends first, then one at a time those of groups that do."""

    nominal: tuple[float, ...]
    effects: list[EntryEffect]
    """Of all entries that change a time."""
    idle: list[str]
    """Entries that change none, by themselves or with their group."""
    unknown: list[str]
    """Those for which there was no time."""

    def __str__(self) -> str:
        more = f", {len(self.unknown)} were not looked at within the budget" if self.unknown else ""
        return f"{len(self.effects)} entries matter, {len(self.idle)} do not{more}"


def screen(
    points: Sequence[Point],
    nominal: Sequence[Result],
    pool: Executor,
    *,
    likely: Mapping[str, float] | None = None,
    jobs: int = 1,
    budget_s: float = math.inf,
    advanced: Callable[[int, int], object] = lambda done, asked: None,
) -> Screening:
    """Find the entries that change the time of a point, within a budget of real time.

    A group is what a name has before its first dot. An entry of which both ends, and those of its group, leave every
    time as it is to the picosecond is left out. `likely` says which to look at first, by their draws.
    """
    clock, known = clock_of(jobs), likely or {}
    deadline = clock() + budget_s
    times = tuple(result.elapsed_s for result in nominal)
    keys = dict.fromkeys(key for point in points for key in uncertain(spec_of(point)) if _is_free(key, point.options))
    groups: dict[str, list[str]] = {}
    for key in sorted(keys, key=lambda key: -known.get(key, 0.0)):
        groups.setdefault(key.partition(".")[0], []).append(key)
    looked: dict[str, EntryEffect] = {}

    def look(asked: Mapping[str, Sequence[str]]) -> None:
        ends = [(name, end) for name in asked for end in ("low", "high")]
        variants = [_moved(point, asked[name], end) for name, end in ends for point in points]

        def enough(outcome: SweepOutcome) -> bool:
            advanced(len(outcome.finished) + len(outcome.failures), len(variants))
            return clock() >= deadline

        with redirect_stdout(io.StringIO()):
            results = sweep(variants, pool, jobs=jobs, enough=enough).results
        both = 2 * len(points)
        for number, name in enumerate(asked):
            found = [one.elapsed_s for one in results[number * both : (number + 1) * both] if one is not None]
            if len(found) == both:
                looked[name] = EntryEffect(name, tuple(found[: len(points)]), tuple(found[len(points) :]))

    first = sorted(known, key=lambda key: (-known[key], key))[:_FIRST]
    look({key: [key] for key in first if key in keys})
    look({f"{name}.": members for name, members in groups.items()})
    quiet = {name for name in groups if (of := looked.get(f"{name}.")) is not None and not _changes(of, times)}
    single = [key for name in groups if name not in quiet for key in groups[name] if key not in looked]
    look({key: [key] for key in sorted(single, key=lambda key: -known.get(key, 0.0))})
    effects = [looked[key] for key in keys if key in looked and _changes(looked[key], times)]
    changing = {effect.entry for effect in effects}
    idle = [key for key in keys if key not in changing and (key in looked or key.partition(".")[0] in quiet)]
    missing = [key for key in keys if key not in changing and key not in idle]
    return Screening(times, effects, idle, missing)


def _changes(effect: EntryEffect, times: Sequence[float]) -> bool:
    return any(one != own for end in (effect.low, effect.high) for one, own in zip(end, times, strict=True))


def _moved(point: Point, keys: Iterable[str], end: str) -> Point:
    there = uncertain(spec_of(point))
    plain = attrs.evolve(point.options, repeat=1, hash=None, record=False)
    ends = {key: end for key in keys if key in there and _is_free(key, plain)}
    return attrs.evolve(point, options=plain.with_ends(ends) if ends else plain)


_DECIDERS: Final = 2
_FIRST: Final = 4
"""Entries that are looked at before the groups: those with which the draws go most."""


def decided(
    order: Ranking,
    points: Sequence[Point],
    nominal: Sequence[Result],
    drawn: DrawnRuns,
    pair: Sequence[int],
    pool: Executor,
    *,
    jobs: int = 1,
    budget_s: float = math.inf,
    advanced: Callable[[int, int], object] = lambda done, asked: None,
) -> Ranking:
    """Name the two entries whose uncertainty decides between the nearest neighbours of a ranking.

    `pair` are the numbers of the two among the points, the one that ranks first before the other.
    """
    figures = [math.log(row[pair[1]].elapsed_s / row[pair[0]].elapsed_s) for row in drawn.rows]
    likely = {key: abs(value) for key, value in drawn.correlations(figures).items()}
    points, nominal = [points[number] for number in pair], [nominal[number] for number in pair]
    screening = screen(
        points, nominal, pool, likely=likely, jobs=jobs, budget_s=budget_s, advanced=advanced
    )  # fmt: skip
    own = screening.nominal[1] / screening.nominal[0]
    found = []
    for effect in screening.effects:
        low, high = effect.low[1] / effect.low[0], effect.high[1] / effect.high[0]
        factor = max(low, high, own) / min(low, high, own)
        turns = min(low, high) < 1.0 <= own or own <= 1.0 < max(low, high)
        found.append((factor, effect.entry, turns))
    found.sort(key=lambda one: (-one[0], one[1]))
    deciders = [decider(entry, points, factor, turns) for factor, entry, turns in found[:_DECIDERS] if factor > 1.0]
    return attrs.evolve(order, deciders=deciders, screened=str(screening))


def decider(entry: str, points: Sequence[Point], factor: float, turns: bool = False) -> Decider:
    """Say what an entry is today, and what measures it."""
    specs = [spec for spec in map(spec_of, points) if entry in uncertain(spec)]
    known = specs[0].entries[entry]
    machines = " and ".join(dict.fromkeys(spec.name for spec in specs))
    ways = [MEASUREMENTS.load(name) for name in MEASUREMENTS.names()]
    command = next((text for way in ways if (text := way(entry, specs[0].name))), "")
    return Decider(entry, machines, f"{_range(known)} ({known.source_type})", factor, turns, command)


def _range(entry: ProfileEntry) -> str:
    low, high = (attrs.evolve(entry, value=end).shown for end in (entry.low, entry.high) if end is not None)
    number, _, unit = low.partition(" ")
    return f"{number} to {high}" if high.endswith(f" {unit}") else f"{low} to {high}"
