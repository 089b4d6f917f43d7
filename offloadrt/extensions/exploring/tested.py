"""A test with the pytest plugin's fixture, as a program whose schedules are explored."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs
import pytest

from offloadrt.extensions.checking.checked import reports_mistakes
from offloadrt.extensions.exploring.explore import everywhere, explore, shrink
from offloadrt.extensions.exploring.program import (
    NEVER,
    AwaitRecorder,
    Checker,
    EndCheck,
    Ended,
    Program,
    RunOutcome,
    failure_of,
    first_digits,
    story_of,
)
from offloadrt.extensions.exploring.schedules import CHECKED, ScheduleCase, SchedulePlan, Token, costs_with_a_range
from offloadrt.kernels.integers import is_integer
from offloadrt.sim.strategies import Strategy
from offloadrt.study.errors import UserError
from offloadrt.study.reporting.words import counted
from offloadrt.study.running.execution import Supervisor, run_supervised
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.tracebacks import unwrapped
from offloadrt.study.sweep import InProcess, digest_of_file, digest_of_sources

MOST_RUNS = 1_000_000
"""The largest number of runs of one test, which take half a day."""
PASSED = RunOutcome("result passed", "it passed", False)
"""The outcome of a run whose test passed or skipped itself."""


class MakeRun(Protocol):
    """Makes a new run for a test of the pytest plugin, with the arguments of the test's mark `@pytest.mark.offload`.

    changes: arguments of the run that are added to these or replace them, such as `strategy`, `overrides` and `faults`.
    """

    def __call__(self, **changes: Any) -> Run: ...


@attrs.frozen
class ExploredTest:
    """A test function of pytest with its arguments, which can be run under many schedules.

    Each schedule has a new `Run`, made by `make`, and the function gets it as its argument `offload`. `node` is
    pytest's id of the test.
    """

    node: str
    path: Path
    function: Callable[..., Awaitable[object]]
    arguments: Mapping[str, Any]
    make: MakeRun
    passes: tuple[type[BaseException], ...] = ()
    """Exceptions that are no failure of a test, such as the one by which it skips itself."""
    checkers: tuple[Checker, ...] = ()
    """Checkers whose reports make a run a failure."""

    @property
    def label(self) -> str:
        return self.node

    def run(self, case: ScheduleCase, strategy: Strategy, *, hash: bool = False) -> Ended:
        run = self._made(case, strategy, hash=hash)
        reports = [checker(run) for checker in self.checkers]
        end_check = EndCheck() if case.faults else None
        outcome, ended = self._outcome(run, end_check)
        return Ended.of(run, outcome, reports if ended else (), end_check)

    def recorded_awaits(self) -> tuple[RunOutcome, AwaitRecorder]:
        recorder = AwaitRecorder()
        case = ScheduleCase(faults=(NEVER,))
        return self._outcome(self._made(case, case.strategy, gear="native"), recorder)[0], recorder

    def _outcome(self, run: Run, supervisor: Supervisor | None) -> tuple[RunOutcome, bool]:
        """Run the test; return the outcome, and whether the test reached its end without an exception."""
        error = self._error(run, supervisor)
        if error is None:
            return PASSED, True
        return (PASSED if isinstance(unwrapped(error), self.passes) else failure_of(error)), False

    def failing(self, case: ScheduleCase) -> BaseException | None:
        """Run the test in a case; return the exception that it raises, with its traceback, or None if it passes.

        case: the schedule, costs and faults. Reports of checkers, and violated invariants that faults leave behind,
        become an AssertionError.
        """
        run = self._made(case, case.strategy)
        reports = [checker(run) for checker in self.checkers]
        end_check = EndCheck() if case.faults else None
        error = self._error(run, end_check)
        if error is not None and (end_check is None or not end_check.violations):
            return unwrapped(error)
        found = [line for report in reports for line in report()] if end_check is None else end_check.violations
        return AssertionError("\n".join(found)) if found else None

    def _made(self, case: ScheduleCase, strategy: Strategy, **changes: Any) -> Run:
        changes |= {"strategy": strategy, "overrides": case.overrides, "faults": case.faults}
        if case.costs:
            changes["range_end"] = case.range_end
        return self.make(**changes)

    def _error(self, run: Run, supervisor: Supervisor | None) -> BaseException | None:
        """Run the test to its end; return what it raises, but raise what ends Python itself."""

        async def test() -> None:
            await self.function(**{**self.arguments, "offload": run})
            await run.finish(measure=False)

        try:
            run_supervised(run, test, supervisor)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            return error
        return None

    def costs(self) -> tuple[str, ...]:
        return costs_with_a_range(self.make().spec)

    def smaller(self) -> Sequence[Program]:
        return ()

    def token(self, case: ScheduleCase) -> Token:
        """Run the test in a case once more, and return the token (text) from which that run can be repeated.

        case: the schedule, costs and faults.
        """
        ended = self.run(case, case.strategy, hash=True)
        options = {CHECKED: True} if reports_mistakes in self.checkers else {}
        return Token(self.node, {}, options, (), case, self.digests(), ended.outcome.key, ended.hash)

    def digests(self) -> dict[str, str]:
        """Return the first 12 digits of hashes of the test's file, its machine's profile and the emulator's sources."""
        machine = self.make().spec.digest
        return first_digits(digest_of_file(self.path) or "", machine, digest_of_sources())


def explored_test(
    item: pytest.Function, test: Callable[..., Awaitable[Any]], make: MakeRun, checkers: Sequence[Checker]
) -> ExploredTest:
    """Return a test that pytest has collected as a test to be run under many schedules.

    item: pytest's object for the test. test: the test's function. make: makes the run for each schedule. checkers:
    their reports make a run a failure. The function gets the values of the test's fixtures.
    """
    arguments = {name: item.funcargs[name] for name in inspect.signature(test).parameters if name in item.funcargs}
    passes = (pytest.skip.Exception, pytest.xfail.Exception)
    return ExploredTest(item.nodeid, item.path, test, arguments, make, passes=passes, checkers=tuple(checkers))


def check_plan(strategy: object, runs: object) -> None:
    """Raise UserError for a plan of schedules, or number of runs, that a pytest mark or the command line may not give.

    strategy: the plan, as text (`SchedulePlan`). runs: how many schedules, or faults. None stands for a value not
    given.
    """
    if strategy is not None:
        if not isinstance(strategy, str):
            raise UserError(f"explore: {strategy!r:.80} is no text, as 'pct:3' is")
        try:
            SchedulePlan.parse(strategy)
        except UserError as error:
            raise UserError(f"explore: {str(error).removeprefix('--strategy ')}") from None
    if runs is not None and not (is_integer(runs) and 1 <= runs <= MOST_RUNS):
        raise UserError(f"runs: {runs!r:.80} is no whole number from 1 to {MOST_RUNS:,}")


def made_once(item: pytest.Function) -> str | None:
    """Return the name of a fixture of a test that prevents a second run of the test; None if there is none.

    Such a fixture depends on the fixture `offload`, which each run must have anew, or is asynchronous.
    """
    definitions = item._fixtureinfo.name2fixturedefs
    for name, versions in definitions.items():
        of_offload = name != "offload" and "offload" in versions[-1].argnames
        if of_offload or type(item.funcargs.get(name)).__name__ == "TrioFixture":
            return name
    return None


def explore_test(
    tested: ExploredTest, strategy: str | None, runs: int | None, *, faults: bool = False
) -> BaseException | None:
    """Run a test under many schedules; return the exception of the first failure, or None if all pass.

    A note of the exception has a description and the token of the failing schedule. faults: whether the test is first
    run once for each of its awaits, with a fault there. strategy: the plan of schedules, as text (`SchedulePlan`);
    None: run no schedules. runs: how many schedules or faults; None for 100, or 1000 faults. Raises UserError.
    """
    check_plan(strategy, runs)
    error = _fail_everywhere(tested, runs or 1000) if faults else None
    if error is not None or strategy is None:
        return error
    found = explore(tested, SchedulePlan.parse(strategy), runs or 100, InProcess())
    if not found.failures:
        return None
    worst = found.failures[0]
    shrunk = shrink(tested, found.plan, worst.case, worst.outcome, found.reference)
    error = tested.failing(shrunk.case) or AssertionError(shrunk.outcome.detail or shrunk.outcome.text)
    smaller = f"made smaller in {counted(shrunk.runs, 'run')}:"
    error.add_note(_told(tested, shrunk.case, f"schedule {worst.number} of {strategy}, {smaller}"))
    return error


def _fail_everywhere(tested: ExploredTest, runs: int) -> BaseException | None:
    """Run a test once for each of its awaits, with a fault there; return the exception of the first failure.

    A note of the exception has the fault and the token. Returns None if all runs end as documented. Raises UserError.
    """
    found = everywhere(tested, runs, InProcess())
    if not found.failures:
        return None
    worst = found.failures[0]
    error = tested.failing(worst.case) or AssertionError(worst.outcome.detail or worst.outcome.text)
    faults = " ".join(worst.case.faults) or "none"
    error.add_note(f"fault {faults}: {worst.outcome.text}\n--offload-replay {tested.token(worst.case).encode()}")
    return error


def replay_test(tested: ExploredTest, token: Token) -> BaseException | None:
    """Run a test with a token's schedule; return its exception, with the schedule in a note; None if it passes.

    tested: the test. token: a line of text that describes the run.
    """
    error = tested.failing(token.case)
    if error is not None:
        changed = token.changed(tested.digests())
        since = f" ({', '.join(changed)} changed since)" if changed else ""
        error.add_note(_told(tested, token.case, f"the schedule of the token{since}:"))
    return error


def _told(tested: ExploredTest, case: ScheduleCase, title: str) -> str:
    lines = story_of(tested, case) or ["the order of scheduling"]
    return "\n".join([title, *(f"  {line}" for line in lines), f"--offload-replay {tested.token(case).encode()}"])
