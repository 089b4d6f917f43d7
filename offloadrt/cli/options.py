"""Options that several commands take besides those of `RunSpec`, and checks of the files that a command will write.

The files are checked before anything runs. Otherwise hours of runs, or a file that the command reads, could be lost.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import attrs
from cyclopts import Parameter

from offloadrt.study.errors import UserError
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.spec import AXES, MOST_RUNS, RunSpec

if TYPE_CHECKING:
    from offloadrt.study.certainty import Effort

ScenarioName = Annotated[str, Parameter(help="A scenario's name, a script, SCRIPT.py:NAME, or a recording.")]
ParameterValues = Annotated[
    str, Parameter(help="The scenario's parameters, as name=value (see `offloadrt show SCENARIO`).")
]
ExecutorKind = Annotated[
    Literal["process", "dask", "mpi"],
    Parameter(help="A pool of processes here, a dask cluster, or the ranks of an MPI job."),
]
Json = Annotated[
    bool,
    Parameter(name="--json", help="Print one JSON object instead of tables (see `offloadrt schema`).", negative=()),
]


def check_draws(kind: object, value: int | None) -> None:
    """Raise UserError unless `value` (of --draws) is None or 0 to `MOST_RUNS`. `kind`: the option's type, unused."""
    if value is not None and not 0 <= value <= MOST_RUNS:
        raise UserError(f"--draws {value}: it can be 0 to {MOST_RUNS:,}")


Jobs = Annotated[int | None, Parameter(help="How many runs at a time; by default one a processor.")]
DrawCount = Annotated[
    int | None,
    Parameter(
        help="How many places to draw in the ranges of all uncertain entries, the same for all runs; 0 draws none. By "
        "default as many as the budget allows.",
        validator=check_draws,
    ),
]
_BUDGET = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h)?")
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, None: 1.0}


def effort_of(draws: int | None, budget: str | None, usual_s: float, most: int) -> Effort:
    """Return how many runs with random costs `--draws` and `--budget` allow. Raises UserError for a bad value.

    usual_s, most: if the user gives neither, at most `most` runs are made, as far as `usual_s` real seconds suffice.
    """
    from offloadrt.study.certainty import Effort

    return Effort.of(draws, None if budget is None else seconds_of(budget), usual_s, most)


def seconds_of(budget: str) -> float:
    """Read a budget of real time, as in 60s, 5min or 1h; return seconds. Raises UserError."""
    if (match := _BUDGET.fullmatch(budget.strip())) is None:
        raise UserError(f"--budget {budget}: a time is written as in 60s, 5min or 1h")
    return float(match[1]) * _SECONDS[match[2]]


DEFAULTS = RunSpec()


def several(spec: RunSpec) -> tuple[RunSpec, dict[str, tuple[str, ...]]]:
    """Return `spec` with None for each option with several values, as in `h100,mi300a`, and these values by option."""
    axes = {name: texts for name in AXES if len(texts := _values(getattr(spec, name))) > 1}
    none: dict[str, Any] = dict.fromkeys(axes)
    return attrs.evolve(spec, **none), axes


def single(spec: RunSpec) -> RunSpec:
    """Return `spec` unchanged if it describes a single run. Raises UserError if a field has several values."""
    for name in several(spec)[1]:
        option = f"--{name.replace('_', '-')} {getattr(spec, name)}"
        raise UserError(f"{option}: one run takes one; compare, sweep and report take several")
    return spec


def _values(text: str | None) -> tuple[str, ...]:
    """Split a text at its commas into values, unless it is the name of an existing file; None gives none."""
    if text is None or "," not in text or Path(text).exists():
        return () if text is None else (text,)
    return tuple(value.strip() for value in text.split(",") if value.strip())


_SOURCES = {".py", ".ipynb", ".c", ".cc", ".cpp", ".cxx", ".cu", ".h", ".hpp", ".f", ".f90", ".F90", ".toml", ".md"}
"""Suffixes of files that people write, which no command may overwrite."""


_BEGINS = {
    "--log": (b"{",),
    "--perfetto": (b"\n",),
    "--figure": (b"\x89png", b"<?xml", b"<svg", b"%pdf"),
    "report": (b"<!doctype html", b"<html"),
}
"""First bytes, in lower case, of files that a command has written, by its option; only such files are overwritten."""


def check_files(outputs: Mapping[str, Path | None], inputs: Iterable[str | Path | None] = ()) -> None:
    """Check the files that a command will write. Raises UserError if one of them cannot or must not be written.

    outputs: the files to write, by the option that names them. inputs: the files that the command reads. An output must
    not be an input, another output, an existing source file or a folder. An existing file is overwritten only if its
    content begins as files of the option's format do.
    """
    read = list(inputs)
    named: dict[Path, tuple[str, Path]] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        said = f"{option} {path}"
        check_not_read(option, path, read)
        first, same = named.setdefault(path.resolve(), (option, path))
        if first != option:
            raise UserError(f"{first} and {option} both name {same}: two files cannot be one")
        if path.is_dir():
            raise UserError(f"{said}: is a folder; name a file in it")
        if path.suffix in _SOURCES and path.exists():
            raise UserError(f"{said}: would overwrite a source; name another file")
        if not path.parent.is_dir():
            raise UserError(f"{said}: there is no folder {path.parent}")
    for option, path in named.values():
        if path.is_file() and path.stat().st_size and (begins := _BEGINS.get(option)):
            with path.open("rb") as file:
                if not file.read(20).lower().startswith(begins):
                    raise UserError(f"{option} {path}: is a file of another kind; name another, or delete it")


def check_not_read(option: str, path: Path, inputs: Iterable[str | Path | None]) -> None:
    """Raise UserError if the file `path`, given by `option` to be written, is one of the inputs."""
    for other in inputs:
        if other and _is_same(path, Path(other)):
            raise UserError(f"{option} {path}: would overwrite what is read; name another file")


def check_folder(out: Path) -> None:
    """Make the folder of `--out` if it does not exist. Raises UserError when it can hold no files."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UserError(f"--out {out}: is a file; name a folder") from None
    except OSError as error:
        raise UserError(f"--out {out}: cannot be made: {error.strerror or error}") from None
    if not os.access(out, os.W_OK | os.X_OK):
        raise UserError(f"--out {out}: cannot be written: Permission denied")


def read_by(scenario: Scenario, given: Mapping[str, Any], *profiles: str | None) -> list[str | Path | None]:
    """Return all that may name a file to read: the scenario's script, its parameters' texts (`given`), and profiles."""
    return [scenario.path, *(value for value in given.values() if isinstance(value, str)), *profiles]


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # one of them does not exist, or a parameter's text is no path at all
        return False
