"""Runs a program many times, in as many processes as asked for, and counts what comes out.

`explore` runs it under many schedules. The run in the order of scheduling comes first: every other result is compared
with its. Runs are numbered, a number decides a run, and the failure that is reported is that with the least number:
neither the number of processes nor which one was faster changes it.

`everywhere` runs it once for each of its awaits, in which that await fails or its thread dies. Each of these runs has
to end as it is documented: with the program's own result, or with a named error of the program, its runtime or its
driver library. A run that hangs, ends in another error, or leaves something behind in the runtime's state is a failure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Protocol

import attrs

from offloadrt.extensions.exploring.program import AwaitRecorder, Program, RunOutcome
from offloadrt.extensions.exploring.schedules import ScheduleCase, SchedulePlan
from offloadrt.extensions.exploring.strategies import Dfs, Recorded
from offloadrt.extensions.exploring.strategies.recorded import Chance
from offloadrt.sim.strategies import Fifo
from offloadrt.study.running.execution import patient_collector

_BATCH = 40
"""Runs that another process makes before it reports: few enough that a failure shows soon."""
_BATCH_HERE = 4
"""Runs between two reports when they are made in this process, where a report costs nothing."""


@attrs.define
class Counted:
    """How often an outcome came, and in which run first."""

    outcome: RunOutcome
    number: int
    """The number of the first run with it; -1 for the run in the order of scheduling."""
    case: ScheduleCase
    runs: int = 0


@attrs.define
class CountedOutcomes(ABC):
    """What many runs of a program gave."""

    program: Program
    reference: RunOutcome
    """What came out in the order of scheduling, without faults."""
    outcomes: dict[str, Counted] = attrs.field(factory=dict)
    """By the outcome's key."""
    runs: int = 0

    @abstractmethod
    def is_failure(self, outcome: RunOutcome) -> bool:
        """Tell whether a run may not end so."""

    @property
    def failures(self) -> list[Counted]:
        """Return the outcomes that are failures, the first one first."""
        return sorted(
            (counted for counted in self.outcomes.values() if self.is_failure(counted.outcome)),
            key=lambda counted: counted.number,
        )

    def count(self, outcome: RunOutcome, number: int, case: ScheduleCase) -> None:
        """Count an outcome."""
        self.outcomes.setdefault(outcome.key, Counted(outcome, number, case)).runs += 1
        self.runs += 1


@attrs.define(kw_only=True)
class Exploration(CountedOutcomes):
    """What many schedules of a program gave: errors are failures, and results other than the reference."""

    plan: SchedulePlan
    exhausted: bool = False
    """Whether every schedule within the bound has been run (dfs)."""

    def is_failure(self, outcome: RunOutcome) -> bool:
        return is_failure(outcome, self.reference)


def is_failure(outcome: RunOutcome, reference: RunOutcome) -> bool:
    """Tell whether an outcome is an error, or another result than the reference's."""
    return outcome.is_error or outcome.key != reference.key


def explore(
    program: Program,
    plan: SchedulePlan,
    runs: int,
    pool: Executor,
    *,
    jobs: int = 1,
    keep_going: bool = False,
    advanced: Callable[[Exploration], None] | None = None,
) -> Exploration:
    """Run `program` under `runs` schedules of `plan`; stop after the batch with the first failure unless `keep_going`.

    `advanced` is called now and then. Raises UserError.
    """
    fifo = ScheduleCase()
    first = program.run(fifo, fifo.strategy)
    exploration = Exploration(program, first.outcome, plan=plan)
    exploration.count(first.outcome, -1, fifo)
    if first.outcome.is_error:
        return exploration
    plan = exploration.plan = fitted(program, plan, first.time_s)
    waiting: deque[tuple[list[tuple[int, ScheduleCase]], Future[list[CaseRun]]]] = deque()
    source = _Source(plan, runs, _BATCH if jobs > 1 else _BATCH_HERE)
    while True:
        while len(waiting) < 2 * jobs and (batch := source.batch()):
            waiting.append((batch, pool.submit(run_cases, program, [case for _, case in batch], source.is_dfs)))
            if jobs == 1:
                break
        if not waiting:
            exploration.exhausted = source.exhausted
            break
        batch, future = waiting.popleft()
        for (number, case), made in zip(batch, future.result(), strict=True):
            exploration.count(made.outcome, number, case)
            source.learn(case, made.chances)
        if advanced is not None:
            advanced(exploration)
        if exploration.failures and not keep_going:
            for _, future in waiting:
                future.cancel()
            break
    return exploration


def fitted(program: Program, plan: SchedulePlan, duration: float) -> SchedulePlan:
    """Return the plan with what it has to know of the program: how long it takes, its choices, its costs."""
    plan = plan.fitted(duration, 1, program.costs() if plan.kind == "costs" else ())
    if plan.kind in ("pct", "delay"):
        reach = (plan.length or 0.0) if plan.kind == "pct" else 0.0
        recorded = Recorded(_Reaching(reach=reach))
        program.run(ScheduleCase(), recorded)
        plan = plan.fitted(duration, recorded.steps if plan.kind == "pct" else sum(recorded.times.values()), ())
    return plan


@attrs.frozen
class _Reaching(Fifo):
    """The order of scheduling, asked as often as a strategy with this reach is."""

    reach: float = 0.0


@attrs.frozen
class CaseRun:
    """What one run gave: its outcome, and for dfs where others may depart from it."""

    outcome: RunOutcome
    chances: Sequence[Chance] = ()


def run_cases(program: Program, cases: Sequence[ScheduleCase], detailed: bool) -> list[CaseRun]:
    """Run a program once for each case, in whichever process."""
    made = []
    with patient_collector():
        for case in cases:
            if detailed:
                recorded = Recorded(case.strategy, detailed=True)
                made.append(CaseRun(program.run(case, recorded).outcome, recorded.chances))
            else:
                made.append(CaseRun(program.run(case, case.strategy).outcome))
    return made


class _Source:
    """Gives the cases of a plan, in batches; those of dfs follow from runs that have ended."""

    def __init__(self, plan: SchedulePlan, runs: int, size: int) -> None:
        self.is_dfs = plan.kind == "dfs"
        self._plan = plan
        self._left = runs
        self._size = size
        self._given = 0
        self._dfs = Dfs(plan.bound, plan.length or 0.0) if self.is_dfs else None
        self._frontier: deque[Iterator[ScheduleCase]] = deque([iter([ScheduleCase("schedule")])])
        self._pending = 0

    @property
    def exhausted(self) -> bool:
        """Tell whether nothing is left to run."""
        return self.is_dfs and not self._pending and self._enumerated() is None

    def batch(self) -> list[tuple[int, ScheduleCase]]:
        """Return the next cases with their numbers; none if there are none, or none yet."""
        size = min(self._size, self._left)
        numbers = range(self._given, self._given + size)
        cases = iter(self._enumerated, None) if self.is_dfs else map(self._plan.case, numbers)
        batch = list(zip(numbers, cases, strict=False))  # dfs may have fewer, or more
        self._given += len(batch)
        self._left -= len(batch)
        self._pending += len(batch)
        return batch

    def learn(self, case: ScheduleCase, chances: Sequence[Chance]) -> None:
        """Note that a run has ended, and where others may depart from it."""
        self._pending -= 1
        if self._dfs is not None and len(case.departures) < self._dfs.bound:
            following = self._dfs.after(case.departures, chances)
            self._frontier.append(ScheduleCase("schedule", departures=departures) for departures in following)

    def _enumerated(self) -> ScheduleCase | None:
        """Return the next case of dfs; None if there is none, or none yet."""
        while self._frontier:
            if (case := next(self._frontier[0], None)) is not None:
                return case
            self._frontier.popleft()
        return None


_FAULTS_BATCH = 20
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
    size = min(_FAULTS_BATCH, -(-len(found.cases) // jobs)) or 1
    batches = [found.cases[begin : begin + size] for begin in range(0, len(found.cases), size)]
    waiting = [pool.submit(run_cases, program, batch, False) for batch in batches] if jobs > 1 else None
    for number, batch in enumerate(batches):
        made = run_cases(program, batch, False) if waiting is None else waiting[number].result()
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
