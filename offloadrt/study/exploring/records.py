"""What `explore` and `replay` print with `--json`, and what their text is made of."""

from __future__ import annotations

import attrs

from offloadrt.study.exploring.everywhere import Everywhere
from offloadrt.study.exploring.explore import Counted, Exploration, is_failure
from offloadrt.study.exploring.program import Program, ScenarioProgram
from offloadrt.study.exploring.replay import Replayed, token_of
from offloadrt.study.exploring.shrink import shrink
from offloadrt.study.exploring.story import story_of


@attrs.frozen
class OutcomeRecord:
    """What came out, in how many runs, and whether that is a failure."""

    outcome: str
    runs: int
    fails: bool


@attrs.frozen
class FailureRecord:
    """A failing run, made as small as it gets.

    `expected` came out in the order of scheduling, without a fault; `detail` is the error's own traceback, or what the
    checkers report; `token` is what `replay` takes.
    """

    program: str
    outcome: str
    is_error: bool
    expected: str
    detail: str
    faults: list[str]
    schedule: list[str]
    tried: int
    """Runs that it took to make it smaller."""
    token: str

    @classmethod
    def of_schedule(cls, found: Exploration, counted: Counted) -> FailureRecord:
        """Make a failing schedule smaller, and describe it."""
        shrunk = shrink(found.program, found.plan, counted.case, counted.outcome, found.reference)
        program, case = _scenario_of(shrunk.program), shrunk.case
        return cls(
            program.label,
            shrunk.outcome.text,
            shrunk.outcome.is_error,
            shrunk.reference.text,
            shrunk.outcome.detail,
            list(case.faults),
            story_of(program, case),
            shrunk.runs,
            token_of(program, case).encode(),
        )

    @classmethod
    def of_fault(cls, found: Everywhere, counted: Counted) -> FailureRecord:
        """Describe a run with a fault, which is as small as it gets."""
        program, outcome, case = _scenario_of(found.program), counted.outcome, counted.case
        return cls(
            program.label,
            outcome.text,
            outcome.is_error,
            found.reference.text,
            outcome.detail,
            list(case.faults),
            [],
            0,
            token_of(program, case).encode(),
        )


@attrs.frozen
class ExplorationRecord:
    """What `explore` prints: the outcomes of the run in the order of scheduling and of `runs` others, and the failures.

    `every_schedule`: whether all within the bound of `dfs` were run.
    """

    program: str
    strategy: str
    runs: int
    every_schedule: bool
    outcomes: list[OutcomeRecord]
    failures: list[FailureRecord]

    @classmethod
    def of(cls, found: Exploration, strategy: str) -> ExplorationRecord:
        """Describe an exploration; each failure is made smaller, which takes runs."""
        failures = [FailureRecord.of_schedule(found, counted) for counted in found.failures]
        label = _scenario_of(found.program).label
        return cls(label, strategy, found.runs - 1, found.exhausted, outcomes_of(found), failures)


@attrs.frozen
class EverywhereRecord:
    """What `explore --faults everywhere` prints: awaits of the program by kind, and how many were made to fail."""

    program: str
    calls: int
    waits: int
    runs: int
    outcomes: list[OutcomeRecord]
    failures: list[FailureRecord]

    @classmethod
    def of(cls, found: Everywhere) -> EverywhereRecord:
        """Describe the runs with faults."""
        failures = [FailureRecord.of_fault(found, counted) for counted in found.failures]
        label = _scenario_of(found.program).label
        return cls(label, found.calls, found.waits, found.runs, outcomes_of(found), failures)


@attrs.frozen
class ReplayRecord:
    """What `replay` prints: what came out, and whether it is the run that the token was made of.

    `same_run`: event by event, by the hash of its trace; `changed` names what is another one since then: the program,
    its machine, or offloadrt.
    """

    program: str
    outcome: str
    detail: str
    fails: bool
    schedule: list[str]
    same_run: bool
    same_outcome: bool
    trace_hash: str
    changed: list[str]

    @classmethod
    def of(cls, again: Replayed) -> ReplayRecord:
        """Describe a run that was made again."""
        outcome = again.ended.outcome
        return cls(
            again.program.label,
            outcome.text,
            outcome.detail,
            is_failure(outcome, again.reference),
            story_of(again.program, again.token.case),
            again.is_same,
            outcome.key == again.token.outcome,
            again.ended.hash,
            list(again.changed),
        )


def outcomes_of(found: Exploration | Everywhere) -> list[OutcomeRecord]:
    """Return each outcome with the number of its runs, the most frequent first."""
    failures = found.failures
    counted = sorted(found.outcomes.values(), key=lambda one: -one.runs)
    return [OutcomeRecord(one.outcome.text, one.runs, one in failures) for one in counted]


def _scenario_of(program: Program) -> ScenarioProgram:
    """Return the program of a command, which is a scenario's."""
    assert isinstance(program, ScenarioProgram)
    return program
