"""Predicts measured results and compares: reported, emulated, their ratio, and how the machine's ranges change it.

A run is made with every uncertain entry of the profile at the mean of its range and, for intervals, at draws in all
ranges (`extensions/certainty`). From `low` to `high` lie 80 % of the draws. How many reported values lie there shows
what the intervals are worth: if they are too wide, they say nothing; if too narrow, mechanisms are wrong, or unknown
costs have no range. If the machine's profile contains measurements of the machine, one more run replaces them by values
from its data sheet and other machines (`left_out.py`).

The measurements are a TOML file with `[[result]]` tables, each with an id, a machine, conditions and values.

Each entry says in `[result.run]` which run predicts it, or in `not_predicted` why none does. The run is chosen from the
entry's own description, before anything is emulated, and never by what fits.

    [[result]]
    id = "t4-stream-134217728-kernel-time"
    kind = "single_thread_workload"
    machine = "Tesla T4 16 GB GDDR6"
    what = "STREAM triad once over three managed arrays"
    conditions = "prefetch on, threshold 51"
    values = [{ name = "median", value = 380.17, unit = "ms" }]

    [result.run]
    scenario = "stream"
    machine = "t4"
    parameters = { elements = 134217728, threshold = 51 }
    figures = { median = "kernel_s" }        # or { figure = "kernel_s", parameters = { prefetch = false } }

A value may come without its number, so that a prediction can be asked for before the measurement is shown.

The unit of a value is one of those of machine profiles (`ms`, `GB/s`, `MiB`), a percentage, a share, or a word for
things that are counted (`batches`, `faults`). A quotient of two of them is a unit too (`us/block`).
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import attrs
import msgspec

from offloadrt.extensions.certainty.draws import SEED, spec_of
from offloadrt.extensions.evidence.independent.left_out import left_out
from offloadrt.extensions.evidence.independent.outcome import (
    INPUT_KIND,
    IndependentReport,
    PredictedEntry,
    PredictedValue,
)
from offloadrt.extensions.evidence.validation.judging import draws_of, may_matter
from offloadrt.machine.profile import units
from offloadrt.registry import regular
from offloadrt.study.errors import ParameterError, ScenarioNotFound, ScriptFailed, UserError, did_you_mean
from offloadrt.study.inputs import named_range
from offloadrt.study.reporting.results import Interval, Result
from offloadrt.study.running import profiles
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Keys, Point, SweepOutcome, sweep


class ReportedValue(msgspec.Struct, frozen=True):
    """One number of a measured result: what it is, its unit, and the number as reported."""

    name: str
    unit: str
    value: float | None = None
    """The measured number; None if the file withholds it."""


class EntryFigure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Says which figure (named result) of which run predicts a measured value.

    The run is that of the entry (the measured result), but it may be of another scenario or with other parameters, and
    the figure may be divided by that of a second run.
    """

    figure: str
    scenario: str | None = None
    """The scenario of the run; None: that of the entry. It is set if an entry's values come from several programs."""
    unit: str | None = None
    """The unit of the figure; None: `unit_of` reads it from the figure's name."""
    parameters: Mapping[str, Value] = msgspec.field(default_factory=dict)
    """The parameters that differ from those of the entry's run; if `scenario` is given, all parameters of the run."""
    over: Mapping[str, Value] | None = None
    """If given, the figure is divided by the figure of a second run, and these are that run's differing parameters."""
    difference_to: str | None = None
    """The name of another value, which is subtracted from both the reported and the emulated number."""


class EntryRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Describes the run that predicts the values of a measured result: a `scenario` with its `parameters` by name."""

    scenario: str
    machine: str
    """The name or the file of a machine's profile."""
    figures: Mapping[str, str | EntryFigure]
    """By value: the figure of the run that predicts it. Values without a figure are not predicted."""
    parameters: Mapping[str, Value] = msgspec.field(default_factory=dict)
    not_predicted: Mapping[str, str] = msgspec.field(default_factory=dict)
    """By value: why it has no figure."""


class MeasuredResult(msgspec.Struct, frozen=True):
    """One measured result: a `[[result]]` table of the file of measurements.

    `id` is its name, `machine` the machine on which it was measured, and `values` are the measured numbers. `what` says
    in words what was measured, `conditions` with which sizes and settings, `spread` how much repetitions differed, and
    `confidence` how far the number can be trusted. `source` and `url` are the publication; `note` is a remark. `run`
    describes the run that predicts it; None if nothing does.
    """

    id: str
    kind: str
    """The kind of measurement, by which accuracies are grouped: unit_cost, single_thread_workload, uvm_batch, ..."""
    machine: str
    values: tuple[ReportedValue, ...]
    what: str = ""
    conditions: str = ""
    spread: str = ""
    note: str = ""
    weakness: str = ""
    """If values of the entry are far off: the kind of behaviour that the emulator gets wrong, in few words."""
    cause: str = ""
    """If the emulator is off by more than a factor of three: why."""
    missed: Mapping[str, str] = msgspec.field(default_factory=dict)
    """By value: why its measurement lies outside the predicted interval; `*` stands for all values not named."""
    confidence: str = ""
    source: str = ""
    url: str = ""
    run: EntryRun | None = None
    first: Mapping[str, float] = msgspec.field(default_factory=dict)
    """By value: the prediction made before anyone had compared it with the measurement, in the value's unit."""
    not_predicted: str = ""
    """Why no run predicts the entry; empty if it has a run, or gives no reason."""
    not_drawn: str = ""
    """Why the entry has no intervals, for example because its runs take too long; empty if it has them."""


def read(file: Path) -> list[MeasuredResult]:
    """Read the measured results in a file. Raises UserError that names the file, the entry and the field."""
    try:
        return parse(regular(file).read_text(encoding="utf-8"), str(file))
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"{file}: is no TOML file (not UTF-8)") from None


def parse(text: str, file: str) -> list[MeasuredResult]:
    """Read the measured results in the text of a file. `file` is the file's name, for errors. Raises UserError."""
    try:
        tables = tomllib.loads(text).get("result")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UserError(f"{file}: {error}") from None
    if not isinstance(tables, list) or not tables:
        raise UserError(f"{file}: result: the file has no [[result]] tables")
    entries: dict[str, MeasuredResult] = {}
    for number, table in enumerate(tables, start=1):
        entry = _entry(table, number, file)
        if entry.id in entries:
            raise UserError(f"{file}: result {entry.id!r}: id: another entry has it as well")
        entries[entry.id] = entry
    return [*entries.values()]


def of_machine(entries: Sequence[MeasuredResult], machine: str) -> list[MeasuredResult]:
    """Return the entries whose runs are on a machine. Raises UserError if there are none."""
    found = [entry for entry in entries if entry.run is not None and entry.run.machine == machine]
    if not found:
        machines = sorted({entry.run.machine for entry in entries if entry.run is not None})
        raise UserError(f"--leave-out {machine}: nothing is measured there, but on {', '.join(machines)}")
    return found


def _entry(table: Any, number: int, file: str) -> MeasuredResult:
    id = table.get("id") if isinstance(table, dict) else None
    where = f"{file}: result {id!r}" if isinstance(id, str) else f"{file}: result number {number}"
    try:
        entry = msgspec.convert(table, MeasuredResult)
    except msgspec.ValidationError as error:
        said, _, path = str(error).partition(" - at `$")
        field = path.rstrip("`").lstrip(".") or _missing(said)
        raise UserError(f"{where}: {field}: {said}" if field else f"{where}: {said}") from None
    if not entry.values:
        raise UserError(f"{where}: values: there are none")
    names = [value.name for value in entry.values]
    for place, value in enumerate(entry.values):
        if names.index(value.name) < place:
            raise UserError(f"{where}: values[{place}].name: {value.name!r} is there twice")
        if value.value is not None and not math.isfinite(value.value):
            raise UserError(f"{where}: values[{place}].value: {value.value} is not finite")
    for field, named in (("first", entry.first), ("missed", entry.missed)):
        for name in named:
            if name not in names and (field, name) != ("missed", "*"):
                raise UserError(f"{where}: {field}.{name}: the entry has no value {name} ({', '.join(names)})")
    if entry.run is not None and entry.not_predicted:
        raise UserError(f"{where}: not_predicted: the entry has a run; run.not_predicted says it of single values")
    if entry.run is not None:
        _check_names(entry.run, names, f"{where}: run")
    return entry


def _check_names(run: EntryRun, names: Sequence[str], where: str) -> None:
    """Raise UserError, with the field, if a run names a value that its entry does not have."""
    named = [(f"figures.{name}", name) for name in run.figures]
    named += [(f"not_predicted.{name}", name) for name in run.not_predicted]
    for name, figure in run.figures.items():
        if isinstance(figure, EntryFigure) and figure.difference_to is not None:
            named.append((f"figures.{name}", figure.difference_to))
        if name in run.not_predicted:
            raise UserError(f"{where}.not_predicted.{name}: the run has a figure for it")
    for field, name in named:
        if name not in names:
            raise UserError(f"{where}.{field}: the entry has no value {name} ({', '.join(names)})")


def _missing(said: str) -> str:
    found = re.search(r"field `(\w+)`", said)
    return found[1] if found else ""


_FRACTIONS = {"%": 0.01, "percent": 0.01, "share": 1.0, "fraction": 1.0, "ratio": 1.0, "x": 1.0}
_WRITTEN = {"KB": "kB", "GFLOPS": "GFLOP/s", "TFLOPS": "TFLOP/s", "sec": "s", "seconds": "s", "bytes": "B", "byte": "B"}
_COUNT = re.compile(r"[A-Za-z_]\w*")


class UnitMismatch(ValueError):
    """Raised if a value and the figure that should predict it differ in dimension, or one has no known unit."""


@functools.cache
def factor(unit: str) -> tuple[float, str]:
    """Return the factor from a unit to SI units, and the unit's dimension.

    Raises UnitMismatch if the text is no unit.

    >>> factor("us/block")
    (1e-06, 'time / count')
    """
    text = _WRITTEN.get(unit.strip(), unit.strip())
    if text in _FRACTIONS:
        return _FRACTIONS[text], "fraction"
    try:
        known = units.unit(text)
        return known.factor, known.dimension
    except units.UnitError:
        pass
    above, slash, below = text.partition("/")
    if slash:
        (numerator, of), (denominator, by) = factor(above), factor(below)
        return numerator / denominator, f"{of} / {by}"
    if _COUNT.fullmatch(text):
        return 1.0, "count"
    raise UnitMismatch(f"{unit!r} is no unit")


def converted(number: float, unit: str, to: str) -> float:
    """Convert a number from `unit` to the unit `to`. Raises UnitMismatch if their dimensions differ."""
    (here, dimension), (there, wanted) = factor(unit), factor(to)
    if dimension != wanted:
        raise UnitMismatch(f"the value is in {to} and the figure in {unit}")
    return number * here / there


def unit_of(figure: str) -> str:
    """Return the unit that the name of a figure implies: seconds, bytes, a rate, a fraction, or a count.

    >>> unit_of("kernel_s"), unit_of("bytes_per_batch_median"), unit_of("batches"), unit_of("copy_bytes_per_s")
    ('s', 'B', 'batches', 'B/s')
    """
    if figure.endswith("_bytes_per_s"):
        return "B/s"
    if figure.endswith("flop_per_s"):
        return "FLOP/s"
    if figure.endswith("_s_per_byte"):
        return "s/B"
    if figure.endswith("_s") or "_s_" in figure:
        return "s"
    if re.search(r"(^|_)bytes(_|$)", figure):
        return "B"
    if figure.endswith("_share"):
        return "fraction"
    return figure


DRAWS = 8
"""The number of draws for intervals: as many as `offloadrt run` makes by default."""


@attrs.frozen
class PlannedValue:
    """Says how one measured value will be predicted: the run to make, and the figure of that run.

    value: the measured value. point: the run; None if none is made. figure: the name of the run's figure. reason: why
    the value is not predicted, or empty. A value that is not predicted may still have a run, if another value is
    compared with it.
    """

    value: ReportedValue
    reason: str = ""
    point: Point | None = None
    figure: str = ""
    unit: str = ""
    """The unit of the figure."""
    over: Point | None = None
    """The run whose figure divides that of `point`; None for no division."""
    difference_to: str = ""
    """The name of the entry's value that is subtracted from both numbers; empty for none."""

    @property
    def points(self) -> list[Point]:
        """Return the runs (points of a sweep) that the value needs: none, one or two."""
        return [point for point in (self.point, self.over) if point is not None]


@attrs.frozen
class EntryPlan:
    """A measured result of the file (an entry), with how each of its values will be predicted."""

    entry: MeasuredResult
    values: Sequence[PlannedValue]


NO_RUN = "it names no run: a table [result.run] has scenario, machine and figures"
"""Why an entry is not predicted that has neither a run nor a reason of its own."""


def plan(entry: MeasuredResult, file: str) -> EntryPlan:
    """Find the runs that predict the values of a measured result, or the reasons why no run predicts them.

    Raises UserError, with file, entry and field, for a run that cannot be made.
    """
    run = entry.run
    if run is None:
        reason = entry.not_predicted or NO_RUN
        return EntryPlan(entry, [PlannedValue(value, reason) for value in entry.values])
    where = f"{file}: result {entry.id!r}: run"
    scenario = _scenario(run.scenario, where)
    try:
        profiles.load(run.machine)
    except UserError as error:
        raise UserError(f"{where}.machine: {error}") from None
    _bound(scenario, run.parameters, f"{where}.parameters")
    planned = []
    for value in entry.values:
        wanted = run.figures.get(value.name)
        if wanted is None:
            reason = run.not_predicted.get(value.name, "its run names no figure for it")
            planned.append(PlannedValue(value, reason))
        else:
            figure = EntryFigure(wanted) if isinstance(wanted, str) else wanted
            planned.append(_planned(value, figure, run, scenario, f"{where}.figures.{value.name}"))
    return EntryPlan(entry, _without_loose_differences(planned))


def _planned(value: ReportedValue, wanted: EntryFigure, run: EntryRun, scenario: Scenario, where: str) -> PlannedValue:
    unit = wanted.unit or ("fraction" if wanted.over is not None else unit_of(wanted.figure))
    try:
        converted(1.0, unit, value.unit)
    except UnitMismatch as error:
        raise UserError(f"{where}: {wanted.figure}: {error}") from None
    own = {**run.parameters, **wanted.parameters}
    if wanted.scenario is not None:
        scenario, own = _scenario(wanted.scenario, where), dict(wanted.parameters)
    reference, options = registry.reference(scenario), RunSpec(machine=run.machine)
    over = None
    if wanted.over is not None:
        over = Point(reference, _bound(scenario, {**own, **wanted.over}, f"{where}.over"), options)
    return PlannedValue(
        value,
        point=Point(reference, _bound(scenario, own, f"{where}.parameters"), options),
        figure=wanted.figure,
        unit=unit,
        over=over,
        difference_to=wanted.difference_to or "",
    )


def _scenario(name: str, where: str) -> Scenario:
    """Find a scenario by name. Raises UserError that names the entry and field `where`."""
    try:
        return registry.find(name)
    except (ScenarioNotFound, ScriptFailed) as error:
        raise UserError(f"{where}.scenario: {error}") from None


def _bound(scenario: Scenario, parameters: Mapping[str, Value], where: str) -> dict[str, Value]:
    """Check parameters and fill in defaults. Raises UserError that names the entry and field `where`."""
    try:
        return scenario.bind(parameters)
    except ParameterError as error:
        raise UserError(f"{where}.{error.parameter}: {error.message}") from None


def _without_loose_differences(values: Sequence[PlannedValue]) -> list[PlannedValue]:
    """Return the plans, without predictions of differences to values that have no prediction themselves."""
    predicted = {planned.value.name for planned in values if planned.point is not None}
    checked = []
    for planned in values:
        to = planned.difference_to
        if to and to not in predicted:
            planned = PlannedValue(planned.value, f"it is compared by its difference to {to}, which is not predicted")
        elif to == planned.value.name:
            planned = attrs.evolve(planned, reason="the others of its entry are compared by their difference to it")
        checked.append(planned)
    return checked


def predict(
    entries: Sequence[MeasuredResult],
    file: str,
    pool: Executor,
    *,
    jobs: int = 1,
    draws: int = 0,
    budget_s: float = math.inf,
    keep: Path | None = None,
    advanced: Callable[[str, int, int], None] | None = None,
) -> IndependentReport:
    """Predict all entries of `file`, with the runs on `pool`; equal runs are made once.

    draws: each run is also made with so many random samples of the machine's uncertain costs, the shortest runs first,
    until `budget_s` seconds are over. Unit costs (entries of `INPUT_KIND`), and entries that say why they have no
    intervals, are then left out. keep: a file that keeps finished runs, so that a later call need not repeat them. If a
    run fails, its values are not predicted. jobs: how many runs are made at a time. advanced: called with a title, the
    runs done and those asked for. Raises UserError for an entry whose run cannot be made.
    """
    left = {entry.id: entry.not_drawn for entry in entries if entry.not_drawn and draws}
    counted = [entry for entry in entries if not draws or (entry.kind != INPUT_KIND and entry.id not in left)]
    plans = [plan(entry, file) for entry in counted]
    runs = _Runs(keep)
    wanted = [point for one in plans for value in one.values for point in value.points]
    for point in wanted:
        runs.want(point)
    runs.make(pool, jobs, advanced)
    if draws:
        runs.draw(wanted, draws, budget_s, pool, jobs, advanced)
    predicted = [_predicted(one, runs) for one in plans]
    if draws:
        pairs = zip(plans, predicted, strict=True)
        plans = [one for one, entry in pairs if any(value.low is not None for value in entry.values)]
    return IndependentReport(file, predicted, len(runs.made), digest_of(plans), draws, left)


def digest_of(plans: Sequence[EntryPlan]) -> str:
    """Return a hash (16 hexadecimal digits) of the planned values, their runs, and their machines' numbers.

    The emulator's code is not part of it: changes of its mechanisms show in the pinned outputs of the scenarios.
    """
    machines: dict[str, object] = {}
    values = []
    for planned in (value for one in plans for value in one.values):
        runs = [[point.scenario.rpartition(":")[2], dict(point.parameters)] for point in planned.points]
        values.append([msgspec.to_builtins(planned.value), planned.figure, planned.difference_to, runs])
        for machine in {str(point.options.machine) for point in planned.points} - machines.keys():
            entries = profiles.load(machine).entries
            machines[machine] = {
                key: [entry.value, entry.low, entry.high] for key, entry in entries.items() if may_matter(key)
            }
            machines[f"{machine} left out"] = _left_out_values(machine)
    return hashlib.sha256(json.dumps([values, machines], sort_keys=True).encode()).hexdigest()[:16]


class _NotPredicted(Exception):
    """A run that should predict a value failed, or does not have the figure."""


@attrs.define
class _Runs:
    """Collects the wanted runs, makes them and keeps their results.

    Each run has variants: the nominal one, one without what was measured on its machine, and those at the draws.
    """

    keep: Path | None = None
    wanted: dict[str, Point] = attrs.field(factory=dict)
    """The runs by their keys (`Point.key`)."""
    made: dict[str, Result | str] = attrs.field(factory=dict)
    """By key: the result of the run, or the error if it failed."""
    _keys: dict[int, list[str]] = attrs.field(factory=dict)
    """By `id()` of a point: the keys of its variants: nominal, without measurements, and then the draws."""
    _key_of: Keys = attrs.field(factory=Keys)

    def want(self, point: Point) -> None:
        """Ask for a run and for its variant without the machine's measurements; equal runs are made once."""
        variants = [point, _left_out(point)]
        self._keys[id(point)] = [self._key_of.of(variant) for variant in variants]
        self.wanted.update(zip(self._keys[id(point)], variants, strict=True))

    def make(self, pool: Executor, jobs: int, advanced: Callable[[str, int, int], None] | None) -> None:
        """Make all runs that were asked for."""
        self._make(self.wanted, "runs", pool, jobs, advanced)

    def draw(
        self,
        points: Iterable[Point],
        count: int,
        budget_s: float,
        pool: Executor,
        jobs: int,
        advanced: Callable[[str, int, int], None] | None,
    ) -> None:
        """Make `count` draws of each run, the runs with the fewest events first, until `budget_s` seconds are over.

        If not all draws of a run were made, none of them is used.
        """
        drawn = {}
        for point in points:
            if not isinstance(nominal := self.made[self._keys[id(point)][0]], str):
                inputs = {name: one for name in nominal.inputs if (one := named_range(name)) is not None}
                options = draws_of(spec_of(point), inputs, point.options, count)
                variants = {
                    self._key_of.of(variant): variant
                    for one in options
                    for variant in [attrs.evolve(point, options=one)]
                }
                drawn[id(point)] = nominal.events, variants
        ahead = {key: one for _, of in sorted(drawn.values(), key=lambda pair: pair[0]) for key, one in of.items()}
        self._make(ahead, "draws", pool, jobs, advanced, time.monotonic() + budget_s)
        for own, (_, variants) in drawn.items():
            if variants.keys() <= self.made.keys():
                self._keys[own] += variants

    def _make(
        self,
        ahead: Mapping[str, Point],
        stage: str,
        pool: Executor,
        jobs: int,
        advanced: Callable[[str, int, int], None] | None,
        deadline: float = math.inf,
    ) -> None:
        def tell(outcome: SweepOutcome) -> None:
            if advanced is not None:
                advanced(stage, len(outcome.finished) + len(outcome.failures), len(ahead))

        outcome = sweep(
            [*ahead.values()], pool, jobs=jobs, file=self.keep, advanced=tell,
            enough=lambda _: time.monotonic() >= deadline,
        )  # fmt: skip
        made = zip(ahead, outcome.results, strict=True)
        self.made |= {key: result for key, result in made if result is not None}
        self.made |= {self._key_of.of(failure.point): failure.message for failure in outcome.failures}

    def figures(self, planned: PlannedValue) -> list[float | None]:
        """Return a value's figure, or its quotient by the second run's: nominal, without measurements, at each draw.

        It is None for a variant whose run failed. Raises _NotPredicted if the nominal run failed.
        """
        own, *divisors = [self._figures_of(point, planned.figure) for point in planned.points]
        if not divisors:
            return own
        if not divisors[0][0]:
            raise _NotPredicted(f"{planned.figure} is 0 in the run that it is divided by")
        return [above / below if above is not None and below else None for above, below in _pairs(own, divisors[0])]

    def _figures_of(self, point: Point, figure: str) -> list[float | None]:
        figures: list[float | None] = []
        for key in self._keys[id(point)]:
            result = self.made[key]
            if isinstance(result, str):
                if not figures:
                    raise _NotPredicted(f"its run fails: {result}")
                figures.append(None)
                continue
            number = result.elapsed_s if figure == "elapsed_s" else result.measured.get(figure)
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise _NotPredicted(f"its run has no figure {figure} here{did_you_mean(figure, result.measured)}")
            figures.append(float(number))
        return figures


def _pairs(own: Sequence[float | None], other: Sequence[float | None]) -> list[tuple[float | None, float | None]]:
    """Pair the figures of two runs, variant by variant, up to the end of the shorter list."""
    return list(zip(own, other, strict=False))


def _left_out(point: Point) -> Point:
    """Return the run without what was measured on its machine; the same run if its profile has no measurements."""
    other = _left_out_values(str(point.options.machine))
    return attrs.evolve(point, options=attrs.evolve(point.options, overrides=other)) if other else point


@functools.cache
def _left_out_values(machine: str) -> dict[str, str]:
    """Return the values that replace a machine's measurements, as overrides for `RunSpec`."""
    found = {}
    for key, entry in left_out(machine).entries.items():
        assert isinstance(entry.value, float) and entry.unit is not None
        found[key] = f"{entry.value / entry.unit.factor!r} {entry.unit.text}"
    return found


def _predicted(one: EntryPlan, runs: _Runs) -> PredictedEntry:
    planned = {value.value.name: value for value in one.values}
    points = [value.point for value in one.values if value.point is not None]
    told = ""
    if points:
        programs = list(dict.fromkeys(point.scenario.rpartition(":")[2] for point in points))
        same = {
            key: value
            for key, value in points[0].parameters.items()
            if all(point.parameters.get(key) == value for point in points)
        }
        parameters = " ".join(f"{key}={value}" for key, value in same.items())
        told = f"{' and '.join(programs)} on {points[0].options.machine}: {parameters}"
    values = [
        attrs.evolve(_value(value, planned, runs), first=one.entry.first.get(value.value.name)) for value in one.values
    ]
    machine = str(points[0].options.machine) if points else ""
    entry = one.entry
    return PredictedEntry(entry.id, entry.kind, told, values, entry.cause, entry.weakness, machine, entry.missed)


def _value(planned: PlannedValue, others: Mapping[str, PlannedValue], runs: _Runs) -> PredictedValue:
    value, to = planned.value, planned.difference_to
    if planned.reason or planned.point is None:
        return PredictedValue(value.name, value.unit, value.value, reason=planned.reason)
    reported = value.value
    try:
        figures = runs.figures(planned)
        if to:
            figures = [
                None if own is None or other is None else own - other
                for own, other in _pairs(figures, runs.figures(others[to]))
            ]
            reference = others[to].value.value
            reported = None if reported is None or reference is None else reported - reference
    except _NotPredicted as error:
        return PredictedValue(value.name, value.unit, value.value, reason=str(error))
    numbers = [None if figure is None else converted(figure, planned.unit, value.unit) for figure in figures]
    nominal, without, drawn = numbers[0], numbers[1], [number for number in numbers[2:] if number is not None]
    predicted = PredictedValue(value.name, value.unit, reported, nominal, left_out=without, difference_to=to)
    if nominal is None or not drawn:
        return predicted
    interval = Interval.of(nominal, drawn, SEED)
    return attrs.evolve(predicted, low=interval.low, high=interval.high)
