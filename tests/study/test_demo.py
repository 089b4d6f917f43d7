"""`offloadrt demo`: the tour goes through run, why, compare and report."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from offloadrt.cli import main


@pytest.mark.slow
def test_it_goes_on_by_itself_where_nobody_can_press_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert main(["demo"]) == 0
    printed = capfd.readouterr().out
    assert re.findall(r"^\$ offloadrt (\w+)", printed, re.M) == ["run", "why", "compare", "report"]
    (page,) = tmp_path.glob("offloadrt-demo-*/demo.html")
    assert str(page) in printed and "<html" in page.read_text(encoding="utf-8")


def test_in_a_terminal_it_waits_for_return_and_ends_when_asked(tmp_path: Path) -> None:
    reader, keyboard = pty.openpty()
    os.write(reader, b"\n\x04")
    done = subprocess.run(
        [sys.executable, "-m", "offloadrt", "demo"], stdin=keyboard, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^\$ offloadrt (\w+)", done.stdout, re.M) == ["run", "why"] and "per_thread_s" in done.stdout
