"""Makes many runs on any executor, keeps each one as it finishes, and resumes where it stopped.

`DIR/points.jsonl` gains one line per finished run. The same sweep started again reads it and runs only what is
missing; a line whose key no longer fits (the script, the machine file or the emulator changed since) is passed over.
"""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import attrs
import msgspec

from offloadrt.study.dispatch import Dispatcher
from offloadrt.study.errors import writing
from offloadrt.study.points import Keys, Point
from offloadrt.study.reporting.results import Result
from offloadrt.study.reporting.words import figure, html_page, html_table, named, seconds, word

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
            for name, value in point.place.items():
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
        failed = [(named(failure.point.place), failure.message) for failure in self.failures[:_MOST_IN_HTML]]
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
        points, [result and _placed(result, point) for result, point in zip(kept, points, strict=True)]
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
                outcome.results[number] = _placed(msgspec.convert(row, Result), points[number])
                keep(points[number], row)
                outcome.done += 1
            if advanced is not None:
                advanced(outcome)
    return outcome


def _placed(result: Result, point: Point) -> Result:
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
            row = {"key": self.keys.of(point), "point": attrs.asdict(point), "result": result}
            with writing(self.path):
                self._file.write(msgspec.json.encode(row) + b"\n")
                self._file.flush()

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk, of which the last line has told already
                self._file.close()
