"""What if: each change is tried by a run of its own, through the executors of `sweep`, within a budget of real time.

A change's time is that of `offloadrt run` with the change on its command line, bit by bit: it is the same run.
"""

from __future__ import annotations

import shlex
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from pathlib import Path
from typing import Any

import attrs
import msgspec

from offloadrt.extensions.explaining.proposals import Proposal, half
from offloadrt.machine import MachineSpec
from offloadrt.study.reporting.results import Result
from offloadrt.study.reporting.words import word
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.listing import folder
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point, run_point

_WORTH = 1.01
"""The gain of a cost's zero from which on its half is tried as well."""


@attrs.frozen
class WhatIf:
    """A change that was tried."""

    change: Proposal
    elapsed_s: float
    gain: float
    """The figure of merit of the run over that of the changed run: above 1 the change is worth it."""
    command: str
    """What reproduces the run."""


@attrs.frozen
class Tried:
    """All that was tried, the largest gain first."""

    merit: str
    """The figure that gains are of: `elapsed_s`, or the time that the scenario's figure shows."""
    what_ifs: tuple[WhatIf, ...]
    refused: Mapping[str, str]
    """Changes that cannot be run, and why not."""
    left: int
    """How many changes the budget did not suffice for."""


@attrs.define(eq=False)
class Trials:
    """Tries changes of one run. `deadline` is a reading of `time.monotonic`."""

    scenario: Scenario
    given: Mapping[str, Value]
    options: RunSpec
    pool: Executor
    jobs: int
    deadline: float
    merit: str = "elapsed_s"
    _waiting: dict[Future[bytes], tuple[Proposal, float]] = attrs.field(factory=dict)
    _answered: list[tuple[Proposal, Result]] = attrs.field(factory=list)
    _refused: dict[str, str] = attrs.field(factory=dict)
    _took_s: list[float] = attrs.field(factory=list)

    def start(self, changes: Iterable[Proposal]) -> None:
        """Begin to try changes that need not wait for the run that they are compared with."""
        for change in changes:
            self._submit(change)

    def finish(
        self,
        base: Result,
        spec: MachineSpec,
        changes: Iterable[Proposal],
        advanced: Callable[[int, int], object] = lambda done, asked: None,
    ) -> Tried:
        """Try the changes, the most promising first, until the budget is used up; wait for those that were begun."""
        ahead = sorted(changes, key=lambda change: -change.promise)
        known = self._merit_of(base)
        while True:
            while ahead and len(self._waiting) < self.jobs and self._has_time():
                self._submit(ahead.pop(0))
            if not self._waiting:
                break
            for change, result in self._answers():
                gain = _ratio(known, self._merit_of(result))
                if gain >= _WORTH and (smaller := half(change, spec, gain)) is not None:
                    ahead.insert(0, smaller)
            advanced(len(self._answered), len(self._answered) + len(self._waiting) + len(ahead))
        what_ifs = [
            WhatIf(change, result.elapsed_s, _ratio(known, self._merit_of(result)), self._command(change, result))
            for change, result in self._answered
        ]
        what_ifs.sort(key=lambda tried: (-tried.gain, tried.change.name))
        return Tried(self.merit, tuple(what_ifs), dict(self._refused), len(ahead))

    def _has_time(self) -> bool:
        usual_s = statistics.median_low(self._took_s) if self._took_s else 0.0
        return time.monotonic() + usual_s < self.deadline

    def _submit(self, change: Proposal) -> None:
        options = attrs.evolve(self._options(change), overrides={**self.options.overrides, **change.overrides})
        point = Point(registry.reference(self.scenario), {**self.given, **change.parameters}, options)
        begun = time.monotonic()
        self._waiting[self.pool.submit(run_point, point)] = change, begun

    def _options(self, change: Proposal) -> RunSpec:
        """Return the options of the run, with the memory configuration of the change."""
        chosen = change.configuration
        return self.options if chosen is None else attrs.evolve(self.options, configuration=chosen)

    def _answers(self) -> list[tuple[Proposal, Result]]:
        """Wait for an answer; return those there are."""
        done, _ = wait(self._waiting, return_when=FIRST_COMPLETED)
        new = []
        for future in [future for future in self._waiting if future in done]:
            change, begun = self._waiting.pop(future)
            self._took_s.append(time.monotonic() - begun)
            row: Any = msgspec.json.decode(future.result())
            if "error" in row:
                self._refused[change.name] = row["error"]
            else:
                new.append((change, msgspec.convert(row, Result)))
        self._answered += new
        return new

    def _merit_of(self, result: Result) -> float:
        value = result.measured.get(self.merit, result.elapsed_s)
        return float(value) if isinstance(value, int | float) else result.elapsed_s

    def _command(self, change: Proposal, result: Result) -> str:
        parameters = {**self.given, **change.parameters}
        sampled = bool(result.phases)
        return command_of(self.scenario, parameters, self._options(change), change.overrides, sampled=sampled)


def merit_of(scenario: Scenario, base: Result) -> str:
    """Return the figure to improve: the time that the scenario's figure shows if it is measured, or the elapsed one."""
    name = "" if scenario.figure is None else scenario.figure.y
    return name if name.endswith("_s") and isinstance(base.measured.get(name), float) else "elapsed_s"


def command_of(
    scenario: Scenario,
    parameters: Mapping[str, Value],
    options: RunSpec,
    more: Mapping[str, str],
    *,
    sampled: bool = False,
) -> str:
    """Return the command line of a run, quoted for a shell; parameters at their defaults are left out.

    more: entries of the machine that are set besides. sampled: whether instances of repeated phases were left out.
    """
    words = ["offloadrt", "run", _called(scenario)]
    for name, value in parameters.items():
        if scenario.parameters[name].required or value != scenario.parameters[name].default:
            words.append(f"{name}={word(value)}")
    changed = attrs.evolve(options, overrides={**options.overrides, **more}, repeat=1, hash=None, sample_phases=sampled)
    return shlex.join([*words, *changed.words()])


def _called(scenario: Scenario) -> str:
    if scenario.path is not None and scenario.path.parent == folder():
        return scenario.name
    return registry.reference(scenario).removeprefix(f"{Path.cwd()}/")


def _ratio(base: float, other: float) -> float:
    return base / other if other else float("inf") if base else 1.0
