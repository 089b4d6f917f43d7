"""Runs a program once for each of its awaits, in which that await fails or its thread dies.

Each of these runs has to end as it is documented: with the program's own result, or with a named error of the program,
its runtime or its driver library. A run that hangs, that ends in another error, or that leaves something behind in the
runtime's state is a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Protocol

import attrs

from offloadrt.extensions.exploring.awaits import AwaitRecorder
from offloadrt.extensions.exploring.case import ScheduleCase
from offloadrt.extensions.exploring.explore import Counted, CountedOutcomes, run_cases
from offloadrt.extensions.exploring.outcome import RunOutcome
from offloadrt.extensions.exploring.program import Program

_BATCH = 20
"""Runs that a process makes before it reports."""


class WitnessedProgram(Program, Protocol):
    """A program that can say where it waits."""

    def recorded_awaits(self) -> tuple[RunOutcome, AwaitRecorder]:
        """Run it once in the order of scheduling, and return what came out and its awaits."""


@attrs.define(kw_only=True)
class Everywhere(CountedOutcomes):
    """What faults everywhere gave: outcomes that are not documented are failures."""

    calls: int
    """How many calls of the driver libraries there are."""
    waits: int
    """How many waits of threads there are."""
    cases: list[ScheduleCase] = attrs.field(factory=list)
    """Those that were run: all, or as many as asked for, evenly chosen."""

    def is_failure(self, outcome: RunOutcome) -> bool:
        """Tell whether a run with a fault ended neither with the program's result nor with a named error."""
        return not outcome.is_named if outcome.is_error else outcome.key != self.reference.key


def everywhere(
    program: WitnessedProgram,
    runs: int,
    pool: Executor,
    *,
    jobs: int = 1,
    advanced: Callable[[Everywhere], None] | None = None,
) -> Everywhere:
    """Run `program` once for each of its awaits, but at most `runs` times.

    `advanced` is called now and then. Raises UserError.
    """
    outcome, recorder = program.recorded_awaits()
    found = Everywhere(program, outcome, calls=len(recorder.calls), waits=len(recorder.waits))
    if outcome.is_error:
        found.outcomes[outcome.key] = Counted(outcome, -1, ScheduleCase(), 1)
        return found
    faults = [*recorder.call_faults(), *(wait.fault for wait in recorder.waits)]
    found.cases = [ScheduleCase(faults=(fault,)) for fault in _evenly(faults, runs)]
    size = min(_BATCH, -(-len(found.cases) // jobs)) or 1
    batches = [found.cases[begin : begin + size] for begin in range(0, len(found.cases), size)]
    waiting = [pool.submit(run_cases, program, batch, False) for batch in batches] if jobs > 1 else None
    for place, batch in enumerate(batches):
        made = run_cases(program, batch, False) if waiting is None else waiting[place].result()
        for case, one in zip(batch, made, strict=True):
            found.count(one.outcome, found.runs, case)
        if advanced is not None:
            advanced(found)
    return found


def _evenly(faults: Sequence[str], most: int) -> list[str]:
    """Choose at most so many, evenly."""
    if len(faults) <= most:
        return list(faults)
    return [faults[number * len(faults) // most] for number in range(most)]
