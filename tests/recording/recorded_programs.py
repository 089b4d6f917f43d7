"""Builds the programs of `programs/` as a user does, and records them. Needs clang 22."""

from __future__ import annotations

import functools
import subprocess
import sys
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
    """Build a program with `offloadrt cc` (or cxx, fc); skip the test where its compiler is missing."""
    language = LANGUAGES[Path(source).suffix]
    for needed in ("cc", language):
        try:
            find_compiler(needed)
        except ToolchainMissing as missing:
            pytest.skip(str(missing))
    program = folder / Path(source).stem
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
