"""Counts and sizes that no program can have are refused by column and number, whatever a file holds them in."""

from __future__ import annotations

import io
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from offloadrt.cli import main
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


def refusal(tokens: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command that cannot do what it is asked for says."""
    assert main(tokens) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize("name", ["algorithms/reduced", "calls_of_mpi"])
def test_a_check_names_what_is_damaged_as_a_run_does(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = changed(STORED[0].parent / f"{name}.rec", tmp_path, "record.detail", 0.5)
    for file in path.rglob("record.detail.npy"):
        np.save(file, np.load(file).astype(float))
    told = {refusal([command, str(path), "process=0"], capsys) for command in ("check", "run")}
    assert len(told) == 1 and "record.detail.npy is damaged: it holds float64" in told.pop()


def test_an_array_outside_of_all_memory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = changed(STORED[0].parent / "deferred.rec", tmp_path, "record.cpu", 0)
    dictionaries = next(path.rglob("dictionaries.json"))
    dictionaries.write_text(re.sub(r'("name":"to","address":)\d+', r"\1-1", dictionaries.read_text()))
    assert "the address of an array is -1; it can be 0 to 72057594037927936" in refusal(["check", str(path)], capsys)


def test_a_number_that_takes_more_than_64_bits_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = changed(STORED[0].parent / "patches.rec", tmp_path, "record.cpu", 0)
    dictionaries = next(path.rglob("dictionaries.json"))
    dictionaries.write_text(re.sub(r'("kernel": *)\d+', rf"\g<1>{1 << 70}", dictionaries.read_text()))
    assert "dictionaries.json: has a number that takes more than 64 bits" in refusal(["run", str(path)], capsys)


@pytest.mark.parametrize("threads", ["0", "-1", "1000000"])
def test_a_number_of_threads_that_cannot_be_is_refused_by_its_file(threads: str, tmp_path: Path) -> None:
    index = changed(STORED[0], tmp_path, "record.cpu", 0) / "meta.json"
    index.write_text(re.sub(r'("threads": *)\d+', rf"\g<1>{threads}", index.read_text()))
    with pytest.raises(
        RecordingDamaged, match=r"changed\.rec: meta\.json: Expected `int` .* at `\$\.runs\[0\]\.threads`"
    ):
        RecordingFile.read(index.parent)


def test_items_of_a_routine_are_not_taken_for_maps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = changed(STORED[0].parent / "halo.rec", tmp_path, "item.base", 0)
    for file in path.rglob("item.base.npy"):
        np.save(file, np.zeros_like(np.load(file)))
    assert main(["run", str(path), "--draws", "0"]) == 0, capsys.readouterr().err


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
