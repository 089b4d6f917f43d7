"""What commands print on: the console, and progress bars on standard error."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from offloadrt.study.reporting.results import Result
    from offloadrt.study.running.run import Run
    from offloadrt.study.sweep import SweepOutcome


def console(stderr: bool = False) -> Console:
    """Return where a command prints: as wide as the terminal, or 120 columns."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else 120, highlight=False)


def print_json(record: object) -> None:
    """Print a record as one JSON object on one line."""
    import msgspec

    sys.stdout.buffer.write(msgspec.json.encode(record) + b"\n")


def warn(results: Iterable[Result]) -> None:
    """Write what the runs warn of to standard error, each warning once."""
    for warning in dict.fromkeys(warning for result in results for warning in result.warnings):
        print(f"offloadrt: warning: {warning}", file=sys.stderr)


@contextlib.contextmanager
def kept_progress(title: str, total: int) -> Iterator[Any]:
    """Show a bar on a terminal's standard error; when interrupted, say what was kept."""
    finished = 0
    try:
        with bars() as (progress, _):
            task = progress.add_task(title, total=total or None)

            def advanced(outcome: SweepOutcome) -> None:
                nonlocal finished
                finished = len(outcome.finished)
                progress.update(task, total=len(outcome.points), completed=finished + len(outcome.failures))

            yield advanced
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted: {finished} of {total} runs are kept; the same command goes on from there"
        ) from None


@contextlib.contextmanager
def bars() -> Iterator[tuple[Any, bool]]:
    """Make progress bars on standard error, and say whether they are shown: on a terminal only."""
    if not sys.stderr.isatty():
        yield _NoBars(), False
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        yield progress, True


_NOW_AND_THEN_S = 10.0


@contextlib.contextmanager
def told_now_and_then(title: str, shown: bool = True) -> Iterator[Callable[[Run], None]]:
    """Write the virtual time of a run to standard error every ten seconds, where no bar is shown."""
    runs: list[Run] = []
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(_NOW_AND_THEN_S):
            reached = f"{runs[-1].sim.now:.6g} s of virtual time" if runs else "not begun"
            print(f"{title}: {reached}", file=sys.stderr, flush=True)

    if shown:
        threading.Thread(target=tell, daemon=True).start()
    try:
        yield runs.append
    finally:
        ended.set()


class _NoBars:
    """Stands for the bars where nobody looks: importing the real ones takes a tenth of a second."""

    def add_task(self, description: str, total: float | None = None) -> int:
        return 0

    def update(self, task: int, *, total: float | None = None, completed: float | None = None) -> None:
        pass


@contextlib.contextmanager
def stages(title: str) -> Iterator[Any]:
    """Show a bar for each stage on a terminal's standard error, elsewhere a line as it begins and every 100 runs."""
    with bars() as (progress, shown):
        tasks: dict[str, Any] = {}
        reported: dict[str, int] = {}

        def advanced(stage: str, finished: int, asked: int) -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task(f"{title}, {stage}")
            progress.update(tasks[stage], total=asked, completed=finished)
            if not shown and finished // 100 > reported.get(stage, -1):
                reported[stage] = finished // 100
                print(f"{title}, {stage}: {finished} runs of {asked} or more", file=sys.stderr)

        yield advanced
