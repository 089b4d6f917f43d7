"""What `--json` prints where `study` has no record of it: one class for each command, of which the schema is made.

`schemas.py` says which class, here or in `study`, belongs to which command.
"""

from __future__ import annotations

from typing import Any

import attrs

from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.sweep import SweepOutcome
from offloadrt.trace import TraceStatistics


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
            SweepFailure(failure.point.axis_values, failure.message, failure.of_program) for failure in outcome.failures
        ]
        runs, finished = len(outcome.points), len(outcome.finished)
        return cls(scenario, runs, finished, outcome.kept, [str(path) for path in written], failures)


@attrs.frozen
class CallRecord:
    """All calls of one function: how many, and virtual seconds."""

    count: int
    total_s: float
    mean_s: float
    min_s: float
    max_s: float
    percent: float


@attrs.frozen
class LockRecord:
    """What a log says of a lock, in virtual seconds."""

    acquired: int
    contended: int
    wait_s: float
    hold_s: float
    longest_wait_s: float


@attrs.frozen
class EngineRecord:
    """What a copy engine did."""

    device: int
    engine: str
    copies: int
    bytes: int
    busy_s: float


@attrs.frozen
class LaunchRecord:
    """How often a kernel ran on a device, and how long it was there."""

    device: int
    kernel: str
    launched: int
    resident_s: float


@attrs.frozen
class MovedRecord:
    """Bytes that were copied in one direction from or to one kind of host memory."""

    direction: str
    memory: str
    bytes: int


@attrs.frozen
class LogRecord:
    """What `stats` prints of a log."""

    calls: dict[str, CallRecord]
    locks: dict[str, LockRecord]
    engines: list[EngineRecord]
    kernels: list[LaunchRecord]
    bytes: list[MovedRecord]

    @classmethod
    def of(cls, log: TraceStatistics) -> LogRecord:
        """Describe the statistics of a log."""
        return cls(
            {name: CallRecord(**attrs.asdict(call)) for name, call in log.calls.table().items()},
            {name: LockRecord(**attrs.asdict(use)) for name, use in log.locks.items()},
            [EngineRecord(*place, **attrs.asdict(use)) for place, use in log.engines.items()],
            [LaunchRecord(*place, **attrs.asdict(use)) for place, use in log.kernels.items()],
            [MovedRecord(*place, nbytes) for place, nbytes in log.bytes.items()],
        )
