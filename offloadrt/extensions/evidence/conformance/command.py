"""The command `conform`, and what it prints with `--json`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from offloadrt.cli.options import Json
from offloadrt.cli.terminal import NEGATIVE, print_json
from offloadrt.study.spec import Gear

if TYPE_CHECKING:
    from offloadrt.extensions.evidence.conformance.conform import ConformanceReport


def conform(*files: Path, gear: Gear = "turbo", json: Json = False) -> int:
    """Replay recorded programs and compare, step by step, with what the real runtime did.

    Prints the first step and field that differ, per case; the exit code is 0 only when all agree.

    Parameters
    ----------
    files:
        Files of recorded cases (JSON Lines).
    """
    from offloadrt.study.errors import UserError

    if not files:
        raise UserError("conform: name at least one file of recorded cases")
    for file in files:
        if file.is_dir():
            raise UserError(f"{file}: is a directory; name the files in it")
        if not file.exists():
            raise UserError(f"{file}: cannot be read: no such file")
    from offloadrt.extensions.evidence.conformance import conform as conformance

    try:
        report = conformance.conform(list(files), gear=gear)
    except conformance.ConformanceFileError as error:
        raise UserError(str(error)) from None
    if json:
        print_json(ConformanceRecord.of(report))
    else:
        print(report)
    return NEGATIVE if report.differing else 0


@attrs.frozen
class ConformanceDifference:
    """The first difference of a case; step -1 is the outcome of the whole program. Values as Python writes them."""

    case: str
    step: int
    field: str
    expected: str
    actual: str


@attrs.frozen
class ConformanceRecord:
    """What `conform` prints."""

    cases: int
    differing: int
    differences: list[ConformanceDifference]

    @classmethod
    def of(cls, report: ConformanceReport) -> ConformanceRecord:
        """Describe a report."""
        differences = [
            ConformanceDifference(found.case, found.step, found.field, repr(found.expected), repr(found.actual))
            for found in report.differences
        ]
        return cls(report.cases, report.differing, differences)
