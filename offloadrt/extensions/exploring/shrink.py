"""Makes a failing schedule smaller, as long as the program still fails in the same way.

First the program's parameters that shrink, then the schedule: as holds, one for each time that an actor was late, if
these alone fail as well; then without what is not needed (delta debugging: Zeller and Hildebrandt, 2002); then with
shorter holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import attrs

from offloadrt.extensions.exploring.explore import fitted, is_failure
from offloadrt.extensions.exploring.program import Program, RunOutcome
from offloadrt.extensions.exploring.schedules import ScheduleCase, SchedulePlan
from offloadrt.extensions.exploring.strategies import Hold, Recorded
from offloadrt.extensions.exploring.strategies.schedule import Departure
from offloadrt.study.running.execution import patient_collector

T = TypeVar("T")

_RUNS = 600
"""Runs that making a schedule smaller may take."""
_SEARCH = 60
"""Runs in which a smaller program has to fail."""


@attrs.define
class Shrunk:
    """A failing run as small as it got."""

    program: Program
    case: ScheduleCase
    outcome: RunOutcome
    reference: RunOutcome
    """What comes out in the order of scheduling."""
    runs: int = 0
    """How many runs that took."""

    def fails(self, program: Program, case: ScheduleCase, reference: RunOutcome) -> RunOutcome | None:
        """Return the outcome of a run if it fails as this one does; None otherwise, and when runs are used up."""
        if self.runs >= _RUNS:
            return None
        self.runs += 1
        outcome = program.run(case, case.strategy).outcome
        same = is_failure(outcome, reference) and (
            outcome.key == self.outcome.key or (not outcome.is_error and not self.outcome.is_error)
        )
        return outcome if same else None

    def accept(self, case: ScheduleCase) -> bool:
        """Take a smaller case if it fails as well."""
        outcome = self.fails(self.program, case, self.reference)
        if outcome is not None:
            self.case, self.outcome = case, outcome
        return outcome is not None


def shrink(
    program: Program, plan: SchedulePlan, case: ScheduleCase, outcome: RunOutcome, reference: RunOutcome
) -> Shrunk:
    """Return the failing run `case` of `program`, made smaller."""
    shrunk = Shrunk(program, case, outcome, reference)
    with patient_collector():
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
    _as_departures(shrunk)  # of fewer choices the holds may be enough, where those of all were not
    if shrunk.case.length and all(isinstance(one, Hold) for one in shrunk.case.departures):
        shrunk.accept(attrs.evolve(shrunk.case, length=0.0))
    _shorten(shrunk)
    _fewer(shrunk)  # some were needed only as long as others lasted longer


def _fewer(shrunk: Shrunk) -> None:
    """Leave out departures."""
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
    """Make parameters smaller as long as some schedule of the same plan fails."""
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
    """Turn a strategy with a seed into what it did, as holds if these alone fail as well."""
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
    """Leave out as many items as possible; `fails` takes what is left, and tells whether that is still a failure."""
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
    """Make each hold as short as one significant digit and a factor of two allow."""
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
