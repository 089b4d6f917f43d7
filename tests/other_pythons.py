"""Other Pythons of this machine, with what offloadrt needs, for tests of what must not depend on the interpreter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest

MINORS = [11, 12, 13, 14]
PROJECT = Path(__file__).resolve().parents[1]


def interpreter(minor: int, *names: str) -> str:
    """Return a Python 3.``minor`` that can import those packages; made once in a folder for temporary files."""
    if sys.version_info[:2] == (3, minor):
        return sys.executable
    if (uv := shutil.which("uv")) is None:
        pytest.skip("uv, which finds other Pythons, is not installed")
    needs = [name if name == "numpy" else f"{name}=={version(name)}" for name in names]  # each has its own numpy
    found = [f"python3.{minor}", *map(str, sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3")))]
    folder = Path(tempfile.gettempdir()) / f"offloadrt-tests-{os.getuid()}" / f"3.{minor}-trio-{version('trio')}"
    python = folder / "bin" / "python"
    if not python.exists():
        for name in found:
            made = subprocess.run(
                [uv, "venv", "-q", "--clear", "--no-python-downloads", "--python", name, folder], capture_output=True
            )
            if made.returncode == 0:
                break
        else:
            pytest.skip(f"no Python 3.{minor} on this machine")
    wanted = subprocess.run([uv, "pip", "install", "-q", "--python", python, *needs], capture_output=True, text=True)
    if wanted.returncode:
        pytest.skip(f"Python 3.{minor} lacks {', '.join(needs)}: {wanted.stderr.strip().splitlines()[-1:]}")
    return str(python)


def printed(python: str, script: Path, hash_seed: str) -> str:
    """Run a script of the tests, and return what it printed; it may print no warning."""
    done = subprocess.run(
        [python, script],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
