"""Runs a program many times, in several processes, and counts the outcomes.

`explore` runs it under many schedules. The run in the order of scheduling comes first: every other result is compared
with its result. Runs are numbered, and the number alone decides the schedule. The failure with the lowest number is
reported, so the report depends neither on the number of processes nor on their speed.

`everywhere` makes one run for each await of the program, in which that await fails or its thread dies. Each of these
runs has to end as documented: with the program's own result, or with a named error of the program, its runtime or its
driver library. A run that hangs, ends in another error, or leaves something behind in the runtime's state is a failure.

`shrink` makes a failing schedule smaller, as long as the program still fails in the same way. It begins with the
program's parameters that may shrink. Then it writes the schedule as holds, one for each time that an actor was late, if
these alone fail as well; drops the holds that are not needed (delta debugging: Zeller and Hildebrandt, 2002); and makes
the remaining ones shorter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Protocol, TypeVar

import attrs

from offloadrt.extensions.exploring.program import AwaitRecorder, Program, RunOutcome
from offloadrt.extensions.exploring.schedules import ScheduleCase, SchedulePlan
from offloadrt.extensions.exploring.strategies import Dfs, Hold, Recorded
from offloadrt.extensions.exploring.strategies.recorded import Chance
from offloadrt.extensions.exploring.strategies.schedule import Departure
from offloadrt.sim.strategies import Fifo
from offloadrt.study.running.execution import patient_collector

_BATCH = 40
"""Runs that another process makes before it returns their outcomes: few enough that a failure shows soon."""
_BATCH_HERE = 4
"""The same for runs in this process, where returning outcomes costs nothing."""


@attrs.define
class Counted:
    """One outcome (an error, a result, or reports of checkers) of many runs: how often it occurred, and where first.

    case: the schedule, costs and faults of the first run with it. runs: how many runs had it.
    """

    outcome: RunOutcome
    number: int
    """The number of the first run with the outcome; -1 for the reference run, whose order was not changed."""
    case: ScheduleCase
    runs: int = 0


@attrs.define
class CountedOutcomes(ABC):
    """The different outcomes of many runs (errors, results, reports of checkers), with how often each occurred."""

    program: Program
    reference: RunOutcome
    """The outcome of the run without faults in which actors go on in the order in which they became ready."""
    outcomes: dict[str, Counted] = attrs.field(factory=dict)
    """By the outcome's key: the outcome with its count."""
    runs: int = 0

    @abstractmethod
    def is_failure(self, outcome: RunOutcome) -> bool:
        """Tell whether an outcome is a failure: an error, or a result that the program should not have."""

    @property
    def failures(self) -> list[Counted]:
        """Return the outcomes that are failures, the first one first."""
        return sorted(
            (counted for counted in self.outcomes.values() if self.is_failure(counted.outcome)),
            key=lambda counted: counted.number,
        )

    def count(self, outcome: RunOutcome, number: int, case: ScheduleCase) -> None:
        """Add the outcome of run `number`; `case` is its schedule, costs and faults."""
        self.outcomes.setdefault(outcome.key, Counted(outcome, number, case)).runs += 1
        self.runs += 1


@attrs.define(kw_only=True)
class Exploration(CountedOutcomes):
    """The outcomes of many schedules of a program. Errors, and results that differ from the reference, are failures.

    The reference is the run in which actors (threads and parts of the machine) that are ready at the same time go on in
    the order in which they became ready. `plan` is the plan of their schedules.
    """

    plan: SchedulePlan
    exhausted: bool = False
    """For dfs: whether every schedule within the bound has been run."""

    def is_failure(self, outcome: RunOutcome) -> bool:
        return is_failure(outcome, self.reference)


def is_failure(outcome: RunOutcome, reference: RunOutcome) -> bool:
    """Tell whether a run's outcome is an error, or a result that differs from that of the reference run.

    reference: the outcome of the run in which the schedule and the costs were not changed.
    """
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
    """Run `program` under `runs` schedules of `plan`, in batches; stop after the batch with the first failure.

    keep_going: do not stop there. advanced: called after the first run and after each batch with the outcomes so far.
    pool, jobs: the executor that makes the runs, and how many it makes at a time. Raises UserError for a program that
    cannot be run.
    """
    fifo = ScheduleCase()
    first = program.run(fifo, fifo.strategy)
    exploration = Exploration(program, first.outcome, plan=plan)
    exploration.count(first.outcome, -1, fifo)
    if first.outcome.is_error:
        return exploration
    if advanced is not None:
        advanced(exploration)
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
    """Return a plan of schedules adapted to a program, which is run once more for this.

    duration: how long the program takes, in virtual seconds. Some plans need it; others need the number of moments at
    which the schedule chooses, or the names of the machine's uncertain costs.
    """
    plan = plan.fitted(duration, 1, program.costs() if plan.kind == "costs" else ())
    if plan.kind in ("pct", "delay"):
        reach = (plan.length or 0.0) if plan.kind == "pct" else 0.0
        recorded = Recorded(_Reaching(reach=reach))
        program.run(ScheduleCase(), recorded)
        plan = plan.fitted(duration, recorded.steps if plan.kind == "pct" else sum(recorded.times.values()), ())
    return plan


@attrs.frozen
class _Reaching(Fifo):
    """The order of scheduling, but asked to choose as often as a strategy with this `reach`, in virtual seconds."""

    reach: float = 0.0


@attrs.frozen
class CaseRun:
    """The outcome of one run, and, for the strategy dfs, its chances.

    A chance is a moment at which another schedule may let another thread or part of the machine go on.
    """

    outcome: RunOutcome
    chances: Sequence[Chance] = ()


def run_cases(program: Program, cases: Sequence[ScheduleCase], detailed: bool) -> list[CaseRun]:
    """Run a program once for each case, that is, with its schedule, costs and faults.

    detailed: record the moments at which another schedule may choose differently, as dfs needs them.
    """
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
    """Yields the cases of a plan in batches; those of dfs are derived from runs that have ended."""

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
        """Return the next cases with their numbers; empty if there are no more, or (dfs) none before other runs end."""
        size = min(self._size, self._left)
        numbers = range(self._given, self._given + size)
        cases = iter(self._enumerated, None) if self.is_dfs else map(self._plan.case, numbers)
        batch = list(zip(numbers, cases, strict=False))  # dfs may have fewer, or more
        self._given += len(batch)
        self._left -= len(batch)
        self._pending += len(batch)
        return batch

    def learn(self, case: ScheduleCase, chances: Sequence[Chance]) -> None:
        """Note that a run has ended; derive new cases from the chances to depart from it (dfs)."""
        self._pending -= 1
        if self._dfs is not None and len(case.departures) < self._dfs.bound:
            following = self._dfs.after(case.departures, chances)
            self._frontier.append(ScheduleCase("schedule", departures=departures) for departures in following)

    def _enumerated(self) -> ScheduleCase | None:
        """Return the next case of dfs; None if there is none at present."""
        while self._frontier:
            if (case := next(self._frontier[0], None)) is not None:
                return case
            self._frontier.popleft()
        return None


_FAULTS_BATCH = 20
"""Runs with faults that a process makes before it returns their outcomes."""


class WitnessedProgram(Program, Protocol):
    """A program that can also list its awaits: its calls of the driver libraries, and the waits of its threads."""

    def recorded_awaits(self) -> tuple[RunOutcome, AwaitRecorder]:
        """Run the program once, with its schedule unchanged; return the outcome, and what it has awaited.

        Unchanged means that threads and parts of the machine go on in the order in which they become ready.
        """


@attrs.define(kw_only=True)
class Everywhere(CountedOutcomes):
    """The outcomes of runs with a fault at each await of a program: a call fails, or a waiting thread dies.

    An outcome is a failure unless it is the program's result or a documented error.
    """

    calls: int
    """How many calls of the driver libraries the program makes."""
    waits: int
    """How many waits its threads have."""
    cases: list[ScheduleCase] = attrs.field(factory=list)
    """The cases that were run: one for each await, or as many as asked for, chosen evenly."""

    def is_failure(self, outcome: RunOutcome) -> bool:
        """Tell whether a run with an injected fault ended neither with the program's result nor a documented error."""
        return not outcome.is_named if outcome.is_error else outcome.key != self.reference.key


def everywhere(
    program: WitnessedProgram,
    runs: int,
    pool: Executor,
    *,
    jobs: int = 1,
    advanced: Callable[[Everywhere], None] | None = None,
) -> Everywhere:
    """Run `program` once for each of its awaits, with a fault there: the call fails, or the waiting thread dies.

    runs: the largest number of runs; if there are more awaits, some are chosen evenly. advanced: called after the first
    run and after each batch with the outcomes so far. pool, jobs: the executor that makes the runs, and how many it
    makes at a time. Raises UserError for a program that cannot be run.
    """
    outcome, recorder = program.recorded_awaits()
    found = Everywhere(program, outcome, calls=len(recorder.calls), waits=len(recorder.waits))
    if outcome.is_error:
        found.outcomes[outcome.key] = Counted(outcome, -1, ScheduleCase(), 1)
        return found
    faults = [*recorder.call_faults(), *(wait.fault for wait in recorder.waits)]
    chosen = min(runs, len(faults))  # evenly
    found.cases = [ScheduleCase(faults=(faults[number * len(faults) // chosen],)) for number in range(chosen)]
    if advanced is not None:
        advanced(found)
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


T = TypeVar("T")

_RUNS = 600
"""So many runs at most are made to make a schedule smaller."""
_SEARCH = 60
"""A program with smaller parameters is given up if it does not fail within so many runs."""


@attrs.define
class Shrunk:
    """A failing run that is being made smaller: the smallest run so far that fails in the same way.

    case: its schedule, costs and faults. program, outcome: what is run, and how that smallest run ended.
    """

    program: Program
    case: ScheduleCase
    outcome: RunOutcome
    reference: RunOutcome
    """The outcome of the program if actors go on in the order in which they became ready."""
    runs: int = 0
    """How many runs were made to make it smaller."""

    def fails(self, program: Program, case: ScheduleCase, reference: RunOutcome) -> RunOutcome | None:
        """Try whether a smaller run fails in the same way; return its outcome if it does.

        case: its schedule, costs and faults. reference: the outcome of `program` without these. Returns None if it does
        not fail in the same way, or if no more runs may be made.
        """
        if self.runs >= _RUNS:
            return None
        self.runs += 1
        outcome = program.run(case, case.strategy).outcome
        same = is_failure(outcome, reference) and (
            outcome.key == self.outcome.key or (not outcome.is_error and not self.outcome.is_error)
        )
        return outcome if same else None

    def accept(self, case: ScheduleCase) -> bool:
        """Try a smaller case (schedule, costs and faults), and keep it if it fails as well; return whether it does."""
        outcome = self.fails(self.program, case, self.reference)
        if outcome is not None:
            self.case, self.outcome = case, outcome
        return outcome is not None


def shrink(
    program: Program, plan: SchedulePlan, case: ScheduleCase, outcome: RunOutcome, reference: RunOutcome
) -> Shrunk:
    """Make a failing run smaller; return the smallest run found that fails in the same way.

    case: the run's schedule, costs and faults. outcome: how it ended. reference: how the program ends unchanged. plan:
    the plan of schedules from which the case came. After KeyboardInterrupt, return the smallest run found until then.
    """
    shrunk = Shrunk(program, case, outcome, reference)
    with suppress(KeyboardInterrupt), patient_collector():
        _shrink(shrunk, plan)
    return shrunk


def _shrink(shrunk: Shrunk, plan: SchedulePlan) -> None:
    if plan.kind != "fifo":
        _shrink_program(shrunk, plan)
    _as_departures(shrunk)
    if shrunk.case.costs:
        _minimize(shrunk.case.costs, lambda costs: shrunk.accept(attrs.evolve(shrunk.case, costs=costs)))
    if shrunk.case.jitter:
        shrunk.accept(attrs.evolve(shrunk.case, jitter=0.0))
    _fewer(shrunk)
    _as_departures(shrunk)  # the holds of fewer choices may be enough, even if those of all choices were not
    if shrunk.case.length and all(isinstance(one, Hold) for one in shrunk.case.departures):
        shrunk.accept(attrs.evolve(shrunk.case, length=0.0))
    _shorten(shrunk)
    _fewer(shrunk)  # some holds were needed only as long as others were longer


def _fewer(shrunk: Shrunk) -> None:
    """Leave out departures as long as the run still fails."""
    _minimize(shrunk.case.departures, lambda left: shrunk.accept(attrs.evolve(shrunk.case, departures=left)))
    again = True
    while again and len(shrunk.case.departures) > 1:
        departures = shrunk.case.departures
        # Without one hold, an actor may meet others once more or once less before it comes to the next one.
        again = any(
            shrunk.accept(attrs.evolve(shrunk.case, departures=tuple(map(_shifted(by), rest))))
            for rest in (departures[:number] + departures[number + 1 :] for number in range(len(departures)))
            for by in (1, -1, 2, -2)
        )


def _shifted(by: int) -> Callable[[Departure], Departure]:
    return lambda one: attrs.evolve(one, time=max(one.time + by, 1)) if isinstance(one, Hold) else one


def _shrink_program(shrunk: Shrunk, plan: SchedulePlan) -> None:
    """Make the program's parameters smaller as long as some schedule of the same plan fails."""
    if plan.kind == "dfs":
        return
    again = True
    while again:
        again = False
        for program in shrunk.program.smaller():
            fifo = ScheduleCase()
            first = program.run(fifo, fifo.strategy)
            if first.outcome.is_error:
                continue
            anew = fitted(program, attrs.evolve(plan, length=plan.length), first.time_s)
            for number in range(_SEARCH):
                case = anew.case(number)
                outcome = shrunk.fails(program, case, first.outcome)
                if outcome is not None:
                    shrunk.program, shrunk.case, shrunk.outcome = program, case, outcome
                    shrunk.reference, again = first.outcome, True
                    break
            if again:
                break


def _as_departures(shrunk: Shrunk) -> None:
    """Replace a strategy with a seed by the departures that it made, or by holds if these alone fail as well."""
    case = shrunk.case
    if case.kind == "fifo" or (case.kind == "schedule" and all(isinstance(one, Hold) for one in case.departures)):
        return
    recorded = Recorded(case.strategy)
    shrunk.program.run(case, recorded)
    written = attrs.evolve(case, kind="schedule", seed=0, bound=0, steps=0)
    holds = tuple(recorded.lateness)
    if not shrunk.accept(attrs.evolve(written, length=0.0, departures=holds)):
        shrunk.accept(
            attrs.evolve(
                written,
                length=case.length if case.kind in ("pct", "schedule") else 0.0,
                departures=tuple(recorded.departures),
            )
        )


def _minimize(items: Sequence[T], fails: Callable[[tuple[T, ...]], bool]) -> None:
    """Leave out as many items as possible (delta debugging).

    fails: called with the items left, tells whether the run with them still fails, and keeps them if so.
    """
    left = tuple(items)
    if left and fails(()):
        return
    parts = 2
    while len(left) > 1:
        size = -(-len(left) // parts)
        pieces = [left[begin : begin + size] for begin in range(0, len(left), size)]
        for number, piece in enumerate(pieces):
            rest = tuple(item for other, part in enumerate(pieces) if other != number for item in part)
            if len(pieces) > 1 and parts == 2 and fails(piece):
                left, parts = piece, 2
                break
            if rest and fails(rest):
                left, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts >= len(left):
                return
            parts = min(2 * parts, len(left))


def _shorten(shrunk: Shrunk) -> None:
    """Make each hold as short as possible: by factors of two, rounded to one significant digit."""
    for number, one in enumerate(shrunk.case.departures):
        if not isinstance(one, Hold) or not one.seconds:
            continue
        lengths = {0.0, one.seconds}
        seconds = one.seconds
        while seconds > one.seconds / 1000:
            seconds /= 2
            lengths.add(float(f"{seconds:.0e}"))
        order = sorted(lengths)
        low, high = 0, len(order) - 1
        while low < high:  # taken to fail at every length from some length on
            middle = (low + high) // 2
            departures: list[Departure] = list(shrunk.case.departures)
            departures[number] = attrs.evolve(one, seconds=order[middle])
            if shrunk.accept(attrs.evolve(shrunk.case, departures=tuple(departures))):
                high = middle
            else:
                low = middle + 1
