"""The commands `validate` and `conform`, and the record that `conform --json` prints."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import attrs
from cyclopts import Parameter

from offloadrt.cli.options import DEFAULTS, Jobs, Json, seconds_of
from offloadrt.cli.terminal import INTERRUPTED, NEGATIVE, console, print_json, stages
from offloadrt.registry import Registry
from offloadrt.study.errors import UserError
from offloadrt.study.spec import Gear, Machine, Overrides, Runtime

if TYPE_CHECKING:
    from offloadrt.extensions.evidence.conformance.conform import ConformanceReport

_MEASURED: Final = Registry[Any]("part of the independent measurements", "offloadrt.independent")
"""The package's own measured results (`results`), which `--independent` predicts if no file is given."""


def validate(
    file: Path | None = None,
    /,
    *,
    paper: str = "exahype",
    independent: Annotated[bool, Parameter(negative=())] = False,
    leave_out: str | None = None,
    intervals: Annotated[bool, Parameter(negative=())] = False,
    budget: str | None = None,
    quick: Annotated[bool, Parameter(negative=())] = False,
    ranges: Annotated[bool, Parameter(negative=())] = False,
    machine: Machine = None,
    runtime: Runtime = None,
    overrides: Overrides = DEFAULTS.overrides,
    jobs: Jobs = None,
    out: Path | None = None,
    json: Json = False,
) -> int:
    """Compare what the emulator says with what a paper reports, claim by claim, or with independent measurements.

    The exit code is 1 when a claim fails, or when the verdict depends on where in its range an uncertain entry of the
    machine's profile lies.

    Parameters
    ----------
    file:
        With --independent, a TOML file of measured results, instead of those that come with the package.
    paper:
        The paper whose claims are checked.
    independent:
        Predict measurements to which nothing was fitted. Prints for each the reported and the emulated value, their
        ratio, and what is predicted without measurements of the machine; then the accuracy by kind and machine.
    leave_out:
        A machine: predict only its independent measurements, and say which entries of its profile replace those that
        were measured on it. They come from its data sheet and, scaled, from other machines.
    intervals:
        With --independent or --leave-out, print intervals in place of single values: for each measurement the 80 %
        interval of its predictions over samples of the machine's ranges, why the measured value lies outside, how far
        mechanisms were off on other machines, and how many measured values lie in their intervals.
    budget:
        Time for these samples, as in 10min or 2h; the shortest runs come first. By default all measurements get
        samples but those that say that they take too long: ten minutes on two cores for those of the package.
    quick:
        Make fewer runs; the report says which.
    ranges:
        Like --quick, and also with the ranges of the machine and of the programs' inputs at their ends, on fewer runs:
        a verdict may then be that it depends on an entry. In 64 random samples of all ranges together, count in how
        many a claim holds. Takes minutes to an hour; the report says what was run.
    out:
        Folder for points.jsonl, which keeps finished runs: the same command, started again, makes only what is missing.
    """
    from offloadrt.extensions.evidence.validation.judging import paper_named
    from offloadrt.extensions.evidence.validation.validate import validate as judge
    from offloadrt.extensions.evidence.validation.validate import validation
    from offloadrt.study.sweep import executor as executor_of
    from offloadrt.study.sweep import processors

    workers = jobs if jobs is not None else processors()
    if independent or leave_out is not None:
        keep = None if out is None else out / "points.jsonl"
        _predict(file, workers, leave_out, intervals=intervals, budget=budget, keep=keep, as_json=json)
        return 0
    if intervals or budget is not None:
        raise UserError("--intervals and --budget are for --independent and --leave-out")
    if file is not None:
        raise UserError(f"{file}: a file of measured results is for --independent or --leave-out")
    judged = paper_named(paper)
    how, shorter = ("a few minutes", "") if quick else ("minutes to an hour", "; --quick makes fewer runs")
    print(
        f"validate {paper}: {how}{shorter}; Ctrl-C judges the claims whose runs are made", file=sys.stderr, flush=True
    )
    with executor_of("process", workers) as pool, stages(f"validate {paper}") as advanced:
        report = judge(
            judged,
            pool,
            jobs=workers,
            quick=quick,
            ranges=ranges,
            machine=machine,
            runtime=runtime,
            overrides=overrides,
            file=None if out is None else out / "points.jsonl",
            advanced=advanced,
        )
    if json:
        sys.stdout.buffer.write(report.to_json() + b"\n")
    else:
        console().print(*validation(report), sep="\n")
    if report.note.endswith("; interrupted"):
        return INTERRUPTED
    return NEGATIVE if {"fails", "depends"} & report.counts().keys() else 0


def _predict(
    file: Path | None,
    jobs: int,
    leave_out: str | None,
    *,
    intervals: bool,
    budget: str | None,
    keep: Path | None,
    as_json: bool,
) -> None:
    """Predict the measured results of a file, or those of the package, and print the report."""
    from offloadrt.extensions.evidence.independent import outcome
    from offloadrt.extensions.evidence.independent.prediction import DRAWS, of_machine, predict, read
    from offloadrt.study.sweep import executor as executor_of

    if budget is not None and not intervals:
        raise UserError("--budget is for --intervals")
    entries = _MEASURED.load("results")() if file is None else read(file)
    if leave_out is not None:
        entries = of_machine(entries, leave_out)
    budget_s = math.inf if budget is None else seconds_of(budget)
    most = "ten minutes on two cores" if budget is None else f"at most {budget_s:.0f} s"
    later = f"; then {DRAWS} draws of each run, {most}, and Ctrl-C ends it" if intervals else ""
    print(f"validate --independent: {len(entries)} measurements, minutes{later}", file=sys.stderr)
    with executor_of("process", jobs) as pool, stages("validate --independent") as advanced:
        report = predict(
            entries, str(file or "results.toml"), pool, jobs=jobs, draws=DRAWS if intervals else 0, budget_s=budget_s,
            keep=keep, advanced=advanced,
        )  # fmt: skip
    if as_json:
        sys.stdout.buffer.write(report.to_json() + b"\n")
        return
    if leave_out is not None:
        console().print(*outcome.replaced(leave_out), sep="\n")
    console().print(*(outcome.intervals if intervals else outcome.predictions)(report), sep="\n")


def conform(*files: Path, gear: Gear = "turbo", json: Json = False) -> int:
    """Replay recorded programs and compare, step by step, with what the real runtime did.

    Prints the first step and field that differ, per case; the exit code is 0 only when all agree.

    Parameters
    ----------
    files:
        Files of recorded cases (JSON Lines).
    gear:
        How actors are resumed: `native` as Trio tasks, `turbo` inside the clock, which is faster; both agree.
    """
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
    """The first difference between a recorded program's replay and what the real runtime did."""

    case: str
    """The name of the recorded program."""
    step: int
    """The number of the step that differs, or -1 if only the program's outcome does."""
    field: str
    """The name of what differs in the step."""
    expected: str
    """The value of the real runtime, in Python's notation."""
    actual: str
    """The value of the emulator, in Python's notation."""


@attrs.frozen
class ConformanceRecord:
    """The JSON record that `conform --json` prints: where replays of recorded programs differ from the real runtime."""

    cases: int
    """The number of recorded programs that were replayed."""
    differing: int
    """The number of these programs in which the emulator did something else than the real runtime."""
    differences: list[ConformanceDifference]
    """For each differing program, the first difference."""

    @classmethod
    def of(cls, report: ConformanceReport) -> ConformanceRecord:
        """Convert a report to the record that `--json` prints."""
        differences = [
            ConformanceDifference(found.case, found.step, found.field, repr(found.expected), repr(found.actual))
            for found in report.differences
        ]
        return cls(report.cases, report.differing, differences)
