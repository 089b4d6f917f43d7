"""The command `check`: runs a program once under the checker and prints what it found."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from offloadrt.cli.options import DEFAULTS, Json, ParameterValues, ScenarioName, single
from offloadrt.cli.terminal import NEGATIVE, console, run_progress
from offloadrt.study.spec import RunSpec

if TYPE_CHECKING:
    from offloadrt.extensions.checking.checked import CheckReport
    from offloadrt.extensions.checking.mistakes import Waste

Savings = Annotated[
    bool,
    Parameter(help="Run the program again for each row of waste, to know what its repair saves.", negative=()),
]


def check(
    scenario: ScenarioName,
    /,
    *parameters: ParameterValues,
    spec: RunSpec = DEFAULTS,
    savings: Savings = False,
    json: Json = False,
) -> int:
    """Run a program once and report its mistakes: races, stale and uninitialised data, wrong maps.

    The exit code is 1 when a mistake is reported. A table of waste follows, worst first: transfers and allocations that
    were for nothing, and the time that they took. Waste alone leaves the exit code 0. A script that fails, as by an
    assertion of its own, gets its traceback after the mistakes that were found until then, and the exit code 3.
    """
    from offloadrt.extensions.checking.checked import check as checked
    from offloadrt.study.errors import ScriptFailed, UserError
    from offloadrt.study.scripts import registry
    from offloadrt.study.scripts.parameters import split_assignments

    chosen = registry.find(scenario)
    given = chosen.bind(split_assignments(parameters))
    with run_progress(chosen.name) as (advanced, before_run):
        report = checked(chosen, given, single(spec), advanced, before_run, savings)
    if json:
        sys.stdout.buffer.write(report.to_json() + b"\n")
    else:
        console().print(*_lines(report), sep="\n", markup=False, highlight=False, soft_wrap=True)
        if report.wastes:
            _print_wastes(report.wastes)
        if report.unknown_copies:
            console().print(report.unknown_copies, markup=False, highlight=False, soft_wrap=True)
    if report.failure:
        raise (ScriptFailed if report.script_failed else UserError)(report.failure)
    return NEGATIVE if report.mistakes or any(fault.happened for fault in report.runtime_faults) else 0


def _lines(report: CheckReport) -> Iterator[str]:
    happened = [fault for fault in report.runtime_faults if fault.happened]
    for mistake in (*report.mistakes, *happened):
        yield from (*mistake.lines(), "")
    count = len(report.mistakes)
    nothing = "nothing to report of what was checked" if report.unknown_kernels else "nothing to report"
    found = nothing if not count else "1 mistake" if count == 1 else f"{count} mistakes"
    of_program = f"{found} of the program's" if count else "no mistake of the program's"
    for kind, times in Counter([fault.kind for fault in happened]).items():
        found = f"{of_program}, {times} {kind}{'s' * (times > 1)} of the runtime's"
        of_program = found
    until = "" if not report.failure else " until the program failed"
    yield f"{report.scenario} on {report.machine}: {found}{until}"
    if report.requires:
        yield f"the program requires {report.requires}"
    for fault in report.runtime_faults:
        if not fault.happened:
            write, copy = fault.stories
            yield (
                f"LLVM can lose an update of {fault.subject} under another schedule: {write.who} {write.did} at "
                f"{write.where}. No event of the runtime orders that before this: {copy.who} {copy.did} at {copy.where}"
            )
    yield from [f"lost result: {told}" for told in report.lost_results]
    if report.unknown_kernels:
        names = ", ".join(report.unknown_kernels)
        yield f"not checked, for nothing says what they read and write: kernels {names}"
    if report.not_known:
        yield f"not known: {'; '.join(report.not_known)}"


def _print_wastes(wastes: tuple[Waste, ...]) -> None:
    from rich.markup import escape

    from offloadrt.cli.render import table_of
    from offloadrt.study.reporting.words import seconds, size

    table = table_of(
        "Waste, which is no mistake", "", "what", "data", "times", "bytes", "saves", "where", right=(0, 3, 4, 5)
    )
    for number, waste in enumerate(wastes, 1):
        where = f"{waste.story.did}{waste.story.where and ' at '}{waste.story.where}"
        kinds = "\n".join([part.kind for part in waste.parts])
        times = "\n".join([str(part.times) for part in waste.parts])
        sizes = "\n".join([size(part.nbytes) for part in waste.parts])
        saves = seconds(waste.time_s) + " without waits" * waste.is_sum
        if waste.is_of_pool:
            saves = "hardly anything"
        elif not waste.is_sum and not waste.time_s:
            saves = "nothing here"
        cells = str(number), kinds + "?" * bool(waste.uncertain), waste.subject, times, sizes, saves, where
        table.add_row(*[escape(cell) for cell in cells])
    console().print("", table)
    advice = [
        f"{number}. " + (f"Not certain, for {waste.uncertain}." if waste.uncertain else waste.advice)
        for number, waste in enumerate(wastes, 1)
    ]
    console().print(*advice, sep="\n", markup=False, highlight=False, soft_wrap=True)
