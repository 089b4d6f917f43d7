"""Questions asked from Python: `offloadrt.execute`, `.sweep` and `.compare`, as in a notebook.

They take a scenario, by name or as the object that `@scenario` made of the user's own function, also in a notebook's
cell. Keywords are the scenario's parameters and fields of `RunSpec`, as on the command line; `draws` and `budget_s` (in
seconds) are the options `--draws` and `--budget`. A list of several values makes a keyword an axis. `explain` and
`report` (group `offloadrt.functions`) take the same arguments.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import attrs

from offloadrt.registry import Registry
from offloadrt.study.certainty import Effort, clock_of, uncertainty
from offloadrt.study.errors import ParameterError, UserError, did_you_mean
from offloadrt.study.reporting.compare import Comparison
from offloadrt.study.reporting.compare import compare as compare_runs
from offloadrt.study.reporting.results import REDRAWN, Result
from offloadrt.study.running.execution import execute as execute_run
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.spec import AXES, RunSpec
from offloadrt.study.sweep import InProcess, Point, SweepOutcome, executor, grid, processors
from offloadrt.study.sweep import sweep as sweep_points

Asked = Scenario | str | Path
"""A scenario, or the text that the command line accepts for it: a name, `FILE.py`, `FILE.py:NAME`, a recording."""


def execute(
    scenario: Asked,
    given: Mapping[str, Any] | None = None,
    *,
    spec: RunSpec | None = None,
    draws: int | None = 0,
    budget_s: float | None = None,
    **keywords: Any,
) -> Result:
    """Run a scenario once and return its `Result`; with `draws`, its `interval` says how sure the result is.

    ::

        offloadrt.execute("exahype", threads=8, memory="pool", machine="h100", overrides={"alloc.cudaFree": "20 us"})

    The scenario's parameters are keywords, or a mapping `given`. Other keywords are fields of `RunSpec`, which replace
    those of `spec`, or arguments of `running.execution.execute` (`sinks`, `causal_log`, `on_progress`, `before_run`).
    With `repeat`, the median run is returned. A draw repeats the run with a random sample of the uncertain costs;
    `draws` is how many are made within `budget_s` real seconds: by default none; with `draws=None`, up to 8 within 4 s.

    Raises ParameterError and UserError for a wrong request; ScriptFailed, with the script's own traceback as its text,
    for whatever else the scenario raises.
    """
    chosen = found(scenario)
    watched = {name: keywords.pop(name) for name in _WATCHERS if name in keywords}
    parameters, fields = divided(chosen, keywords)
    whole, options = {**(given or {}), **parameters}, RunSpec.of(spec, fields)
    result = execute_run(chosen, whole, spec=options, **watched)
    effort = Effort.of(draws, budget_s, 4.0, 8)
    if effort.draws != 0:
        point = Point(registry.reference(chosen), chosen.bind(whole), options)
        drawn = uncertainty().sample([point], [result], InProcess(), effort)
        (result,) = drawn.with_intervals([result])

    once = attrs.evolve(options, repeat=1, seed=result.seed).changed()  # which keeps no result alive

    def drawn_again(**keywords: Any) -> Any:
        draw = Registry[Any]("function", "offloadrt.functions").load("timeline")
        return draw(chosen, **whole, **once, **keywords)

    REDRAWN[id(result)] = drawn_again
    weakref.finalize(result, REDRAWN.pop, id(result), None)
    return result


_WATCHERS = ("sinks", "causal_log", "on_progress", "before_run")


def sweep(
    scenario: Asked,
    /,
    *,
    out: Path | str | None = None,
    draws: int | None = None,
    budget_s: float | None = None,
    jobs: int | None = None,
    **keywords: Any,
) -> SweepOutcome:
    """Run a scenario over all combinations of values, several at a time, and return what finished and what failed.

    ::

        offloadrt.sweep("exahype", threads=[1, 4, 16], memory=["map", "pool"], machine=["alex-a100", "h100"])

    `keywords` are parameters and fields of `RunSpec`. Parameters of the scenario's own sweep that are not named take
    all their values. Finished runs are kept in `out/points.jsonl`: the same call, made again, runs only what is
    missing. `jobs` is how many runs are made at a time, by default one a processor. Results have an `interval` where
    eight draws of all runs (repetitions with random samples of the uncertain costs) fit into `budget_s` seconds (60);
    `draws=0` makes none.

    Raises ParameterError, UserError and ScriptFailed as `execute` does; errors of single runs are in `failures`.
    """
    chosen = found(scenario)
    axes, spec = several(chosen, keywords)
    points = grid(chosen, {**chosen.sweep, **axes}, spec)
    file = None if out is None else Path(out) / "points.jsonl"
    with workers(chosen, jobs) as (pool, count), progress(f"sweep {chosen.name}") as shown:
        begun = (clock := clock_of(count))()
        outcome = sweep_points(
            points, pool, jobs=count, file=file, advanced=lambda outcome: shown(outcome.done, len(outcome.points))
        )
        effort = Effort.of(draws, budget_s, 60.0, 8)
        if effort.draws != 0:
            banded = uncertainty().banded
            banded(outcome, pool, effort, sweep_s=clock() - begun, jobs=count, file=file, advanced=shown)
    return outcome


def compare(
    scenario: Asked,
    /,
    *,
    baseline: Mapping[str, Any] | None = None,
    measures: Sequence[str] = (),
    draws: int | None = None,
    budget_s: float | None = None,
    jobs: int | None = None,
    **keywords: Any,
) -> Comparison:
    """Run a scenario with several values of a parameter, or on several machines, and set the runs side by side.

    ::

        offloadrt.compare("overlap", machine=["h100", "mi300a"], threads=8)

    `keywords` are parameters and fields of `RunSpec`; `jobs` runs are made at a time. `baseline`: the values to compare
    with, by parameter. `measures`: the numbers to compare besides the elapsed time. All runs are repeated with `draws`
    random samples of the uncertain costs; by default with up to 64 within `budget_s` seconds (40). Then `order` ranks
    the variants, and the results have an `interval`. `draws=0` makes none. Raises UserError for what cannot be
    compared, ScriptFailed when the program raises, ParameterError for a bad parameter.
    """
    chosen = found(scenario)
    axes, spec = several(chosen, keywords)
    with workers(chosen, jobs) as (pool, count), progress(f"compare {chosen.name}") as shown:
        return compare_runs(
            chosen, axes, pool, baseline=baseline, measures=measures, options=spec, jobs=count,
            effort=Effort.of(draws, budget_s, 40.0, 64),
            advanced=lambda outcome: shown(outcome.done, len(outcome.points)),
            stage=lambda name, done, asked: shown(done, asked),
        )  # fmt: skip


def found(scenario: Asked) -> Scenario:
    """Return a `Scenario` itself, or that of a name or path. Raises ScenarioNotFound, ScriptFailed, ParameterError."""
    if isinstance(scenario, Scenario):
        return scenario
    if isinstance(scenario, str | Path):
        return registry.find(str(scenario))
    raise ParameterError(
        "scenario", f"{scenario!r} is no scenario: give a name, a file, or an async function decorated with @scenario"
    )


def divided(scenario: Scenario, keywords: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide keywords into the scenario's parameters and fields of `RunSpec`. Raises ParameterError for other names."""
    fields = {name: value for name, value in keywords.items() if name in _FIELDS}
    parameters = {name: value for name, value in keywords.items() if name not in fields}
    for name in parameters:
        if name not in scenario.parameters:
            known = [*scenario.parameters, *_FIELDS]
            raise ParameterError(
                name,
                f"is neither a parameter of {scenario.name} nor an option of a run{did_you_mean(name, known)} "
                f"(parameters: {', '.join(scenario.parameters) or 'none'}; options: {', '.join(_FIELDS)})",
            )
    return parameters, fields


_FIELDS = tuple(field.name for field in attrs.fields(RunSpec))


def several(scenario: Scenario, keywords: Mapping[str, Any]) -> tuple[dict[str, Sequence[Any]], RunSpec]:
    """Divide keywords into the axes of a sweep (values by name) and the spec (options) that all its runs share.

    Raises ParameterError for an unknown name, and for an axis without values.
    """
    parameters, fields = divided(scenario, keywords)
    axes: dict[str, Sequence[Any]] = {name: _values(value) for name, value in parameters.items()}
    axes |= {name: _values(fields.pop(name)) for name in AXES if _is_many(fields.get(name))}
    for name, values in axes.items():
        if not values:
            raise ParameterError(name, "has no value; a list of values has at least one")
    return axes, RunSpec.of(None, fields)


def _is_many(value: object) -> bool:
    """Tell whether a keyword has several values: a list, a tuple, a range, an array of NumPy."""
    return not isinstance(value, str | bytes | Mapping) and hasattr(value, "__iter__")


def _values(value: Any) -> tuple[Any, ...]:
    values = value.tolist() if hasattr(value, "tolist") else value  # NumPy's numbers become Python's
    return tuple(values) if _is_many(values) else (values,)


@contextlib.contextmanager
def workers(scenario: Scenario, jobs: int | None = None) -> Iterator[tuple[Executor, int]]:
    """Make an executor for runs of a scenario, `jobs` at a time; yield (executor, number of runs at a time).

    A scenario that no other process can import, such as one in a notebook's cell, runs in this process. So does every
    scenario if the running script has no `if __name__ == "__main__"`, because new processes would repeat the script.
    """
    if registry.loading:
        told = 'asks while it is read as a program; put what asks below `if __name__ == "__main__":`'
        raise UserError(f"{registry.loading[-1]}: {told}")
    count = processors() if jobs is None else jobs
    if registry.is_only_here(scenario) or registry.main_asks():
        count = 1
    with executor("process", count) as pool:
        yield pool, count


@contextlib.contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar in a terminal or a notebook; show nothing elsewhere.

    Yields a function, to be called with the number of steps done and that of all steps.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not (console.is_terminal or console.is_jupyter)) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)
