"""Makes many runs on any executor, keeps each one as it finishes, and resumes where it stopped.

`DIR/points.jsonl` gains one line per finished run. The same sweep started again reads it and runs only what is
missing; a line whose key no longer fits (the script, the machine file or the emulator changed since) is passed over.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import attrs
import msgspec

from offloadrt.study.errors import ScriptFailed, UserError, writing
from offloadrt.study.executors import killed_its_workers
from offloadrt.study.points import Keys, Point
from offloadrt.study.reporting.results import Result, to_json
from offloadrt.study.reporting.words import figure, html_page, html_table, named, seconds, word
from offloadrt.study.running.execution import execute
from offloadrt.study.scripts import registry

_MOST_IN_HTML = 20


@attrs.frozen
class Failure:
    """A point that could not be run, and why."""

    point: Point
    message: str
    of_program: bool = False
    """Whether the program raised. Otherwise the request cannot be carried out."""


@attrs.define
class SweepOutcome:
    """The results and failures of a sweep so far; results are in the order of its points, None while one is missing."""

    points: Sequence[Point]
    results: list[Result | None]
    failures: list[Failure] = attrs.field(factory=list)
    kept: int = 0
    """The number of points that an earlier sweep had finished."""
    done: int = 0
    """The number of results by now, those of an earlier sweep included."""

    @property
    def finished(self) -> list[Result]:
        """Return the results there are, in order."""
        return [result for result in self.results if result is not None]

    def _repr_html_(self) -> str:
        """Show in a notebook a row for each of the first finished points, and what failed."""
        first = self.finished[:_MOST_IN_HTML]
        values: dict[str, set[str]] = {}
        for point in self.points:
            for name, value in point.axis_values.items():
                values.setdefault(name, set()).add(word(value))
        swept = [name for name, of in values.items() if len(of) > 1]
        measured = list(dict.fromkeys(name for result in first for name in result.measured))
        rows = [
            [
                *(word(result.parameters.get(name)) for name in swept),
                seconds(result.elapsed_s),
                *(figure(name, result.measured.get(name)) for name in measured),
            ]
            for result in first
        ]
        count = f"{len(self.finished)} of {len(self.points)} points"
        failed = [(named(failure.point.axis_values), failure.message) for failure in self.failures[:_MOST_IN_HTML]]
        return html_page(
            f"{self.points[0].scenario}: {count}" if self.points else count,
            f"the first {len(first)} are shown; `to_polars(outcome.finished)` has all" if rows else "",
            html_table("", [*swept, "elapsed_s", *measured], rows),
            html_table(f"{len(self.failures)} failed", ("", "why"), failed),
        )


def finished_points(file: Path) -> dict[str, Result]:
    """Read the results that a file of points holds, by key; a last line that was cut short is ignored."""
    finished = {}
    if file.is_file():
        for line in file.read_bytes().splitlines():
            try:
                row = json.loads(line)
                finished[row["key"]] = msgspec.convert(row["result"], Result)
            except (ValueError, KeyError, TypeError, msgspec.ValidationError):
                continue
    return finished


def sweep(
    points: Sequence[Point],
    pool: Executor,
    *,
    jobs: int = 1,
    file: Path | None = None,
    advanced: Callable[[SweepOutcome], None] | None = None,
) -> SweepOutcome:
    """Run what is missing of `points` on `pool`, which runs `jobs` at a time.

    `file` keeps each result as it comes; `advanced` is called after each. A point that fails does not stop the
    others. When interrupted (KeyboardInterrupt passes through) the file holds everything that had finished.
    """
    known = finished_points(file) if file is not None else {}
    keys = Keys()
    kept = [known.get(keys.of(point)) for point in points]
    outcome = SweepOutcome(
        points, [result and _with_varied(result, point) for result, point in zip(kept, points, strict=True)]
    )
    outcome.kept = outcome.done = len(outcome.finished)
    if advanced is not None:
        advanced(outcome)
    missing = [number for number, result in enumerate(outcome.results) if result is None]
    with _appender(file, keys) as keep:
        for number, answer in Dispatcher(points, pool, jobs, deque(missing)).answers():
            row = msgspec.json.decode(answer)
            if "error" in row:
                outcome.failures.append(Failure(points[number], row["error"], row["of_program"]))
            else:
                outcome.results[number] = _with_varied(msgspec.convert(row, Result), points[number])
                keep(points[number], row)
                outcome.done += 1
            if advanced is not None:
                advanced(outcome)
    return outcome


def _with_varied(result: Result, point: Point) -> Result:
    """Return the result with the options that vary among the points beside its parameters, and no longer as options."""
    if not point.varied:
        return result
    options = {name: value for name, value in result.options.items() if name not in point.varied}
    return attrs.evolve(result, parameters={**result.parameters, **point.varied}, options=options)


@attrs.define
class _appender:
    """Opens the file of points, if there is to be one; calling it writes one line and flushes it."""

    path: Path | None
    keys: Keys
    _file: Any = None

    def __enter__(self) -> _appender:
        if self.path is not None:
            with writing(self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                cut_short = (
                    self.path.is_file() and not self.path.read_bytes().endswith(b"\n") and self.path.stat().st_size > 0
                )
                self._file = self.path.open("ab")
            if cut_short:
                self._file.write(b"\n")
        return self

    def __call__(self, point: Point, result: dict[str, Any]) -> None:
        if self.path is not None:
            row = {"key": self.keys.of(point), "point": point.to_row(), "result": result}
            with writing(self.path):
                self._file.write(msgspec.json.encode(row) + b"\n")
                self._file.flush()

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk, of which the last line has told already
                self._file.close()


# A call of a cluster costs milliseconds, more than a short run. So runs that are short are given several in one call.
# A worker process can die under a run; what the executor had then is given once more.

_CALL_S = 0.25
"""How long a call should take: a hundred times what a cluster needs for it, and short enough to lose when one dies."""
_MOST_IN_A_CALL = 64
_INTERRUPTIBLE_S = 0.5
"""Longest wait in one piece; between two Python sees a Ctrl-C, which polars' own handler of SIGINT would hide."""
_DEATHS = 2
"""How many deaths of workers a run may have been near to before it is given alone."""


def run_point(point: Point) -> bytes:
    """Run one point, in whichever process; return its result as JSON, or `{"error": message, "of_program": bool}`."""
    try:
        scenario = registry.find(point.scenario)
        return to_json(execute(scenario, point.parameters, spec=point.options))
    except (UserError, ScriptFailed) as error:
        return msgspec.json.encode({"error": str(error), "of_program": isinstance(error, ScriptFailed)})


def run_points(points: Sequence[Point]) -> tuple[float, list[bytes]]:
    """Run several points one after the other; return the seconds that it took, and what `run_point` returns of each."""
    begun = time.perf_counter()
    answers = [run_point(point) for point in points]
    return time.perf_counter() - begun, answers


@attrs.define
class Dispatcher:
    """Gives points to an executor and yields their answers as they come.

    When a worker process dies, the executor fails every call that it had, and nobody can tell which run was to blame.
    So each of these runs is given once more, in a call of its own. A run that was there twice when a worker died is
    given while the executor has no other; when a worker dies then as well, the run fails.
    """

    points: Sequence[Point]
    pool: Executor
    jobs: int
    """How many calls the executor works on at a time; twice as many are given to it."""
    ahead: deque[int]
    """Numbers of the points that have not been given yet."""
    again: list[int] = attrs.field(factory=list)
    """Points to give once more, those that need not be alone first."""
    deaths: Counter[int] = attrs.field(factory=Counter)
    """How often a worker died while the executor had a point."""
    given: dict[Future[tuple[float, list[bytes]]], list[int]] = attrs.field(factory=dict)
    done: SimpleQueue[Future[tuple[float, list[bytes]]]] = attrs.field(factory=SimpleQueue)
    run_s: float = _CALL_S
    """Moving mean of a run's duration."""

    def answers(self) -> Iterator[tuple[int, bytes]]:
        """Yield number and answer of each point, as they finish.

        Raises UserError when the executor takes no more runs, or lost those that it had for another reason than the
        death of a worker.
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
        while len(self.given) < limit and (numbers := self._next()):
            try:
                future = self.pool.submit(run_points, [self.points[number] for number in numbers])
            except RuntimeError as error:
                raise UserError(f"the executor takes no more runs: {error}") from None
            self.given[future] = numbers
            future.add_done_callback(self.done.put)

    def _next(self) -> list[int]:
        """Choose the points of the next call; none while a run that has to be alone waits or is under way."""
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
        """Wait for a call to finish, and return all that have; those that were given first come first."""
        finished: list[Future[tuple[float, list[bytes]]]] = []
        while not finished:
            with contextlib.suppress(Empty):
                finished.append(self.done.get(timeout=_INTERRUPTIBLE_S))
        with contextlib.suppress(Empty):
            while True:
                finished.append(self.done.get_nowait())
        return sorted(finished, key=self.given.__getitem__)

    def _answers_of(self, numbers: list[int], future: Future[tuple[float, list[bytes]]]) -> list[bytes]:
        """Return what the runs of a call answered; nothing when they are to be given once more."""
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
    """Answer for a run under which worker processes died."""
    message = f"its worker process died each time, as it does when memory runs out: {error}"
    return msgspec.json.encode({"error": message, "of_program": True})
