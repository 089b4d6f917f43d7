"""Which kind of file one is, by what is in it."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from offloadrt.calibration.device_trace import CalibrationError, DeviceTrace
from offloadrt.calibration.readers import benchmarks, nsys, rocpd
from offloadrt.calibration.readers.benchmarks import BenchmarkRun
from offloadrt.calibration.readers.database import Database

_SQLITE = b"SQLite format 3\0"
_POINTER = b"version https://git-lfs"


def read(path: Path) -> DeviceTrace | BenchmarkRun:
    """Read a file of a known kind.

    Raises CalibrationError.
    """
    try:
        with path.open("rb") as file:
            head = file.read(len(_POINTER))
    except OSError as error:
        raise CalibrationError(f"{path}: cannot be read: {error.strerror or error}") from None
    if head == _POINTER:
        raise CalibrationError(f"{path}: is a pointer of git LFS; `git lfs pull` fetches the file")
    if not head.startswith(_SQLITE):
        return benchmarks.read(path)
    with closing(Database(path)) as database:
        if database.tables & nsys.TABLES:
            return nsys.read(database)
        if any(table.startswith(rocpd.PREFIX) for table in database.tables):
            return rocpd.read(database)
        raise CalibrationError(
            f"{path}: is neither an export of Nsight Systems with CUDA calls ({', '.join(sorted(nsys.TABLES))}) "
            "nor a rocpd file of rocprofv3"
        )
