"""A profiler's trace of a program: its API calls and the commands of its devices.

The readers of all profilers return this form. Times are whole nanoseconds of one clock. Calls and commands are compared
by identity, since two may have the same values. `Database` reads the SQLite files of profilers, whose tables and
columns differ by the profiler's version.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import attrs

Correlation = tuple[int, int]
"""A process, and a number in it that a call has in common with the commands that it submitted."""


@attrs.frozen(eq=False)
class TracedCall:
    """Describes a call of the driver's or the runtime's API that succeeded, as a profiler has recorded it.

    `start` and `end` are nanoseconds of the profiler's clock. `correlation` identifies the commands that it submitted;
    None if the file does not say. `process` and `thread` are the operating system's numbers.
    """

    name: str
    """The name without the version suffix that profilers append."""
    process: int
    thread: int
    start: int
    end: int
    correlation: Correlation | None = None
    nbytes: int | None = None
    """The bytes that it allocated or freed; None if the file does not say."""

    @property
    def seconds(self) -> float:
        return (self.end - self.start) * 1e-9


@attrs.frozen(eq=False)
class TracedCommand:
    """Describes a command that a device executed, as a profiler has recorded it: a kernel, a copy, or a memset.

    `name` is the kernel's name. `device` and `stream` are the numbers of the device and of the stream (in HIP: queue)
    on it. `start` and `end` are nanoseconds of the profiler's clock. `correlation` identifies the call that submitted
    the command; None if the file does not say. `nbytes` is the size of a copy or memset in bytes.
    """

    kind: str
    """`kernel`, `copy` or `set`."""
    name: str
    device: int
    stream: int
    start: int
    end: int
    correlation: Correlation | None = None
    nbytes: int = 0
    direction: str = ""
    """The direction of a copy between host and device, `h2d` or `d2h`; empty for anything else."""
    pinned: bool | None = None
    """Whether the host memory of a copy is pinned; None if the file does not say."""

    @property
    def seconds(self) -> float:
        return (self.end - self.start) * 1e-9


@attrs.frozen
class DeviceTrace:
    """All that one file of a profiler contains: `calls` that the host made, `commands` that devices executed."""

    path: str
    source: str
    """A description of the file with versions and the device's name, for a profile's `[sources]`."""
    calls: tuple[TracedCall, ...]
    commands: tuple[TracedCommand, ...]
    library: str
    """The library of the calls: `cuda` or `hip`."""
    facts: dict[str, float] = attrs.field(factory=dict)
    """By profile entry: facts about the device in SI units. They show whether the base is the same machine."""
    hints: tuple[str, ...] = ()
    """Sentences about data that the file lacks, and how to record them."""


class CalibrationError(ValueError):
    """Raised for a file that cannot be read, or contains nothing to calibrate from; says the file and the reason."""


class Database:
    """A SQLite file, opened for reading only; raises CalibrationError if it is no SQLite file or is damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
        # Texts such as names of users and files need not be UTF-8.
        self._connection.text_factory = lambda text: text.decode("utf-8", "replace")
        try:
            found = self._connection.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            ).fetchall()
        except sqlite3.Error as error:
            self.close()
            raise CalibrationError(f"{path}: cannot be read as SQLite: {error}") from None
        self.tables = frozenset(name for (name,) in found)

    def close(self) -> None:
        self._connection.close()

    def rows(self, table: str, *numbers: str, texts: tuple[str, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the columns `numbers`, then `texts`, of each row of a table; nothing if there is no such table.

        A column whose name ends in `?` is optional: its value is None if the table lacks it, or where it is NULL.
        """
        if table not in self.tables:
            return
        try:
            columns = {name for _, name, *_ in self._connection.execute(f'PRAGMA table_info("{table}")')}
            wanted = [name.rstrip("?") for name in (*numbers, *texts)]
            missing = [name for name in (*numbers, *texts) if not name.endswith("?") and name not in columns]
            if missing:
                raise CalibrationError(f"{self.path}: table {table} has no column {', '.join(missing)}")
            selected = ", ".join(f'"{name}"' if name in columns else "NULL" for name in wanted)
            for row in self._connection.execute(f'SELECT {selected} FROM "{table}"'):
                self._check(table, row, numbers)
                yield row
        except (sqlite3.Error, OverflowError) as error:
            raise CalibrationError(f"{self.path}: table {table} cannot be read: {error}") from None

    def _check(self, table: str, row: tuple[Any, ...], numbers: tuple[str, ...]) -> None:
        for name, value in zip(numbers, row, strict=False):
            if not (isinstance(value, int) or (value is None and name.endswith("?"))):
                raise CalibrationError(f"{self.path}: table {table}, column {name.rstrip('?')}: {value!r} is no number")
