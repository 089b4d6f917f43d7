"""Recognizes the kind of a file by its content, and reads the project's own micro-benchmarks (`bench/hardware/`).

These are JSON lines. A line names the operation and its variant, the size in bytes (or another number that the variant
names), the number of host threads that took part, and the number of samples with their quantiles in seconds.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import Final, Protocol

import attrs
import msgspec

from offloadrt.extensions.calibration.device_trace import CalibrationError, Database, DeviceTrace
from offloadrt.registry import Registry, regular


class BenchmarkRow(msgspec.Struct, frozen=True):
    """A line of a benchmark's file with measured times, in seconds.

    `what` is the measured operation and `variant` a variant of it, as the benchmark program calls them. `size` is the
    operation's size, mostly in bytes. `threads` is the number of threads that made it at the same time, `n` the number
    of measurements. `p10_s`, `median_s` and `p90_s` are the tenth percentile, the median and the ninetieth percentile.
    """

    what: str
    variant: str
    size: float
    threads: int
    n: int
    p10_s: float
    median_s: float
    p90_s: float

    def __post_init__(self) -> None:
        if not 0 <= self.p10_s <= self.median_s <= self.p90_s < float("inf"):
            raise ValueError("p10_s, median_s and p90_s must be finite, not negative and ascending")
        if min(self.n, self.threads) < 1 or self.size < 0:
            raise ValueError("n and threads must be positive, and size not negative")


class _Machine(msgspec.Struct, frozen=True):
    """The first line of a benchmark's file: the device. memory: in bytes."""

    name: str
    sms: int
    memory: int


class _What(msgspec.Struct, frozen=True):
    what: str


@attrs.frozen
class BenchmarkRun:
    """The contents of one file of benchmarks. `source` describes the file and its machine; `rows` are its lines."""

    path: str
    source: str
    rows: tuple[BenchmarkRow, ...]
    facts: dict[str, float]
    """Facts about the device, by the profile's entry, in SI units."""


def read_benchmarks(path: Path) -> BenchmarkRun:
    """Read a file of benchmarks, without the lines of the program `offload.cu`.

    The times of that program are predicted elsewhere, to test the emulator, so nothing may be calibrated from them.
    Raises CalibrationError for an unusable file.
    """
    rows: list[BenchmarkRow] = []
    machine = None
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise CalibrationError(f"{path}: is neither SQLite nor text") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            what = msgspec.json.decode(line, type=_What).what
            if what == "machine":
                machine = msgspec.json.decode(line, type=_Machine)
            elif what not in ("offload", "failed", "counters"):
                rows.append(msgspec.json.decode(line, type=BenchmarkRow))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, msgspec.ValidationError) else "it is no JSON"
            raise CalibrationError(
                f"{path}, line {number}: is no micro-benchmark of bench/hardware ({why}); other files to calibrate "
                "from are exports of Nsight Systems and rocpd files of rocprofv3"
            ) from None
    if not rows:
        raise CalibrationError(f"{path}: has no measurements")
    facts = {} if machine is None else {"gpu.sms": float(machine.sms), "mem.size": float(machine.memory)}
    device = "" if machine is None else f", {machine.name}"
    return BenchmarkRun(str(path), f"{path.name}: micro-benchmarks of bench/hardware{device}", tuple(rows), facts)


class DatabaseReader(Protocol):
    """A module that reads the databases of one profiler; an entry point of the group ``offloadrt.readers`` names it."""

    WHAT: str
    """The kind of file that it reads, in words for error messages."""

    def knows(self, tables: Collection[str]) -> bool:
        """Tell whether this module reads databases with these tables."""

    def read(self, database: Database) -> DeviceTrace:
        """Read a database of the profiler. Raises CalibrationError for a damaged one."""


READERS: Final = Registry[DatabaseReader]("reader of profilers' files", "offloadrt.readers", ("WHAT", "knows", "read"))
_SQLITE = b"SQLite format 3\0"
_POINTER = b"version https://git-lfs"


def read(path: Path) -> DeviceTrace | BenchmarkRun:
    """Read a file of a known kind: a profiler's database or benchmarks. Raises CalibrationError for any other file."""
    try:
        with regular(path).open("rb") as file:
            head = file.read(len(_POINTER))
    except OSError as error:
        raise CalibrationError(f"{path}: cannot be read: {error.strerror or error}") from None
    if head == _POINTER:
        raise CalibrationError(f"{path}: is a pointer of git LFS; `git lfs pull` fetches the file")
    if not head.startswith(_SQLITE):
        return read_benchmarks(path)
    with closing(Database(path)) as database:
        readers = [READERS.find(name) for name in READERS.names()]
        for reader in readers:
            if reader.knows(database.tables):
                return reader.read(database)
        *others, last = [reader.WHAT for reader in readers]
        raise CalibrationError(f"{path}: is neither {', '.join(others)} nor {last}")
