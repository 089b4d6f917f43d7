"""What somebody measured: a TOML file with `[[result]]` tables, each with an id, a machine, conditions and values.

    [[result]]
    id = "t4-stream-134217728-kernel-time"
    kind = "single_thread_workload"
    machine = "Tesla T4 16 GB GDDR6"
    what = "STREAM triad once over three managed arrays"
    conditions = "prefetch on, threshold 51"
    values = [{ name = "median", value = 380.17, unit = "ms" }]

    [result.run]                             # may be left out: then the rules say which run predicts it
    scenario = "stream"
    machine = "t4"
    parameters = { elements = 134217728 }
    figures = { median = "kernel_s" }        # or { figure = "kernel_s", parameters = { prefetch = false } }

A value may come without its number, so that a prediction can be asked for before the measurement is shown.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

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
    """The run that an entry itself names."""

    scenario: str
    figures: Mapping[str, str | EntryFigure]
    """The figure that predicts a value, by the value's name; values that are not named are not predicted."""
    machine: str | None = None
    """A profile's name or file; None: the rules find it from the entry's machine."""
    parameters: Mapping[str, Value] = msgspec.field(default_factory=dict)


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


def read(file: Path) -> list[MeasuredResult]:
    """Read the entries of a file. Raises UserError that names the file, the entry and the field."""
    try:
        return parse(file.read_text(encoding="utf-8"), str(file))
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
    for name, figure in entry.run.figures.items() if entry.run is not None else ():
        known = [name, *([figure.difference_to] if isinstance(figure, EntryFigure) and figure.difference_to else [])]
        if unknown := [one for one in known if one not in names]:
            said = f"the entry has no value {unknown[0]} ({', '.join(names)})"
            raise UserError(f"{where}: run.figures.{name}: {said}")
    return entry


def _missing(said: str) -> str:
    found = re.search(r"field `(\w+)`", said)
    return found[1] if found else ""
