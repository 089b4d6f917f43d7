"""The results of predicting measurements: each value beside its predictions, and how far they are off.

A value has up to three predictions: today's; the first one, which was made before it was compared with the measurement;
and one with a profile that leaves out what was measured on the machine. `KindAccuracy` sums up each of them, by kind
and by machine.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

import attrs
import msgspec
from rich.console import RenderableType
from rich.markup import escape

from offloadrt.cli.render import table_of
from offloadrt.extensions.calibration.machines import kind_of
from offloadrt.extensions.evidence.independent.left_out import left_out
from offloadrt.study.reporting.words import counted
from offloadrt.study.running import profiles

INPUT_KIND = "unit_cost"
"""The kind of entries with which profiles may be calibrated: their values are shown, but no accuracy counts them."""


@attrs.frozen
class PredictedValue:
    """A measured value with its predictions, all in `unit`.

    low, high: the interval in which 80 % of the predictions lie that were made with random samples of the uncertain
    costs. reported, emulated: the measured value and its prediction; None where there is none.
    """

    name: str
    unit: str
    reported: float | None
    emulated: float | None = None
    low: float | None = None
    high: float | None = None
    first: float | None = None
    """The prediction made before anyone had compared. None if the measured number was known from the start."""
    left_out: float | None = None
    """The prediction without what was measured on the machine; `emulated` again if its profile has no measurement."""
    reason: str = ""
    """Why the value is not predicted; empty if it is predicted."""
    difference_to: str = ""
    """If all numbers here are differences to another value: that value's name; else empty."""

    @property
    def ratio(self) -> float | None:
        """Return emulated / reported; None if one of them is missing or `reported` is 0."""
        if self.emulated is None or not self.reported:
            return None
        return self.emulated / self.reported

    @property
    def error(self) -> float | None:
        """Return |ln(emulated / reported)|, the relative error without its sign; None if one of them is missing.

        It is 0 for a right prediction and 0.69 for a factor of 2, and infinite if the signs differ or only one is 0.
        """
        return self.error_of(self.emulated)

    @property
    def left_out_error(self) -> float | None:
        """Return |ln(left_out / reported)|, the unsigned relative error without the machine's own measurements.

        None if one of the two is missing.
        """
        return self.error_of(self.left_out)

    def error_of(self, predicted: float | None) -> float | None:
        """Return |ln(predicted / reported)|, the relative error of a prediction in `unit`, never negative.

        It is infinite if the signs differ or only one of them is 0. Returns None if one of them is missing.
        """
        if predicted is None or self.reported is None:
            return None
        if predicted == self.reported:
            return 0.0
        ratio = predicted / self.reported if self.reported else 0.0
        return abs(math.log(ratio)) if ratio > 0.0 else math.inf


@attrs.frozen
class PredictedEntry:
    """One measured result of the file of measurements (an entry): its values with their predictions.

    `id` is the entry's name and `kind` the kind of measurement: accuracies are computed for each kind.
    """

    id: str
    kind: str
    runs: str
    """Scenario, machine and parameters of the runs, as text; empty if nothing is run."""
    values: Sequence[PredictedValue]
    cause: str = ""
    """Why some of its values are far off (`far_off`); empty if unknown."""
    weakness: str = ""
    """What the emulator gets wrong in this entry, in few words; empty if unknown."""
    machine: str = ""
    """The machine's profile with which it is predicted; empty if nothing is run."""
    missed: Mapping[str, str] = attrs.field(factory=dict)
    """By value: why its measurement lies outside the predicted interval; `*` stands for all values not named."""

    def why_missed(self, name: str) -> str:
        """Return why a value's measurement lies outside its interval; an empty text if that is unknown."""
        return self.missed.get(name, self.missed.get("*", ""))

    @property
    def far_off(self) -> list[str]:
        """Return the names of the values that are off by more than a factor of three."""
        return [value.name for value in self.values if value.error is not None and value.error > math.log(3.0)]


@attrs.frozen
class Accuracy:
    """Sums up the errors |ln(predicted / reported)| of some `values`: how many there are, and their `median`."""

    values: int
    median: float
    p90: float
    """The 90th percentile of the errors."""

    @classmethod
    def of(cls, errors: Sequence[float]) -> Accuracy:
        """Summarise one or more errors |ln(predicted / reported)|."""
        ordered = sorted(errors)
        return cls(len(errors), statistics.median(ordered), _quantile(ordered, 0.9))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the quantile of ascending numbers: the smallest one that a share (0 to 1) of them does not exceed."""
    return ordered[math.ceil(share * len(ordered)) - 1]


@attrs.frozen
class KindAccuracy:
    """Says how far off predictions of one kind, or for one machine, are: today's, the first, and the left-out ones.

    A first prediction was stored before anybody had compared it with the measurement. A left-out one uses nothing that
    was measured on the machine that it is for.
    """

    kind: str
    """A kind of measurements, a machine (`on NAME`), a weakness of the emulator (`in WORDS`), or `all`."""
    today: Accuracy
    first: Accuracy | None
    """Accuracy of the first predictions; None if the measured numbers were all known before any prediction was made."""
    left_out: Accuracy | None
    """Accuracy of the predictions without what was measured on the machine."""

    @classmethod
    def of(cls, kind: str, values: Sequence[PredictedValue]) -> KindAccuracy:
        """Compute the accuracies of the values of a kind; at least one has a prediction and a reported number."""
        today, first, left_out = (
            [error for value in values if (error := value.error_of(getattr(value, prediction))) is not None]
            for prediction in ("emulated", "first", "left_out")
        )
        rest = (Accuracy.of(errors) if errors else None for errors in (first, left_out))
        return cls(kind, Accuracy.of(today), *rest)


@attrs.frozen
class ModelError:
    """How far off the predictions of one kind of measurements are on all machines except one.

    These factors, of predicted over measured time or its inverse, are the error to expect on the machine that is left
    out. `kind` is the kind of measurements, `values` the number of included values, `median` the median of their
    factors.
    """

    kind: str
    without: str
    """The machine whose own values are not included."""
    values: int
    median: float
    most: float
    """The factor that four in five of the values do not exceed."""
    p90: float
    """The factor that nine in ten of the values do not exceed."""

    def __str__(self) -> str:
        return (
            f"{self.kind} on machines but {self.without}, each as if nobody had measured it: {self.values} values were "
            f"off by {self.median:.2g} in the median, by more than {self.most:.2g} in one of five, by more than "
            f"{self.p90:.2g} in one of ten"
        )


@attrs.frozen
class KindCoverage:
    """Counts how many measured values of one kind lie in the intervals of their predictions.

    An interval comes from random samples of the uncertain entries. `values` is the number of values that have an
    interval, and `covered` is the number of those that lie in it.
    """

    kind: str
    values: int
    covered: int
    near: float
    """The share (0 to 1) of the values that lie in their interval if its width is doubled on a logarithmic scale."""
    judged: int
    """How many of the values have a `ModelError`: it needs values of the same kind on other machines."""
    alone: int
    """How many of the `judged` values are off by no more than `ModelError.most`."""
    together: int
    """How many of the `judged` values lie in their interval widened by the factor `ModelError.most`."""

    @property
    def share(self) -> float:
        """Return the share (0 to 1) of the values that lie in their intervals."""
        return self.covered / self.values

    @classmethod
    def of(cls, kind: str, values: Sequence[tuple[PredictedValue, ModelError | None]]) -> KindCoverage:
        """Count the values of a kind.

        values: each with its interval and its kind's error on other machines (or None), at least one.
        """
        judged = [(value, error.most) for value, error in values if error is not None]
        return cls(
            kind, len(values), sum(lies_in(value) for value, _ in values),
            sum(lies_in(value, 0.5) for value, _ in values) / len(values),
            len(judged),
            sum((value.error or 0.0) <= math.log(most) + 1e-9 for value, most in judged),
            sum(lies_in(value, times=most) for value, most in judged),
        )  # fmt: skip


def lies_in(value: PredictedValue, more: float = 0.0, times: float = 1.0) -> bool:
    """Tell whether a value's reported number lies in its interval from `low` to `high`, after the interval is widened.

    more: each end is moved outwards by so many widths of the interval. times: each end is also moved by this factor.
    The scale is logarithmic if all numbers have the same sign.
    """
    assert value.low is not None and value.high is not None and value.reported is not None
    low, high, reported = value.low, value.high, value.reported
    if high < 0.0 and reported < 0.0:
        low, high, reported = -high, -low, -reported
    if low > 0.0 and reported > 0.0:
        low, high, reported = math.log(low / times), math.log(high * times), math.log(reported)
    wider = more * (high - low) + 1e-9 * abs(high)
    return low - wider <= reported <= high + wider


@attrs.frozen
class IndependentRecord:
    """The report that `validate --independent --json` prints, with the accuracy of each kind of measurement.

    runs: how many runs were made. digest: a hash of the values, runs and machines. draws: with how many random samples
    of the uncertain costs each run was repeated. not_drawn: by entry, why it was left out of these. accuracies: the
    errors of each kind. With draws, `coverages` says how many values of each kind lie in their intervals, and
    `model_errors` how far off each kind is, for each machine, on all other machines (leave-one-out).
    """

    file: str
    entries: Sequence[PredictedEntry]
    runs: int
    digest: str
    accuracies: list[KindAccuracy]
    draws: int
    coverages: list[KindCoverage]
    model_errors: list[ModelError]
    not_drawn: Mapping[str, str]


@attrs.frozen
class IndependentReport:
    """The predictions for all entries of a file of measurements, in the file's order.

    `draws` is the number of random samples of the uncertain costs with which each run was repeated.
    """

    file: str
    entries: Sequence[PredictedEntry]
    runs: int
    """How many runs were made."""
    digest: str = ""
    """A hash of the values, runs and machines (`digest_of`); with draws, only of the entries that were drawn."""
    draws: int = 0
    not_drawn: Mapping[str, str] = attrs.field(factory=dict)
    """By entry: why it was left out of the draws."""

    def counted(self) -> list[tuple[PredictedEntry, PredictedValue]]:
        """Return (entry, value) for each value that has both a prediction and a reported number.

        Unit costs (`INPUT_KIND`), which are inputs of the emulator, are left out.
        """
        return [
            (entry, value)
            for entry in self.entries
            if entry.kind != INPUT_KIND
            for value in entry.values
            if value.emulated is not None and value.reported is not None
        ]

    def model_errors(self) -> list[ModelError]:
        """Return the error to expect on each machine, from the errors of all other machines (leave-one-out).

        There is one for each machine and kind of measurement, but for kinds that only that machine has.
        """
        counted, found = self.counted(), []
        for kind, machine in sorted({(entry.kind, entry.machine) for entry, _ in counted}):
            of = [value for entry, value in counted if entry.kind == kind and entry.machine != machine]
            errors = sorted(error for value in of if (error := value.left_out_error) is not None)
            if errors:
                median, most, p90 = (math.exp(_quantile(errors, share)) for share in (0.5, 0.8, 0.9))
                found.append(ModelError(kind, machine, len(errors), median, most, p90))
        return found

    def coverages(self) -> list[KindCoverage]:
        """Return how many values lie in their intervals, for each kind and each machine, and for all as `all`."""
        errors = {(error.kind, error.without): error for error in self.model_errors()}
        found: dict[str, list[tuple[PredictedValue, ModelError | None]]] = {}
        for entry, value in self.counted():
            if value.low is not None:
                own = value, errors.get((entry.kind, entry.machine))
                for name in (entry.kind, f"on {entry.machine}", "all"):
                    found.setdefault(name, []).append(own)
        order = sorted(found, key=lambda name: (name == "all", name.startswith("on "), name))
        return [KindCoverage.of(name, found[name]) for name in order]

    def accuracies(self) -> list[KindAccuracy]:
        """Return the accuracy of the predictions by kind of measurement, by machine, by known weakness, and over all.

        A weakness is what the emulator is known to lack for some entries. The last name is `all`.
        """
        found: dict[str, list[PredictedValue]] = {}
        for entry in self.entries:
            counted = [value for value in entry.values if value.error is not None] if entry.kind != INPUT_KIND else []
            weakness = f"in {entry.weakness or 'what has no known weakness'}"
            for name in (entry.kind, f"on {entry.machine}", weakness, "all") if counted else ():
                found.setdefault(name, []).extend(counted)
        order = sorted(found, key=lambda name: (name == "all", name.startswith("in "), name.startswith("on "), name))
        return [KindAccuracy.of(name, found[name]) for name in order]

    def to_json(self) -> bytes:
        """Encode the report as one JSON object."""
        record = IndependentRecord(
            self.file, self.entries, self.runs, self.digest, self.accuracies(), self.draws, self.coverages(),
            self.model_errors(), self.not_drawn,
        )  # fmt: skip
        return msgspec.json.encode(record)


def predictions(report: IndependentReport) -> Iterable[RenderableType]:
    """Yield lines and tables of a report: each entry's values, what is not predicted, and each kind's accuracy."""
    yield f"[bold]{escape(report.file)}[/]: {counted(len(report.entries), 'entry')}, {counted(report.runs, 'run')}"
    yield "first: what was predicted before anybody had compared"
    yield f"digest of values, runs and machines: {report.digest}"
    for entry in report.entries:
        if any(value.emulated is not None for value in entry.values):
            yield from _table_of(entry)
    refused = [(entry, value) for entry in report.entries for value in entry.values if value.emulated is None]
    yield f"\n[bold]not predicted[/]: {counted(len(refused), 'value')}"
    for entry in report.entries:
        reasons: dict[str, list[str]] = {}
        for value in entry.values:
            if value.emulated is None:
                reasons.setdefault(value.reason, []).append(value.name)
        for reason, names in reasons.items():
            which = "" if len(names) == len(entry.values) else f" {', '.join(names)}"
            yield f"  {escape(entry.id + which)}: {escape(reason)}"
    yield from _accuracies(report.accuracies())


def intervals(report: IndependentReport) -> Iterable[RenderableType]:
    """Yield lines and tables of a report: each value's interval over random samples, and how many lie inside."""
    drawn = [entry for entry in report.entries if any(value.low is not None for value in entry.values)]
    entries, runs = counted(len(drawn), "entry"), counted(report.runs, "run")
    yield f"[bold]{escape(report.file)}[/]: {entries} with intervals, {runs}"
    yield f"from low to high: 80 % of {report.draws} draws in all uncertain entries of the machine"
    yield f"digest of values, runs and machines: {report.digest}"
    for entry in drawn:
        yield f"\n[bold]{escape(entry.id)}[/] ({entry.kind}): {escape(entry.runs)}"
        table = table_of("  ", "value", "unit", "reported", "emulated", "low", "high", "lies", "why")
        for value in entry.values:
            if value.low is not None and value.reported is not None:
                numbers = [value.reported, value.emulated, value.low, value.high]
                inside = lies_in(value)
                where = "in it" if inside else "above" if value.reported > (value.high or 0.0) else "below"
                why = "" if inside else entry.why_missed(value.name) or "not explained"
                name = f"{value.name} - {value.difference_to}" if value.difference_to else value.name
                shown = [f"{number:.4g}" for number in numbers if number is not None]
                table.add_row(escape(name), escape(value.unit), *shown, where, escape(why))
        yield table
    yield from _missed(report)
    rest = {entry.id: None for entry, value in report.counted() if value.low is None}
    if rest:
        yield f"\n[bold]without an interval[/]: their runs are too long for the budget: {escape(', '.join(rest))}"
    if report.not_drawn:
        yield f"\n[bold]not drawn[/]: {counted(len(report.not_drawn), 'entry')}"
        for id, reason in report.not_drawn.items():
            yield f"  {escape(id)}: {escape(reason)}"
    yield "\n[bold]what the mechanisms add[/], which is in no draw"
    for error in report.model_errors():
        yield f"  {escape(str(error))}"
    yield (
        "\n[bold]intervals[/]: reported values that lie in 80 % of the draws, and in an interval of twice that width\n"
        "judged: values of a kind that other machines have, too; as near: as four in five of those are; together: in\n"
        "the interval made wider by that factor"
    )
    table = table_of("", "kind", "values", "in it", "share", "in twice it", "judged", "as near", "together", "share")
    for one in report.coverages():
        share = f"{one.together / one.judged:.0%}" if one.judged else "–"
        table.add_row(
            one.kind, str(one.values), str(one.covered), f"{one.share:.0%}", f"{one.near:.0%}", str(one.judged),
            str(one.alone), str(one.together), share,
        )  # fmt: skip
    yield table


def _missed(report: IndependentReport) -> Iterable[str]:
    """Yield the causes of values outside their intervals, the most frequent first."""
    causes: dict[str, list[str]] = {}
    for entry, value in report.counted():
        if value.low is not None and not lies_in(value):
            causes.setdefault(entry.why_missed(value.name) or "not explained", []).append(entry.machine)
    if causes:
        yield f"\n[bold]outside, by cause[/]: {sum(map(len, causes.values()))} values"
    for cause, machines in sorted(causes.items(), key=lambda pair: -len(pair[1])):
        yield f"  {len(machines)} on {' and '.join(dict.fromkeys(machines))}: {escape(cause)}"


def replaced(machine: str) -> Iterable[RenderableType]:
    """Yield, for the console, the profile entries that stand in for those that were measured on a machine.

    They are used for predictions without these measurements. machine: its profile's name. Raises ProfileError.
    """
    spec, without = profiles.load(machine), left_out(machine)
    entries = counted(len(without.entries), "entry")
    yield f"[bold]{escape(machine)}[/] as if nobody had measured it: {entries} from other machines"
    table = table_of("  ", "entry", "measured", "left out", "because")
    for key, entry in without.entries.items():
        table.add_row(escape(key), escape(spec.entries[key].shown), escape(entry.shown), escape(kind_of(entry)))
    if without.entries:
        yield table
    if without.only_here:
        yield f"  nothing stands for {escape(', '.join(without.only_here))}: measured here alone, they stay"


def _accuracies(found: Sequence[KindAccuracy]) -> Iterable[RenderableType]:
    yield "\n[bold]accuracy[/]: |log ratio| as a factor, in the median and at the 90th percentile"
    yield "first: of values that were predicted before anybody compared; left out: as if nobody measured the machine"
    table = table_of("", "kind", "values", "today", "", "values", "first", "", "left out", "")
    for accuracy in found:
        today, first, left_out = accuracy.today, accuracy.first, accuracy.left_out
        table.add_row(
            accuracy.kind, str(today.values), *_factors(today),
            "–" if first is None else str(first.values), *_factors(first), *_factors(left_out),
        )  # fmt: skip
    yield table


def _table_of(entry: PredictedEntry) -> Iterable[RenderableType]:
    counted = "" if entry.kind != INPUT_KIND else ", not counted"
    yield f"\n[bold]{escape(entry.id)}[/] ({entry.kind}{counted}): {escape(entry.runs)}"
    table = table_of("  ", "value", "unit", "reported", "first", "left out", "emulated", "ratio", "off by")
    for value in entry.values:
        if value.emulated is not None:
            name = f"{value.name} - {value.difference_to}" if value.difference_to else value.name
            numbers = [value.reported, value.first, value.left_out, value.emulated, value.ratio]
            is_off = value.error is not None and value.error > _OFF
            why = (entry.weakness or "not explained") if is_off and entry.kind != INPUT_KIND else ""
            shown = ["–" if number is None else f"{number:.4g}" for number in numbers]
            table.add_row(escape(name), escape(value.unit), *shown, escape(why))
    yield table
    if entry.cause and entry.far_off:
        yield f"  off by more than 3: {escape(', '.join(entry.far_off))}\n  cause: {escape(entry.cause)}"


_OFF = math.log(1.5)
"""If a value's error exceeds this, its line in the table says what the emulator gets wrong."""


def _factors(accuracy: Accuracy | None) -> list[str]:
    errors = () if accuracy is None else (accuracy.median, accuracy.p90)
    return [f"{math.exp(error):.3g}" if math.isfinite(error) else "∞" for error in errors] or ["–", "–"]
