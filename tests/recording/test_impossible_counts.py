"""Counts and sizes that no program can have are refused by column and number, whatever a file holds them in."""

from __future__ import annotations

import io
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from offloadrt.extensions.recording.format import RecordingDamaged, RecordingFile
from offloadrt.extensions.recording.format.recording import COLUMNS

STORED = sorted((Path(__file__).parent / "stored").glob("*.rec"))


def changed(path: Path, folder: Path, column: str, number: object) -> Path:
    """A copy of a recording in a folder, with another first number in a column."""
    target = folder / "changed.rec"
    shutil.rmtree(target, ignore_errors=True)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(target)
    file = next(target.rglob(f"{column}.npy"))
    values = np.load(io.BytesIO(file.read_bytes()))
    wider = np.float64 if isinstance(number, float) else np.int64 if int(number) < 1 << 63 else np.uint64
    values = values.astype(wider)
    values.reshape(-1)[0] = number
    np.save(file, values)
    return target


def having(column: str) -> Path:
    """A stored recording that has numbers in a column."""
    for path in STORED:
        opened = RecordingFile.read(path)
        if opened.load(opened.runs[0]).columns[column].size:
            return path
    raise AssertionError(f"no stored recording has numbers in {column}")


SIZES = ("use.nbytes", "touch.bytes", "operation.bytes", "record.cpu", "launch.counts")
COUNTS = (
    "use.sectors_read", "use.sectors_written", "use.team_sectors_read", "launch.teams", "launch.threads", "trace.lanes",
    "task.size",
)  # fmt: skip
NEVER = (-7, -(1 << 63), (1 << 64) - 1, 1.5, float("nan"))
IMPOSSIBLE = [
    *[(column, number) for column in (*SIZES, *COUNTS) for number in NEVER],
    *[(column, 1 << 40) for column in COUNTS],  # a program can have arrays of a TiB
]


@pytest.mark.parametrize(("column", "number"), IMPOSSIBLE)
def test_a_number_that_cannot_be_is_refused_by_its_column(column: str, number: object, tmp_path: Path) -> None:
    opened = RecordingFile.read(changed(having(column), tmp_path, column, number))
    with pytest.raises(RecordingDamaged, match=rf"changed.rec.*{column}"):
        opened.load(opened.runs[0])


def test_what_was_recorded_is_accepted() -> None:
    for path in STORED:
        opened = RecordingFile.read(path)
        for run in opened.runs:
            assert set(opened.load(run).columns) == set(COLUMNS)
