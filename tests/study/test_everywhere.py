"""A fault at each await of a program: what is found, that it can be found, and that a token gives it again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from offloadrt.cli import main
from offloadrt.extensions.exploring.explore import Everywhere, everywhere, shrink
from offloadrt.extensions.exploring.program import ScenarioProgram, replay, token_of
from offloadrt.extensions.exploring.schedules import ScheduleCase, SchedulePlan
from offloadrt.runtime.allocators.llvm import LlvmMemoryManager
from offloadrt.runtime.plugins.amdgpu import AmdgpuResources
from offloadrt.runtime.plugins.cuda import StreamPool
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import InProcess

PROGRAM = '''
from typing import Any, Literal

from offloadrt import Run, kernel, scenario
from offloadrt import openmp as omp
from offloadrt.sim import Lock


@kernel(flops_per_iteration=1e3)
def add_one(a: Any, b: Any) -> None:
    a += 1.0


@scenario
async def sums(
    run: Run,
    part: Literal["region", "data", "copy"] = "copy",
    mistake: Literal["none", "unchecked", "locked", "crash"] = "none",
    threads: int = 1,
) -> dict[str, float]:
    """Threads run a region, hold data on the device, or copy to it by hand."""
    lock = Lock(run.sim, "the program's own lock")

    async def region(t: omp.HostThread, a: Any) -> None:
        b = t.array("b", 300, fill=1.0)
        await t.target(add_one, a, b, maps=omp.map(tofrom=a), firstprivate=b, iterations=64)

    async def data(t: omp.HostThread, a: Any) -> None:
        async with t.target_data(omp.map(to=a)):
            await t.target(add_one, a, a, iterations=64, nowait=True)
            await t.taskwait()
            if mistake == "locked":
                await lock.acquire()
            await t.target_update(omp.from_(a))
            if mistake == "locked":
                lock.release()

    async def copy(t: omp.HostThread, a: Any) -> None:
        p = await t.omp_target_alloc(1 << 14)
        if p is None and mistake == "crash":
            raise KeyError("no memory")
        if p is None:
            a.values[:] = 2.0
            return
        code = await t.omp_target_memcpy(p, a, 512)
        a.values[:] = 0.0
        back = await t.omp_target_memcpy(a, p, 512)
        if mistake == "unchecked" or not (code or back):
            a.values[:] += 1.0
            await t.omp_target_free(p)
        else:
            a.values[:] = 2.0

    async def body(t: omp.HostThread) -> float:
        a = t.array("a", 64, fill=1.0)
        await {"region": region, "data": data, "copy": copy}[part](t, a)
        return float(a[0])

    return {"sum": sum(await run.parallel(body, threads))}
'''


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "sums.py"
    path.write_text(PROGRAM)
    return path


def failed(script: Path, machine: str = "alex-a100", runs: int = 1000, **parameters: Any) -> Everywhere:
    given = {"part": "copy", "mistake": "none", "threads": 1, **parameters}
    return everywhere(ScenarioProgram(f"{script}:sums", given, RunSpec(machine=machine)), runs, InProcess())


def texts(found: Everywhere) -> set[str]:
    return {counted.outcome.text.partition(" (after")[0] for counted in found.failures}


@pytest.mark.parametrize("machine", ["alex-a100", "mi300a"])
@pytest.mark.parametrize("part", ["region", "data", "copy"])
def test_awaits_of_a_program_fail_one_by_one_and_all_end_as_documented(script: Path, machine: str, part: str) -> None:
    found = failed(script, machine, 16, part=part)
    assert not found.failures and found.reference.text == "sum=2.0"
    kinds = {counted.outcome.text.partition(":")[0] for counted in found.outcomes.values()}
    assert found.runs == 16 < found.calls + found.waits and {"ThreadDied", "DriverError"} & kinds


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["alex-a100", "mi300a", "summitdev-p100", "idc-max1550"])
@pytest.mark.parametrize("part", ["region", "data", "copy"])
def test_every_await_of_threads_that_contend(script: Path, machine: str, part: str) -> None:
    assert not failed(script, machine, part=part, threads=3).failures


def test_all_awaits_are_run_unless_fewer_are_asked_for(script: Path) -> None:
    found = failed(script)
    assert found.runs == len({case.faults for case in found.cases}) == found.calls + found.waits > 20


@pytest.mark.parametrize(
    ("mistake", "text"),
    [
        ("unchecked", "sum=1.0"),
        ("locked", "the program's own lock is held by host thread 0, which has ended"),
        ("crash", "KeyError: 'no memory' (sums.py:41)"),
    ],
)
def test_a_program_that_is_not_ready_for_a_fault_is_found(script: Path, mistake: str, text: str) -> None:
    assert text in texts(failed(script, mistake=mistake, part="data" if mistake == "locked" else "copy"))


@pytest.mark.parametrize(
    ("machine", "part", "name"), [("alex-a100", StreamPool, "give_back"), ("mi300a", AmdgpuResources, "give_back")]
)
def test_a_runtime_that_loses_a_stream_is_found(
    script: Path, monkeypatch: pytest.MonkeyPatch, machine: str, part: type, name: str
) -> None:
    async def lose(*arguments: Any) -> None:
        """Forget the stream."""

    monkeypatch.setattr(part, name, lose)
    assert any("streams were not given back" in text for text in texts(failed(script, machine, 6, part="region")))


def test_a_runtime_that_loses_a_block_is_found(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offloadrt.models.host.directive.abandon", lambda *arguments: None)
    found = texts(failed(script, runs=30, part="region"))
    assert any("belongs to nobody" in text for text in found) and any("not given back" in text for text in found)


def test_a_runtime_that_keeps_its_pool_at_the_exit_is_found(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def keep(manager: LlvmMemoryManager) -> None:
        """Free nothing."""

    monkeypatch.setattr(LlvmMemoryManager, "release_pooled", keep)
    assert any("not returned to the driver" in text for text in texts(failed(script, runs=6, part="region")))


def test_a_token_gives_the_run_with_the_fault_again_in_both_gears(script: Path) -> None:
    found = failed(script, mistake="unchecked")
    program = found.program
    assert isinstance(program, ScenarioProgram)
    text = token_of(program, found.failures[0].case).encode()
    for gear in ("native", "turbo"):
        again = replay(text, gear=gear)
        assert again.is_same and again.ended.outcome.text == "sum=1.0" != again.reference.text


def test_the_command_line_tells_what_fails_and_replays_it(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", str(script), "--faults", "everywhere", "--runs", "5", "--jobs", "1"]) == 0
    assert re.search(r"sums: 5 of \d+ awaits were made to fail, one in each run: \d+ calls", capsys.readouterr().out)
    assert main(["explore", str(script), "mistake=unchecked", "--faults", "everywhere", "--jobs", "1"]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"sums mistake=unchecked, fault call:\d+: sum=1.0\n", printed)
    token = re.findall(r"offloadrt replay (\S+)", printed)[0]
    assert main(["replay", token]) == 1
    replayed = capsys.readouterr().out
    assert "the same run, event by event" in replayed and "\n  fault call:" in replayed


def test_what_is_done_and_how_long_it_takes_is_told_before_it_is_done(
    script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explore", str(script), "--faults", "everywhere", "--runs", "5"]) == 0
    told = capsys.readouterr().err
    assert told.startswith("explore sums: a run that finds its awaits, then one with a fault at each, 5 at most\n")
    assert re.search(r"explore sums: (about \d+ s|less than a second) for 5 runs; --runs makes fewer\n", told)
    assert "explore sums, faults: 0 of 5 runs\n" in told


@pytest.mark.parametrize("asked", [["--faults", "everywhere"], ["--strategy", "random"]])
def test_ctrl_c_shows_what_came_out_up_to_then(
    script: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made, run = [], ScenarioProgram.run

    def interrupted(program: ScenarioProgram, *arguments: Any) -> Any:
        made.append(program)
        if len(made) > 10:
            raise KeyboardInterrupt
        return run(program, *arguments)

    monkeypatch.setattr(ScenarioProgram, "run", interrupted)
    monkeypatch.setattr("offloadrt.extensions.exploring.explore._FAULTS_BATCH", 4)
    assert main(["explore", str(script), "--jobs", "1", *asked]) == 130
    shown = capsys.readouterr()
    assert "interrupted: what came out up to now follows" in shown.err
    assert re.search(
        r"sums: (8 of \d+ awaits were made to fail|one run in the order of scheduling, 8 under)", shown.out
    )


def test_ctrl_c_while_a_schedule_is_made_smaller_shows_it_as_it_is(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = ScenarioProgram(f"{script}:sums", {}, RunSpec())
    case = ScheduleCase("random", 1)
    outcome = program.run(case, case.strategy).outcome

    def interrupted(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(ScenarioProgram, "run", interrupted)
    assert shrink(program, SchedulePlan.parse("random"), case, outcome, outcome).case == case
