"""Ranges that a program names itself are phases of its recording, and of the run that replays it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from raw_program import BEGIN, END, FROM, KERNEL, PARAM, TO, RawProgram, only
from recorded_programs import built

from offloadrt.cli import main
from offloadrt.extensions.explaining.sentence import by_phase, observe
from offloadrt.extensions.explaining.tracks import phases_of
from offloadrt.extensions.recording.format import Recording, convert
from offloadrt.extensions.recording.format.recording import Step
from offloadrt.extensions.recording.scenario import scenario_of
from offloadrt.extensions.recording.toolchain import RecordOptions, record
from offloadrt.study.spec import RunSpec

X, DEVICE, SIZE = 1 << 20, 1 << 40, 1 << 20
MS = 1_000_000


def region(made: RawProgram, tid: int = 0) -> None:
    at, device = X + tid * 2 * SIZE, DEVICE + tid * 2 * SIZE
    ops = [("alloc", at, device, SIZE), ("h2d", at, device, SIZE)]
    made.directive(BEGIN, (at, SIZE, TO | FROM), line=10, tid=tid, ops=ops)
    made.directive(KERNEL, (at, SIZE, PARAM), line=11, tid=tid, cost={})
    made.directive(END, (at, SIZE, FROM), line=12, tid=tid, ops=[("delete", device, 0, 0)])


def ranges(recording: Recording) -> list[tuple[str, str, int]]:
    """Return begins and ends in order, with the numbers of those that end in another task."""
    steps, subjects, details = (recording.columns[f"record.{name}"] for name in ("step", "subject", "detail"))
    return [
        ("begin" if step == Step.PHASE_BEGIN else "end", recording.dictionaries.phases[subject], int(detail))
        for step, subject, detail in zip(steps, subjects, details, strict=True)
        if step >= Step.PHASE_BEGIN
    ]


def path_ms(path: Path) -> dict[str, float]:
    observed = observe(scenario_of(path), {}, RunSpec())
    return {one.name.partition(": mostly")[0]: one.ps * 1e-9 for one in by_phase(observed)}


def test_the_critical_path_is_divided_among_phases(tmp_path: Path) -> None:
    made = RawProgram()
    region(made)
    made.phase("push", "setup")
    made.work(3 * MS)
    made.phase("pop")
    made.phase("push", "solve", "app")
    made.work(5 * MS)
    made.phase("push", "halo")
    made.work(7 * MS)
    made.phase("pop")
    made.work(2 * MS)
    made.phase("pop", domain="app")
    made.work(1 * MS)
    path = made.recorded(tmp_path)
    shares = path_ms(path)
    assert {name: shares[name] for name in ("setup", "app: solve", "halo")} == pytest.approx(
        {"setup": 3, "app: solve": 7, "halo": 7}, rel=1e-6
    )
    assert sum(shares.values()) == pytest.approx(observe(scenario_of(path), {}, RunSpec()).elapsed_ps * 1e-9)


def test_ranges_that_cross_are_each_as_long_as_they_were(tmp_path: Path) -> None:
    made = RawProgram()
    region(made)
    made.phase("start", "first", number=1)
    made.work(1 * MS)
    made.phase("start", "second", number=2)
    made.work(2 * MS)
    made.phase("stop", number=1)
    made.work(4 * MS)
    made.phase("stop", number=2)
    shares = path_ms(made.recorded(tmp_path))
    assert (shares["first"], shares["second"]) == pytest.approx((1, 6), rel=1e-6)


def test_a_range_may_end_on_another_thread(tmp_path: Path) -> None:
    made = RawProgram()
    made.phase("start", "whole", number=9)
    made.begin_team(1, 2)
    for tid in range(2):
        made.member(1, 10 + tid, tid, 2, tid)
    made.phase("push", "own", tid=1)
    for tid in range(2):
        made.work(MS, tid)
        region(made, tid)
    made.phase("stop", number=9, tid=1)
    made.phase("pop", tid=1)
    for tid in range(2):
        made.end_member(10 + tid, tid)
    made.end_team(1)
    path = made.recorded(tmp_path)
    assert sorted(ranges(only(path))) == [
        ("begin", "own", -1),
        ("begin", "whole", 0),
        ("end", "own", -1),
        ("end", "whole", 0),
    ]
    assert {*path_ms(path)} >= {"whole"}


def test_an_end_of_nothing_is_none_and_what_stays_open_ends_with_its_task(tmp_path: Path) -> None:
    made = RawProgram()
    made.phase("pop")
    made.phase("stop", number=4)
    made.phase("push", "open")
    made.phase("push", "within")
    region(made)
    assert ranges(only(made.recorded(tmp_path))) == [
        ("begin", "open", -1), ("begin", "within", -1), ("end", "within", -1), ("end", "open", -1)
    ]  # fmt: skip


def test_a_range_with_the_name_of_an_activity_is_told_apart(tmp_path: Path) -> None:
    made = RawProgram()
    made.phase("push", "compute")
    made.work(MS)
    region(made)
    made.phase("pop")
    path = made.recorded(tmp_path)
    assert "phase compute" in path_ms(path)
    assert [*phases_of(observe(scenario_of(path), {}, RunSpec()).causal_log)] == ["phase compute"]


def test_phases_are_shown_and_drawn_and_change_no_time(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths = []
    for named in (True, False):
        made = RawProgram()
        for _ in range(3):
            if named:
                made.phase("push", "step", "solver")
            made.work(MS)
            region(made)
            if named:
                made.phase("pop", domain="solver")
        (tmp_path / str(named)).mkdir()
        paths.append(made.recorded(tmp_path / str(named)))
    assert main(["show", str(paths[0])]) == 0 and "phases: solver: step (3)" in capsys.readouterr().out
    elapsed = []
    for path in paths:
        assert main(["run", str(path), "--json", "--draws", "0"]) == 0
        elapsed.append(json.loads(capsys.readouterr().out)["elapsed_s"])
    assert elapsed[0] == pytest.approx(
        elapsed[1], abs=2e-5
    )  # a range takes a microsecond of the thread in this program
    assert main(["why", str(paths[0]), "--draws", "0", "--budget", "0"]) == 0
    assert "by phase" in (out := capsys.readouterr().out) and "solver: step: mostly" in out
    assert main(["timeline", "steps.svg", str(paths[0])]) == 0 and "solver: step" in Path("steps.svg").read_text()
    assert main(["run", str(paths[0]), "--perfetto", "steps.pftrace", "--draws", "0"]) == 0
    assert b"solver: step" in Path("steps.pftrace").read_bytes()


NAMES = {
    "phases.c": ["whole", "solve", "iteration 0", "solver: step", "iteration 1", "team é", "left open"],
    "phases.f90": ["first", "second", "range 7"],
}


@pytest.mark.slow
@pytest.mark.parametrize("source", NAMES)
def test_real_programs_have_their_ranges_where_no_vendor_library_is(source: str, tmp_path: Path) -> None:
    program = built(source, tmp_path, "-lnvToolsExt", "-lroctx64")
    record([str(program)], tmp_path / "raw", [None], RecordOptions())
    convert(tmp_path / "raw", tmp_path / "app.rec")
    recording = only(tmp_path / "app.rec")
    assert list(recording.dictionaries.phases) == NAMES[source]
    told = ranges(recording)
    assert sorted(name for what, name, _ in told if what == "begin") == sorted(
        name for what, name, _ in told if what == "end"
    )
    assert [number for what, name, number in told if name == "whole"] == ([0, 0] if "whole" in NAMES[source] else [])
    assert {*path_ms(tmp_path / "app.rec")} & {*NAMES[source]}


@pytest.mark.slow
def test_kokkos_finds_the_recorder_as_its_tool(tmp_path: Path) -> None:
    """The program loads and calls its tools as Kokkos does; it is not linked with Kokkos."""
    program = built("kokkos.c", tmp_path)
    (run,) = record([str(program)], tmp_path / "raw", [None], RecordOptions())
    assert run.exit == 0
    convert(tmp_path / "raw", tmp_path / "app.rec")
    names = ["setup", "step 0", "step 1"]
    told = [(what, name) for what, name, _ in ranges(only(tmp_path / "app.rec"))]
    assert told == [(what, name) for name in names for what in ("begin", "end")]
    assert {*path_ms(tmp_path / "app.rec")} >= {*names}
