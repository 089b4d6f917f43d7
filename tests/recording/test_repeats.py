"""The repeated phases of a recording: found where a loop was, left out where nothing depends on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from raw_program import BEGIN, END, FROM, KERNEL, PARAM, TO, RawProgram, only
from replaying import replayed

from offloadrt.extensions.recording.format import Recording, RecordingFile
from offloadrt.extensions.recording.format.recording import TaskTree
from offloadrt.extensions.recording.replay.repeats import Repeat, RepeatFinder
from offloadrt.extensions.sampling import phases

X, DEVICE, SIZE = 1 << 20, 1 << 40, 1 << 20
BARRIER = 2


@pytest.fixture(autouse=True)
def short_programs_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "WORTH_TIMERS", 0)


def mapped(program: RawProgram, at: int, tid: int = 0) -> None:
    """A target region as the compiler lowers it: its array is allocated, copied, copied back and freed."""
    device = DEVICE + at
    ops = [("alloc", at, device, SIZE), ("h2d", at, device, SIZE)]
    program.directive(BEGIN, item(at, TO | FROM), line=10, tid=tid, ops=ops)
    program.directive(KERNEL, item(at, PARAM), line=11, tid=tid, cost={})
    program.directive(END, item(at, FROM), line=12, tid=tid, ops=[("d2h", device, at, SIZE), ("delete", device, 0, 0)])


def item(at: int, type: int) -> dict[str, Any]:
    return {"base": at, "begin": at, "size": SIZE, "type": type, "name": ";x;app.c;1;1;;"}


def of_threads(threads: int, steps: int, meet: bool) -> RawProgram:
    """Each thread of a team maps an array of its own, again and again; they meet after each step."""
    program = RawProgram()
    program.begin_team(1, threads)
    for tid in range(threads):
        program.member(1, 10 + tid, tid, threads, tid)
    for _ in range(steps):
        for tid in range(threads):
            mapped(program, X + tid * 2 * SIZE, tid)
            if meet:
                program.synchronize(BARRIER, "begin", 10 + tid, tid)
        for tid in range(threads):
            if meet:
                program.synchronize(BARRIER, "end", 10 + tid, tid)
    for tid in range(threads):
        program.end_member(10 + tid, tid)
    program.end_team(1)
    return program


def repeats_of(recording: Recording) -> list[Repeat]:
    finder = RepeatFinder(recording, TaskTree(recording.columns))
    return [repeat for task in range(len(recording.columns["task.kind"])) for repeat in finder.of_task(task)]


@pytest.mark.parametrize("meet", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_loop_is_found_and_a_part_of_it_stands_for_all(threads: int, meet: bool, tmp_path: Path) -> None:
    recording = only(of_threads(threads, 40, meet).recorded(tmp_path))
    found = repeats_of(recording)
    assert [repeat.period for repeat in found] == [4 if meet else 3] * threads
    assert all(repeat.instances in (39, 40) for repeat in found)
    whole, few = replayed(recording), replayed(recording, sample_phases=True)
    assert few.outcome.agrees and few.outcome.directives <= whole.outcome.directives / 4
    assert few.run.elapsed == pytest.approx(whole.run.elapsed, rel=0.03)
    assert few.run.measured.bytes["h2d"] == pytest.approx(whole.run.measured.bytes["h2d"], rel=0.05)


def test_an_instance_begins_where_least_is_allocated(tmp_path: Path) -> None:
    program = RawProgram()
    for step in range(30):
        program.malloc(X + step * 2 * SIZE, SIZE)
        mapped(program, X + step * 2 * SIZE)
        program.free(X + step * 2 * SIZE, SIZE)
    recording = only(program.recorded(tmp_path))
    (repeat,) = repeats_of(recording)
    assert repeat.period == 5 and recording.columns["record.step"][repeat.first] == 9
    assert replayed(recording, sample_phases=True).outcome.agrees


def test_a_loop_that_leaves_something_behind_is_run_whole(tmp_path: Path) -> None:
    program = RawProgram()
    for step in range(30):
        at = X + step * 2 * SIZE
        program.directive(BEGIN, item(at, TO), line=10, ops=[("alloc", at, DEVICE + at, SIZE), ("h2d", at, 0, SIZE)])
    recording = only(program.recorded(tmp_path))
    assert repeats_of(recording) == []
    assert replayed(recording, sample_phases=True).outcome.directives == 30


def test_threads_that_meet_in_loops_of_different_lengths_are_run_whole(tmp_path: Path) -> None:
    program = RawProgram()
    program.begin_team(1, 2)
    for tid in range(2):
        program.member(1, 10 + tid, tid, 2, tid)
    for step in range(30):
        for tid in range(2):
            if tid == 0 or step % 2:
                mapped(program, X + tid * 2 * SIZE, tid)
            program.synchronize(BARRIER, "begin", 10 + tid, tid)
        for tid in range(2):
            program.synchronize(BARRIER, "end", 10 + tid, tid)
    for tid in range(2):
        program.end_member(10 + tid, tid)
    program.end_team(1)
    recording = only(program.recorded(tmp_path))
    assert repeats_of(recording) == []
    assert replayed(recording, sample_phases=True).outcome.directives == recording.directives


STORED = sorted((Path(__file__).parent / "stored").glob("*.rec"))


@pytest.mark.parametrize("path", STORED, ids=[path.stem for path in STORED])
def test_real_programs_do_the_same_in_windows(path: Path) -> None:
    file = RecordingFile.read(path)
    for run in file.runs:
        outcome = replayed(file.load(run), sample_phases=True).outcome
        assert [str(difference) for difference in outcome.differences] == []
