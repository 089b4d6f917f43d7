"""What README.md and the how-to pages show runs as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from offloadrt.cli import main
from offloadrt.recording.errors import ToolchainMissing
from offloadrt.recording.toolchain import find_compiler

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
COMMANDS = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)


def test_its_program_is_the_scenario_and_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = (block for block in BLOCKS if "async def overlap" in block)
    shipped = (ROOT / "scenarios" / "overlap.py").read_text(encoding="utf-8")
    assert shipped.endswith(program.partition("@kernel")[2])
    script = tmp_path / "mine.py"
    script.write_text(program)
    assert main(["run", str(script), "threads=2", "n=64"]) == 0
    assert "per_thread_s" in capsys.readouterr().out


def test_its_first_program_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = next(block for block in BLOCKS if "async def scaled" in block)
    (tmp_path / "scaled.py").write_text(program)
    assert main(["why", str(tmp_path / "scaled.py"), "--budget", "0s"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    shown = TEXT.partition("offloadrt why scaled.py\n")[2].partition("offloadrt run")[0]
    assert said.startswith(" ".join(shown.split()))


def test_its_race_is_found_and_its_token_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = (block for block in BLOCKS if "async def race" in block)
    (shown,) = re.findall(r"\$ uv run offloadrt (explore race.*)\n((?:.*\n)*?)```", TEXT)
    monkeypatch.chdir(tmp_path)
    Path("race.py").write_text(program)
    assert main([*shown[0].split(), "--jobs", "1"]) == 1
    printed = capsys.readouterr().out
    assert [line for line in shown[1].splitlines()[:-1] if line not in printed] == []
    assert main(["replay", printed.split()[-1]]) == 1
    assert "the same run, event by event" in capsys.readouterr().out


def test_its_commands_record_and_replay_a_binary(tmp_path: Path) -> None:
    try:
        find_compiler("cc")
    except ToolchainMissing as missing:
        pytest.skip(str(missing))
    (block,) = (block for block in COMMANDS if "offloadrt record" in block and "offloadrt compare" in block)
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    for words in commands:
        assert words[:3] == ["uv", "run", "offloadrt"]
        done = subprocess.run(
            [sys.executable, "-m", "offloadrt", *words[3:]], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
    assert [words[3] for words in commands] == ["cc", "record", "show", "run", "compare"]


def test_its_tests_pass(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    tests = [block for block in BLOCKS if "async def test_" in block]
    for number, text in enumerate(tests):
        pytester.makepyfile(**{f"test_readme_{number}": text})
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=len(tests))


def test_its_mistakes_are_found_as_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program = next(block for block in BLOCKS if "async def doubled" in block)
    (tmp_path / "mistakes.py").write_text(program.replace('print("the sum is", a.data.sum())', "a.data.sum()"))
    (printed,) = (block for block in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL) if "offloadrt check" in block)
    told = re.split(r"\$ uv run offloadrt (.*)\n", printed)[1:]
    for command, expected in zip(told[::2], told[1::2], strict=True):
        assert main(shlex.split(command)) == 1
        assert capsys.readouterr().out == expected
    assert main(["check", "mistakes.py"]) == 0
