"""The commands `why` (with the page that it prints), `report` and `kernels`."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from offloadrt.cli.options import (
    DEFAULTS,
    DrawCount,
    ExecutorKind,
    Jobs,
    Json,
    ParameterValues,
    ScenarioName,
    seconds_of,
    several,
    single,
)
from offloadrt.cli.terminal import INTERRUPTED, console, duration, print_json, stages
from offloadrt.study.spec import RunSpec

if TYPE_CHECKING:
    from rich.console import RenderableType

    from offloadrt.extensions.explaining.explain import Page
    from offloadrt.extensions.explaining.sentence import Holder, PathShare

Whole = Annotated[
    bool,
    Parameter(
        help="Run all of a long program, instead of a few instances of each of its repeated phases (see `run "
        "--sample-phases`).",
        negative=(),
    ),
]

_MOST = 8
"""The most rows that a table shows."""
_MOST_WHAT_IFS = 16
_MOST_EFFECTS = 4


def why(
    scenario: ScenarioName,
    /,
    *parameters: ParameterValues,
    budget: str = "50s",
    draws: DrawCount = None,
    sobol: int = 0,
    whole: Whole = False,
    jobs: Jobs = None,
    executor: ExecutorKind = "process",
    spec: RunSpec = DEFAULTS,
    json: Json = False,
) -> int:
    """Say what limits a run, and what would make it faster.

    One sentence, the critical path by resource, call and line, the use of locks and parts of the machine, and what if:
    each change is tried by a run of its own, the most promising first, and printed with the command that repeats it.

    Parameters
    ----------
    budget:
        Real time for all of it, as in 90s or 5min; 0s tries no changes, and draws only what --draws asks for.
    sobol:
        Base samples for total-order Sobol indices, over all ranges of the machine, of the limiting resource's share of
        the critical path: a power of two. Each takes up to 9 runs; they have a part of the budget as well.
    """
    import attrs

    from offloadrt.extensions.explaining.explain import Interrupted, check_sobol, explain
    from offloadrt.study.scripts import registry
    from offloadrt.study.scripts.parameters import split_assignments
    from offloadrt.study.sweep import executor as executor_of
    from offloadrt.study.sweep import processors

    chosen = registry.find(scenario)
    given = chosen.bind(split_assignments(parameters))
    workers = jobs if jobs is not None else processors()
    seconds = seconds_of(budget)
    check_sobol(sobol)
    code = 0
    announce(f"why {chosen.name}", 1, seconds, draws)
    try:
        with (
            executor_of(executor, workers if seconds or draws or sobol else 1) as pool,
            stages(f"why {chosen.name}") as advanced,
        ):
            page = explain(
                chosen,
                given,
                pool,
                options=attrs.evolve(single(spec), sample_phases=not whole),
                jobs=workers,
                budget_s=seconds,
                draws=draws,
                sobol=sobol,
                stage=advanced,
            )
    except Interrupted as interrupted:
        page, code = interrupted.page, INTERRUPTED
        print("offloadrt: note: interrupted: what is known up to now follows", file=sys.stderr)
    if json:
        sys.stdout.buffer.write(page.to_json() + b"\n")
    else:
        console().print(*printed(page, 0 if code else draws or sobol), sep="\n")
    return code


def printed(page: Page, draws: int | None = 0) -> Iterable[RenderableType]:
    """Yield what the command `why` prints of its findings (`page`). draws: how many random samples were asked for."""
    from rich.markup import escape

    from offloadrt.cli.render import table_of
    from offloadrt.extensions.explaining.lines import AS_IT_IS
    from offloadrt.extensions.explaining.what_if import notes_on_work, tried_of
    from offloadrt.study.reporting.words import percent, seconds, some

    yield f"[bold]{escape(page.limit.sentence)}[/]"
    yield f"{escape(page.command)}: {seconds(page.elapsed_s)}, {percent(page.waited)} of the critical path is waiting"
    yield from page.phases
    for title, shares in (
        ("the critical path by resource", page.path_by_resource),
        ("by call", page.path_by_call),
        ("by line", page.path_by_line),
        ("by phase", page.path_by_phase),
    ):
        if shares:
            yield _shares(title, shares)
    if page.host_time:
        together = ", ".join(f"{escape(name)} {percent(share)}" for name, share in page.host_time.items())
        yield f"\nof the time of all host threads together: {together}; the path follows whom they wait for"
    table = table_of("\nresources", "", "in use", "mean queue", "95 %", "mostly by", right=(1, 2, 3))
    for use in page.resources[:_MOST]:
        p95 = "–" if use.p95_queue is None else f"{use.p95_queue:.0f}"
        holders = "; ".join(holder_labels(use.holders)[:2])
        table.add_row(escape(use.name), percent(use.utilisation), f"{use.mean_queue:.2f}", p95, escape(holders))
    yield table
    if any(verdict.best != AS_IT_IS for verdict in page.verdicts):
        columns = ("line", "launches", "as it ran", "data kept mapped", "on the host", "where it belongs")
        table = table_of("\nregions, by estimate (times of all threads together)", *columns, right=(1, 2, 3, 4))
        for verdict in page.verdicts[:_MOST]:
            times = map(seconds, (verdict.as_run_s, verdict.mapped_s, verdict.host_s))
            table.add_row(escape(verdict.place), f"{verdict.runs:,}", *times, verdict.best)
        yield table
    if page.tried.what_ifs:
        table = table_of(
            f"\nwhat if ({page.tried.merit})", "change", "kind", "elapsed", "gain", *_head_of_draws(page), right=(2, 3)
        )
        for tried in page.tried.what_ifs[:_MOST_WHAT_IFS]:
            between = "" if tried.interval is None else f"{tried.interval.low:.4g} to {tried.interval.high:.4g}"
            table.add_row(
                escape(tried.change.name), tried.change.kind, seconds(tried.elapsed_s), f"{tried.gain:.4g}",
                *([between] if _head_of_draws(page) else ()),
            )  # fmt: skip
        yield table
        for tried in page.tried.what_ifs[:_MOST_WHAT_IFS]:
            if tried.same:
                yield escape(f"the same run as with {tried.change.name}: {', '.join(tried.same)}")
        if page.tried.without_effect:
            yield escape(f"without any effect: {some(page.tried.without_effect, _MOST_EFFECTS)}")
        yield from (escape(f"order effect: {text}") for text in page.order_effects[:_MOST_EFFECTS])
        yield from map(escape, notes_on_work(page.tried, _MOST_WHAT_IFS))
        yield f"to repeat one: {escape(page.command)} CHANGE"
    if page.sure is not None:
        if page.sure.interval is not None:
            between = f"{seconds(page.sure.interval.low)} to {seconds(page.sure.interval.high)}"
            yield f"{page.tried.merit} in 80 % of {page.sure.draws} draws: {between}"
        if page.sure.prediction_interval is not None:
            yield escape(str(page.sure.prediction_interval))
        yield f"the sentence {escape(str(page.sure))}"
        for other, count in page.sure.others.items():
            yield f"  in {count}: {escape(other)}"
    elif draws:
        yield "no draw was run within the budget"
    if page.indices is not None:
        yield escape(str(page.indices))
    yield tried_of(page.tried)
    if page.sure is not None and page.sure.deciders:
        yield f"what to measure next, by how much the time moves over its range ({page.sure.screened}):"
        yield from (f"  {escape(str(decider))}" for decider in page.sure.deciders)


def _head_of_draws(page: Page) -> tuple[str, ...]:
    """Return the heading of the column of gains' intervals; none if no gain has an interval."""
    draws = max((one.interval.draws for one in page.tried.what_ifs if one.interval is not None), default=0)
    return (f"80 % of {draws} draws",) if draws else ()


def _shares(title: str, shares: Iterable[PathShare]) -> RenderableType:
    from rich.markup import escape

    from offloadrt.cli.render import table_of
    from offloadrt.study.reporting.words import percent, seconds

    table = table_of(f"\n{title}", "", "time", "share", "waited", right=(1, 2, 3))
    for share in list(shares)[:_MOST]:
        table.add_row(escape(share.name), seconds(share.ps * 1e-12), percent(share.share), percent(share.waited))
    return table


def holder_labels(holders: Iterable[Holder]) -> list[str]:
    """Return a text for each call (with directive and line) that held a lock: its share of the held time, and its name.

    Holders that differ only in the array whose entry they locked are added up. The largest share comes first.
    """
    shares: dict[str, float] = {}
    for holder in holders:
        what = " in ".join(part for part in (holder.call, holder.directive) if part) or "no directive"
        label = what + (f" ({holder.place})" if holder.place else "")
        shares[label] = shares.get(label, 0.0) + holder.share
    return [f"{100 * share:.0f} % {label}" for label, share in sorted(shares.items(), key=lambda item: -item[1])]


def report(
    out: Path,
    scenario: ScenarioName,
    /,
    *parameters: str,
    budget: str = "40s",
    draws: DrawCount = None,
    window: str = "",
    source: SourceFolders = None,
    pdf: Pdf = False,
    whole: Whole = False,
    jobs: Jobs = None,
    spec: RunSpec = DEFAULTS,
) -> None:
    """Write one HTML page that shows where the time of a run went; it opens from a disk, without a network.

    What limits the run, what would make it faster, its source by line, its timeline of threads, locks and device, host
    time as a flame graph, and its kernels under the roofline. One parameter, or the machine, may have several values:
    the page then has the runs side by side on one time axis.

    Parameters
    ----------
    out:
        The HTML file to write.
    parameters:
        The scenario's parameters, as name=value; one of them may be name=value1,value2.
    budget:
        Real time, for all runs together, for draws and for trying what would make them faster (see `offloadrt why`), as
        in 90s; 0s tries no changes, and draws only what --draws asks for.
    window:
        What to show of a long run, in virtual time, as in 1ms:2.5ms; by default all that is measured.
    """
    import attrs

    from offloadrt.cli.options import check_files
    from offloadrt.extensions.explaining.pdf import browser, print_page
    from offloadrt.extensions.explaining.questions import reported
    from offloadrt.extensions.explaining.report import report as page_of
    from offloadrt.extensions.explaining.report import write_page
    from offloadrt.extensions.explaining.timeline import window_of
    from offloadrt.study.errors import UserError
    from offloadrt.study.scripts import registry
    from offloadrt.study.scripts.parameters import sweep_axes
    from offloadrt.study.sweep import executor, processors

    if out.suffix != ".html":
        raise UserError(f"{out}: a report is a file that ends with .html; --pdf writes a PDF file beside it")
    chosen = registry.find(scenario)
    on_paper = out.with_suffix(".pdf") if pdf else None
    check_files({"report": out, "--pdf": on_paper}, [chosen.path])
    if on_paper is not None:
        browser()
    spec, varied = several(spec)
    axes = (sweep_axes(chosen.name, parameters, {}) if parameters else {}) | varied
    shown = window_of(window)
    workers = jobs if jobs is not None else processors()
    seconds = seconds_of(budget)
    announce(f"report {chosen.name}", math.prod(map(len, axes.values())), seconds, draws)
    with executor("process", workers if seconds or draws else 1) as pool, stages(f"report {chosen.name}") as advanced:
        runs = reported(
            chosen,
            axes,
            pool,
            options=attrs.evolve(single(spec), sample_phases=not whole),
            jobs=workers,
            budget_s=seconds,
            draws=draws,
            window=shown,
            sources=tuple(source or ()),
            stage=advanced,
        )
    print(write_page(out, page_of(runs, date=today())))
    if on_paper is not None:
        print(print_page(out, on_paper))


def announce(what: str, runs: int, budget_s: float, draws: int | None) -> None:
    """Say on standard error, before a command begins, which runs it makes, for how long, and how to shorten that.

    what: the command and the scenario. budget_s: real time for it, in seconds. draws: the number of random samples that
    the user asked for; None: as many as fit.
    """
    from offloadrt.study.reporting.words import counted

    parts = [counted(runs, "run")]
    if budget_s:
        parts.append(f"then changes and draws for {duration(budget_s)} in all (--budget 0s leaves them out)")
    elif draws:
        parts.append(f"then {draws} draws of each (--draws 0 leaves them out)")
    print(f"{what}: {', '.join(parts)}", file=sys.stderr, flush=True)


def today() -> str:
    """Return the date in UTC, as 2026-11-29. SOURCE_DATE_EPOCH overrides it, to make the same page again."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = float(epoch) if epoch.isdigit() else time.time()
    return time.strftime("%Y-%m-%d", time.gmtime(now))


SourceFolders = Annotated[
    list[Path] | None,
    Parameter(
        help="A folder with the program's source files, searched with what lies in it; may be repeated.",
        name="--source",
        negative=(),
    ),
]


Pdf = Annotated[
    bool,
    Parameter(help="Print the page to a PDF file beside it as well; needs Chromium or Chrome.", negative=()),
]


Predicated = Annotated[
    bool,
    Parameter(
        help="Show the source of each kernel for several devices instead (JACC's predicate-based filtering).",
        negative=(),
    ),
]


def kernels(scenario: str, /, *, predicated: Predicated = False, json: Json = False) -> None:
    """Show what the source of each kernel says: accesses, index ranges, flops and bytes.

    Shows also local access frequencies (LAF: an array's loads and stores in one iteration) and, for programs whose host
    function is read, global ones (GAF: of each array over all target regions, times how often these run).

    Parameters
    ----------
    scenario:
        A scenario's name, a script, SCRIPT.py:NAME, or a recording, whose kernels are shown with their counted costs.
    """
    from offloadrt.extensions.explaining.kernels import kernels_of, predicated_kernels_of, record_of
    from offloadrt.study.scripts.definition import reader_of

    reader = reader_of(scenario)
    if json:
        print_json(record_of(scenario) if reader is None else reader.kernels_record(Path(scenario)))
    elif reader is not None:
        console().print(*reader.kernels(Path(scenario)), sep="\n")
    elif predicated:
        console().print(*predicated_kernels_of(scenario), sep="\n", soft_wrap=True)
    else:
        console().print(*kernels_of(scenario), sep="\n")
