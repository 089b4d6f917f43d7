"""The native parts compile without a warning."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import offloadrt.extensions.recording
from offloadrt.extensions.recording.toolchain import ToolchainMissing, find_compiler

NATIVE = Path(offloadrt.extensions.recording.__file__).parent / "native"
SOURCES = sorted(NATIVE.rglob("*.c"))


def mpi_headers():
    """The flags by which an mpicc finds its headers; None without one."""
    for name in ("mpicc", "mpicc.mpich", "mpicc.openmpi"):
        if (mpicc := shutil.which(name)) is not None:
            shown = subprocess.run([mpicc, "-show"], capture_output=True, text=True, check=True).stdout
            return [word for word in shlex.split(shown) if word.startswith("-I")]
    return None


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.relative_to(NATIVE).as_posix())
def test_it_compiles_without_a_warning(source):
    try:
        compiler = find_compiler("cc")
    except ToolchainMissing as missing:
        pytest.skip(str(missing))
    headers = []
    if source.parent.name == "mpi" and (headers := mpi_headers()) is None:
        pytest.skip("no mpicc is installed")
    flags = [*headers, "-std=gnu17", "-O1", "-fsyntax-only", "-DLAYOUT=0", "-Wall", "-Wextra", "-Werror"]
    done = subprocess.run([compiler.path, *flags, source], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "source", sorted([*SOURCES, *NATIVE.rglob("*.cpp"), *NATIVE.rglob("*.h")]), ids=lambda p: p.name
)
def test_it_is_not_long(source):
    assert len(source.read_text(encoding="utf-8").splitlines()) <= 400
