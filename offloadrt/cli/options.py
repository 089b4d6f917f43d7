"""Options that several commands take, beside those of `RunSpec`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
from cyclopts import Parameter

from offloadrt.study.errors import UserError
from offloadrt.study.spec import AXES, RunSpec

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
Whole = Annotated[
    bool,
    Parameter(
        help="Run all of a long program, instead of a few instances of each of its repeated phases (see `run "
        "--sample-phases`).",
        negative=(),
    ),
]
Jobs = Annotated[int | None, Parameter(help="How many runs at a time; by default one a processor.")]


DEFAULTS = RunSpec()


def several(spec: RunSpec) -> tuple[RunSpec, dict[str, tuple[str, ...]]]:
    """Return a spec without the fields that have several values, and the values of those, by name."""
    axes = {name: texts for name in AXES if len(texts := _values(getattr(spec, name))) > 1}
    none: dict[str, Any] = dict.fromkeys(axes)
    return attrs.evolve(spec, **none), axes


def single(spec: RunSpec) -> RunSpec:
    """Return a spec of one run. Raises UserError where one of its fields has several values."""
    for name in several(spec)[1]:
        option = f"--{name.replace('_', '-')} {getattr(spec, name)}"
        raise UserError(f"{option}: one run takes one; compare, sweep and report take several")
    return spec


def _values(text: str | None) -> tuple[str, ...]:
    """Return the values that commas divide; the name of a file may have commas in it."""
    if text is None or "," not in text or Path(text).exists():
        return () if text is None else (text,)
    return tuple(value.strip() for value in text.split(","))
