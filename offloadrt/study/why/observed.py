"""A run that is recorded so that it can be explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from offloadrt.machine import MachineSpec
from offloadrt.study.errors import UserError
from offloadrt.study.reporting.results import Result
from offloadrt.study.running.execution import Progress, execute
from offloadrt.study.running.run import Run
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.spec import RunSpec
from offloadrt.study.why.critical_path import PathPart, counted_over, critical_path
from offloadrt.study.why.history import History, history_of
from offloadrt.study.why.resources import ResourceUse, Window, lock_uses, part_uses
from offloadrt.trace import CausalLog, Row
from offloadrt.trace.events import PS_PER_S

_MAIN = 0
"""The index of the actor that a run begins with."""


@attrs.frozen
class Observed:
    """A run, its critical path and its resources."""

    result: Result
    spec: MachineSpec
    windows: tuple[Window, ...]
    path: tuple[PathPart, ...]
    resources: tuple[ResourceUse, ...]
    history: History = attrs.field(repr=False)
    rows: Sequence[Row] = attrs.field(repr=False)
    """Every event of the run."""
    causal_log: CausalLog = attrs.field(repr=False)

    @property
    def elapsed_ps(self) -> int:
        """Return the measured time: the sum of the path's parts, with what was left out of repeated phases."""
        return sum(part.ps for part in self.path)


def observe(
    scenario: Scenario, given: Mapping[str, Any], options: RunSpec, progress: Progress | None = None
) -> Observed:
    """Run a scenario once, as `offloadrt run` does, and find its critical path.

    Raises as `execute`; UserError for `--repeat`.
    """
    if options.repeat != 1:
        raise UserError("why: one run is explained; leave --repeat out")
    causal_log = CausalLog()
    runs: list[Run] = []
    once = attrs.evolve(options, repeat=1, record=True, hash=bool(options.hash))
    result = execute(scenario, given, spec=once, causal_log=causal_log, on_progress=progress, before_run=runs.append)
    run = runs[-1]
    assert run.trace is not None
    history = history_of(run.trace.rows, causal_log.rows, causal_log.source_lines, causal_log.arrivals)
    spans = [(round(begin * PS_PER_S), round(end * PS_PER_S), actor.index) for begin, end, actor in run.windows.spans]
    if not spans:  # a program that used no machine
        spans = [(0, round(run.sim.now * PS_PER_S), _MAIN)]
    path = [part for begin, end, actor in spans for part in critical_path(history, begin, end, actor)]
    windows: Sequence[Window] = [(begin, end) for begin, end, _ in spans]
    phases = [
        (round(phase.begin_s * PS_PER_S), round(phase.end_s * PS_PER_S), phase.weight) for phase in run.windows.skipped
    ]
    path = list(counted_over(path, phases))
    uses = lock_uses(history, [(begin, end) for begin, end, _ in phases] or windows) + part_uses(
        result.devices, result.elapsed_s
    )
    return Observed(result, run.spec, tuple(windows), tuple(path), tuple(uses), history, run.trace.rows, causal_log)
