"""The native parts compile without a warning."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import offloadrt.recording
from offloadrt.recording.toolchain import ToolchainMissing, find_compiler

NATIVE = Path(offloadrt.recording.__file__).parent / "native"
SOURCES = sorted(NATIVE.rglob("*.c"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.relative_to(NATIVE).as_posix())
def test_it_compiles_without_a_warning(source):
    try:
        compiler = find_compiler("cc")
    except ToolchainMissing as missing:
        pytest.skip(str(missing))
    flags = ["-std=gnu17", "-O1", "-fsyntax-only", "-DLAYOUT=0", "-Wall", "-Wextra", "-Werror"]
    done = subprocess.run([compiler.path, *flags, source], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "source", sorted([*SOURCES, *NATIVE.rglob("*.cpp"), *NATIVE.rglob("*.h")]), ids=lambda p: p.name
)
def test_it_is_not_long(source):
    assert len(source.read_text(encoding="utf-8").splitlines()) <= 400
