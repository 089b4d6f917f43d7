"""`offloadrt check`: what it prints, and its exit code."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from offloadrt.cli import main

PROGRAM = textwrap.dedent('''
    from offloadrt import Run, kernel, scenario
    from offloadrt import openmp as omp

    @kernel
    def double(a, n):
        for i in range(n):
            a[i] = a[i] * 2.0

    @scenario
    async def doubled(run: Run, n: int = 64, wait: bool = True, missing: bool = False):
        """Doubles an array."""
        async def body(t):
            a, b = t.array("a", n, fill=1.0), t.array("b", n, fill=1.0)
            async with t.target_data(omp.map(to=a)):
                await t.target(double, a, n, nowait=True)
                if wait:
                    await t.taskwait()
                await t.target_update(omp.from_(a))
                await t.taskwait()
                if missing:
                    await t.target(double, b, n, maps=omp.map(to=omp.section(b, 0, n // 2)))
        await run.parallel(body)
''')


@pytest.fixture
def program(tmp_path: Path) -> str:
    file = tmp_path / "doubled.py"
    file.write_text(PROGRAM)
    return str(file)


def test_a_program_without_mistakes(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", program]) == 0
    assert capsys.readouterr().out == "doubled on alex-a100: nothing to report\n"


def test_a_kernel_that_states_its_costs_alone_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin, end = PROGRAM.index("@kernel"), PROGRAM.index("@scenario")
    made = 'exec("def double(a, n): pass")\ndouble = kernel(flops_per_iteration=1, bytes_per_iteration=16)(double)\n'
    stated = (PROGRAM[:begin] + made + PROGRAM[end:]).replace("fill=1.0", "phantom=True")  # it has no source to read
    (tmp_path / "stated.py").write_text(stated, encoding="utf-8")
    assert main(["check", str(tmp_path / "stated.py")]) == 0
    told = capsys.readouterr().out
    assert "doubled on alex-a100: nothing to report of what was checked\n" in told
    assert "not checked, for nothing says what they read and write: kernels double\n" in told


def test_a_race_is_told_with_both_lines(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", program, "wait=false"]) == 1
    told = capsys.readouterr().out
    assert "race: a on device 0\n" in told and "doubled on alex-a100: 1 mistake\n" in told
    assert "doubled.py:16" in told and "doubled.py:19" in told


def test_json(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", program, "wait=false", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    (mistake,) = report["mistakes"]
    assert mistake["kind"] == "race" and [story["who"] for story in mistake["stories"]]
    assert report["elapsed_s"] > 0 and report["unknown_kernels"] == []


def test_an_error_of_the_program_is_a_mistake(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", program, "missing=true"]) == 1
    assert "fatal error: CUDA error: an illegal memory access" in capsys.readouterr().out


def test_an_error_outside_of_a_directive_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = PROGRAM.replace("async with", "t.free(b)\n        async with")
    (tmp_path / "free.py").write_text(program, encoding="utf-8")
    assert main(["check", str(tmp_path / "free.py")]) == 1
    assert "fatal error: free of 'b': no allocation begins" in capsys.readouterr().out


def test_a_mistake_of_the_script_is_none(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", program, "n=-1"]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_an_error_of_a_policy_is_no_fatal_error_of_the_program(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(
        "from offloadrt.runtime.allocators import Direct\n"
        "class Mine(Direct):\n    async def allocate(self, *_): {}[3]\n"
    )
    assert main(["check", program, "--allocator", f"{tmp_path / 'mine.py'}:Mine"]) == 3
    shown = capsys.readouterr()
    assert "fatal error" not in shown.out and "KeyError: 3" in shown.err


def test_programs_of_models_that_tell_nothing_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "stdpar"]) == 2
    assert "stdpar tells nothing of what it does with memory" in capsys.readouterr().err


def test_what_was_found_before_an_assertion_failed_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = PROGRAM.replace("await t.target_update", "assert a[0] == 2.0\n            await t.target_update")
    (tmp_path / "sure.py").write_text(program, encoding="utf-8")
    assert main(["check", str(tmp_path / "sure.py")]) == 3
    told = capsys.readouterr()
    assert "stale data: a\n" in told.out and told.out.endswith("1 mistake until the program failed\n")
    assert "assert a[0] == 2.0" in told.err and "AssertionError" in told.err
    assert main(["check", str(tmp_path / "sure.py"), "--json"]) == 3
    assert "AssertionError" in json.loads(capsys.readouterr().out)["failure"]
