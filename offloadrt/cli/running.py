"""The commands that run scenarios: `run`, `sweep` and `compare`."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import attrs
from cyclopts import Parameter

from offloadrt.cli.app import app
from offloadrt.cli.options import (
    DEFAULTS,
    DrawCount,
    ExecutorKind,
    Jobs,
    Json,
    ParameterValues,
    ScenarioName,
    effort_of,
    several,
    single,
)
from offloadrt.cli.terminal import (
    PROGRAM_FAILED,
    WRONG_USE,
    console,
    interruptible,
    kept_progress,
    print_json,
    run_progress,
    stages,
    warn,
)
from offloadrt.study.spec import RunSpec

__all__ = ["app", "compare", "run", "sweep"]

if TYPE_CHECKING:
    from offloadrt.study.sweep import SweepOutcome

_WORTH_A_POOL_S = 6.0
"""Seconds of draws from which on a pool of processes makes them: a process takes 1.5 s to start."""


@app.command
def run(
    scenario: ScenarioName, /, *parameters: ParameterValues, spec: RunSpec = DEFAULTS, log: Path | None = None,
    perfetto: Path | None = None, figure: Path | None = None, draws: DrawCount = None, budget: str | None = None,
    json: Json = False,
) -> None:  # fmt: skip
    """Run a scenario once and show what it measured, how sure that is, and where the time went.

    Parameters
    ----------
    budget:
        Real time for draws (runs with random costs), as in 30s or 5min. At least eight draws are needed: by default,
        with 4s, there are none if a run takes more than half a second.
    log:
        Write every event to this file, one JSON object a line.
    perfetto:
        Write a trace for https://ui.perfetto.dev to this file.
    figure:
        Draw where the host threads' time went, stacked, to this PNG, SVG or PDF file.
    """
    from offloadrt.cli.options import check_files, read_by
    from offloadrt.study.certainty import uncertainty
    from offloadrt.study.errors import ParameterError
    from offloadrt.study.reporting import results
    from offloadrt.study.running.execution import execute, observer_of, open_sinks
    from offloadrt.study.scripts import registry
    from offloadrt.study.scripts.parameters import split_assignments
    from offloadrt.study.sweep import Point, processors
    from offloadrt.study.sweep import executor as executor_of

    effort = effort_of(draws, budget, 4.0, 8)
    chosen = registry.find(scenario)
    written = split_assignments(parameters)
    for name, value in spec.policies.items():
        if name in written and value is not None:
            raise ParameterError(name, f"--{name} {value} sets it as well; leave out one")
    given = chosen.bind(written)
    read = read_by(chosen, given, spec.machine, spec.runtime)
    check_files({"--log": log, "--perfetto": perfetto, "--figure": figure}, read)
    if figure is not None:
        results.drawing().check_type(figure)
    causal_log = observer_of(perfetto)
    begun = time.process_time()
    with run_progress(chosen.name) as (advanced, before_run):
        result = execute(
            chosen,
            given,
            spec=attrs.evolve(single(spec), hash=bool(spec.hash or log or perfetto)),
            sinks=open_sinks(log=log, perfetto=perfetto, causal_log=causal_log),
            causal_log=causal_log,
            on_progress=advanced,
            before_run=before_run,
        )
    run_s = (time.process_time() - begun) / spec.repeat
    if effort.draws != 0 and not effort.is_hopeless(run_s):
        long = (effort.draws or 0) * run_s > _WORTH_A_POOL_S
        workers = processors() if long else 1
        point = Point(registry.reference(chosen), given, spec)
        with interruptible("draws"), executor_of("process", workers) as pool:
            with stages(f"run {chosen.name}") if long else nullcontext(lambda *_: None) as shown:
                drawn = uncertainty().sample(
                    [point], [result], pool, effort, jobs=workers,
                    advanced=lambda done, asked: shown("draws", done, asked),
                )  # fmt: skip
            (result,) = drawn.with_intervals([result])
    elif effort.draws is None and result.devices:
        print("offloadrt: note: no interval: a run takes too long for the budget (--draws 8, or a larger --budget)",
              file=sys.stderr)  # fmt: skip
    warn([result], sampled=spec.sample_phases)
    if figure is not None:
        results.drawing().draw_time(result, figure)
    if json:
        sys.stdout.buffer.write(results.to_json(result) + b"\n")
    else:
        from offloadrt.cli import render

        console().print(*render.result(result), sep="\n")
        if sys.stderr.isatty():  # no part of the result: another computer takes another time
            print(render.slowdown(result.elapsed_s, run_s), file=sys.stderr)


@app.command
def sweep(
    scenario: ScenarioName, /, *axes: str, out: Path | None = None, jobs: Jobs = None,
    executor: ExecutorKind = "process", draws: DrawCount = None, budget: str | None = None, x: str | None = None,
    y: str | None = None, series: str = "", scale: Literal["log", "linear"] | None = None,
    full: Annotated[bool, Parameter(negative=())] = False, spec: RunSpec = DEFAULTS, json: Json = False,
) -> int:  # fmt: skip
    """Run a scenario over all combinations of values; write tables and a figure.

    Finished runs are kept in OUT/points.jsonl: the same command, started again, runs only what is missing.

    Parameters
    ----------
    axes:
        Values of parameters, as name=v1,v2,...; parameters of the scenario's own sweep that are not named here take
        all its values (`offloadrt show SCENARIO` lists them).
    out:
        Folder for points.jsonl, results.parquet, results.csv and figure.png, .svg, .pdf; by default results/SCENARIO.
    budget:
        Real time for draws (runs with random costs), as in 30s or 5min; by default 1min. If eight draws of each point
        fit into it, the tables have the range of the middle 80 % of the draws, and the figure shows it as bands.
    x:
        The parameter along the figure's x axis; by default what the scenario says, or the first number that varies.
    y:
        The measured value along the figure's y axis, by its column's name in results.csv.
    series:
        The parameters that tell the figure's lines apart, as in threads,memory; others that vary are added after them.
    scale:
        Whether the figure's axes are logarithmic or linear.
    full:
        Write all columns to results.csv: the counts of each call, lock and part of the machine, as in results.parquet.
    """
    from offloadrt.cli import render
    from offloadrt.cli.options import check_folder
    from offloadrt.study import errors
    from offloadrt.study import sweep as sweeping
    from offloadrt.study.certainty import clock_of, uncertainty
    from offloadrt.study.reporting import results
    from offloadrt.study.reporting.compare import check_measures
    from offloadrt.study.reporting.words import counted
    from offloadrt.study.scripts import registry
    from offloadrt.study.scripts.parameters import sweep_axes
    from offloadrt.study.sweep import executor as executor_of
    from offloadrt.study.sweep import grid, processors

    effort = effort_of(draws, budget, 60.0, 8)
    chosen = registry.find(scenario)
    out = Path("results") / chosen.name if out is None else out
    spec, varied = several(spec)
    swept = sweep_axes(chosen.name, axes, {**chosen.sweep, **varied})
    points = grid(chosen, swept, single(spec))
    for extra in ("polars", "matplotlib"):  # missing, they are missed before hours of runs and not after
        errors.library(extra)
    check_folder(out)
    check_measures([y] if y else [], chosen, "--y")
    lines = [name for name in series.split(",") if name]
    figures = results.drawing(needed=bool(x or y or series or scale))
    if figures is not None:
        figures.check_swept({"--x": [x] if x else [], "--series": lines}, swept)  # before hours of runs, not after
    sweeping.check_other(out / "points.jsonl", registry.reference(chosen))
    workers = jobs if jobs is not None else processors()
    clock, file = clock_of(workers), out / "points.jsonl"
    with executor_of(executor, workers) as pool:
        with kept_progress(f"sweep {chosen.name}", len(points)) as advanced:
            print(sweeping.described(f"sweep {chosen.name}", points), file=sys.stderr)
            begun = clock()
            outcome = sweeping.sweep(points, pool, jobs=workers, file=file, advanced=advanced)
        with interruptible("draws"), stages(f"sweep {chosen.name}") as shown:
            if effort.draws != 0 and not uncertainty().banded(
                outcome, pool, effort, sweep_s=clock() - begun, jobs=workers, file=file,
                advanced=lambda done, asked: shown("draws", done, asked),
            ):  # fmt: skip
                print("offloadrt: note: no intervals: eight draws of all points take longer than the budget "
                      "(--draws 8, or a larger --budget)", file=sys.stderr)  # fmt: skip
    warn(outcome.finished, sampled=spec.sample_phases)
    written = []
    if outcome.finished:
        written = results.write_tables(outcome.finished, out, full=full)
        if figures is not None:
            log = None if scale is None else scale == "log"
            written += figures.draw_sweep(chosen, swept, outcome.finished, out, x=x, y=y, series=lines, log=log)
    if json:
        print_json(render.SweepRecord.of(chosen.name, outcome, written))
    else:
        console().print(
            f"{len(outcome.finished)} of {counted(len(points), 'run')} ({outcome.kept} from earlier): "
            + ", ".join(map(str, written))
        )
        for line in render.order_effects(outcome.order_effects):
            console().print(line)
    for failure in outcome.failures:
        named = ", ".join(f"{name}={value}" for name, value in failure.point.axis_values.items() if name in swept)
        head = "" if not named or failure.message.startswith(f"{named}:") else f"{named}: "
        print(f"offloadrt: {head}{failure.message}", file=sys.stderr)
    if not outcome.failures:
        return 0
    return PROGRAM_FAILED if any(failure.of_program for failure in outcome.failures) else WRONG_USE


@app.command
def compare(
    scenario: ScenarioName, /, *parameters: str, baseline: Annotated[list[str] | None, Parameter(negative=())] = None,
    measure: Annotated[list[str] | None, Parameter(negative=())] = None, draws: DrawCount = None,
    budget: str | None = None, spec: RunSpec = DEFAULTS, jobs: Jobs = None, executor: ExecutorKind = "process",
    out: Path | None = None, perfetto: Path | None = None, json: Json = False,
) -> None:  # fmt: skip
    """Run a scenario with several values of a parameter and set the runs side by side.

    Shows the ratio of each measured value to the baseline's; the share of the draws (runs with random costs) in which
    one run is faster than another, and which costs decide that; the calls with their latencies; and the three
    categories of host time that differ most from the baseline's.

    Parameters
    ----------
    parameters:
        The scenario's parameters, as name=value; those to compare as name=v1,v2,... When none has several values,
        the parameters of the scenario's own sweep that are not named here take all its values.
    baseline:
        What to compare with, as name=value; may be repeated. Only runs that agree in all other parameters are compared
        with one another. By default what the scenario's figure compares with, else the first value of every parameter.
    measure:
        A measured value to compare besides the elapsed time; may be repeated. By default those that the scenario names.
    budget:
        Real time for draws (runs with random costs), and to find which cost decides between near variants; default 40s.
    out:
        Folder for comparison.csv, comparison_calls.csv, and a figure of the ratios.
    perfetto:
        Run each variant once more, and write one trace of all, on one time axis, for https://ui.perfetto.dev.
    """
    from offloadrt.cli import render
    from offloadrt.cli.options import check_files, check_folder
    from offloadrt.study.errors import installed
    from offloadrt.study.reporting.compare import compare as compare_runs
    from offloadrt.study.reporting.compare import draw, write
    from offloadrt.study.running.execution import TRACE_FILES
    from offloadrt.study.scripts import registry
    from offloadrt.study.scripts.parameters import split_assignments, sweep_axes
    from offloadrt.study.sweep import described, processors
    from offloadrt.study.sweep import executor as executor_of

    effort = effort_of(draws, budget, 40.0, 64)
    chosen = registry.find(scenario)
    check_files({"--perfetto": perfetto}, [chosen.path])
    side_by_side = None if perfetto is None else installed(TRACE_FILES, "perfetto").side_by_side(perfetto)
    spec, varied = several(spec)
    workers = jobs if jobs is not None else processors()
    with executor_of(executor, workers) as pool:
        with stages(f"compare {chosen.name}") as shown:

            def advanced(outcome: SweepOutcome) -> None:
                if not outcome.finished:
                    print(described(f"compare {chosen.name}", outcome.points), file=sys.stderr)
                shown("runs", len(outcome.finished), len(outcome.points))

            axes = (sweep_axes(chosen.name, parameters, {}) if parameters else {}) | varied
            base = split_assignments(baseline or (), what="a baseline is written name=value", option="--baseline")
            if out is not None:
                check_folder(out)
            compared = compare_runs(
                chosen, axes, pool, baseline=base, measures=measure or (), options=single(spec), jobs=workers,
                effort=effort, advanced=advanced, stage=shown,
            )  # fmt: skip
    written = [] if out is None else [*write(compared, out), *draw(compared, chosen, out)]
    if side_by_side is not None:
        written.append(side_by_side(chosen, compared, single(spec)))
    warn(compared.results, sampled=spec.sample_phases)
    if json:
        sys.stdout.buffer.write(compared.to_json() + b"\n")
    else:
        console().print(*render.comparison(compared), sep="\n")
        if written:
            console().print("\nwritten: " + ", ".join(map(str, written)))
