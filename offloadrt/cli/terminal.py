"""What all commands share with the terminal: exit codes, the console, and progress bars on standard error."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from offloadrt.study.reporting.results import Result
    from offloadrt.study.running.run import Run
    from offloadrt.study.sweep import SweepOutcome

# The exit codes of all commands; 0 is success.
NEGATIVE = 1
"""The command's answer is negative: a check found differences, or a claim does not hold."""
WRONG_USE = 2
"""The request cannot be carried out; the message says why."""
PROGRAM_FAILED = 3
"""The user's script or program failed."""
INTERRUPTED = 130
"""The user pressed Ctrl-C; the message says which runs are kept."""


PIPED = 120
"""Width, in characters, of output that does not go to a terminal."""


def console(stderr: bool = False) -> Console:
    """Return the console to which a command prints: standard output, or with `stderr` standard error.

    It is as wide as the terminal, or 120 characters (`PIPED`) without one; a table that needs more room is wider.
    Lines that do not go to a terminal have no trailing blanks.
    """
    from rich.console import Console
    from rich.table import Table

    class Wide(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            for one in objects:
                least = self.measure(one, options=self.options.update(width=10_000)).minimum
                wide = least if isinstance(one, Table) and least > self.width else None
                super().print(one, **{**options, "sep": " ", "width": wide, "crop": False})

        def on_broken_pipe(self) -> None:
            raise  # to `main`, which ends with 0; rich would end with 1, which means a finding

    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        return Wide(stderr=stderr, highlight=False)
    return Wide(file=_Trimmed(stream), width=PIPED, highlight=False)  # type: ignore[arg-type]


class _Trimmed:
    """A text stream that removes the trailing blanks of lines, with which tables fill their lines."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        self._stream.write(re.sub(r" +(?=\n)", "", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def print_json(record: object) -> None:
    """Print a record, what a command shows with `--json`, as one JSON object on one line."""
    import msgspec

    sys.stdout.buffer.write(msgspec.json.encode(record) + b"\n")


def warn(results: Sequence[Result], *, sampled: bool = False) -> None:
    """Print the warnings of the results to standard error, each warning once.

    sampled: whether `--sample-phases` was given, which lets a run leave out most repetitions of a phase of the program;
    a note says so if there was nothing to leave out.
    """
    for warning in dict.fromkeys(warning for result in results for warning in result.warnings):
        print(f"offloadrt: warning: {warning}", file=sys.stderr)
    if sampled and not any("phases" in result.options for result in results):
        print("offloadrt: note: --sample-phases: no repeated phase was left out (a loop of phases is a loop over "
              "`run.steps(count)`)", file=sys.stderr)  # fmt: skip


@contextlib.contextmanager
def interruptible(what: str) -> Iterator[None]:
    """Let Ctrl-C end only the `with` body, an optional part of the work; then print that `what` is left out."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"offloadrt: note: interrupted: without {what}", file=sys.stderr)


@contextlib.contextmanager
def kept_progress(title: str, total: int) -> Iterator[Any]:
    """Show the progress of a sweep of `total` runs: a bar on a terminal, else a line every few seconds.

    Yields the function to call with each `SweepOutcome`. If the body raises KeyboardInterrupt or UserError, the message
    also says how many finished runs are saved.
    """
    from offloadrt.study.errors import UserError

    finished = 0
    try:
        with stages(title) as shown:

            def advanced(outcome: SweepOutcome) -> None:
                nonlocal finished
                finished = outcome.done
                shown("runs", finished + len(outcome.failures), len(outcome.points))

            yield advanced
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted: {_kept(finished, total)}") from None
    except UserError as error:
        raise (UserError(f"{error}; {_kept(finished, total)}") if finished else error) from None


def _kept(finished: int, total: int) -> str:
    return f"{finished} of {total} runs are kept; the same command goes on from there"


@contextlib.contextmanager
def bars() -> Iterator[tuple[Any, bool]]:
    """Yield progress bars on standard error, and whether they are shown, which is so on a terminal only."""
    if not sys.stderr.isatty():
        yield _NoBars(), False
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        yield progress, True


_NOW_AND_THEN_S = 5.0
_REFRESHED_S = 0.5


class StepProgress:
    """Counts the steps of a long piece of work for progress lines, and estimates the remaining time."""

    def __init__(self) -> None:
        self.title = ""
        self._first = self._done = self._total = 0
        self._begun = time.monotonic()

    def reached(self, title: str, done: int, total: int) -> None:
        """Note that `done` of the `total` steps of the stage `title` are over.

        The estimate of the remaining time counts steps from the stage's first call on: earlier ones were done before.
        """
        if title != self.title or done < self._done:
            self.title, self._first, self._begun = title, done, time.monotonic()
        self._done, self._total = done, total

    def line(self, steps: str) -> str:
        """Write the progress, with `steps` as the noun: `3 of 8 runs, about 40 s left`; empty before `reached`."""
        if not self._total:
            return ""
        fresh = self._done - self._first
        left = (time.monotonic() - self._begun) * (self._total - self._done) / fresh if fresh else None
        return f"{self._done} of {self._total} {steps}" + ("" if left is None else f", about {duration(left)} left")


def duration(seconds: float) -> str:
    """Write a duration of real time for people: `40 s`, `3 min`, `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextlib.contextmanager
def _now_and_then(wanted: bool, line: Callable[[], str], every_s: float | None = None) -> Iterator[None]:
    """Call `line` in a thread every few seconds while the body runs, and print its text, if any, to standard error."""
    period_s = _NOW_AND_THEN_S if every_s is None else every_s
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(period_s):
            if told := line():
                print(told, file=sys.stderr, flush=True)

    if wanted:
        threading.Thread(target=tell, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


@contextlib.contextmanager
def run_progress(title: str) -> Iterator[tuple[Callable[[int, int], None], Callable[[Run], None]]]:
    """Show how far a run is: a bar if standard error is a terminal, else lines with the run's virtual time.

    Yields two functions: one to call with (done, total) steps, and one to call with the `Run` before it begins.
    """
    runs: list[Run] = []
    steps = StepProgress()

    def line() -> str:
        reached = f"{runs[-1].sim.now:.6g} s of virtual time" if runs else "not begun"
        return ", ".join(filter(None, (f"{title}: {reached}", steps.line("steps"))))

    with bars() as (progress, shown):
        task = progress.add_task(title, total=None)

        def name_the_bar() -> str:
            if runs:
                progress.update(task, description=f"{title}: {runs[-1].sim.now:.6g} s of virtual time")
            return ""

        def advanced(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)
            steps.reached(title, done, total)

        with _now_and_then(True, name_the_bar if shown else line, _REFRESHED_S if shown else _NOW_AND_THEN_S):
            yield advanced, runs.append


class _NoBars:
    """Replaces the progress bars where none are shown, because importing the real ones takes a tenth of a second."""

    def add_task(self, description: str, total: float | None = None) -> int:
        return 0

    def update(self, task: int, *, total: float | None = None, completed: float | None = None) -> None:
        pass


@contextlib.contextmanager
def stages(title: str) -> Iterator[Any]:
    """Show the progress of each stage: a bar on a terminal, else a line at its start and every few seconds.

    Yields the function to call with (stage's name, runs done, runs requested); a new name starts a stage.
    """
    from offloadrt.study.reporting.words import counted

    steps, tasks = StepProgress(), dict[str, Any]()

    def line() -> str:
        told = steps.line("runs")
        return f"{steps.title}: {told}" if told else ""

    with bars() as (progress, shown), _now_and_then(not shown, line):

        def advanced(stage: str, finished: int, asked: int) -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task(f"{title}, {stage}")
                if not shown:
                    print(f"{title}, {stage}: {finished} of {counted(asked, 'run')}", file=sys.stderr)
            progress.update(tasks[stage], total=asked, completed=finished)
            steps.reached(f"{title}, {stage}", finished, asked)

        yield advanced
