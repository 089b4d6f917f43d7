"""The commands. Each imports what it needs when it runs, so that `--help` and `list` need no machine."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

import offloadrt

if TYPE_CHECKING:
    from rich.console import Console

    from offloadrt.study.points import Options
    from offloadrt.study.sweep import Outcome

app = App(
    name="offloadrt",
    help="What would this offloading program do under another memory configuration, thread count, runtime policy or "
    "machine, and why?",
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
    version=offloadrt.__version__,
)

Machine = Annotated[
    str | None, Parameter(help="A machine's name (see `offloadrt machines`) or a TOML file of your own.")
]
Seed = Annotated[int, Parameter(help="Seed of the run's only random generator.")]
Gear = Annotated[Literal["native", "turbo"], Parameter(help="How Trio tasks are stepped; both give the same events.")]
Strategy = Annotated[str, Parameter(help="Order of what happens at one instant: fifo, random or random(N).")]
Overrides = Annotated[
    list[str] | None,
    Parameter(
        name="--set",
        help="Override an entry of the machine, as in `--set alloc.cudaFree=20us`; may be repeated.",
        negative=(),
    ),
]
Environment = Annotated[
    list[str] | None,
    Parameter(
        name="--env",
        help="Set an environment variable of the program, as in `--env HSA_XNACK=0`; may be repeated. With "
        "`configuration=environment` it also chooses the memory configuration, where a scenario takes that.",
        negative=(),
    ),
]
Repeat = Annotated[int, Parameter(help="Runs with seeds counting up; the median run is reported.")]
Json = Annotated[bool, Parameter(name="--json", help="Print one JSON object instead of tables.", negative=())]
Jobs = Annotated[int | None, Parameter(help="How many runs at a time; by default one a processor.")]


def _console(stderr: bool = False) -> Console:
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else 120, highlight=False)


def _options(
    machine: str | None,
    seed: int,
    gear: str,
    strategy: str,
    overrides: list[str] | None,
    repeat: int,
    hash: bool,
    environment: list[str] | None = None,
) -> Options:
    from offloadrt.study.parameters import split_assignment
    from offloadrt.study.points import Options

    pairs = dict(split_assignment(text, what="an override is written --set key=value") for text in overrides or ())
    variables = dict(
        split_assignment(text, what="a variable is written --env NAME=VALUE") for text in environment or ()
    )
    return Options(machine, pairs, variables, seed, gear, strategy, repeat, hash)


@app.command(name="list")
def list_() -> None:
    """Show the scenarios that come with offloadrt."""
    from offloadrt.cli import render
    from offloadrt.study import registry

    _console().print(render.scenarios(registry.shipped()))


@app.command
def show(scenario: str, /) -> None:
    """Show what a scenario does, its parameters and their values.

    Parameters
    ----------
    scenario:
        A scenario's name, a script, or SCRIPT.py:NAME.
    """
    from offloadrt.cli import render
    from offloadrt.study import registry

    _console().print(*render.scenario(registry.find(scenario)), sep="\n")


@app.command
def run(
    scenario: str,
    /,
    *parameters: str,
    machine: Machine = None,
    seed: Seed = 0,
    gear: Gear = "turbo",
    strategy: Strategy = "fifo",
    set_: Overrides = None,
    env: Environment = None,
    repeat: Repeat = 1,
    log: Path | None = None,
    perfetto: Path | None = None,
    hash: Annotated[bool, Parameter(negative=())] = False,
    json: Json = False,
) -> None:
    """Run a scenario once and show what it measured and where the time went.

    Parameters
    ----------
    scenario:
        A scenario's name, a script, or SCRIPT.py:NAME.
    parameters:
        The scenario's parameters, as name=value (see `offloadrt show SCENARIO`).
    log:
        Write every event to this file, one JSON object a line.
    perfetto:
        Write a trace for https://ui.perfetto.dev to this file.
    hash:
        Compute the trace hash: equal hashes mean equal runs, event by event.
    """
    from offloadrt.study import registry, results
    from offloadrt.study.execution import execute_repeatedly
    from offloadrt.study.parameters import split_assignment
    from offloadrt.study.sinks import open_sinks

    chosen = registry.find(scenario)
    given = chosen.bind(dict(split_assignment(text) for text in parameters))
    hashed = hash or log is not None or perfetto is not None
    options = _options(machine, seed, gear, strategy, set_, repeat, hashed, env)
    with _bars() as (progress, _):
        task = progress.add_task(chosen.name, total=None)
        result = execute_repeatedly(
            chosen,
            given,
            options,
            open_sinks(log=log, perfetto=perfetto),
            lambda done, total: progress.update(task, completed=done, total=total),
        )
    if json:
        sys.stdout.buffer.write(results.to_json(result) + b"\n")
    else:
        from offloadrt.cli import render

        _console().print(*render.result(result), sep="\n")


@app.command
def sweep(
    scenario: str,
    /,
    *axes: str,
    out: Path,
    jobs: Jobs = None,
    executor: Literal["process", "dask", "mpi"] = "process",
    machine: Machine = None,
    seed: Seed = 0,
    gear: Gear = "turbo",
    strategy: Strategy = "fifo",
    set_: Overrides = None,
    env: Environment = None,
    repeat: Repeat = 1,
    hash: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Run a scenario over all combinations of values; write tables and a figure.

    Finished runs are kept in OUT/points.jsonl: the same command, started again, runs only what is missing.

    Parameters
    ----------
    scenario:
        A scenario's name, a script, or SCRIPT.py:NAME.
    axes:
        Values of parameters, as name=v1,v2,...; by default the scenario's own sweep.
    out:
        Folder for points.jsonl, results.parquet, results.csv, figure.png and figure.svg.
    executor:
        A pool of processes here, a dask cluster, or the ranks of an MPI job.
    hash:
        Compute the trace hash of every run.
    """
    from offloadrt.study import figures, registry, table
    from offloadrt.study import sweep as sweeping
    from offloadrt.study.executors import executor as executor_of
    from offloadrt.study.executors import processors
    from offloadrt.study.parameters import sweep_axes
    from offloadrt.study.points import grid

    chosen = registry.find(scenario)
    swept = sweep_axes(chosen.name, axes, chosen.sweep)
    points = grid(chosen, swept, _options(machine, seed, gear, strategy, set_, repeat, hash, env))
    for extra in ("polars", "matplotlib"):  # missing, they are missed before hours of runs and not after
        table.library(extra)
    workers = jobs if jobs is not None else processors()
    with executor_of(executor, workers) as pool, _progress(chosen.name, len(points)) as advanced:
        outcome = sweeping.sweep(points, pool, jobs=workers, file=out / "points.jsonl", advanced=advanced)
    console = _console()
    written = table.write(outcome.finished, out) if outcome.finished else []
    figure = figures.figure_for(chosen.figure, swept, outcome.finished)
    if figure is not None:
        written += figures.draw(figure, outcome.finished, out)
    console.print(
        f"{len(outcome.finished)} of {len(points)} runs ({outcome.kept} from earlier): " + ", ".join(map(str, written))
    )
    for failure in outcome.failures:
        named = ", ".join(f"{name}={value}" for name, value in failure.point.parameters.items() if name in swept)
        print(f"offloadrt: {named}: {failure.message}", file=sys.stderr)
    return 2 if outcome.failures else 0


@app.command
def compare(
    scenario: str,
    /,
    *parameters: str,
    baseline: Annotated[list[str] | None, Parameter(negative=())] = None,
    measure: Annotated[list[str] | None, Parameter(negative=())] = None,
    machine: Machine = None,
    seed: Seed = 0,
    set_: Overrides = None,
    repeat: Repeat = 1,
    jobs: Jobs = None,
    out: Path | None = None,
    json: Json = False,
) -> None:
    """Run a scenario with several values of a parameter and set the runs side by side.

    Shows the ratio of each figure to the baseline's, the calls with their latencies, and the three things that took
    most more or less of the host threads' time.

    Parameters
    ----------
    scenario:
        A scenario's name, a script, or SCRIPT.py:NAME.
    parameters:
        The scenario's parameters, as name=value; those to compare as name=v1,v2,... When none is, those of the
        scenario's own sweep.
    baseline:
        What to compare with, as name=value; may be repeated. Values of parameters that it does not name are each
        compared on their own. By default what the scenario's figure compares with, else the first value of every
        parameter.
    measure:
        Another figure to compare than the elapsed time; may be repeated.
    out:
        Folder for comparison.csv, comparison_calls.csv, and a figure of the ratios.
    """
    from offloadrt.cli import comparison
    from offloadrt.study import registry
    from offloadrt.study.compare import compare as compare_runs
    from offloadrt.study.compare import draw, write
    from offloadrt.study.executors import executor as executor_of
    from offloadrt.study.executors import processors
    from offloadrt.study.parameters import split_assignment, sweep_axes

    chosen = registry.find(scenario)
    with executor_of("process", jobs if jobs is not None else processors()) as pool:
        with _stages(f"compare {chosen.name}") as shown:

            def advanced(outcome: Outcome) -> None:
                shown("runs", len(outcome.finished), len(outcome.points))

            found = compare_runs(
                chosen,
                sweep_axes(chosen.name, parameters, {}) if parameters else {},
                pool,
                baseline=dict(
                    split_assignment(text, what="a baseline is written name=value") for text in baseline or ()
                ),
                measures=measure or (),
                options=_options(machine, seed, "turbo", "fifo", set_, repeat, False),
                jobs=jobs if jobs is not None else processors(),
                advanced=advanced,
            )
    written = [] if out is None else [*write(found, out), *draw(found, chosen, out)]
    if json:
        sys.stdout.buffer.write(found.to_json() + b"\n")
    else:
        _console().print(*comparison.comparison(found), sep="\n")
        if written:
            _console().print("\nwritten: " + ", ".join(map(str, written)))


@contextlib.contextmanager
def _progress(title: str, total: int) -> Iterator[Any]:
    """A bar on a terminal's standard error; when interrupted, says what was kept."""
    finished = 0
    try:
        with _bars() as (progress, _):
            task = progress.add_task(title, total=total or None)

            def advanced(outcome: Outcome) -> None:
                nonlocal finished
                finished = len(outcome.finished)
                progress.update(task, total=len(outcome.points), completed=finished + len(outcome.failures))

            yield advanced
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted: {finished} of {total} runs are kept; the same command goes on from there"
        ) from None


@contextlib.contextmanager
def _bars() -> Iterator[tuple[Any, bool]]:
    """Progress bars on standard error, and whether they are shown: on a terminal only."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    shown = sys.stderr.isatty()
    with Progress(*columns, console=_console(stderr=True), transient=True, disable=not shown) as progress:
        yield progress, shown


@app.command
def stats(log: Path, /) -> None:
    """Show a log's statistics: API calls, locks, engines and bytes.

    Parameters
    ----------
    log:
        A file that `offloadrt run --log` wrote.
    """
    from offloadrt.cli import render
    from offloadrt.study.logs import statistics_of

    _console().print(*render.statistics(statistics_of(log)), sep="\n")


@app.command
def machines(machine: str | None = None, /, *, set_: Overrides = None) -> None:
    """Show the machines, or one machine's entries with value, unit and source.

    Parameters
    ----------
    machine:
        A machine's name or a TOML file of your own.
    """
    from offloadrt.cli import render
    from offloadrt.study import profiles

    console = _console()
    if machine is None:
        console.print(render.machines(profiles.summaries()))
    else:
        overrides = _options(None, 0, "turbo", "fifo", set_, 1, False).overrides
        console.print(*render.machine(profiles.load(machine, overrides)), sep="\n")


@app.command
def kernels(scenario: str, /) -> None:
    """Show what the source of each kernel says: accesses, LAF, index ranges, flops and bytes; and the objects' GAF.

    Parameters
    ----------
    scenario:
        A scenario's name, a script, or SCRIPT.py:NAME.
    """
    from offloadrt.cli.kernels import kernels_of

    _console().print(*kernels_of(scenario), sep="\n")


@app.command
def conform(*files: Path, gear: Gear = "turbo") -> int:
    """Replay recorded programs and compare, step by step, with what the real runtime did.

    Prints the first step and field that differ, per case; the exit code is 0 only when all agree.

    Parameters
    ----------
    files:
        Files of recorded cases (JSON Lines).
    """
    from offloadrt.study.errors import UserError

    if not files:
        raise UserError("conform: name at least one file of recorded cases")
    for file in files:
        if not file.is_file():
            raise UserError(f"{file}: cannot be read: no such file")
    from offloadrt.study import conform as conformance

    try:
        report = conformance.conform(list(files), gear=gear)
    except conformance.ConformanceFileError as error:
        raise UserError(str(error)) from None
    print(report)
    return 1 if report.differing else 0


@app.command
def validate(
    *,
    paper: str = "exahype",
    quick: Annotated[bool, Parameter(negative=())] = False,
    ranges: Annotated[bool, Parameter(negative=())] = False,
    machine: Machine = None,
    set_: Overrides = None,
    jobs: Jobs = None,
    json: Json = False,
) -> None:
    """Compare what the emulator says with what a paper reports, claim by claim.

    Parameters
    ----------
    paper:
        Whose claims.
    quick:
        Fewer runs; the report says which.
    ranges:
        As quick, and also with the machine's ranges at their ends, on a smaller grid: a verdict may then be that it
        depends on an entry. Minutes; the report says what was run.
    """
    from offloadrt.cli import render
    from offloadrt.study.executors import executor as executor_of
    from offloadrt.study.executors import processors
    from offloadrt.study.validate import validate as judge

    workers = jobs if jobs is not None else processors()
    options = _options(machine, 0, "turbo", "fifo", set_, 1, False)
    with executor_of("process", workers) as pool, _stages(f"validate {paper}") as advanced:
        report = judge(
            paper,
            pool,
            jobs=workers,
            quick=quick,
            ranges=ranges,
            machine=options.machine,
            overrides=options.overrides,
            advanced=advanced,
        )
    if json:
        sys.stdout.buffer.write(report.to_json() + b"\n")
    else:
        _console().print(*render.validation(report), sep="\n")


@contextlib.contextmanager
def _stages(title: str) -> Iterator[Any]:
    """A bar for each stage on a terminal's standard error; elsewhere a line as it begins and every 100 runs."""
    with _bars() as (progress, shown):
        tasks: dict[str, Any] = {}
        told: dict[str, int] = {}

        def advanced(stage: str, finished: int, asked: int) -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task(f"{title}, {stage}")
            progress.update(tasks[stage], total=asked, completed=finished)
            if not shown and finished // 100 > told.get(stage, -1):
                told[stage] = finished // 100
                print(f"{title}, {stage}: {finished} runs of {asked} or more", file=sys.stderr)

        yield advanced
