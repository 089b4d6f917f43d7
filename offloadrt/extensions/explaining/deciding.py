"""Which uncertain entries matter: those that need not be drawn, and the two that decide a ranking.

A draw of one entry costs as many runs as a draw of all. To move every entry by itself to both ends of its range costs
more runs than 64 draws: a machine has some 150 entries, of which about 25 change a run. So before the draws,
`idle_entries` moves all entries together that according to `charged_in.py` are charged for nothing that the run did;
this takes two runs. If they change the run, they are divided into halves. All other entries are drawn. After the draws,
`screen` moves the likely entries one by one, the others by groups, and then the members of groups that change a run.
"""

from __future__ import annotations

import io
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import redirect_stdout
from fnmatch import fnmatchcase
from typing import Final

import attrs

from offloadrt.extensions.certainty.draws import NOTED, DrawnRuns, facts, is_free, spec_of, uncertain
from offloadrt.extensions.explaining.charged_in import charged_in
from offloadrt.extensions.explaining.what_if import NO_COSTS
from offloadrt.machine import ProfileEntry
from offloadrt.registry import Registry
from offloadrt.study.certainty import Decider, Ranking, clock_of, over
from offloadrt.study.reporting.results import Result
from offloadrt.study.reporting.words import percent, word
from offloadrt.study.sweep import Point, SweepOutcome, sweep

MEASUREMENTS: Final = Registry[Callable[[str, str], str]]("way to measure", "offloadrt.measurements")
"""Functions of (entry, machine), by name. Each returns the command that measures the entry there, or an empty text."""

Told = Callable[[int, int], object]
"""Called as work advances, with the runs done and the runs asked for."""


def _nothing(done: int, asked: int) -> None:
    pass


@attrs.frozen
class EntryEffect:
    """The times of some runs with an uncertain profile entry at the low and at the high end of its range.

    Everything else is as in the unchanged runs. Several entries may have been moved together; `entry` then names the
    group.
    """

    entry: str
    low: tuple[float, ...]
    """Elapsed seconds of each run with the entry at the low end of its range."""
    high: tuple[float, ...]
    """Elapsed seconds of each run with the entry at the high end of its range."""
    changes: bool
    """Whether any of these runs differs, in time, events or figures, from the run with the nominal value."""


@attrs.define
class MovedRuns:
    """Repeats some runs with uncertain profile entries moved to the low and the high end of their ranges.

    points, nominal: the runs and their results without a change. deadline: when to stop, in seconds of the clock that
    `clock_of(jobs)` returns (CPU time for one job, else real time). most: how many more runs may be made; None for any
    number. pool, jobs: the executor that makes the runs, and how many it makes at a time. advanced: called with the
    runs done and asked for.
    """

    points: Sequence[Point]
    nominal: Sequence[Result]
    pool: Executor
    jobs: int
    deadline: float
    advanced: Told = _nothing
    most: int | None = None

    def entries(self) -> list[str]:
        """Return the names of the uncertain entries (costs and rates) that the runs' options do not fix, each once."""
        return [
            *dict.fromkeys(
                key for point in self.points for key in uncertain(spec_of(point)) if is_free(key, point.options)
            )
        ]

    def look(self, asked: Mapping[str, Sequence[str]]) -> dict[str, EntryEffect]:
        """Move each set of uncertain entries to the low, then the high end of their ranges; return each set's effect.

        An entry is a cost or rate of the machine; those of a set are moved together. asked: the entries of each set, by
        a name for the set. Returns the effects by the same names. A set is left out if there was no time for it, or if
        its runs would exceed `most`.
        """
        if self.most is not None:
            asked = dict(itertools.islice(asked.items(), self.most // (2 * len(self.points))))
            self.most -= 2 * len(self.points) * len(asked)
        places = [
            (name, end, number) for name in asked for end in ("low", "high") for number in range(len(self.points))
        ]
        moved = {place: _moved(self.points[place[2]], asked[place[0]], place[1]) for place in places}
        variants = {place: point for place, point in moved.items() if point is not None}
        clock = clock_of(self.jobs)

        def enough(outcome: SweepOutcome) -> bool:
            self.advanced(len(outcome.finished) + len(outcome.failures), len(variants))
            return clock() >= self.deadline

        with redirect_stdout(io.StringIO()):
            made = sweep([*variants.values()], self.pool, jobs=self.jobs, enough=enough).results
        results: dict[tuple[str, str, int], Result | None] = dict(zip(variants, made, strict=True))
        count, looked = len(self.points), {}
        for name in asked:
            whole = [results.get(place, self.nominal[place[2]]) for place in places if place[0] == name]
            found = [one for one in whole if one is not None]
            if len(found) == 2 * count:
                changes = any(facts(one) != facts(own) for one, own in zip(found, [*self.nominal] * 2, strict=True))
                times = [one.elapsed_s for one in found]
                looked[name] = EntryEffect(name, tuple(times[:count]), tuple(times[count:]), changes)
        return looked


def _moved(point: Point, keys: Iterable[str], end: str) -> Point | None:
    """Return the run with some entries at the end "low" or "high" of their ranges; None if it has none of them."""
    there = uncertain(spec_of(point))
    plain = attrs.evolve(point.options, repeat=1, hash=None, record=False)
    ends = {key: end for key in keys if key in there and is_free(key, plain)}
    return attrs.evolve(point, options=plain.with_ends(ends)) if ends else None


# ---------------------------------------------------------------------- before the draws
def idle_entries(
    points: Sequence[Point], nominal: Sequence[Result], pool: Executor, *, jobs: int = 1, budget_s: float = math.inf
) -> frozenset[str]:
    """Return the uncertain entries (costs and rates of a machine) that change no run at either end of their ranges.

    points, nominal: the runs and their results with each range at its mean. budget_s: real time in seconds; entries
    that were not tried in time are not returned. pool, jobs: the executor that makes the runs, and how many it makes at
    a time.

    First, all entries that are charged for nothing that the runs did are moved together. If moving a set of entries
    changes a run, each half of the set is tried.
    """
    ends = MovedRuns(points, nominal, pool, jobs, clock_of(jobs)() + budget_s)
    places = [_places(result) for result in nominal]
    sets = [[key for key in ends.entries() if not any(_is_charged(key, place) for place in places)]]
    idle: set[str] = set()
    while sets := [one for one in sets if one]:
        looked = ends.look({keys[0]: keys for keys in sets})
        idle.update(key for keys in sets if (of := looked.get(keys[0])) and not of.changes for key in keys)
        sets = [
            half
            for keys in sets
            if keys[0] in looked and looked[keys[0]].changes and len(keys) > 1
            for half in (keys[: len(keys) // 2], keys[len(keys) // 2 :])
        ]
    return frozenset(idle)


_ALWAYS = ("program", "runtime", "driver", "launch", "kernel")
"""Places of the critical path that every program has, or may have without a trace in its result."""
_WITH: Final = {"memory_async_copy": "cuMemcpy", "signal_wait_scacquire": "queue_submit"}
"""Calls that results list under a call of ROCr's instead: the host's part of a copy, and a dispatch."""


def _places(result: Result) -> frozenset[str]:
    """Return what a run did, as places in the words of `charged_in.py`."""
    calls = [f"driver: {name}" for call in result.all_calls() for name in (call, _WITH.get(call, call))]
    parts = [name for name, use in result.devices.items() if use.busy_s or use.wait_s]
    waits = [f"behind {name}" for name in (*result.locks, *parts)]
    faults = ["page faults", "page faults of the host"] if result.managed or any(result.faults.values()) else []
    return frozenset((*_ALWAYS, *calls, *parts, *waits, *faults))


def _is_charged(key: str, places: Iterable[str]) -> bool:
    """Tell whether an entry is charged in one of the places; True if it is not declared where it is charged."""
    where = charged_in(key)
    return where is None or any(fnmatchcase(place, pattern) for pattern in where for place in places)


# ---------------------------------------------------------------------- after the draws
@attrs.frozen
class Screening:
    """Says which uncertain profile entries change a run when they are moved to the ends of their ranges, and how.

    `nominal` has the elapsed seconds of the unchanged runs.
    """

    nominal: tuple[float, ...]
    effects: list[EntryEffect]
    """One for each entry that changes a run."""
    idle: list[str]
    """Entries that change no run, moved by themselves or together with their group."""
    unknown: list[str]
    """Entries for which there was no time."""

    def __str__(self) -> str:
        more = f", {len(self.unknown)} were not looked at: --budget gives more time" if self.unknown else ""
        matters = "1 entry matters" if len(self.effects) == 1 else f"{len(self.effects)} entries matter"
        return f"{matters}, {len(self.idle)} {'does' if len(self.idle) == 1 else 'do'} not{more}"


_FIRST = 4
"""So many of the most likely entries are moved one by one, before the groups."""


def screen(
    points: Sequence[Point],
    nominal: Sequence[Result],
    pool: Executor,
    *,
    likely: Mapping[str, float] | None = None,
    idle: frozenset[str] = frozenset(),
    jobs: int = 1,
    budget_s: float = math.inf,
    most: int | None = None,
    advanced: Told = _nothing,
) -> Screening:
    """Find the uncertain entries (costs and rates of a machine) that change a run at an end of their ranges.

    nominal: the results of the runs (`points`) with every entry at the mean of its range. likely: a number for each
    entry, such as its correlation with the time over random samples; entries with the largest numbers are tried first.
    idle: entries that are known to change nothing. budget_s: real time in seconds. most: how many runs may be made.
    advanced: called with the runs done and asked for. pool, jobs: the executor that makes the runs, and how many it
    makes at a time.

    Entries are grouped by the part of their names before the first dot. If neither end changes a run when a whole group
    is moved, its members are not moved one by one.
    """
    known = likely or {}
    ends = MovedRuns(points, nominal, pool, jobs, clock_of(jobs)() + budget_s, advanced, most)
    every = ends.entries()
    keys = [key for key in every if key not in idle]
    groups: dict[str, list[str]] = {}
    for key in sorted(keys, key=lambda key: -known.get(key, 0.0)):
        groups.setdefault(key.partition(".")[0], []).append(key)
    first = sorted(known, key=lambda key: (-known[key], key))[:_FIRST]
    looked = ends.look({key: [key] for key in first if key in keys})
    looked |= ends.look({f"{name}.": members for name, members in groups.items()})
    quiet = {name for name in groups if (of := looked.get(f"{name}.")) is not None and not of.changes}
    single = [key for name in groups if name not in quiet for key in groups[name] if key not in looked]
    looked |= ends.look({key: [key] for key in sorted(single, key=lambda key: -known.get(key, 0.0))})
    effects = [looked[key] for key in keys if key in looked and looked[key].changes]
    changing = {effect.entry for effect in effects}
    quiet_keys = [
        key
        for key in every
        if key in idle or (key not in changing and (key in looked or key.partition(".")[0] in quiet))
    ]
    missing = [key for key in keys if key not in changing and key not in quiet_keys]
    return Screening(tuple(result.elapsed_s for result in nominal), effects, quiet_keys, missing)


def correlations(places: Sequence[Mapping[str, str | float]], figures: Sequence[float]) -> dict[str, float]:
    """Return for each uncertain cost or rate the correlation of its position in its range with a figure of the runs.

    The correlation is 0 if the positions or the figures are all equal. places: for each draw (random sample), the
    position of every entry. figures: the figure in each draw.
    """
    found = dict.fromkeys(places[0], 0.0) if places else {}
    if len(set(figures)) > 1:
        for entry in found:
            of_entry = [float(place[entry]) for place in places]
            if len(set(of_entry)) > 1:
                found[entry] = statistics.correlation(of_entry, figures)
    return found


_DECIDERS = 2
_SEARCH: Final = 4
"""Without a budget, the search for what decides makes at most so many times the runs that the draws took."""


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
    advanced: Told = _nothing,
) -> Ranking:
    """Add to a ranking the two uncertain entries that matter most for which of two neighbours in it is faster.

    order: the ranking. drawn: the runs with random samples of the uncertain values. pair: the indices of the two
    neighbours among the points, the better one first. budget_s: real time for the runs, in seconds; if infinite, their
    number is limited instead. points, nominal: all runs, and their results with each range at its mean. pool, jobs: the
    executor that makes the runs, and how many it makes at a time. advanced: called with the runs done and asked for.
    """
    figures = [math.log(after / before) for before, after in drawn.pairs(*pair)]
    points, nominal = [points[number] for number in pair], [nominal[number] for number in pair]
    likely: dict[str, float] = {}
    for point in points:
        places = [
            drawn.draws.at(number, spec_of(point), point.options).ends for number in drawn.numbers[: len(figures)]
        ]
        for key, value in correlations(places, figures).items():
            likely[key] = max(likely.get(key, 0.0), abs(value))
    screening = screen(
        points, nominal, pool, likely=likely, idle=drawn.draws.idle, jobs=jobs, budget_s=budget_s,
        most=_SEARCH * len(figures) * len(pair) if budget_s == math.inf else None, advanced=advanced,
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
    effects = [*order.order_effects, *slower_for_less(points, screening)]
    return attrs.evolve(order, deciders=deciders, screened=str(screening), order_effects=effects)


def turned(points: Sequence[Point], nominal: Sequence[Result], drawn: DrawnRuns) -> list[str]:
    """Return sentences on steps from one swept value to the next that are faster in some draws and slower in others.

    A draw is a run with a random sample of the uncertain costs. The step that is reversed most often comes first.
    points: the sweep's runs. nominal: their results with every uncertain cost at its mean. drawn: runs with samples.
    """
    places = [point.axis_values for point in points]
    numbers = {tuple(place.values()): number for number, place in enumerate(places)}
    axes = {name: [*dict.fromkeys(place[name] for place in places)] for name in (places[0] if drawn.matters else ())}
    found = []
    for (number, place), (name, values) in itertools.product(enumerate(places), axes.items()):
        after = dict(itertools.pairwise(values)).get(place[name])
        other = None if after is None else numbers.get((*{**place, name: after}.values(),))
        gain = 1.0 if other is None else over(nominal[number].elapsed_s, nominal[other].elapsed_s)
        if other is None or abs(gain - 1.0) < NOTED:
            continue
        gains = [over(*pair) for pair in drawn.pairs(number, other)]
        against = sum(one < 1.0 - NOTED if gain > 1.0 else one > 1.0 + NOTED for one in gains)
        if against:
            where = " ".join(f"{axis}={word(place[axis])}" for axis in axes if axis != name and len(axes[axis]) > 1)
            told = f"{name}={word(place[name])} to {word(after)}" + (f" with {where}" if where else "")
            ways = ("faster", "slower") if gain > 1.0 else ("slower", "faster")
            text = f"{told}: {ways[0]} as it stands ({gain:.3g}), {ways[1]} in {against} of {len(gains)} draws"
            found.append((-against / len(gains), text))
    return [text for _, text in sorted(found, key=lambda one: one[0])]


_NO_PRICES = (*NO_COSTS, "process.time_slice", "stream.time_slice", "runlist.quantum")


def slower_for_less(points: Sequence[Point], screening: Screening) -> list[str]:
    """Return a sentence for each entry whose cheaper value makes a run slower, the largest loss first.

    This happens where a part that takes less time lets another thread or part of the machine go first, in a worse
    order. points: the runs. screening: what `screen` has found about their uncertain entries.
    """
    found = []
    for effect in screening.effects:
        for number, point in enumerate(points):
            entry = uncertain(spec_of(point)).get(effect.entry)
            if entry is None or entry.unit is None or effect.entry.startswith(_NO_PRICES):
                continue
            if not entry.unit.is_rate and entry.unit.dimension != "time":
                continue
            end, time_s = ("high", effect.high) if entry.unit.is_rate else ("low", effect.low)
            more = time_s[number] / screening.nominal[number] - 1.0
            if more > NOTED:
                what = _named(point, points) or "the run"
                told = f"{effect.entry} at the {end} end of its range makes {what} {percent(more)} slower"
                found.append((-more, f"{told}, although nothing takes longer by itself"))
    return [text for _, text in sorted(found)]


def _named(point: Point, points: Sequence[Point]) -> str:
    """Return the axis values by which a run differs from the others, as "threads=8 memory=map"."""
    own = point.axis_values
    return " ".join(
        f"{name}={value}" for name, value in own.items() if any(one.axis_values[name] != value for one in points)
    )


def decider(entry: str, points: Sequence[Point], factor: float, turns: bool = False) -> Decider:
    """Describe an uncertain entry that decides how long a run takes: its range and source, and how to measure it.

    factor: by how much the time, or the ratio of two times, changes over the entry's range. turns: whether the entry
    reverses the order of two variants. points: the runs, whose machines have the entry.
    """
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
