"""The programs and tests that README.md and the how-to pages show run as they stand there."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from documented import PAGES, ROOT, blocks

from offloadrt.cli import main

pytest_plugins = ["pytester"]

TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
BLOCKS = [block for page in PAGES for block in blocks(page, "python")]


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


def test_its_races_token_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = (block for block in BLOCKS if "async def race" in block)
    monkeypatch.chdir(tmp_path)
    Path("race.py").write_text(program)
    assert main(["explore", "race.py", "--strategy", "pct:3", "--runs", "100", "--jobs", "1"]) == 1
    assert main(["replay", capsys.readouterr().out.split()[-1]]) == 1
    assert "the same run, event by event" in capsys.readouterr().out


def test_its_tests_pass(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    tests = [block for block in BLOCKS if "async def test_" in block]
    for number, text in enumerate(tests):
        pytester.makepyfile(**{f"test_readme_{number}": text})
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=len(tests))


def test_its_durations_are_those_that_were_measured(capsys: pytest.CaptureFixture[str]) -> None:
    durations = runpy.run_path(str(ROOT / "bench" / "durations.py"))
    text, known = (ROOT / "README.md").read_text(encoding="utf-8"), durations["stored"]()
    assert list(known) == durations["path"](text), "python bench/durations.py measures what is new"
    assert durations["with_durations"](text, known) == text
    assert all(took.processor_s > 0.0 and took.wall_s > 0.0 for took in known.values())
    for name, budget in durations["BUDGETS"].items():
        assert main([name, "--help"]) == 0 and f"{budget}s" in capsys.readouterr().out
    table = text.partition("## Ask your own questions")[2].partition("\n## ")[0]
    assert len(durations["table"](text)) == table.count("\n| ") - 2 > 10, "every row is read"
