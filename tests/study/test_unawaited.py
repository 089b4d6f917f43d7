"""A directive without `await` does nothing: the run says so instead of giving figures."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from offloadrt import Run, scenario
from offloadrt import openacc as acc
from offloadrt import openmp as omp
from offloadrt.study import ScriptFailed, UserError, execute

pytest_plugins = ["pytester"]


@scenario
async def forgetful(run: Run, directive: str = "target_enter_data", fails: bool = False) -> None:
    """Forgets an `await`."""

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 8)
        if directive == "compute":
            t.compute(1.0)
        elif directive:
            getattr(t, directive)(omp.map(to=a))
        await t.target_enter_data(omp.map(to=a))
        if fails:
            raise ZeroDivisionError

    await run.parallel(body, num_threads=2)


@pytest.mark.parametrize("gear", ["turbo", "native"])
def test_a_forgotten_directive_is_named_with_its_thread_and_line(gear: str) -> None:
    with pytest.raises(UserError) as caught:
        execute(forgetful, gear=gear)
    source = Path(__file__).read_text().splitlines()
    line = next(n for n, text in enumerate(source, 1) if "getattr(t" in text)
    assert re.match(rf"host thread 0: target enter data was never awaited \(.*py, line {line}\)", str(caught.value))
    assert "and 1 more" in str(caught.value)


def test_any_other_forgotten_coroutine_is_named() -> None:
    with pytest.raises(UserError, match="host thread 0: compute was never awaited"):
        execute(forgetful, {"directive": "compute"})


@pytest.mark.parametrize("model", ["openmp", "openacc"])
def test_a_region_that_is_never_entered(model: str) -> None:
    @scenario
    async def forgetful(run: Run) -> None:
        run.options = acc.OpenACCOptions() if model == "openacc" else omp.OpenMPOptions()

        async def body(t: Any) -> None:
            a = t.array("a", 8)
            if model == "openacc":
                t.data(acc.copy(a))
            else:
                t.target_data(omp.map(to=a))
            await t.compute(1.0)

        await run.parallel(body)

    name = "data" if model == "openacc" else "target_data"
    with pytest.raises(UserError, match=rf"thread 0: {name} was never entered \(.*, line .*write `async with`"):
        execute(forgetful)


def test_a_region_that_is_kept_may_stay_unused() -> None:
    @scenario
    async def careful(run: Run) -> None:
        async def body(t: omp.HostThread) -> None:
            around = t.target_data(omp.map(to=t.array("a", 8)))
            async with around if t.number else contextlib.nullcontext():
                await t.compute(1.0)

        await run.parallel(body, num_threads=2)

    assert execute(careful).bytes.h2d == 64


def test_an_error_of_the_program_comes_first() -> None:
    with pytest.raises(ScriptFailed, match=r"(?s)ZeroDivisionError.*target enter data was never awaited"):
        execute(forgetful, {"fails": True})


def test_what_is_awaited_is_no_error() -> None:
    assert execute(forgetful, {"directive": ""}).elapsed_s > 0


def test_a_test_fails_too(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.makepyfile(
        "from offloadrt import openmp as omp\n"
        "async def test_it(offload):\n"
        "    async def body(t):\n"
        "        t.target_enter_data(omp.map(to=t.array('a', 8)))\n"
        "    await offload.parallel(body)\n"
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-o", "trio_mode=true")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*host thread 0: target enter data was never awaited*line 4*"])


def test_a_region_that_was_kept_until_the_interpreters_end_is_left_in_silence(tmp_path: Path) -> None:
    script = tmp_path / "kept.py"
    script.write_text(
        "from offloadrt import Run, openmp as omp, scenario\n"
        "from offloadrt.study import execute\n"
        "kept = []\n"
        "@scenario\n"
        "async def keeps(run: Run) -> None:\n"
        "    async def body(t):\n"
        "        kept.append(t.target_data(omp.map(to=t.array('a', 8))))\n"
        "    await run.parallel(body)\n"
        "execute(keeps)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("", "")
