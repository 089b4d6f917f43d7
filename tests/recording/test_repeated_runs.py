"""A program recorded several times: medians, where repeats part, what was slow, and draws among the repeats."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from raw_program import BEGIN, END, FROM, KERNEL, PARAM, TO, RawProgram, only
from recorded_programs import built
from replaying import replayed

from offloadrt.cli import main
from offloadrt.extensions.recording import toolchain
from offloadrt.extensions.recording.doubts import doubts_of
from offloadrt.extensions.recording.format import Recording, RecordingError, convert
from offloadrt.extensions.recording.scenario import scenario_of
from offloadrt.study.running.execution import execute

X, DEVICE, SIZE = 1 << 20, 1 << 40, 1 << 20
MS = 1_000_000


def steps(*work: int, size: int = SIZE, tid: int = 0, made: RawProgram | None = None, line: int = 10) -> RawProgram:
    """Work so long before each of several target regions."""
    made = made or RawProgram()
    for nanoseconds in work:
        at = X + tid * 2 * SIZE
        made.work(nanoseconds, tid)
        device = DEVICE + at
        ops = [("alloc", at, device, size), ("h2d", at, device, size)]
        made.directive(BEGIN, (at, size, TO | FROM), line=line, tid=tid, ops=ops)
        made.directive(KERNEL, (at, size, PARAM), line=line + 1, tid=tid, cost={})
        made.directive(END, (at, size, FROM), line=line + 2, tid=tid, ops=[("delete", device, 0, 0)])
    return made


def team(*work: Sequence[int], order: Sequence[int] | None = None) -> RawProgram:
    """Let each thread of a team work so long; `order`: which of them comes first."""
    made, threads = RawProgram(), range(len(work))
    made.begin_team(1, len(work))
    for tid in threads:
        made.member(1, 10 + tid, tid, len(work), tid)
    for tid in order or threads:
        steps(*work[tid], tid=tid, made=made)
    for tid in threads:
        made.end_member(10 + tid, tid)
    made.end_team(1)
    return made


def recorded(folder: Path, *repeats: RawProgram, name: str = "app.rec") -> Path:
    runs = []
    for number, made in enumerate(repeats):
        made.write(folder / "raw" / f"run-{number}")
        runs.append({"folder": f"run-{number}", "threads": None, "repeat": number, "exit": 0})
    (folder / "raw" / "record.json").write_text(json.dumps({"version": 1, "command": ["./app"], "runs": runs}))
    convert(folder / "raw", folder / name)
    return folder / name


def host_times(recording: Recording) -> list[int]:
    """Return the host's work before each region, in milliseconds."""
    cpu = recording.columns["record.cpu"]
    return [round(int(one) / MS) for one in cpu if one > MS / 2]


def test_host_times_are_the_medians_of_each_interval(tmp_path: Path) -> None:
    repeats = steps(2 * MS, 9 * MS), steps(3 * MS, 5 * MS), steps(30 * MS, 4 * MS)
    recording = only(recorded(tmp_path, *repeats))
    assert host_times(recording) == [3, 5]
    assert recording.meta.host_times == pytest.approx((11 / 8, 1.0, 34 / 8), rel=1e-3)
    assert recording.directives == 6


def test_a_repeat_of_one_is_as_without(tmp_path: Path) -> None:
    (tmp_path / "once").mkdir()
    (tmp_path / "many").mkdir()
    once = only(steps(2 * MS, 4 * MS).recorded(tmp_path / "once"))
    same = only(recorded(tmp_path / "many", *(steps(2 * MS, 4 * MS) for _ in range(3))))
    assert replayed(once).hash == replayed(same).hash


def test_threads_are_found_again_in_whichever_order_they_came(tmp_path: Path) -> None:
    shuffled = random.Random(1)
    works = [[tid * 10 * MS + 5 * MS, 2 * MS] for tid in range(4)]
    repeats = [team(*works, order=shuffled.sample(range(4), 4)) for _ in range(5)]
    recording = only(recorded(tmp_path, *repeats))
    assert sorted(host_times(recording)) == sorted([2] * 4 + [tid * 10 + 5 for tid in range(4)])
    assert recording.meta.host_times == pytest.approx((1.0,) * 5, rel=1e-3)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (lambda: steps(MS, MS, MS), "operation 7 of thread 0, after target_data_end at app.c:12"),
        (
            lambda: steps(MS, MS, size=SIZE // 2),
            "data_begin at app.c:10 of 1048576 B and repeat 2 comes to target_data",
        ),
        (lambda: steps(MS, MS, line=20), "repeat 1 comes to target_data_begin at app.c:10"),
        (lambda: team([MS, MS], [MS]), "repeat 2 comes to a parallel region of 2 threads"),
    ],
)
def test_repeats_that_part_are_refused_with_the_place(
    tmp_path: Path, other: Callable[[], RawProgram], told: str
) -> None:
    with pytest.raises(RecordingError, match="the repeats part at") as refused:
        recorded(tmp_path, steps(MS, MS), other())
    assert told in str(refused.value) and "record it without --repeat" in str(refused.value)


def test_a_slow_repeat_is_named_with_its_line(tmp_path: Path) -> None:
    recording = only(recorded(tmp_path, steps(MS, MS), steps(MS, 12 * MS), steps(MS, MS)))
    assert doubts_of(recording) == ["outlier: repeat 2 of 3 took 13 ms before app.c:10, usual are 2 ms"]


def test_an_interval_unlike_all_others_is_named_with_its_line(tmp_path: Path) -> None:
    recording = only(steps(*[MS] * 5, 90 * MS, *[MS] * 5).recorded(tmp_path))
    assert doubts_of(recording) == ["outlier: time 6 of 11 took 90 ms before app.c:10, usual are 1 ms"]
    (tmp_path / "first").mkdir()
    assert doubts_of(only(steps(90 * MS, *[MS] * 9).recorded(tmp_path / "first"))) == [], "the first may set up"


def test_a_straggler_is_named_with_the_line_before_which_it_was_late(tmp_path: Path, capsys) -> None:
    path = team([MS], [MS], [MS], [50 * MS]).recorded(tmp_path)
    (doubt,) = doubts_of(only(path))
    assert doubt.startswith("straggler: thread 3 took 50") and doubt.endswith("49 ms of it are lost before app.c:10")
    for words in (["run"], ["compare", "configuration=copy", "allocator=llvm,malloc"]):
        assert main([words[0], str(path), *words[1:], "--draws", "0", "--jobs", "1"][: len(words) + 3]) == 0
        assert "warning: app.rec: straggler: thread 3" in capsys.readouterr().err
    assert main(["show", str(path)]) == 0 and "record it again, with --repeat 5" in " ".join(
        capsys.readouterr().out.split()
    )


def test_record_warns_of_a_straggler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the raw files of a program whose fourth thread came late in place of a run."""

    def of_a_busy_host(command: Sequence[str], raw: Path, *_: object) -> list[toolchain.RecordedRun]:
        team([MS], [MS], [MS], [50 * MS]).write(raw / "run-0")
        runs = [{"folder": "run-0", "threads": None, "repeat": 0, "exit": 0}]
        (raw / "record.json").write_text(json.dumps({"version": 1, "command": list(command), "runs": runs}))
        return [toolchain.RecordedRun("run-0", None, 0, None, False, 1.0, 1, True, directives=12)]

    monkeypatch.setattr(toolchain, "record", of_a_busy_host)
    assert main(["record", "-o", str(tmp_path / "app.rec"), "./app"]) == 0
    said = capsys.readouterr().err
    assert "straggler: thread 3 took 50" in said and "record it again, with --repeat 5" in said


def test_draws_play_what_the_repeats_took_and_the_median_run_the_medians(tmp_path: Path) -> None:
    totals = [10, 11, 12, 13, 20]
    scenario = scenario_of(recorded(tmp_path, *(steps(total * MS) for total in totals), name="drawn.rec"))
    nominal = execute(scenario)
    assert nominal.inputs == {"drawn.host_times": 1.0}

    def host_ms(place: float | str) -> float:
        run = execute(scenario, inputs={"drawn.host_times": place})
        return 12 + 1e3 * (run.elapsed_s - nominal.elapsed_s)

    assert [host_ms(place) for place in (0.0, 0.25, 0.5, 0.75, 1.0)] == pytest.approx(totals, abs=0.01)
    assert host_ms(0.875) == pytest.approx(16.5, abs=0.01)
    drawn = [host_ms(float(place)) for place in np.linspace(0, 1, 21)]
    assert drawn == sorted(drawn) and np.median(drawn) == pytest.approx(12, abs=0.01)


def test_launches_unlike_the_traced_one_widen_the_costs(tmp_path: Path) -> None:
    use = {"host": X, "dev": DEVICE, "size": SIZE, "ldB": SIZE, "stB": 0, "rd": [1 << 15] * 3, "wr": [0, 0, 0]}

    def program(flops: Sequence[int]) -> RawProgram:
        made = RawProgram()
        made.malloc(X, SIZE)
        made.directive(BEGIN, (X, SIZE, TO), line=10, ops=[("alloc", X, DEVICE, SIZE), ("h2d", X, DEVICE, SIZE)])
        for number, count in enumerate(flops):
            cost = {"f64": count, "loads": SIZE // 8, "ldB": SIZE, **({"arrays": [use]} if not number else {})}
            made.directive(KERNEL, (X, SIZE, PARAM), line=11, cost=cost)
        made.directive(END, (X, SIZE, FROM), line=12, ops=[("delete", DEVICE, 0, 0)])
        return made

    work = [10**9, 3 * 10**9, 5 * 10**9]
    (tmp_path / "alike").mkdir()
    alike = only(program([10**9] * 3).recorded(tmp_path / "alike"))
    assert alike.meta.cost_errors == {} and doubts_of(alike) == []
    path = program(work).recorded(tmp_path)
    assert only(path).meta.cost_errors == {"saxpy": pytest.approx(3.0)}
    assert "did 3 times the counted work of the traced ones" in doubts_of(only(path))[0]
    scenario = scenario_of(path)
    ends = [execute(scenario, inputs={"app.kernel_costs": place}).elapsed_s for place in (0.0, 1.0)]
    assert execute(scenario).elapsed_s == ends[0]
    (tmp_path / "three").mkdir()
    all_of_three = program([3 * 10**9] * 3).recorded(tmp_path / "three")
    assert ends[1] == pytest.approx(execute(scenario_of(all_of_three)).elapsed_s, rel=0.01) and ends[1] > 1.5 * ends[0]


@pytest.mark.slow
def test_a_real_program_with_threads_repeats(tmp_path: Path, capsys) -> None:
    program = built("patches.c", tmp_path)
    path = tmp_path / "patches.rec"
    code = main(["record", "--repeat", "3", "--threads", "1,2", "-o", str(path), str(program), "4"])
    assert code == 0 and ", 3 times: " in capsys.readouterr().err
    for threads in (1, 2):
        run = execute(scenario_of(path), {"threads": threads})
        assert run.measured["operations_different"] == 0
        assert next(iter(run.inputs)) == f"patches.{threads}_threads.host_times"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--repeat", "0"], "--repeat 0: give a number from 1 to 99"),
        (["--repeat", "3", "--stop-after", "2s"], "each repeat would end elsewhere"),
    ],
)
def test_repeats_that_cannot_be_compared_are_refused(capsys, tmp_path: Path, words: list[str], told: str) -> None:
    assert main(["record", *words, "-o", str(tmp_path / "a.rec"), "true"]) == 2
    assert told in capsys.readouterr().err
