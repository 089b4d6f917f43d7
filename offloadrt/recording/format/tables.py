"""The tables of a recording while they grow: lists and rows that are stored once however often they occur."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import numpy as np

from offloadrt.recording.format.recording import COLUMNS, Column

RECORD: Final = ("step", "subject", "detail", "cpu", "launch", "operations", "touches")
"""The fields of a record, in order."""
FIELDS: Final = len(RECORD)


@attrs.define(eq=False)
class ListTable:
    """Lists of rows of whole numbers; equal lists are one. ``add`` returns a list's number."""

    table: str
    row: str
    fields: tuple[str, ...]
    _numbers: dict[tuple[Any, ...], int] = attrs.field(factory=dict)

    def add(self, rows: Iterable[tuple[int, ...]]) -> int:
        return self._numbers.setdefault(tuple(rows), len(self._numbers))

    def lists(self) -> list[tuple[tuple[int, ...], ...]]:
        """Return all lists, in order of their numbers."""
        return list(self._numbers)

    def columns(self) -> dict[str, Column]:
        return list_columns(self.table, self.row, self.fields, self.lists())


def list_columns(
    table: str, row: str, fields: Sequence[str], lists: Sequence[Sequence[Sequence[int]]]
) -> dict[str, Column]:
    """Make the columns of lists of rows: where each list begins, and the rows one after the other."""
    first = np.zeros(len(lists) + 1, "u8")
    first[1:] = np.cumsum([len(rows) for rows in lists], dtype="u8")
    rows = [entry for entries in lists for entry in entries]
    return {f"{table}.first": first, **row_columns(row, fields, rows)}


def row_columns(table: str, fields: Sequence[str], rows: Sequence[Sequence[int]]) -> dict[str, Column]:
    """Make the columns of a table of rows."""
    names = [f"{table}.{field}" for field in fields]
    if not rows:
        return {name: np.zeros(0, COLUMNS[name]) for name in names}
    return {
        name: np.fromiter(values, COLUMNS[name], len(rows))
        for name, values in zip(names, zip(*rows, strict=True), strict=True)
    }


@attrs.define(eq=False)
class TaskRow:
    """A task while its records come in: seven numbers each, one record after the other."""

    index: int
    kind: int
    thread: int
    team: int = -1
    number: int = 0
    size: int = 1
    waiting: bool = False
    """Whether it waits at a barrier, or for tasks."""
    call: int = 0
    """The call of a routine that it does; 0: none."""
    records: array[int] = attrs.field(factory=lambda: array("q"))

    def add(self, step: int, subject: int, cpu: int, touches: int = -1, detail: int = -1) -> int:
        """Add a record; returns its place."""
        place = len(self.records)
        self.records.extend((step, subject, detail, cpu, -1, -1, touches))
        return place

    def put(self, place: int, field: str, value: int) -> None:
        """Change a field of a record."""
        self.records[place + RECORD.index(field)] = value


def task_columns(tasks: Sequence[TaskRow]) -> dict[str, Column]:
    """Make the columns of tasks and of their records, task by task."""
    counts = [len(task.records) // FIELDS for task in tasks]
    words = [np.zeros(0, "i8"), *(np.frombuffer(task.records, "i8") for task in tasks if len(task.records))]
    fields = np.concatenate(words).reshape(-1, FIELDS)
    first = np.zeros(len(tasks), "u8")
    first[1:] = np.cumsum(counts, dtype="u8")[:-1]
    rows = [(task.kind, task.thread, task.team, task.number, task.size) for task in tasks]
    return {
        **{f"record.{name}": fields[:, place].astype(COLUMNS[f"record.{name}"]) for place, name in enumerate(RECORD)},
        **row_columns("task", ("kind", "thread", "team", "number", "size"), rows),
        "task.first": first,
        "task.count": np.array(counts, "u8"),
    }


def narrowed(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return the columns in the narrowest types that hold them, as files have them."""
    return {name: _narrowest(column) for name, column in columns.items()}


def _narrowest(column: Column) -> Column:
    if not column.size:
        return column
    low, high = int(column.min()), int(column.max())
    kind = "i" if column.dtype.kind == "i" else "u"
    for width in (1, 2, 4):
        limits = np.iinfo(f"{kind}{width}")
        if limits.min <= low and high <= limits.max:
            return column.astype(f"<{kind}{width}")
    return column.astype(f"<{kind}8")
