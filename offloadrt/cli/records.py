"""What `--json` prints where `study` has no record of it: one class for each command, of which the schema is made.

`schemas.py` says which class, here or in `study`, belongs to which command.
"""

from __future__ import annotations

from typing import Any

import attrs

from offloadrt.study.conformance.conform import ConformanceReport
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.sweep import SweepOutcome


@attrs.frozen
class ParameterRecord:
    """A parameter of a scenario; `low` and `high` are the ends of its range, None where it is open."""

    name: str
    type: str
    choices: list[Value]
    low: float | None
    high: float | None
    optional: bool
    required: bool
    default: Value
    help: str


@attrs.frozen
class ScenarioRecord:
    """What `show` prints of a scenario; `sweep` has the axes of its own sweep."""

    name: str
    machine: str
    runtime: str | None
    path: str | None
    description: str
    parameters: list[ParameterRecord]
    sweep: dict[str, list[Value]]

    @classmethod
    def of(cls, scenario: Scenario) -> ScenarioRecord:
        """Describe a scenario."""
        parameters = [
            ParameterRecord(
                found.name, found.type.__name__, list(found.choices), found.range.low, found.range.high,
                found.optional, found.required, found.default, found.help,
            )
            for found in scenario.parameters.values()
        ]  # fmt: skip
        return cls(
            name=scenario.name,
            machine=scenario.machine,
            runtime=scenario.runtime,
            path=None if scenario.path is None else str(scenario.path),
            description=scenario.description,
            parameters=parameters,
            sweep={name: list(values) for name, values in scenario.sweep.items()},
        )


@attrs.frozen
class SweepFailure:
    """A run of a sweep that could not be made; `of_program` tells whether the program raised."""

    parameters: dict[str, Value]
    message: str
    of_program: bool


@attrs.frozen
class SweepRecord:
    """What `sweep` prints: how many runs there are, were finished, and were kept from earlier; the files written."""

    scenario: str
    runs: int
    finished: int
    kept: int
    written: list[str]
    failures: list[SweepFailure]

    @classmethod
    def of(cls, scenario: str, outcome: SweepOutcome, written: list[Any]) -> SweepRecord:
        """Describe the outcome of a sweep."""
        failures = [
            SweepFailure(failure.point.place, failure.message, failure.of_program) for failure in outcome.failures
        ]
        runs, finished = len(outcome.points), len(outcome.finished)
        return cls(scenario, runs, finished, outcome.kept, [str(path) for path in written], failures)


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
