"""Runs one scenario and collects its result."""

from __future__ import annotations

import gc
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Protocol, TypeVar

import attrs

from offloadrt.driver.calls import DriverError
from offloadrt.kernels.errors import SourceRefused
from offloadrt.machine.compute.page_fault import MemoryAccessFault
from offloadrt.machine.injection.fault import ThreadDied
from offloadrt.runtime.errors import OffloadError, UnifiedMemoryUnavailable
from offloadrt.sim.strategies import Strategy
from offloadrt.study.errors import ScenarioRefused, UserError
from offloadrt.study.input_range import inputs_at
from offloadrt.study.points import Options
from offloadrt.study.reporting.results import Result, measured_of, median
from offloadrt.study.running import collect
from offloadrt.study.running.profiles import far_off, machine_of
from offloadrt.study.running.run import Run
from offloadrt.study.running.unawaited import all_awaited
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.scripts.tracebacks import innermost, script_failure
from offloadrt.trace import Handovers

R = TypeVar("R")
Progress = Callable[[int, int], object]
"""Called with the steps done and all steps of a long program."""

_OPTIONS = {
    "phantom": "phantom",
    "configuration": "configuration",
    "allocator": "allocator",
    "devices": "num_devices",
    "processes": "num_processes",
}
"""The parameters of a scenario that are also options of its program, and the names of these options."""


def execute(
    scenario: Scenario,
    given: Mapping[str, Any] | None = None,
    *,
    machine: str | None = None,
    runtime: str | None = None,
    overrides: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    configuration: str | None = None,
    allocator: str | None = None,
    table_policy: str | None = None,
    range_end: str | Mapping[str, str | float] = "mean",
    inputs: Mapping[str, str | float] | None = None,
    seed: int = 0,
    gear: str = "turbo",
    strategy: str | Strategy = "fifo",
    hash: bool | None = None,
    record: bool = False,
    sinks: Sequence[Any] = (),
    handovers: Handovers | None = None,
    faults: Sequence[str] = (),
    on_progress: Progress | None = None,
    before_run: Callable[[Run], object] | None = None,
    sample_phases: bool = False,
) -> Result:
    """Run `scenario` once with the parameters `given`.

    Texts among them are read as on the command line; the rest take their defaults. `configuration`,
    `allocator` and `table_policy` are what the program gets, whatever it asks for; a parameter of such a name has then
    this value. `range_end` and `inputs` say where
    entries of the machine and inputs of the program are taken in their ranges. `faults` are injected. `on_progress` is
    called with (done, total) as often as the program tells how far it is, `before_run` with the run before it begins.
    With `sample_phases`, a few instances of repeated phases stand for all.

    Raises ParameterError and UserError for what the user asked wrongly, and ScriptFailed, from the original error and
    with the script's own traceback as its text, for whatever else the scenario raises.
    """
    parameters = scenario.bind(given or {})
    forced = {"configuration": configuration, "allocator": allocator, "table_policy": table_policy}
    parameters |= {name: value for name, value in forced.items() if value is not None and name in parameters}
    machine, runtime = _machine_and_runtime(scenario, machine, runtime)
    doubtful = far_off(machine, runtime, overrides or {})
    run = _run_on(
        scenario,
        parameters,
        machine=machine,
        runtime=runtime,
        overrides=overrides,
        range_end=range_end,
        environment=environment,
        **forced,
        seed=seed,
        gear=gear,
        strategy=strategy,
        hash=hash,
        record=record,
        sinks=sinks,
        handovers=handovers,
        faults=faults,
        on_progress=on_progress,
        sample_phases=sample_phases,
    )
    if before_run is not None:
        before_run(run)
    with inputs_at(inputs or {}) as taken:
        returned = run_to_the_end(run, scenario, parameters)
    try:
        measured = measured_of(returned, scenario.name)
    except ScenarioRefused as error:
        raise ScenarioRefused(f"{scenario.path}: {error}") from None
    options: dict[str, str | dict[str, str | float]] = {
        "overrides": {**(overrides or {})},
        "environment": {**(environment or {})},
        "range_end": range_end if isinstance(range_end, str) else dict(range_end),
        "inputs": {name: place for name, place in (inputs or {}).items() if name in taken},
        **{name: "" if value is None or name in parameters else value for name, value in forced.items()},
        "phases": "sampled" if run.windows.skipped else "",
        "gear": gear,
        "strategy": strategy if isinstance(strategy, str) else strategy.name,
        "faults": " ".join(faults),
    }
    changed = {name: value for name, value in options.items() if value and value != _DEFAULTS.get(name)}
    result = collect.result(run, scenario, parameters, measured)
    return attrs.evolve(
        result, options=changed, inputs=taken, warnings=[*doubtful, *_oversubscribed(run), *_unused_faults(run)]
    )


def _oversubscribed(run: Run) -> list[str]:
    """Warn when a parallel region had more threads than the machine has cores."""
    if run.most_threads < 2 or run.most_threads <= (cores := run.spec.count("cpu.cores")):
        return []
    return [f"{run.most_threads} host threads share the {cores} cores of {run.spec.name} (entry cpu.cores)"]


def _unused_faults(run: Run) -> list[str]:
    """Warn of faults that struck nothing."""
    unused = [] if run.injector is None else run.injector.unstruck()
    return [f"--faults {text}: nothing in this run was struck by it" for text in unused]


_DEFAULTS = {"range_end": "mean", "gear": "turbo", "strategy": "fifo"}


class Supervisor(Protocol):
    """Looks after a run from within, in the first actor."""

    def around(self, run: Run) -> AbstractAsyncContextManager[object]:
        """Return a context in which the program is run to its end."""


def _machine_and_runtime(scenario: Scenario, machine: str | None, runtime: str | None) -> tuple[str, str | None]:
    """Return the machine and the runtime of a run: the scenario's own unless others are given. Raises UserError."""
    return machine_of(scenario.name, scenario.path, scenario.machine, machine), runtime or scenario.runtime


def run_of(
    scenario: Scenario, parameters: Mapping[str, Value], *, machine: str | None, runtime: str | None, **options: Any
) -> Run:
    """Make the run of a scenario, on its own machine and runtime unless others are given; `options` are `Run`'s.

    Raises UserError.
    """
    machine, runtime = _machine_and_runtime(scenario, machine, runtime)
    return _run_on(scenario, parameters, machine=machine, runtime=runtime, **options)


def _run_on(scenario: Scenario, parameters: Mapping[str, Value], **options: Any) -> Run:
    run = Run(**options)
    run.configure(**{option: parameters[name] for name, option in _OPTIONS.items() if name in parameters})
    return run


def run_to_the_end(
    run: Run,
    scenario: Scenario,
    parameters: Mapping[str, Value],
    supervisor: Supervisor | None = None,
    *,
    measure: bool = True,
) -> Any:
    """Run the scenario's function as the first actor, within the supervisor's context, and return what it returned.

    `measure` is that of `Run.finish`.

    Raises UserError and ScriptFailed as `execute` does.
    """

    async def main() -> Any:
        returned = await scenario(run, **parameters)
        await run.finish(measure=measure)
        return returned

    try:
        with patient_collector():
            return run_supervised(run, main, supervisor)
    except (Exception, SystemExit, ThreadDied, BaseExceptionGroup) as error:
        inner = innermost(error)
        if isinstance(inner, UserError):
            raise inner from None
        if isinstance(inner, SourceRefused) or (registry.is_shipped(scenario) and isinstance(inner, ENDING_ERRORS)):
            raise UserError(str(inner)) from None
        if isinstance(error, BaseExceptionGroup) and error.subgroup(KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise script_failure(error) from error


def run_supervised(run: Run, main: Callable[[], Coroutine[Any, Any, R]], supervisor: Supervisor | None) -> R:
    """Run `main` as the first actor, within the supervisor's context, and return what it returned.

    Raises NeverAwaited and what `main` raises. The trace is closed whatever happens.
    """

    async def supervised(supervisor: Supervisor) -> R:
        async with supervisor.around(run):
            return await main()

    try:
        with all_awaited(run.sim):
            return run.sim.run(main) if supervisor is None else run.sim.run(supervised, supervisor)
    finally:
        if run.trace is not None:
            run.trace.close()


PROGRAM_ERRORS = (OffloadError, DriverError, MemoryAccessFault)
"""Errors of something that the program did. A checker has seen what led there."""
ENDING_ERRORS = (*PROGRAM_ERRORS, UnifiedMemoryUnavailable, ThreadDied)
"""Errors that end a real program with a message.

A script of this package that ends with one has wrong arguments; it is not wrong itself, so no traceback is shown.
"""


@contextmanager
def patient_collector() -> Iterator[None]:
    """Look for cycles less often: a run makes many short-lived objects and hardly a cycle (6 % of a run).

    Not too seldom: after 10,000 objects the cycles of some short runs still lie in the processor's cache, after 50,000
    no more. Objects are not frozen: to ask whether the caller has frozen some takes a look at each of them.
    """
    before = gc.get_threshold()
    gc.set_threshold(10_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def execute_repeatedly(
    scenario: Scenario,
    given: Mapping[str, Any],
    options: Options,
    sinks: Sequence[Any] = (),
    on_progress: Progress | None = None,
    before_run: Callable[[Run], object] | None = None,
    handovers: Handovers | None = None,
) -> Result:
    """Run as often as `options.repeat` says, with seeds counting up from `options.seed`, and return the median run.

    Raises as `execute`.
    """
    if options.repeat < 1:
        raise UserError(f"--repeat {options.repeat}: at least once")
    once = {key: value for key, value in attrs.asdict(options).items() if key not in ("repeat", "seed")}
    return median([
        execute(
            scenario,
            given,
            seed=options.seed + number,
            sinks=sinks if number == 0 else (),
            handovers=handovers if number == 0 else None,
            on_progress=on_progress,
            before_run=before_run,
            **once,
        )
        for number in range(options.repeat)
    ])  # fmt: skip
