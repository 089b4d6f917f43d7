"""The command `kernels`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from offloadrt.cli.options import Json
from offloadrt.cli.terminal import console, print_json

Predicated = Annotated[
    bool,
    Parameter(
        help="Show the source of each kernel for several devices instead (JACC's predicate-based filtering).",
        negative=(),
    ),
]


def kernels(scenario: str, /, *, predicated: Predicated = False, json: Json = False) -> None:
    """Show what the source of each kernel says: accesses, LAF, index ranges, flops and bytes; and the objects' GAF.

    Parameters
    ----------
    scenario:
        A scenario's name, a script, SCRIPT.py:NAME, or a recording, whose kernels are shown with their counted costs.
    """
    from offloadrt.extensions.explaining.kernels.shown import kernels_of, predicated_kernels_of, record_of
    from offloadrt.study.scripts.definition import reader_of

    reader = reader_of(scenario)
    if json:
        print_json(record_of(scenario) if reader is None else reader.kernels_record(Path(scenario)))
    elif reader is not None:
        console().print(*reader.kernels(Path(scenario)), sep="\n")
    elif predicated:
        console().print(*predicated_kernels_of(scenario), sep="\n", soft_wrap=True)
    else:
        console().print(*kernels_of(scenario), sep="\n")
