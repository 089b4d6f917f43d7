"""Waste of real programs: what their sources have, array by array, and nothing of their twins that waste nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from raw_program import BEGIN, END, KERNEL, PARAM, TO, RawProgram
from recorded_programs import built
from test_recorded_mistakes import report_of

from offloadrt.extensions.checking.checked import CheckReport
from offloadrt.extensions.recording.format import convert
from offloadrt.extensions.recording.format.container import RecordingFile, write
from offloadrt.extensions.recording.toolchain import RecordOptions, record

AGAIN, DUPLICATE, ROUND, UNREAD = "repeated allocation", "duplicate transfer", "round trip", "unread transfer"
WASTED = {
    "to_each": {DUPLICATE: 2, AGAIN: 2},
    "from_each": {AGAIN: 2},
    "updated": {DUPLICATE: 2},
    "half": {DUPLICATE: 3},
    "tofrom": {ROUND: 2, UNREAD: 2, AGAIN: 2},
    "reset": {AGAIN: 2},
    "back": {ROUND: 1},
    "results": {UNREAD: 2, AGAIN: 2},
    "shown": {AGAIN: 2},
    "same": {DUPLICATE: 3},
    "fresh": {AGAIN: 2},
    "heap": {AGAIN: 2},
    "copied": {DUPLICATE: 2},
    "always": {DUPLICATE: 3},
    "device_table": {DUPLICATE: 2},
    "tasks": {DUPLICATE: 2, AGAIN: 2},
    "by_threads.mine": {DUPLICATE: 4, AGAIN: 4},
    "unused": {UNREAD: 1, "unused allocation": 1},
    "lost": {DUPLICATE: 1},
}
"""By array of `programs/waste.c`: how often, of each kind. Others, as `flips` and `both`, waste nothing."""
SCALARS_AND_MEMBERS = {"t", "grid", "grid.cells"}


def recorded(source: str, folder: Path, *flags: str) -> Path:
    """Build a program, record it for a check, and return the recording."""
    program = built(source, folder, "-g", *flags)
    raw, file = folder / "raw", folder / "program.rec"
    record([str(program)], raw, [None], RecordOptions(check=True))
    convert(raw, file)
    return file


def wasted(report: CheckReport) -> dict[str, dict[str, int]]:
    """Return what a check found, by array."""
    found: dict[str, Counter[str]] = {}
    for waste in report.wastes:
        for part in waste.parts:
            found.setdefault(waste.subject, Counter())[part.kind] += part.times
    return {name: dict(kinds) for name, kinds in found.items() if name not in SCALARS_AND_MEMBERS}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded("waste.c", tmp_path_factory.mktemp("waste"), "-O1")


@pytest.fixture(scope="module")
def report(recording: Path) -> CheckReport:
    return report_of(recording)


def test_each_array_has_the_waste_of_its_source(report: CheckReport) -> None:
    assert wasted(report) == WASTED
    assert not report.unknown_copies


@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_optimization_changes_nothing_of_it(tmp_path: Path, level: str) -> None:
    assert wasted(report_of(recorded("waste.c", tmp_path, level))) == WASTED


@pytest.mark.parametrize("level", ["-O1", *(pytest.param(level, marks=pytest.mark.slow) for level in ("-O0", "-O2"))])
def test_what_llvm_copies_again_for_a_mapper_is_not_the_program_s_waste(tmp_path: Path, level: str) -> None:
    report = report_of(recorded("mapped_again.c", tmp_path, level))
    assert wasted(report) == {"sent": {DUPLICATE: 3}}
    assert {mistake.kind for mistake in report.mistakes} == set()


def test_rows_come_in_the_order_of_what_a_repair_saves(recording: Path) -> None:
    wastes = report_of(recording, savings=True).wastes
    saved = [waste.time_s for waste in wastes]
    assert saved == sorted(saved, reverse=True) and not any(waste.is_sum for waste in wastes)
    update = next(waste for waste in wastes if waste.subject == "updated")
    assert update.time_s > 5 * 2 * 2.32e-6  # the calls and the waits count, not only the copies


def test_a_check_runs_a_program_again_for_few_repairs_unless_all_are_asked_for(report: CheckReport) -> None:
    by_run = [not waste.is_sum for waste in report.wastes]
    assert any(by_run) and not all(by_run)


def test_what_a_pool_served_is_run_again_only_if_all_is_asked_for() -> None:
    stored = Path(__file__).parent / "stored"
    for name in ("patches.rec", "synchronization.rec"):
        quick, thorough = (report_of(stored / name, savings=savings) for savings in (False, True))
        assert all(waste.is_of_pool == (waste.kind == AGAIN) == waste.is_sum for waste in quick.wastes)
        assert not any(waste.is_sum for waste in thorough.wastes)
        saved = [waste.time_s for waste in thorough.wastes if waste.kind == AGAIN]
        assert thorough.elapsed_s is not None and 0 < max(saved) < 0.01 * thorough.elapsed_s


def test_one_row_has_all_that_one_repair_saves(report: CheckReport) -> None:
    (row,) = [waste for waste in report.wastes if waste.subject == "tofrom"]
    assert "target data" in row.advice and len(row.parts) == 3


def test_a_lost_write_that_a_kernel_reads_is_a_mistake_and_makes_its_row_uncertain(report: CheckReport) -> None:
    (stale,) = [mistake for mistake in report.mistakes if mistake.kind == "stale data"]
    assert stale.subject == "lost" and "copy from the device has overwritten it" in stale.advice
    (row,) = [waste for waste in report.wastes if waste.subject == "lost"]
    assert "mistake is about lost" in row.uncertain and not row.advice


def test_a_missing_unmap_makes_nothing_uncertain(report: CheckReport) -> None:
    assert "missing unmap" in {mistake.kind for mistake in report.mistakes}
    (row,) = [waste for waste in report.wastes if waste.subject == "unused"]
    assert not row.uncertain and "leave the map of unused out" in row.advice


def test_a_recording_of_before_says_what_is_not_known(recording: Path, tmp_path: Path) -> None:
    file = RecordingFile.read(recording)
    (run,) = file.runs
    loaded = file.load(run)
    columns = {name: column for name, column in loaded.columns.items() if "copies" not in name and "copy." not in name}
    columns["touch.kind"] = np.where(columns["touch.kind"] == 9, 8, columns["touch.kind"]).astype("u1")
    old = tmp_path / "old.rec"
    write(old, [(run, loaded.dictionaries, columns)])
    report = report_of(old)
    assert "has no digests of them" in report.unknown_copies
    assert {name: kinds for name, kinds in wasted(report).items() if UNREAD in kinds}.keys() == {"unused", "always"}
    assert wasted(report).get("same", {}) == {}


def test_who_dies_as_it_exits_has_left_its_tasks_and_no_waste_is_certain(tmp_path: Path) -> None:
    program, a = RawProgram(), 0x10000
    for line in (1, 2):
        program.directive(BEGIN, (a, 4096, TO), line=line, ops=[("h2d", a, 0x900000, 4096, 8, 1)])
        if line == 1:
            program.directive(END, (a, 4096, 0))
    for task in (100, 101):
        program.task_create({**program.at(0), "task": task, "parent": 0, "flags": "0x8", "dep": False})
    program.directive(END, (a, 4096, 0))
    program.task_schedule({**program.at(9), "prior": 0, "status": 7, "next": 100})
    program.ret = program.op = lambda line: None
    program.directive(KERNEL, (a, 0, PARAM), tid=9, line=3)
    program.rare += [{"k": "end", "how": "exit", "call": 0}, {"k": "died", "signal": 11, "call": 5}]
    report = report_of(program.recorded(tmp_path))
    assert [mistake.kind for mistake in report.mistakes] == ["fatal error", "never awaited", "never awaited"]
    (row,) = [waste for waste in report.wastes if waste.kind == DUPLICATE]
    assert "died before a kernel had ended" in row.uncertain and not row.advice


@pytest.mark.parametrize(
    ("second", "expected"),
    [((8, 3), {DUPLICATE: 1}), ((8, 1), {DUPLICATE: 1}), ((9, 1), {}), ((9, 3), {}), ((8, 0), {})],
)
def test_equal_bytes_of_one_range_are_the_same_content(
    tmp_path: Path, second: tuple[int, int], expected: dict[str, int]
) -> None:
    """A digest and whether the bytes were there: of another block's memory that says nothing, and the digest counts."""
    program = RawProgram()
    for line, brings in enumerate(((8, 1), second), 1):
        program.directive(BEGIN, (0x10000, 4096, TO), line=line, ops=[("h2d", 0x10000, 0x900000, 4096, *brings)])
        program.directive(END, (0x10000, 4096, 0), line=line)
    found = wasted(report_of(program.recorded(tmp_path)))
    assert {kind: times for kind, times in found.get("a10000", {}).items() if kind == DUPLICATE} == expected
