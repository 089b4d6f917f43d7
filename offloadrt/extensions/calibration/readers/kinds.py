"""Which kind of file one is, by what is in it."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import Final, Protocol

from offloadrt.extensions.calibration.device_trace import CalibrationError, DeviceTrace
from offloadrt.extensions.calibration.readers import benchmarks
from offloadrt.extensions.calibration.readers.benchmarks import BenchmarkRun
from offloadrt.extensions.calibration.readers.database import Database
from offloadrt.registry import Registry, regular


class DatabaseReader(Protocol):
    """Reads the databases of one profiler, as an entry point of the group ``offloadrt.readers`` gives it: a module."""

    WHAT: str
    """What it reads, in words."""

    def knows(self, tables: Collection[str]) -> bool:
        """Tell whether a database with these tables is one that it reads."""

    def read(self, database: Database) -> DeviceTrace:
        """Read a database. Raises CalibrationError."""


READERS: Final = Registry[DatabaseReader]("reader of profilers' files", "offloadrt.readers", ("WHAT", "knows", "read"))
_SQLITE = b"SQLite format 3\0"
_POINTER = b"version https://git-lfs"


def read(path: Path) -> DeviceTrace | BenchmarkRun:
    """Read a file of a known kind.

    Raises CalibrationError.
    """
    try:
        with regular(path).open("rb") as file:
            head = file.read(len(_POINTER))
    except OSError as error:
        raise CalibrationError(f"{path}: cannot be read: {error.strerror or error}") from None
    if head == _POINTER:
        raise CalibrationError(f"{path}: is a pointer of git LFS; `git lfs pull` fetches the file")
    if not head.startswith(_SQLITE):
        return benchmarks.read(path)
    with closing(Database(path)) as database:
        readers = [READERS.find(name) for name in READERS.names()]
        for reader in readers:
            if reader.knows(database.tables):
                return reader.read(database)
        *others, last = [reader.WHAT for reader in readers]
        raise CalibrationError(f"{path}: is neither {', '.join(others)} nor {last}")
