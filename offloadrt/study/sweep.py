"""Makes many runs on any executor, stores each result as the run finishes, and resumes an interrupted sweep.

`DIR/points.jsonl` gains one line per finished run. The same sweep started again reads it and runs only what is
missing. It ignores a line whose key does not fit: the script, the machine file or the emulator has changed since.

A `Point` is one run of a sweep. `Point.key` identifies the run, also in another process or at another time.

Points run on any `concurrent.futures.Executor`. `process` is a pool of processes on this machine, `dask` a cluster
(`dask.distributed`'s own executor), `mpi` the ranks of an MPI job (`mpi4py.futures`). Only this module spreads work.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import inspect
import itertools
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeVar

import attrs
import msgspec

from offloadrt.registry import Registry
from offloadrt.study.errors import ParameterError, ScriptFailed, UserError, installed, writing
from offloadrt.study.reporting.results import Result, drawing, from_builtins, html_of, to_json, to_pandas, to_polars
from offloadrt.study.reporting.words import counted
from offloadrt.study.running import profiles
from offloadrt.study.running.execution import execute
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.definition import Figure, Scenario
from offloadrt.study.scripts.listing import PACKAGE
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import AXES, RunSpec

if TYPE_CHECKING:
    import pandas
    import polars


@attrs.frozen
class Point:
    """Describes one run of a sweep: its scenario, parameters and options."""

    scenario: str
    """The scenario as a text that `registry.find` accepts."""
    parameters: Mapping[str, Value]
    options: RunSpec = attrs.field(factory=RunSpec)
    varied: Mapping[str, Value] = attrs.field(factory=dict)
    """The point's values of those options (`AXES`) that differ among the points; results treat them as parameters."""

    @property
    def axis_values(self) -> dict[str, Value]:
        """Return what distinguishes this point of a sweep from the others: its parameters and the varied options."""
        return {**self.parameters, **self.varied}

    def to_row(self) -> dict[str, Any]:
        """Return the point as plain values, for a line in a file of points, without options at their defaults."""
        return {
            "scenario": self.scenario,
            "parameters": dict(self.parameters),
            "options": self.options.changed(),
            "varied": dict(self.varied),
        }

    @property
    def key(self) -> str:
        """Return 24 hex digits of a SHA-256 over all that the point's result depends on.

        These are the scenario, its parameters and script, the emulator, the machine, the runtime and all options.
        Raises ScenarioNotFound, ScriptFailed; UserError for a machine or a runtime that does not exist.
        """
        return Keys().of(self)


@attrs.define
class Keys:
    """Computes points' keys (`Point.key`); each program and machine is read once and must not change meanwhile."""

    _known: dict[tuple[str, str | None, str | None], tuple[str | None, str]] = attrs.field(factory=dict)

    def of(self, point: Point) -> str:
        """Return the key that identifies a point's result (`Point.key`). ScenarioNotFound, ScriptFailed, UserError."""
        options = point.options
        asked = point.scenario, options.machine, options.runtime
        digests = self._known.get(asked)
        if digests is None:
            scenario = registry.find(point.scenario)
            machine = profiles.load(options.machine or scenario.machine, runtime=options.runtime or scenario.runtime)
            digests = self._known[asked] = _digest_of_program(scenario, point.scenario), machine.digest
        program, profile = digests
        policies = {name: _file_of(policy) for name, policy in options.policies.items()}
        files = {name: digest_of_file(file) for name, file in policies.items() if file is not None}
        # Not what is varied: a run is the same whatever it is compared with.
        facts = [point.scenario, point.parameters, options.changed(), digest_of_sources(), program, profile, files]
        return _digest(*facts)


def _digest(*facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:24]


def grid(scenario: Scenario, axes: Mapping[str, Sequence[Any]], options: RunSpec) -> list[Point]:
    """Make a point (a run) for each combination of values of `axes`, with all parameters; the last axis varies fastest.

    An axis is a parameter of the scenario, or an option in `AXES`, such as `machine`. Raises ParameterError, before
    anything runs, for a value that its parameter does not accept, and for an axis that `options` sets for all points.
    """
    for name in AXES:
        if name in axes and (value := getattr(options, name)) is not None:
            raise ParameterError(name, f"--{name.replace('_', '-')} {value} sets it for all runs; leave out one")
    reference = registry.reference(scenario)
    points = []
    read = {name: read_axis(scenario, name, values) for name, values in axes.items()}
    for values in itertools.product(*read.values()):
        given = dict(zip(axes, values, strict=True))
        varied: dict[str, Any] = {name: str(given.pop(name)) for name in axes if is_option(scenario, name, given[name])}
        points.append(Point(reference, scenario.bind(given), attrs.evolve(options, **varied), varied))
    return points


def is_option(scenario: Scenario, name: str, value: Any) -> bool:
    """Tell whether values on the axis `name` are for an option of `RunSpec`, not for a scenario's parameter.

    A policy in a file (`FILE.py:NAME`) is always for the option, even if a parameter has the same name.
    """
    return name in AXES and (name not in scenario.parameters or _file_of(value) is not None)


def _file_of(value: object) -> Path | None:
    """Return the file of a policy given as `FILE.py:NAME`; else None."""
    file, colon, _ = str(value).rpartition(":")
    return Path(file) if colon and file.endswith(".py") else None


def read_axis(scenario: Scenario, name: str, values: Sequence[Any]) -> tuple[Value, ...]:
    """Check and convert the values of an axis. Raises ParameterError for a bad value, and for a repeated value."""
    read = tuple(read_value(scenario, name, value) for value in values)
    for number, value in enumerate(read):
        if value in read[:number]:
            raise ParameterError(name, f"{value} is given twice")
    return read


def read_value(scenario: Scenario, name: str, value: Any) -> Value:
    """Check and convert one value of an axis. Raises ParameterError for a value that the parameter does not accept."""
    return str(value) if is_option(scenario, name, value) else scenario.bind_one(name, value)


def described(name: str, points: Sequence[Point]) -> str:
    """Describe a sweep of `points` in words, with what varies: `exahype: 6 runs: threads=64,128`."""
    axes = {name: tuple(dict.fromkeys(point.axis_values[name] for point in points)) for name in points[0].axis_values}
    swept = " ".join(f"{name}={','.join(map(str, values))}" for name, values in axes.items() if len(values) > 1)
    return ": ".join(filter(None, (name, counted(len(points), "run"), swept)))


@functools.cache
def digest_of_sources() -> str:
    """Return a SHA-256, in hex digits, of the Python sources and TOML profiles of offloadrt itself."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")) + sorted(PACKAGE.rglob("*.toml")):
        digest.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def digest_of_file(path: Path | None) -> str | None:
    """Return a SHA-256 of a file's content, or of all files in a folder, as hex digits; None if it does not exist."""
    if path is None or not path.exists():
        return None
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _digest_of_program(scenario: Scenario, reference: str) -> str | None:
    if registry.is_only_here(scenario):
        return hashlib.sha256(inspect.getsource(scenario.function).encode()).hexdigest()
    return digest_of_file(registry.split(reference)[0] or scenario.path)


P = ParamSpec("P")
T = TypeVar("T")
Kind = Literal["process", "dask", "mpi"]
EXECUTORS: Final = Registry[Any]("executor", "offloadrt.executors")
"""Context managers, by kind (`dask`, `mpi`), that make an executor with a given number of workers."""


class InProcess(Executor):
    """Runs each call immediately in this process: a single job needs no pool, and a debugger can follow it."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call ``fn(*args, **kwargs)`` immediately, and return a future that is already completed."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Processes(Executor):
    """A pool of `jobs` processes that is replaced when one of them dies, unlike ProcessPoolExecutor.

    The calls that were in the old pool fail with BrokenExecutor.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool = self._new()

    def _new(self) -> ProcessPoolExecutor:
        spawn = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._jobs, mp_context=spawn, initializer=_live_as_a_worker)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Submit ``fn(*args, **kwargs)`` to a process; only the calling process handles Ctrl-C."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # which a process that is started inherits
        try:
            return self._pool.submit(fn, *args, **kwargs)
        except BrokenExecutor:
            self._pool.shutdown()
            self._pool = self._new()
            return self._pool.submit(fn, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes of the pool."""
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


def killed_its_workers(error: Exception) -> bool:
    """Tell whether a Dask cluster gave up on a call because it killed several workers (KilledWorker)."""
    distributed = sys.modules.get("distributed.scheduler")
    return distributed is not None and isinstance(error, distributed.KilledWorker)


def processors() -> int:
    """Count the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _live_as_a_worker() -> None:
    """End this worker when the parent is gone."""
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


@contextlib.contextmanager
def executor(kind: Kind = "process", jobs: int = 1) -> Iterator[Executor]:
    """Make an executor of `jobs` workers for the body; an exception from the body drops calls that have not run.

    Raises UserError when `kind` needs a package that is not installed.
    """
    if jobs < 1:
        raise UserError(f"--jobs {jobs}: at least one")
    if kind != "process":
        with installed(EXECUTORS, kind, f"--executor {kind}: ")(jobs) as pool:
            yield pool
    elif jobs == 1:
        yield InProcess()
    else:
        with _processes(jobs) as pool:
            yield pool


@contextlib.contextmanager
def _processes(jobs: int) -> Iterator[Executor]:
    before = set(multiprocessing.active_children())
    pool = Processes(jobs)
    try:
        with _terminated_in_order():
            yield pool
    except BaseException:
        for child in multiprocessing.active_children():
            if child not in before:
                child.terminate()
        # Waits for the pool's thread: at its exit Python 3.11 writes to the thread's pipe, which it may be closing.
        pool.shutdown(cancel_futures=True)
        raise
    else:
        pool.shutdown()


@contextlib.contextmanager
def _terminated_in_order() -> Iterator[None]:
    """Let SIGTERM raise SystemExit while the body runs, so that the pool can release its resources."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@attrs.frozen
class Failure:
    """A run (`point`) of a sweep that could not be made, with the reason."""

    point: Point
    message: str
    of_program: bool = False
    """True: the program raised. False: the run could not be made, for example because of a bad parameter."""


@attrs.define
class SweepOutcome:
    """The results and failures of a sweep's runs (`points`) so far, in their order; None for a run without a result."""

    points: Sequence[Point]
    results: list[Result | None]
    failures: list[Failure] = attrs.field(factory=list)
    kept: int = 0
    """Number of points whose results an earlier sweep has stored."""
    done: int = 0
    """Number of results so far, those of an earlier sweep included."""
    order_effects: list[str] = attrs.field(factory=list)
    """Texts about steps from one value of an axis to the next that make runs faster in some draws, slower in others."""

    @property
    def finished(self) -> list[Result]:
        """Return the results of the points that have finished, in the order of the points."""
        return [result for result in self.results if result is not None]

    def figure(self, **changes: Any) -> Any:
        """Draw the finished runs as a figure of matplotlib; `changes` are fields of `Figure`: x, y, lines, panels, ….

        Without changes, `Scenario.figure` is drawn; if there is none, the first measured number, or the elapsed time,
        over the first swept number. Raises UserError when no parameter can be x, when a column is no number in every
        result, or without matplotlib.
        """
        first = self.points[0]
        swept = {name: tuple(dict.fromkeys(p.axis_values[name] for p in self.points)) for name in first.axis_values}
        scenario = registry.find(first.scenario)
        figures = drawing()
        chosen = figures.figure_for(scenario.figure, swept, self.finished, scenario.machine)
        if chosen is None and "x" in changes:
            chosen = Figure(x=changes["x"], y="elapsed_s")
        if chosen is None:
            raise UserError(f"{scenario.name}: nothing was swept that can lie along x; say which, as in x='threads'")
        return figures.canvas_of(attrs.evolve(chosen, **changes), self.finished)

    def to_polars(self) -> polars.DataFrame:
        """Return the finished runs as a polars data frame, one row each. UserError when polars is not installed."""
        return to_polars(self.finished)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the finished runs as a pandas data frame, one row each. UserError when pandas is not installed."""
        return to_pandas(self.finished)

    def _repr_html_(self) -> str | None:
        return html_of(self)


def finished_points(file: Path) -> dict[str, Result]:
    """Read the results in a sweep's file points.jsonl, by the runs' keys; lines that were cut or edited are ignored."""
    finished = {}
    if file.is_file():
        for line in file.read_bytes().splitlines():
            try:
                row = msgspec.json.decode(line)
                if row["digest"] == _digest(row["key"], row["result"]):
                    finished[row["key"]] = from_builtins(row["result"])
            except (ValueError, KeyError, TypeError, RecursionError, msgspec.DecodeError):
                continue
    return finished


def check_other(file: Path, scenario: str) -> None:
    """Check that a sweep's file is of this scenario. Raises UserError: two sweeps would overwrite their tables."""
    if file.is_file():
        with file.open("rb") as lines:
            try:
                other = json.loads(lines.readline())["point"]["scenario"]
            except (ValueError, KeyError, TypeError, RecursionError):
                return
        if other != scenario:
            raise UserError(f"{file.parent}: holds a sweep of {other}; name another folder by --out")


def sweep(
    points: Sequence[Point], pool: Executor, *, jobs: int = 1, file: Path | None = None,
    advanced: Callable[[SweepOutcome], None] | None = None,
    enough: Callable[[SweepOutcome], bool] = lambda outcome: False,
) -> SweepOutcome:  # fmt: skip
    """Run the points (runs of a sweep) that have no result in `file`, `jobs` at a time, on `pool`.

    Each result is appended to `file`; `advanced` is called after each. When `enough` returns True, no further run is
    begun, and the remaining points have no result. A point that fails does not stop the others. KeyboardInterrupt
    passes through; the file then has the results of all runs that had finished.
    """
    keys = Keys()
    kept: list[Result | None] = [None for _ in points]
    if file is not None:
        known = finished_points(file)
        kept = [known.get(keys.of(point)) for point in points]
    outcome = SweepOutcome(
        points, [result and _with_varied(result, point) for result, point in zip(kept, points, strict=True)]
    )
    outcome.kept = outcome.done = len(outcome.finished)
    if advanced is not None:
        advanced(outcome)
    missing = [number for number, result in enumerate(outcome.results) if result is None]
    with _appender(file, keys) as keep:
        dispatcher = Dispatcher(points, pool, jobs, deque(missing), lambda: enough(outcome))
        for number, answer in dispatcher.answers():
            row = msgspec.json.decode(answer)
            if "error" in row:
                outcome.failures.append(Failure(points[number], row["error"], row["of_program"]))
            else:
                outcome.results[number] = _with_varied(from_builtins(row), points[number])
                keep(points[number], row)
                outcome.done += 1
            if advanced is not None:
                advanced(outcome)
    return outcome


def _with_varied(result: Result, point: Point) -> Result:
    """Return the result with the varied options among its parameters, and not among its options."""
    if not point.varied:
        return result
    options = {name: value for name, value in result.options.items() if name not in point.varied}
    return attrs.evolve(result, parameters={**result.parameters, **point.varied}, options=options)


@attrs.define
class _appender:
    """A context manager that locks and opens the file of points, if there is one; a call appends a line."""

    path: Path | None
    keys: Keys
    _file: Any = None
    _is_ours: bool = False

    def __enter__(self) -> _appender:
        if self.path is not None:
            with writing(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                cut_short = (
                    self.path.is_file() and not self.path.read_bytes().endswith(b"\n") and self.path.stat().st_size > 0
                )
                self._file = self.path.open("ab")
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._is_ours = True
            if not self._is_ours:
                self._file.close()
                raise UserError(f"{self.path}: another sweep writes to it; name another folder by --out")
            if cut_short:
                self._file.write(b"\n")
        return self

    def __call__(self, point: Point, result: dict[str, Any]) -> None:
        if self.path is not None:
            key = self.keys.of(point)
            row = {"key": key, "digest": _digest(key, result), "point": point.to_row(), "result": result}
            with writing(self.path):
                self._file.write(msgspec.json.encode(row) + b"\n")
                self._file.flush()

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk, of which the last line has told already
                self._file.close()


# A call to a cluster costs milliseconds, more than a short run. So one call makes several short runs.
# A worker process can die during a run; the runs that the executor had at that time are submitted once more.

_CALL_S = 0.25
"""Seconds that a call should take: a hundred times a cluster's overhead, and little to lose when a worker dies."""
_MOST_IN_A_CALL = 64
_INTERRUPTIBLE_S = 0.5
"""Longest wait at a time in seconds. Between waits Python notices a Ctrl-C, which polars' SIGINT handler would hide."""
_DEATHS = 2
"""Number of worker deaths during calls with a run after which the run is submitted alone."""


def run_point(point: Point) -> bytes:
    """Make a run of a sweep; return JSON: the result, or `{"error": text, "of_program": whether the script failed}`."""
    try:
        scenario = registry.find(point.scenario)
        return to_json(execute(scenario, point.parameters, spec=point.options))
    except (UserError, ScriptFailed) as error:
        return msgspec.json.encode({"error": str(error), "of_program": isinstance(error, ScriptFailed)})


def run_points(points: Sequence[Point]) -> tuple[float, list[bytes]]:
    """Make several runs of a sweep one after another; return (seconds taken, each result or error as JSON)."""
    begun = time.perf_counter()
    answers = [run_point(point) for point in points]
    return time.perf_counter() - begun, answers


@attrs.define
class Dispatcher:
    """Submits points (runs of a sweep) to an executor and yields their answers (results or errors) as they come.

    When a worker process dies, the executor fails every call that it had, and the guilty run is unknown. So each of
    these runs is submitted once more, in a call of its own. A run that was in progress at two deaths is submitted while
    the executor has no other run; when a worker dies then as well, the run fails.
    """

    points: Sequence[Point]
    pool: Executor
    jobs: int
    """Number of calls that the executor works on at a time; twice as many are submitted."""
    ahead: deque[int]
    """Numbers of the points that have not been submitted yet."""
    enough: Callable[[], bool] = lambda: False
    """Tells whether no more points are to be submitted."""
    again: list[int] = attrs.field(factory=list)
    """Numbers of the points to submit once more; those that must be submitted alone come last."""
    deaths: Counter[int] = attrs.field(factory=Counter)
    """Number of worker deaths while the executor had each point."""
    given: dict[Future[tuple[float, list[bytes]]], list[int]] = attrs.field(factory=dict)
    """The numbers of the points in each call that the executor has now."""
    done: SimpleQueue[Future[tuple[float, list[bytes]]]] = attrs.field(factory=SimpleQueue)
    """The calls that have ended, in the order of their ends."""
    run_s: float = _CALL_S
    """Moving mean of a run's duration in seconds of real time."""

    def answers(self) -> Iterator[tuple[int, bytes]]:
        """Yield (the point's number, its result or error as JSON, see `run_point`) for each point as it finishes.

        Raises UserError when the executor accepts no more runs, or lost runs for a reason other than a worker's death.
        """
        while True:
            self._give()
            if not self.given:
                return
            for future in self._finished():
                numbers = self.given.pop(future)
                yield from zip(numbers, self._answers_of(numbers, future), strict=False)

    def _give(self) -> None:
        limit = 1 if self.jobs == 1 else 2 * self.jobs
        while len(self.given) < limit and not self.enough() and (numbers := self._next()):
            try:
                future = self.pool.submit(run_points, [self.points[number] for number in numbers])
            except RuntimeError as error:
                raise UserError(f"the executor takes no more runs: {error}") from None
            self.given[future] = numbers
            future.add_done_callback(self.done.put)

    def _next(self) -> list[int]:
        """Return the numbers of the points of the next call; none while a run that must be alone waits or runs."""
        if any(self._must_be_alone(numbers[0]) for numbers in self.given.values()):
            return []
        if self.again:
            alone = self._must_be_alone(self.again[0])
            return [] if alone and self.given else [self.again.pop(0)]
        in_time = int(_CALL_S / self.run_s) if self.jobs > 1 else 1
        fair = len(self.ahead) // (4 * self.jobs)  # so that all workers are busy until the end
        size = max(1, min(in_time, fair, _MOST_IN_A_CALL))
        return [self.ahead.popleft() for _ in range(min(size, len(self.ahead)))]

    def _finished(self) -> list[Future[tuple[float, list[bytes]]]]:
        """Wait for a call to finish, and return all finished calls, the earliest submitted first."""
        finished: list[Future[tuple[float, list[bytes]]]] = []
        while not finished:
            with contextlib.suppress(Empty):
                finished.append(self.done.get(timeout=_INTERRUPTIBLE_S))
        with contextlib.suppress(Empty):
            while True:
                finished.append(self.done.get_nowait())
        return sorted(finished, key=self.given.__getitem__)

    def _answers_of(self, numbers: list[int], future: Future[tuple[float, list[bytes]]]) -> list[bytes]:
        """Return the answers of a call's runs; an empty list if the runs have to be submitted once more."""
        try:
            seconds, answers = future.result()
        except CancelledError:
            raise UserError("the executor was closed while runs were waiting for it") from None
        except BrokenExecutor as error:
            self.deaths.update(numbers)
            if self.deaths[numbers[0]] > _DEATHS:
                return [_died(error)]
            self.again = sorted([*self.again, *numbers], key=self._must_be_alone)
            return []
        except Exception as error:
            if not killed_its_workers(error):
                raise UserError(f"the executor failed: {type(error).__name__}: {error}") from None
            if len(numbers) == 1:
                return [_died(error)]
            self.again = [*numbers, *self.again]
            return []
        self.run_s += (seconds / len(numbers) - self.run_s) / 4
        return answers

    def _must_be_alone(self, number: int) -> bool:
        return self.deaths[number] >= _DEATHS


def _died(error: Exception) -> bytes:
    """Make the answer (as of `run_point`) of a run during which worker processes died."""
    message = f"its worker process died each time, as it does when memory runs out: {error}"
    return msgspec.json.encode({"error": message, "of_program": True})
