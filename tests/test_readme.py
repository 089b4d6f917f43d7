"""The Python in README.md runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from offloadrt.cli import main

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def test_its_program_is_the_scenario_and_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = (block for block in BLOCKS if "@scenario" in block)
    shipped = (ROOT / "scenarios" / "overlap.py").read_text(encoding="utf-8")
    assert shipped.endswith(program.partition("@kernel")[2])
    script = tmp_path / "mine.py"
    script.write_text(program)
    assert main(["run", str(script), "threads=2", "n=64"]) == 0
    assert "per_thread_s" in capsys.readouterr().out


def test_its_tests_pass(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    tests = [block for block in BLOCKS if "async def test_" in block]
    for number, text in enumerate(tests):
        pytester.makepyfile(**{f"test_readme_{number}": text})
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=len(tests))
