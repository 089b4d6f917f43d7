"""What somebody measured: a TOML file with `[[result]]` tables, each with an id, a machine, conditions and values.

Each entry says in `[result.run]` which run predicts it, or in `not_predicted` why none does. The run is read from the
entry's own words, before anything is emulated, and never chosen by what fits.

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
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from offloadrt.machine.profile import units
from offloadrt.registry import regular
from offloadrt.study.errors import UserError
from offloadrt.study.scripts.parameters import Value


class ReportedValue(msgspec.Struct, frozen=True):
    """One number of an entry."""

    name: str
    unit: str
    value: float | None = None
    """None where the number is not shown."""


class EntryFigure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The figure of a run that predicts a value, where its name alone does not say it."""

    figure: str
    unit: str | None = None
    """The unit of the figure; None: the figure's name says it."""
    parameters: Mapping[str, Value] = msgspec.field(default_factory=dict)
    """Those in which the run is another one than that of the entry."""
    over: Mapping[str, Value] | None = None
    """Parameters of a run by whose figure that of this run is divided."""
    difference_to: str | None = None
    """The name of another value: both are compared as differences to it."""


class EntryRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The run that predicts an entry."""

    scenario: str
    machine: str
    """A profile's name or file."""
    figures: Mapping[str, str | EntryFigure]
    """The figure that predicts a value, by the value's name; values that are not named are not predicted."""
    parameters: Mapping[str, Value] = msgspec.field(default_factory=dict)
    not_predicted: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Why a value has no figure, by the value's name."""


class MeasuredResult(msgspec.Struct, frozen=True):
    """One entry of the file."""

    id: str
    kind: str
    """What the accuracy is told apart by: unit_cost, single_thread_workload, uvm_batch, and so on."""
    machine: str
    values: tuple[ReportedValue, ...]
    what: str = ""
    conditions: str = ""
    spread: str = ""
    note: str = ""
    cause: str = ""
    """Why the emulator is off by more than a factor of three, where it is."""
    confidence: str = ""
    source: str = ""
    url: str = ""
    run: EntryRun | None = None
    not_predicted: str = ""
    """Why no run predicts it; empty where it has a run, or says nothing of one."""


def read(file: Path) -> list[MeasuredResult]:
    """Read the entries of a file. Raises UserError that names the file, the entry and the field."""
    try:
        return parse(regular(file).read_text(encoding="utf-8"), str(file))
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UserError(f"{file}: is no TOML file (not UTF-8)") from None


def parse(text: str, file: str) -> list[MeasuredResult]:
    """Read entries from the text of a file, by whose name errors call it. Raises UserError."""
    try:
        tables = tomllib.loads(text).get("result")
    except tomllib.TOMLDecodeError as error:
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
    if entry.run is not None and entry.not_predicted:
        raise UserError(f"{where}: not_predicted: the entry has a run; run.not_predicted says it of single values")
    if entry.run is not None:
        _check_names(entry.run, names, f"{where}: run")
    return entry


def _check_names(run: EntryRun, names: Sequence[str], where: str) -> None:
    """Raise UserError, with the field, where a run names a value that its entry does not have."""
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
    """A value and the figure that should predict it are not of one dimension."""


@functools.cache
def factor(unit: str) -> tuple[float, str]:
    """Return what a number in this unit is multiplied by to be in SI, and the unit's dimension.

    Raises UnitMismatch for what is no unit.

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
    """Convert a figure in `unit` to the unit of a value. Raises UnitMismatch when it cannot be."""
    (here, dimension), (there, wanted) = factor(unit), factor(to)
    if dimension != wanted:
        raise UnitMismatch(f"the value is in {to} and the figure in {unit}")
    return number * here / there


def unit_of(figure: str) -> str:
    """Return the unit that a figure's name says: seconds, bytes, a fraction, or a count.

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
