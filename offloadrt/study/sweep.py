"""Many runs: on any executor, kept one by one as they finish, resumed where they stopped.

`DIR/points.jsonl` gains one line per finished run. The same sweep started again reads it and runs only what is
missing; a line whose key no longer fits (the script, the machine file or the emulator changed since) is passed over.
"""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from pathlib import Path
from typing import Any

import attrs
import msgspec

from offloadrt.study.errors import ScriptFailed, UserError
from offloadrt.study.points import Point
from offloadrt.study.reporting.html_tables import html_page, html_table
from offloadrt.study.reporting.results import Result, to_json
from offloadrt.study.reporting.words import figure, named, seconds, word
from offloadrt.study.running.execution import execute_repeatedly
from offloadrt.study.scripts import registry

_INTERRUPTIBLE_S = 0.5
"""Longest wait in one call; between two waits Python sees a Ctrl-C, which polars' own handler of SIGINT would hide."""
_MOST_IN_HTML = 20


@attrs.frozen
class Failure:
    """A point that could not be run, and why."""

    point: Point
    message: str
    of_program: bool = False
    """Whether the program raised; otherwise what was asked for cannot be done."""


@attrs.define
class SweepOutcome:
    """What a sweep has so far: results in the order of its points (None while one is missing), and failures."""

    points: Sequence[Point]
    results: list[Result | None]
    failures: list[Failure] = attrs.field(factory=list)
    kept: int = 0
    """How many points an earlier sweep had finished."""

    @property
    def finished(self) -> list[Result]:
        """Return the results there are, in order."""
        return [result for result in self.results if result is not None]

    def _repr_html_(self) -> str:
        """Show in a notebook a row for each of the first finished points, and what failed."""
        first = self.finished[:_MOST_IN_HTML]
        values: dict[str, set[str]] = {}
        for point in self.points:
            for name, value in point.parameters.items():
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
        failed = [(named(failure.point.parameters), failure.message) for failure in self.failures[:_MOST_IN_HTML]]
        return html_page(
            f"{self.points[0].scenario}: {count}" if self.points else count,
            f"the first {len(first)} are shown; `to_polars(outcome.finished)` has all" if rows else "",
            html_table("", [*swept, "elapsed_s", *measured], rows),
            html_table(f"{len(self.failures)} failed", ("", "why"), failed),
        )


def run_point(point: Point) -> bytes:
    """Run one point, in whichever process; return its result as JSON, or `{"error": message, "of_program": bool}`."""
    try:
        scenario = registry.find(point.scenario)
        return to_json(execute_repeatedly(scenario, point.parameters, point.options))
    except (UserError, ScriptFailed) as error:
        return msgspec.json.encode({"error": str(error), "of_program": isinstance(error, ScriptFailed)})


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
    """Run what is missing of `points` on `pool`, at most 2·`jobs` submitted at a time.

    `file` keeps each result as it comes; `advanced` is called after each. A point that fails does not stop the
    others. When interrupted (KeyboardInterrupt passes through) the file holds everything that had finished.
    """
    known = finished_points(file) if file is not None else {}
    outcome = SweepOutcome(points, [known.get(point.key) for point in points])
    outcome.kept = len(outcome.finished)
    if advanced is not None:
        advanced(outcome)
    missing = [number for number, result in enumerate(outcome.results) if result is None]
    with _appender(file) as keep:
        for number, answer in _answers(points, missing, pool, jobs):
            row = msgspec.json.decode(answer)
            if "error" in row:
                outcome.failures.append(Failure(points[number], row["error"], row["of_program"]))
            else:
                outcome.results[number] = msgspec.convert(row, Result)
                keep(points[number], row)
            if advanced is not None:
                advanced(outcome)
    return outcome


def _answers(points: Sequence[Point], missing: Sequence[int], pool: Executor, jobs: int) -> Iterator[tuple[int, bytes]]:
    """Yield number and answer of each missing point, as they finish."""
    waiting: dict[Future[bytes], int] = {}
    ahead = iter(missing)
    while True:
        while len(waiting) < 2 * jobs and (number := next(ahead, None)) is not None:
            waiting[pool.submit(run_point, points[number])] = number
            if jobs == 1:
                break
        if not waiting:
            return
        done: set[Future[bytes]] = set()
        while not done:
            with _interrupts_put_off():
                done, _ = wait(waiting, timeout=_INTERRUPTIBLE_S, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=waiting.__getitem__):
            yield waiting.pop(future), future.result()


@contextlib.contextmanager
def _interrupts_put_off() -> Iterator[None]:
    """Let Ctrl-C take effect at the end of the body, which is short.

    `wait` holds the locks of its futures. A KeyboardInterrupt that strikes there can leave one of them locked, and the
    pool's own thread, which the interpreter joins at its end, would wait for it for ever.
    """
    interrupted = []
    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda number, frame: interrupted.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted:
        raise KeyboardInterrupt


@attrs.define
class _appender:
    """Opens the file of points, if there is to be one; calling it writes one line and flushes it."""

    path: Path | None
    _file: Any = None

    def __enter__(self) -> _appender:
        if self.path is not None:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                cut_short = (
                    self.path.is_file() and not self.path.read_bytes().endswith(b"\n") and self.path.stat().st_size > 0
                )
                self._file = self.path.open("ab")
            except OSError as error:
                raise UserError(f"{self.path}: cannot be written: {error.strerror or error}") from None
            if cut_short:
                self._file.write(b"\n")
        return self

    def __call__(self, point: Point, result: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(
                msgspec.json.encode({"key": point.key, "point": attrs.asdict(point), "result": result}) + b"\n"
            )
            self._file.flush()

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
