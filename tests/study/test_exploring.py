"""Exploring schedules: what is found, that a token gives it again, and that it gets smaller."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from offloadrt.cli import main
from offloadrt.extensions.exploring import explore as exploring
from offloadrt.extensions.exploring.explore import Exploration, Shrunk, explore, shrink
from offloadrt.extensions.exploring.program import ScenarioProgram, replay, token_of
from offloadrt.extensions.exploring.schedules import ScheduleCase, SchedulePlan, Token, packed, unpacked
from offloadrt.extensions.exploring.strategies import Choice, Hold
from offloadrt.study import UserError
from offloadrt.study.sweep import InProcess

RACE = '''
from typing import Annotated, Any

from offloadrt import Range, Run, kernel, scenario
from offloadrt import openmp as omp


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def fill(a: Any, value: float) -> None:
    a[:] = value


@scenario(results=("r",), shrinks=("threads",))
async def race(run: Run, threads: Annotated[int, Range(2, 64)] = 3, safe: bool = False) -> dict[str, float]:
    """One thread's kernel writes an array, and another thread reads it back without waiting for the kernel."""
    shared: dict[str, omp.HostArray] = {}

    async def body(t: omp.HostThread) -> None:
        if t.number == 0:
            shared["a"] = t.array("a", 64, fill=0.0)
            await t.target_enter_data(omp.map(to=shared["a"]))
        await t.barrier()
        if t.number == 0:
            await t.target(fill, shared["a"], 1.0, iterations=64)
        if safe:
            await t.barrier()
        if t.number == 1:
            await t.compute(60e-6)
            await t.target_update(omp.from_(shared["a"]))

    await run.parallel(body, num_threads=threads)
    return {"r": float(shared["a"][0])}
'''


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "race.py"
    path.write_text(RACE)
    return path


def explored(script: Path, strategy: str, runs: int = 60, safe: bool = False, threads: int = 2) -> Exploration:
    program = ScenarioProgram(f"{script}:{script.stem}", {"threads": threads, "safe": safe})
    return explore(program, SchedulePlan.parse(strategy), runs, InProcess())


def shrunk(found: Exploration) -> Shrunk:
    worst = found.failures[0]
    return shrink(found.program, found.plan, worst.case, worst.outcome, found.reference)


@pytest.mark.parametrize("strategy", ["pct:2", "delay:2"])
def test_an_unsynchronized_update_is_found_and_a_barrier_mends_it(script: Path, strategy: str) -> None:
    assert set(explored(script, strategy).outcomes) == {'result {"r": 1.0}', 'result {"r": 0.0}'}
    assert not explored(script, strategy, 8, safe=True).failures


def test_the_failure_gets_as_small_as_one_thread_held_back_once(script: Path) -> None:
    smallest = shrunk(explored(script, "pct:3", threads=3))
    assert smallest.program.given == {"threads": 2}  # type: ignore[attr-defined]
    (hold,) = smallest.case.departures
    assert isinstance(hold, Hold) and 0 < hold.seconds < 1e-3
    assert smallest.outcome.text == "r=0.0"


@pytest.mark.parametrize("strategy", ["delay:2", "pct:2", "costs:0.5"])
def test_a_token_gives_the_same_run_in_both_gears_and_tells_that_the_program_has_changed(
    script: Path, strategy: str
) -> None:
    program = ScenarioProgram(f"{script}:race", {"threads": 2, "safe": False})
    case = explore(program, SchedulePlan.parse(strategy), 1, InProcess()).plan.case(7)
    text = token_of(program, case).encode()
    for gear in ("native", "turbo"):
        again = replay(text, gear=gear)
        assert again.is_same and not again.changed and again.ended.outcome.key == again.token.outcome
    script.write_text(RACE + "# changed\n")
    assert replay(text).changed == ["the program"]


def test_the_command_line_prints_what_fails_and_replays_it(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", str(script), "threads=2", "--strategy", "delay:2", "--runs", "60", "--jobs", "1"]) == 1
    printed = capsys.readouterr().out
    assert "r=0.0 FAILS" in printed and "host thread 0 (race.py:24) is held back for" in printed
    assert "host thread 1 (race.py:29)" in printed
    (token,) = re.findall(r"offloadrt replay (\S+)", printed)
    assert main(["replay", token, "--gear", "native"]) == 1
    assert "the same run, event by event" in capsys.readouterr().out
    assert main(["explore", str(script), "safe=true", "--runs", "4", "--jobs", "1"]) == 0


def test_json_has_each_failure_with_its_token(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["explore", str(script), "threads=2", "--strategy", "delay:2", "--runs", "60", "--jobs", "1", "--json"]
    assert main(asked) == 1
    explored = json.loads(capsys.readouterr().out)
    assert sum(one["runs"] for one in explored["outcomes"]) == explored["runs"] + 1
    (failure,) = explored["failures"]
    assert (failure["outcome"], failure["is_error"], failure["faults"]) == ("r=0.0", False, [])
    assert main(["replay", failure["token"], "--json"]) == 1
    again = json.loads(capsys.readouterr().out)
    assert again["same_run"] and again["fails"] and again["schedule"] == failure["schedule"] != []


def test_an_assertion_that_fails_is_told_with_its_line(tmp_path: Path) -> None:
    script = tmp_path / "asserts.py"
    script.write_text(
        RACE.replace("def race", "def asserts").replace(
            '    return {"r"', '    assert shared["a"][0] == 1.0\n    return {"r"'
        )
    )
    found = explored(script, "delay:3")
    assert [counted.outcome.key for counted in found.failures] == ["AssertionError asserts.py:32"]


def test_dfs_says_that_all_schedules_within_the_bound_were_run(tmp_path: Path) -> None:
    script = tmp_path / "ties.py"
    script.write_text(
        "from offloadrt import Run, scenario\n"
        "@scenario\n"
        "async def ties(run: Run) -> dict[str, int]:\n"
        "    order = []\n"
        "    async def body(number: int) -> None:\n"
        "        order.append(number)\n"
        "    async with run.sim.open_nursery() as nursery:\n"
        "        for number in range(3):\n"
        "            nursery.spawn(body, number)\n"
        "    return {'first': order[0]}\n"
    )
    found = explore(
        ScenarioProgram(f"{script}:ties", {}), SchedulePlan.parse("dfs:5"), 100, InProcess(), keep_going=True
    )
    assert found.exhausted and found.runs == 1 + 6
    assert {text: counted.runs for text, counted in found.outcomes.items()} == {
        'result {"first": 0}': 1 + 2, 'result {"first": 1}': 2, 'result {"first": 2}': 2,
    }  # fmt: skip
    assert not explore(found.program, SchedulePlan.parse("dfs:5"), 4, InProcess(), keep_going=True).exhausted


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_dfs_loses_no_schedule_between_two_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    """Five steps that tie have 5! orders."""
    monkeypatch.setattr(exploring, "_BATCH_HERE", batch)
    script = tmp_path / "orders.py"
    script.write_text(
        "from offloadrt import Run, scenario\n"
        "@scenario\n"
        "async def orders(run: Run) -> dict[str, str]:\n"
        "    order = []\n"
        "    async def body(number: int) -> None:\n"
        "        order.append(str(number))\n"
        "    async with run.sim.open_nursery() as nursery:\n"
        "        for number in range(5):\n"
        "            nursery.spawn(body, number)\n"
        "    return {'order': ''.join(order)}\n"
    )
    found = explore(
        ScenarioProgram(f"{script}:orders", {}), SchedulePlan.parse("dfs:9"), 1000, InProcess(), keep_going=True
    )
    assert found.exhausted and found.runs == 1 + 120 and len(found.outcomes) == 120


def test_costs_are_drawn_within_their_ranges_and_without_sizes(script: Path) -> None:
    program = ScenarioProgram(f"{script}:race", {"threads": 2, "safe": True})
    found = explore(program, SchedulePlan.parse("costs"), 3, InProcess(), keep_going=True)
    keys = dict(found.plan.case(2).costs)
    assert "alloc.cudaFree" in keys and all(0.0 <= place <= 1.0 for place in keys.values())
    assert "alloc.segment" not in keys
    times = {program.run(case, case.strategy).time_s for case in map(found.plan.case, range(3))}
    assert len(times) == 3 and not found.failures


def test_reports_of_a_checker_are_failures(script: Path) -> None:
    program = ScenarioProgram(f"{script}:race", {"threads": 2, "safe": True}, checkers=(counts_threads,))
    found = explore(program, SchedulePlan.parse("random"), 5, InProcess())
    assert found.reference.text == "2 threads ran" and found.failures


def test_what_offloadrt_check_reports_fails_even_where_every_result_is_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "late.py"
    path.write_text(RACE.replace("def race", "def late").replace("t.compute(60e-6)", "t.compute(1.0)"))
    asked = ["explore", str(path), "threads=2", "--strategy", "random", "--runs", "4", "--jobs", "1"]
    assert main(asked) == 0
    capsys.readouterr()
    assert main([*asked, "--check"]) == 1
    printed = capsys.readouterr().out
    assert "race: a on device 0 FAILS" in printed
    assert "host thread 0 writes a in kernel 'fill' of target at late.py:24" in printed
    assert main(["replay", printed.split()[-1]]) == 1
    printed = capsys.readouterr().out
    assert "race: a on device 0" in printed and "the same run, event by event" in printed


def counts_threads(run):  # type: ignore[no-untyped-def]  # a checker as a user writes one
    return lambda: ["2 threads ran"] if run.sim.now > 0 else []


def test_a_case_survives_a_token() -> None:
    case = ScheduleCase(
        "schedule", departures=(Choice(3, 1), Hold(4, 7, 1.5e-6)), costs=(("driver.launch", 0.25),), length=1.0
    )
    token = Token("a.py:b", {"n": 3}, {"machine": "mi300a"}, ("r",), case, {"the program": "12"}, "result {}", "ab")
    assert Token.decode(token.encode()) == token
    assert unpacked(packed(case)) == case


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("offloadrt2.abc", "version 2"),
        ("hello", "no token"),
        ("offloadrt1.", "cannot be read"),
        ("offloadrt1.AAAA", "cannot be read"),
        ("offloadrt1.ä", "cannot be read"),
    ],
)
def test_what_is_no_token_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Token.decode(text)


@pytest.mark.parametrize("text", ["pct:0", "pct:x", "lifo", "random:3", "delay:2:3kg", "pct:3:-1us", "costs:2", ""])
def test_a_strategy_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--strategy"):
        SchedulePlan.parse(text)


@pytest.mark.parametrize("asked", [["--configuration", "nosuch"], ["--configuration", "usm"], ["--env", "HSA_XNACK=x"]])
@pytest.mark.parametrize("faults", [[], ["--faults", "everywhere"]])
def test_what_cannot_be_run_is_refused_and_no_finding(
    asked: list[str], faults: list[str], script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explore", str(script), "--machine", "alex-a100", "--runs", "2", *asked, *faults]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and asked[1].removeprefix("HSA_XNACK=") in printed.err.splitlines()[-1]


def test_what_ends_a_program_is_a_finding_though_one_line_tells_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["explore", "fig2_zerocopy", "n=64", "configuration=usm", "--env", "HSA_XNACK=0", "--runs", "1"]
    assert main(asked) == 1
    assert "Memory access fault by GPU" in capsys.readouterr().out
