"""Builds programs of MPI with the library at hand, and records their ranks. Needs clang 22 and MPICH or Open MPI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from recorded_programs import PROGRAMS

from offloadrt.extensions.recording.format import Recording, RecordingFile, convert
from offloadrt.extensions.recording.format.recording import PartKind, Step, TaskTree
from offloadrt.extensions.recording.toolchain import RecordOptions, ToolchainMissing, find_compiler, record

LIBRARIES: Final = ("mpich", "openmpi")
_WRAPPERS: Final = {".c": ("mpicc", "cc"), ".f90": ("mpifort", "fc"), ".F90": ("mpifort", "fc")}
_AS_ROOT: Final = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
}  # fmt: skip
"""What Open MPI asks of a container that is root and has fewer cores than ranks."""


def _needs(library: str, *tools: str) -> None:
    try:
        find_compiler("cc")
    except ToolchainMissing as missing:
        pytest.skip(str(missing))
    for tool in tools:
        if shutil.which(f"{tool}.{library}") is None:
            pytest.skip(f"{tool}.{library} is not installed (mpich, or openmpi-bin and libopenmpi-dev)")


def built_with(library: str, source: str, folder: Path, *flags: str, offloads: bool = True) -> Path:
    """Build a program with the library's wrapper of a compiler: `offloadrt cc` or `fc`, or its own; skip without it."""
    wrapper, language = _WRAPPERS[Path(source).suffix]
    _needs(library, wrapper, "mpiexec")
    program = folder / f"{Path(source).stem}.{library}"
    environment = dict(os.environ)
    if offloads:
        compiler = f"{sys.executable} -m offloadrt {language}"
        for variable in ("MPICH_CC", "OMPI_CC", "MPICH_FC", "OMPI_FC"):
            environment[variable] = compiler
        flags = ("-fopenmp", *flags)
    command = [f"{wrapper}.{library}", "-g", *flags, str(PROGRAMS / source), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return program


def recorded_ranks(
    monkeypatch: pytest.MonkeyPatch, library: str, program: Path, ranks: int, *arguments: object, **wishes: object
) -> Path:
    """Record the ranks of a program; returns the recording."""
    for name, value in _AS_ROOT.items():
        monkeypatch.setenv(name, value)
    raw, recording = program.with_suffix(".raw"), program.with_suffix(".rec")
    command = [f"mpiexec.{library}", "-n", str(ranks), str(program), *map(str, arguments)]
    record(command, raw, [None], RecordOptions(**wishes))
    convert(raw, recording)
    return recording


def ranks_in(path: Path) -> list[Recording]:
    """Load the ranks of a recording, in their order."""
    file = RecordingFile.read(path)
    return sorted((file.load(run) for run in file.runs), key=lambda rank: rank.meta.rank or 0)


def calls_of(recording: Recording) -> list[tuple[str, int, int, int]]:
    """List the calls of MPI of a rank: name, line, bytes that it gave, bytes that it got."""
    columns, found = recording.columns, []
    tree = TaskTree(columns)
    for root in tree.roots():
        for row in range(tree.rows(root).start, tree.rows(root).stop):
            if columns["record.step"][row] != Step.MPI:
                continue
            call = recording.dictionaries.mpi_calls[int(columns["record.subject"][row])]
            parts = recording.range_of("parts", int(columns["record.detail"][row]))
            nbytes = dict.fromkeys(PartKind, 0)
            for part in parts:
                nbytes[PartKind(columns["part.kind"][part])] += int(columns["part.bytes"][part])
            gave = nbytes[PartKind.SEND] + nbytes[PartKind.GIVES]
            got = nbytes[PartKind.MATCHED] + nbytes[PartKind.COMPLETED] + nbytes[PartKind.TAKES]
            found.append((call.call, call.line, gave, got))
    return found
