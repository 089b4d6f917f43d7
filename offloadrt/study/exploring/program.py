"""A program whose schedules are explored: a scenario or a recording, with its parameters and its machine."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from offloadrt.sim.strategies import Strategy
from offloadrt.study.errors import ScriptFailed, UserError
from offloadrt.study.exploring.awaits import NEVER, AwaitRecorder, EndCheck
from offloadrt.study.exploring.case import ScheduleCase, costs_with_a_range
from offloadrt.study.exploring.outcome import RunOutcome, failure_of, reported, result_of
from offloadrt.study.reporting.results import measured_of
from offloadrt.study.running import profiles
from offloadrt.study.running.execution import Supervisor, run_of, run_to_the_end, with_policies
from offloadrt.study.running.run import Run
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec

Checker = Callable[[Run], Callable[[], Sequence[str]]]
"""Watches a run: called with it before it begins; what it returns is called at the end, and gives what is to report."""


@attrs.frozen
class Ended:
    """A run that has ended: what came out, when, and its trace hash, if one was asked for."""

    outcome: RunOutcome
    time_s: float
    hash: str = ""

    @classmethod
    def of(
        cls, run: Run, outcome: RunOutcome, reports: Sequence[Callable[[], Sequence[str]]], end_check: EndCheck | None
    ) -> Ended:
        """Judge a run: what its checkers report, and what faults made it leave behind, are failures as well."""
        if found := [line for report in reports for line in report()]:
            outcome = reported(found)
        if end_check is not None and end_check.violations:
            outcome = end_check.outcome(outcome)
        return cls(outcome, run.sim.now, run.trace.hash() if run.trace is not None else "")


class Program(Protocol):
    """What `explore` needs of a program."""

    @property
    def label(self) -> str:
        """Return how reports name it."""

    def run(self, case: ScheduleCase, strategy: Strategy, *, hash: bool = False) -> Ended:
        """Run it once, with the costs of `case` and under `strategy`. Raises UserError for what is asked wrongly."""

    def costs(self) -> tuple[str, ...]:
        """Return the entries of its machine that are costs with a range."""

    def smaller(self) -> Sequence[Program]:
        """Return the program with one of its parameters that shrink made smaller, smallest first."""


@attrs.frozen
class ScenarioProgram:
    """A scenario with its parameters and options. It travels to other processes."""

    reference: str
    """What `registry.find` understands."""
    parameters: Mapping[str, Value]
    options: RunSpec = attrs.field(factory=RunSpec)
    results: tuple[str, ...] = ()
    """Which figures are compared; by default what the scenario says."""
    checkers: tuple[Checker, ...] = ()
    """Their reports are failures."""

    @property
    def label(self) -> str:
        return " ".join([self.scenario.name, *(f"{name}={value}" for name, value in self.given.items())])

    @property
    def scenario(self) -> Scenario:
        return _found(self.reference)

    @property
    def given(self) -> dict[str, Value]:
        """Return the parameters that are not at their defaults."""
        known = self.scenario.parameters
        return {name: value for name, value in self.parameters.items() if value != known[name].default}

    def run(self, case: ScheduleCase, strategy: Strategy, *, hash: bool = False) -> Ended:
        run, parameters = self._made(case, strategy=strategy, hash=hash)
        reports = [checker(run) for checker in self.checkers]
        end_check = EndCheck() if case.faults else None
        outcome = self._outcome(run, parameters, end_check)
        return Ended.of(run, outcome, () if outcome.is_error else reports, end_check)

    def recorded_awaits(self) -> tuple[RunOutcome, AwaitRecorder]:
        recorder = AwaitRecorder()
        run, parameters = self._made(ScheduleCase(faults=(NEVER,)), gear="native")
        return self._outcome(run, parameters, recorder), recorder

    def _made(self, case: ScheduleCase, **how: Any) -> tuple[Run, dict[str, Value]]:
        """Make the run of a case, and the parameters that it is to be run with."""
        spec = attrs.evolve(
            self.options,
            overrides={**self.options.overrides, **case.overrides},
            range_end=case.range_end,
            faults=(*self.options.faults, *case.faults),
            **how,
        )
        parameters = with_policies(self.parameters, spec)
        return run_of(self.scenario, parameters, spec), parameters

    def _outcome(self, run: Run, parameters: Mapping[str, Value], supervisor: Supervisor | None) -> RunOutcome:
        """Run to the end, and return what came out."""
        scenario = self.scenario
        try:
            returned = run_to_the_end(run, scenario, parameters, supervisor, measure=False)
        except (ScriptFailed, UserError) as error:
            return failure_of(error)
        return result_of(measured_of(returned, scenario.name), self.results or scenario.results)

    def costs(self) -> tuple[str, ...]:
        scenario, options = self.scenario, self.options
        machine = options.machine or scenario.machine
        return costs_with_a_range(
            profiles.load(machine, options.overrides, runtime=options.runtime or scenario.runtime)
        )

    def smaller(self) -> Sequence[Program]:
        programs: list[Program] = []
        for name in self.scenario.shrinks:
            parameter, value = self.scenario.parameters[name], self.parameters[name]
            least = parameter.range.low if parameter.range.low is not None else 1
            if isinstance(value, int) and value > least:
                smaller = dict.fromkeys((int(least), (value + int(least)) // 2, value - 1))
                programs += [self._with(name, less) for less in smaller]
        return programs

    def _with(self, name: str, value: int) -> ScenarioProgram:
        return attrs.evolve(self, parameters={**self.parameters, name: value})


@functools.lru_cache(maxsize=8)
def _found(reference: str) -> Scenario:
    return registry.find(reference)
