"""The command `check`: runs a program once under the checker and prints what it found."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from offloadrt.cli.app import app
from offloadrt.cli.exit_codes import NEGATIVE
from offloadrt.cli.options import DEFAULTS, Json, RunOptions
from offloadrt.cli.terminal import console, run_progress

if TYPE_CHECKING:
    from offloadrt.study.running.checked import CheckReport


@app.command
def check(
    scenario: str,
    /,
    *parameters: str,
    options: RunOptions = DEFAULTS,
    json: Json = False,
) -> int:
    """Run a program once and report its mistakes: races, stale and uninitialised data, wrong maps.

    The exit code is 1 when something is reported.

    Parameters
    ----------
    scenario:
        A scenario's name, a script, SCRIPT.py:NAME, or a recording.
    parameters:
        The scenario's parameters, as name=value (see `offloadrt show SCENARIO`).
    """
    from offloadrt.study.running.checked import check as checked
    from offloadrt.study.scripts import registry
    from offloadrt.study.scripts.parameters import split_assignments

    chosen = registry.find(scenario)
    given = chosen.bind(split_assignments(parameters))
    with run_progress(chosen.name) as (advanced, watched):
        report = checked(chosen, given, options.given(), advanced, watched)
    if json:
        sys.stdout.buffer.write(report.to_json() + b"\n")
    else:
        console().print(*_lines(report), sep="\n", markup=False, highlight=False, soft_wrap=True)
    return NEGATIVE if report.mistakes else 0


def _lines(report: CheckReport) -> Iterator[str]:
    for mistake in report.mistakes:
        yield from (*mistake.lines(), "")
    count = len(report.mistakes)
    found = "nothing to report" if not count else "1 mistake" if count == 1 else f"{count} mistakes"
    yield f"{report.scenario} on {report.machine}: {found}"
    if report.unknown_kernels:
        names = ", ".join(report.unknown_kernels)
        yield f"not checked, for nothing says what they read and write: kernels {names}"
