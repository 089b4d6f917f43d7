"""Builds the programs of `programs/` as a user does, and records them. Needs clang 22."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from raw_files import Raw

from offloadrt.extensions.recording.toolchain import (
    Language,
    RecordedRun,
    RecordOptions,
    ToolchainMissing,
    find_compiler,
    record,
)

PROGRAMS = Path(__file__).parent / "programs"
LANGUAGES: dict[str, Language] = {".c": "cc", ".cpp": "cxx", ".f90": "fc"}

_EXPECTED = ("offloadrt: builds ", "warning: OpenMP support for version 52 in flang is still incomplete")


@functools.cache
def built(source: str, folder: Path, *flags: str) -> Path:
    """Put a program into a folder, built with `offloadrt cc` (or cxx, fc); skip the test without that compiler."""
    return Path(shutil.copy2(_compiled(source, *flags), folder / Path(source).stem))


@functools.cache
def _compiled(source: str, *flags: str) -> Path:
    """Build a program once for all tests of this process, in a folder that goes with the process."""
    language = LANGUAGES[Path(source).suffix]
    for needed in ("cc", language):
        try:
            find_compiler(needed)
        except ToolchainMissing as missing:
            pytest.skip(str(missing))
    folder = tempfile.mkdtemp(prefix="offloadrt-built-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = Path(folder, Path(source).stem)
    command = [sys.executable, "-m", "offloadrt", language, "-O2", "-fopenmp", *flags, str(PROGRAMS / source)]
    done = subprocess.run([*command, "-o", str(program)], capture_output=True, text=True, cwd=folder, check=False)
    said = [line for line in done.stderr.splitlines() if not line.startswith(_EXPECTED)]
    assert (done.returncode, said) == (0, [])
    return program


def recorded(
    program: Path, *arguments: object, threads: int | None = None, **wishes: object
) -> tuple[RecordedRun, Raw]:
    """Record one run of a program."""
    raw = program.with_name(f"{program.name}.raw")
    (run,) = record([str(program), *map(str, arguments)], raw, [threads], RecordOptions(**wishes))
    return run, Raw(raw / run.folder)
