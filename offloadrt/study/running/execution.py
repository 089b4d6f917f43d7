"""Runs a scenario and collects its result.

`execute` makes the run that a `RunSpec` describes. `run_to_the_end` and `run_supervised` run its program; `explore`
uses them, too. `ClockedRun` is a run inside a `trio.run` of pytest-trio, for the pytest plugin. `all_awaited` detects
forgotten `await`s. `open_sinks` opens the files that a run can write while it advances: its log and its Perfetto trace.
"""

from __future__ import annotations

import dis
import functools
import gc
import inspect
import math
import re
import sys
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import attrs
import trio.abc

from offloadrt.driver.calls import DriverError
from offloadrt.kernels.array_use import SourceRefused
from offloadrt.machine import ProfileError
from offloadrt.machine.injection import ThreadDied
from offloadrt.machine.memory import MemoryAccessFault
from offloadrt.registry import Registry
from offloadrt.runtime.errors import OffloadError, UnifiedMemoryUnavailable
from offloadrt.sim import Simulation
from offloadrt.study.errors import ScenarioRefused, UserError, beside, installed
from offloadrt.study.inputs import inputs_at
from offloadrt.study.reporting.results import (
    Bytes,
    ManagedFigures,
    Result,
    SampledPhase,
    TimeShare,
    measured_of,
    median,
)
from offloadrt.study.reporting.words import some
from offloadrt.study.running.profiles import far_off, machine_of
from offloadrt.study.running.run import Run
from offloadrt.study.running.statistics import Ledger
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.scripts.tracebacks import innermost, script_failure, script_line
from offloadrt.study.spec import POLICIES, RunSpec
from offloadrt.trace.recorder import LONGEST_S, TimeOverflow
from offloadrt.trace.statistics import OTHER

if TYPE_CHECKING:
    from offloadrt.trace import CausalObserver, Sink
    from offloadrt.trace.events import Row


def result(run: Run, scenario: Scenario, parameters: Mapping[str, Value], measured: Mapping[str, Value]) -> Result:
    """Make the `Result` of an ended run, from what the scenario returned (`measured`) and the run's measured counts."""
    ledger = run.measured
    return Result(
        scenario=scenario.name,
        parameters=dict(parameters),
        machine=run.spec.name,
        runtime=run.runtime,
        seed=run.seed,
        elapsed_s=run.elapsed,
        measured=dict(measured),
        calls=ledger.calls.statistics(),
        locks={
            name: attrs.evolve(lock, acquired=int(lock.acquired), contended=int(lock.contended))
            for name, lock in ledger.locks.items()
            if lock.acquired
        },
        devices=dict(ledger.engines),
        bytes=Bytes(**{direction: int(nbytes) for direction, nbytes in ledger.bytes.items()}),
        faults={name: int(count) for name, count in ledger.faults.items()},
        managed={name: ManagedFigures(*map(round, attrs.astuple(usage))) for name, usage in ledger.managed.items()},
        events=run.sim.timers_set,
        trace_hash=run.trace.hash() if run.trace is not None and run.trace.hashes else None,
        where_time_went=where_time_went(ledger),
        calls_outside=run.windows.calls_outside.statistics(),
        sections=dict(run.statistics.sections),
        algorithms={name: int(count) for name, count in ledger.algorithms.items()},
        phases=[
            SampledPhase(phase.threads, phase.instances, phase.skipped, phase.seconds, phase.error_s, phase.settled)
            for phase in run.windows.skipped
        ],
    )


def where_time_went(ledger: Ledger) -> dict[str, TimeShare]:
    """Return the shares of the host threads' time in `ledger` by category, the largest first.

    Shares are of the lifetimes of the host threads that ended in the measured windows; if the categories' time is more
    because threads live on, shares are of that time.
    """
    claimed = math.fsum(ledger.host_time.values())
    lives = max(ledger.lived_s, claimed)
    spent = {**ledger.host_time, OTHER: lives - claimed}
    shares = {name: TimeShare(dt, dt / lives) for name, dt in spent.items() if lives and dt > 0.0}
    return dict(sorted(shares.items(), key=lambda item: -item[1].total_s))


R = TypeVar("R")
Progress = Callable[[int, int], object]
"""Called with (done, total), the numbers of steps, as a long program advances."""

_OPTIONS = {
    "phantom": "phantom",
    "configuration": "configuration",
    "allocator": "allocator",
    "devices": "num_devices",
    "processes": "num_processes",
}
_OPTIONS_OF_RANKS = {"ranks": "num_processes", "nodes": "num_nodes", "gpus_per_node": "num_devices"}
"""Parameters of a scenario that also set an option of its program, by the parameter's name. These apply only if the
scenario has a parameter `ranks`, those of `_OPTIONS` always. A parameter that is None sets nothing.
"""


def execute(
    scenario: Scenario, given: Mapping[str, Any] | None = None, *, spec: RunSpec | None = None,
    sinks: Sequence[Any] = (), causal_log: CausalObserver | None = None, on_progress: Progress | None = None,
    before_run: Callable[[Run], object] | None = None, **fields: Any,
) -> Result:  # fmt: skip
    """Run `scenario` with the parameters `given` and return its result; `fields` replace fields of `spec`.

    Texts among the parameters are read as on the command line; the rest take their defaults. A policy of the spec, such
    as `allocator`, is also the value of the scenario's parameter of that name. With `repeat`, several runs are made
    with consecutive seeds, and the median run is returned; `sinks` (`trace.Sink`) and `causal_log` get the first run.
    `on_progress` is called with (done, total) as the program advances, `before_run` with each run before it begins.

    Raises ParameterError and UserError for a request that cannot be carried out, and ScriptFailed, from the original
    error and with the script's own traceback as its text, for whatever else the scenario raises.
    """
    spec = RunSpec.of(spec, fields)
    return median([
        _execute_once(
            scenario, given or {}, attrs.evolve(spec, seed=spec.seed + number, repeat=1),
            sinks if number == 0 else (), causal_log if number == 0 else None, on_progress, before_run,
        )
        for number in range(spec.repeat)
    ])  # fmt: skip


def _execute_once(
    scenario: Scenario, given: Mapping[str, Any], spec: RunSpec, sinks: Sequence[Any],
    causal_log: CausalObserver | None, on_progress: Progress | None, before_run: Callable[[Run], object] | None,
) -> Result:  # fmt: skip
    parameters = with_policies(scenario.bind(given), spec)
    spec = _on_its_machine(scenario, spec)
    run = run_of(scenario, parameters, spec, sinks=sinks, causal_log=causal_log, on_progress=on_progress)
    run.doubts += far_off(str(spec.machine), spec.runtime, spec.overrides)
    if before_run is not None:
        before_run(run)
    with inputs_at(spec.inputs) as taken:
        returned = run_to_the_end(run, scenario, parameters)
    try:
        measured = measured_of(returned, scenario.name)
    except ScenarioRefused as error:
        raise ScenarioRefused(f"{scenario.path}: {error}") from None
    used = attrs.evolve(spec, inputs={name: where for name, where in spec.inputs.items() if name in taken})
    return attrs.evolve(
        result(run, scenario, parameters, measured),
        options=_options(used, parameters, sampled=bool(run.windows.skipped)),
        inputs=taken,
        warnings=[
            *run.doubts,
            *_real_sleeps(scenario),
            *_takes_long(run),
            *_oversubscribed(run),
            *_faults(run),
            *_unknown_uses(run),
            *_drawn_uses(run),
        ],
    )


def _options(
    spec: RunSpec, parameters: Mapping[str, Value], *, sampled: bool
) -> dict[str, str | dict[str, str | float]]:
    """Return a result's `options`, without policies that are parameters. sampled: whether phases were left out."""
    options = spec.options_of_result()
    for name in POLICIES:
        if name in parameters:
            options.pop(name, None)
    if not sampled:
        return options
    begin = {name: value for name, value in options.items() if name in POLICIES or isinstance(value, dict)}
    return {**begin, "phases": "sampled", **options}


def _takes_long(run: Run) -> list[str]:
    """Return a warning if a run lasted longer than a trace can, which few programs do."""
    if run.sim.now <= LONGEST_S:
        return []
    return [f"it took {run.sim.now / 86400:,.0f} days of virtual time; a kernel's costs are per iteration"]


def _oversubscribed(run: Run) -> list[str]:
    """Return a warning if a parallel region had more threads than the machine has cores."""
    nodes, cores = run.options.num_nodes, run.spec.count("cpu.cores")
    if run.most_threads < 2 or run.most_threads <= cores * nodes:
        return []
    of = run.spec.name if nodes == 1 else f"each of {nodes} nodes of {run.spec.name}"
    return [f"{run.most_threads} host threads share the {cores} cores of {of} (entry cpu.cores)"]


@functools.cache
def _real_sleeps(scenario: Scenario) -> list[str]:
    """Return a warning for each call of `time.sleep` in a scenario's function: it takes real time, not virtual time."""
    codes, found = [inspect.unwrap(scenario.function).__code__], list[str]()
    for code in codes:
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
        if "sleep" in code.co_names and scenario.function.__globals__.get("time") is sys.modules["time"]:
            owner, line = None, code.co_firstlineno
            for step in dis.get_instructions(code):
                line = step.positions.lineno or line if step.positions else line
                if step.argval == "sleep" and owner == "time":
                    found.append(
                        f"{scenario.path}:{line}: time.sleep stops the emulator, and no virtual time passes; write "
                        "`await t.compute(seconds)` for work, `await run.sim.sleep(seconds)` for a pause"
                    )
                owner = step.argval
    return found


def _faults(run: Run) -> list[str]:
    """Return a warning for each injected fault that struck nothing, and one for those that the program survived."""
    if run.injector is None:
        return []
    unused = [f"--faults {text}: nothing in this run was struck by it" for text in run.injector.unstruck]
    struck = run.injector.struck
    return [*unused, f"the program went on after {some(struck)}"] if struck else unused


def _drawn_uses(run: Run) -> list[str]:
    """Return a warning if the pages that kernels access were drawn, because their index arrays have no values."""
    if not (names := some(run.statistics.kernels_of_drawn_uses)):
        return []
    drawn = f"{names}: indices from data without numbers; which pages they touch is drawn as expect(..., near=) says"
    return [f"{drawn}, or at random; with arrays of numbers it is exact"]


def _unknown_uses(run: Run) -> list[str]:
    """Return a warning if kernels used memory over a link and do not declare which arrays they read or write."""
    if not (names := some(run.statistics.kernels_of_unknown_uses)):
        return []
    taken = f"{names}: taken to read and to write, over the link, each array in managed memory as a whole"
    return [f'{taken}; say which with @kernel(reads=("x",), writes=("y",), ...)']


class Supervisor(Protocol):
    """Wraps a run's program in a context manager, for instance to watch it (`offloadrt explore` does so)."""

    def around(self, run: Run) -> AbstractAsyncContextManager[object]:
        """Return the async context manager inside which `run` executes its program, from beginning to end."""


def with_policies(parameters: Mapping[str, Value], spec: RunSpec) -> dict[str, Value]:
    """Return a scenario's parameters, with the spec's configuration, allocator and table policy for its own, if set."""
    policies = {name: value for name, value in spec.policies.items() if value is not None and name in parameters}
    return {**parameters, **policies}


def run_of(
    scenario: Scenario, parameters: Mapping[str, Value], spec: RunSpec, *, sinks: Sequence[Any] = (),
    causal_log: CausalObserver | None = None, on_progress: Progress | None = None,
) -> Run:  # fmt: skip
    """Make a scenario's `Run`, on the scenario's machine and runtime unless `spec` names others. Raises UserError.

    sinks, causal_log, on_progress: get the trace, who resumes whom, and (done, total) as the program advances.
    """
    spec = _on_its_machine(scenario, spec)
    run = Run(spec, sinks=sinks, causal_log=causal_log, on_progress=on_progress)
    options = _OPTIONS | (_OPTIONS_OF_RANKS if "ranks" in parameters else {})
    chosen = {option: parameters.get(name) for name, option in options.items()}
    run.configure(**{option: value for option, value in chosen.items() if value is not None})
    return run


def _on_its_machine(scenario: Scenario, spec: RunSpec) -> RunSpec:
    """Return the spec with the scenario's machine and runtime, unless it has others. Raises UserError."""
    machine = machine_of(scenario.name, scenario.path, scenario.machine, spec.machine)
    return attrs.evolve(spec, machine=machine, runtime=spec.runtime or scenario.runtime)


def run_to_the_end(
    run: Run, scenario: Scenario, parameters: Mapping[str, Value], supervisor: Supervisor | None = None, *,
    measure: bool = True,
) -> Any:  # fmt: skip
    """Run the scenario's function as the first actor, in the supervisor's context; return what the function returned.

    measure: whether to measure the whole run if the program marks no window. Raises UserError, ScriptFailed.
    """

    async def main() -> Any:
        returned = await scenario(run, **parameters)
        await run.finish(measure=measure)
        assert run.statistics.sections is not None  # they are made here, where the mistakes of a program are told
        return returned

    try:
        with patient_collector():
            return run_supervised(run, main, supervisor)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a script may raise SystemExit, GeneratorExit or a class of its own
        inner = innermost(error)
        if isinstance(inner, UserError):
            raise inner from None
        if isinstance(inner, TimeOverflow):
            why = "--log, --hash, why, report and timeline need one; costs of a kernel are per iteration"
            raise UserError(f"{inner}; {why}") from None
        if isinstance(inner, SourceRefused) or (registry.is_shipped(scenario) and isinstance(inner, ENDING_ERRORS)):
            raise UserError(str(inner)) from None
        if isinstance(error, BaseExceptionGroup) and error.subgroup(KeyboardInterrupt):
            raise KeyboardInterrupt from None
        raise script_failure(error) from error


def run_supervised(run: Run, main: Callable[[], Coroutine[Any, Any, R]], supervisor: Supervisor | None) -> R:
    """Run `main` as the first actor, in the supervisor's context, and return what `main` returned.

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
"""Errors that a program's own actions cause. `offloadrt check` then reports what it has found up to the error."""
ENDING_ERRORS = (*PROGRAM_ERRORS, ProfileError, UnifiedMemoryUnavailable, ThreadDied)
"""Errors that end a real program with a message.

A script of this package that ends with such an error has wrong arguments, so no traceback is shown.
"""


@contextmanager
def patient_collector() -> Iterator[None]:
    """Run Python's garbage collector less often while the body runs, which makes a run about 6 % faster.

    A run makes many short-lived objects and hardly any reference cycle. The threshold is 10,000 objects at first: the
    cycles of some short runs are then still in the processor's cache, with 50,000 they are not. Each collection doubles
    the threshold, up to 160,000: the more threads live, the more there is to look through. `gc.freeze` is not used.
    """
    before = gc.get_threshold()

    def double(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            gc.set_threshold(min(2 * gc.get_threshold()[0], 160_000), 20, 50)

    gc.set_threshold(10_000, 20, 50)
    gc.callbacks.append(double)
    try:
        yield
    finally:
        gc.callbacks.remove(double)
        gc.set_threshold(*before)


# Without `await` a directive does nothing, which no figure shows; so does a region that is not entered by `async with`
# but thrown away. Python warns when it throws such a coroutine away, and a `Region` warns as well: while a run lasts,
# that is an error of the run. Nothing is added to what is awaited.

_NEVER = r"(coroutine|region) '.*' was never (awaited|entered)"


class NeverAwaited(UserError):
    """Raised when a directive or another coroutine was called without `await`, or a region without `async with`.

    The message names the call and its thread.
    """


@contextmanager
def all_awaited(sim: Simulation) -> Iterator[None]:
    """Detect, while the body runs, coroutines and regions that are dropped without being awaited.

    Raises NeverAwaited at the end; an error of the body gets a note instead.
    """
    forgotten: list[str] = []
    before = sys.unraisablehook

    def notice(unraisable: Any) -> None:
        warning = str(unraisable.exc_value)
        if isinstance(unraisable.exc_value, RuntimeWarning) and (what := re.match(_NEVER, warning)):
            actor = sim.running
            who = "the program" if actor is None else actor.name
            called, word = _called(unraisable.object, warning), "await" if what[1] == "coroutine" else "async with"
            forgotten.append(f"{who}: {called} was never {what[2]}{script_line()}, so it did nothing: write `{word}`")
        else:
            before(unraisable)

    sys.unraisablehook = notice
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=_NEVER, category=RuntimeWarning)
            yield
    except Exception as error:
        for line in dict.fromkeys(forgotten):
            error.add_note(line)
        raise
    finally:
        sys.unraisablehook = before
    if forgotten:
        times = f" (and {len(forgotten) - 1} more)" if len(forgotten) > 1 else ""
        raise NeverAwaited(forgotten[0] + times)


def _called(coroutine: Any, warning: str) -> str:
    """Return the name of the directive that a coroutine runs, or else of its function.

    The function's name is taken from the text of Python's warning.
    """
    frame = getattr(coroutine, "cr_frame", None)
    function = warning.split("'")[1].rpartition(".")[2]
    if function not in ("in_directive", "_defer", "_run_after"):
        return function
    return "a directive" if frame is None else str(frame.f_locals["name"])


class ClockedRun(Run, trio.abc.Clock):
    """A `Run` that is a `trio.abc.Clock`, which is what pytest-trio looks for among a test's fixtures."""

    __slots__ = ()

    def start_clock(self) -> None:
        """Start the clock; Trio calls this once, before its first task runs."""
        self.sim.start_clock()

    def current_time(self) -> float:
        """Return the virtual seconds since the start."""
        return self.sim.current_time()

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Advance virtual time when no task can run; return how long Trio may sleep. deadline: Trio's next one."""
        return self.sim.deadline_to_sleep_time(deadline)

    async def live(self, main: Callable[[], Awaitable[object]]) -> None:
        """Run `await main()` as the first actor, in the current task, and wait for all that it has started.

        An error of one actor is raised as it is, not in a group.
        """
        __tracebackhide__ = True
        try:
            with all_awaited(self.sim):
                async with self.sim.running_here():
                    async with self.sim.adopt("test"):
                        await main()
                        await self.finish()
            if self.sim.violation is not None:
                raise self.sim.violation
        except BaseExceptionGroup as group:
            raise innermost(group) from None
        finally:
            if self.trace is not None:
                self.trace.close()


def observer_of(perfetto: Path | None) -> CausalObserver | None:
    """Make the observer for a trace file `perfetto`; None without a file. UserError if its extension is missing."""
    observer: CausalObserver | None = None if perfetto is None else installed(TRACE_FILES, "perfetto").observer()
    return observer


def open_sinks(
    *, log: Path | None = None, perfetto: Path | None = None, causal_log: CausalObserver | None = None
) -> list[Sink]:
    """Open sinks for the files `log` (JSON lines) and `perfetto`, which gets `causal_log`, the observer of the run.

    Raises UserError for a file that cannot be written and for a package that is missing.
    """
    sinks: list[Sink] = []
    try:
        if log is not None:
            from offloadrt.trace.logs import JsonLines

            part = beside(log)
            sinks.append(_FileSink(log, part, JsonLines(part)))
        if perfetto is not None:
            part = beside(perfetto)
            sinks.append(_FileSink(perfetto, part, TRACE_FILES.load("perfetto")(part, causal_log)))
    except OSError as error:
        failed = log if perfetto is None or not (sinks or log is None) else perfetto
        raise UserError(f"{failed}: cannot be written: {error.strerror}") from None
    except (ImportError, ValueError) as error:
        raise UserError(str(error)) from None
    return sinks


TRACE_FILES: Registry[Any] = Registry("trace file", "offloadrt.trace_files")
"""Openers of files for other tools, such as Perfetto; each is called with the path and the run's observer."""


@attrs.frozen
class _FileSink:
    """A sink that raises UserError with its path when the file cannot be written, as on a full disk.

    It writes a temporary file, which replaces the path when the sink is closed.
    """

    path: Path
    part: Path
    sink: Sink

    def write(self, rows: Sequence[Row], /) -> None:
        with self._naming_the_file():
            self.sink.write(rows)

    def close(self) -> None:
        with self._naming_the_file():
            self.sink.close()
            if self.part is not self.path and self.part.exists():
                self.part.replace(self.path)

    @contextmanager
    def _naming_the_file(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written: {error.strerror or error}") from None
