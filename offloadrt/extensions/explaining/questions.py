"""Why a run takes as long as it does, asked from Python: `offloadrt.explain`, `.report` and `.timeline`.

They take what `offloadrt.execute` takes (`study/questions.py`).
"""

from __future__ import annotations

import html
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import attrs

from offloadrt.extensions.explaining.explain import Interrupted, Page, Stage, check_sobol
from offloadrt.extensions.explaining.explain import explain as explain_run
from offloadrt.extensions.explaining.lines import Sources
from offloadrt.extensions.explaining.pdf import print_page
from offloadrt.extensions.explaining.report import ReportedRun, write_page
from offloadrt.extensions.explaining.report import report as page_of
from offloadrt.extensions.explaining.sentence import Observed
from offloadrt.extensions.explaining.timeline import check_window, drawn_of
from offloadrt.study.errors import UserError
from offloadrt.study.questions import Asked, divided, found, progress, several, workers
from offloadrt.study.scripts.definition import Scenario
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import grid

MOST_RUNS = 4
"""The most runs that a report shows beside one another."""


def explain(
    scenario: Asked,
    /,
    *,
    budget_s: float = 50.0,
    draws: int | None = None,
    sobol: int = 0,
    whole: bool = False,
    jobs: int | None = None,
    **keywords: Any,
) -> Page:
    """Say what limits a run, and try for `budget_s` seconds of real time what would make it faster.

    ::

        offloadrt.explain("exahype", threads=64, machine="h100")

    budget_s: with 0 no changes are tried, and only the `draws` asked for are made. draws: with how many random samples
    of the uncertain costs it is checked whether the sentence holds; by default 16, 0 makes none. sobol: base samples
    for total-order Sobol indices, a power of two. whole: run all instances of repeated phases.

    scenario: a scenario, its name, or a script. jobs: how many runs are made at a time; by default one per core.
    keywords: the scenario's parameters and the options of `execute`, such as `machine`. Raises what `offloadrt.execute`
    raises.
    """
    chosen = found(scenario)
    parameters, fields = divided(chosen, keywords)
    check_sobol(sobol)
    options = RunSpec.of(None, {"sample_phases": not whole, **fields})
    with workers(chosen, jobs) as (pool, count), progress(f"explain {chosen.name}") as shown:
        return explain_run(
            chosen, parameters, pool, options=options, jobs=count, budget_s=budget_s, draws=draws, sobol=sobol,
            stage=lambda name, done, of: shown(done, of),
        )  # fmt: skip


@attrs.frozen
class Report:
    """A page (`html`) about a run, or several side by side. A notebook shows it; `save` writes it to a file."""

    html: str = attrs.field(repr=False)

    def save(self, path: Path | str) -> Path:
        """Write the page to a file that ends with .html, or print it to one that ends with .pdf; return its path.

        Raises UserError for another ending, for a file that cannot be written, and for .pdf without Chromium.
        """
        if Path(path).suffix != ".pdf":
            return write_page(Path(path), self.html)
        with tempfile.TemporaryDirectory(prefix="offloadrt-page-") as folder:
            return print_page(write_page(Path(folder) / "page.html", self.html), Path(path))

    def _repr_html_(self) -> str:
        """Show the page in a frame of its own, so that neither its style nor its script meets the notebook's."""
        page = html.escape(self.html, quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 48rem; border: 1px solid #ccc"></iframe>'


def report(
    scenario: Asked,
    /,
    *,
    budget_s: float = 40.0,
    draws: int | None = None,
    whole: bool = False,
    window_s: tuple[float, float] | None = None,
    sources: Sequence[Path | str] = (),
    date: str = "",
    jobs: int | None = None,
    **keywords: Any,
) -> Report:
    """Show where the time of a run went, as an HTML page; a keyword with two values compares two runs.

    ::

        offloadrt.report("exahype", threads=[1, 8]).save("exahype.html")

    budget_s: real time, for all runs together, for trying what would make them faster, and for draws; 0 tries nothing.
    draws and whole: as in `explain`. window_s: what to show of a long run, in seconds of virtual time; by default all
    that is measured. sources: folders with the program's source files. date: of the page, in words.

    scenario: a scenario, its name, or a script. jobs: how many runs are made at a time; by default one per core.
    keywords: the scenario's parameters and the options of `execute`, such as `machine`. Raises what `offloadrt.execute`
    raises; UserError for a folder that does not exist.
    """
    chosen = found(scenario)
    axes, spec = several(chosen, keywords)
    window = None if window_s is None else (round(window_s[0] * 1e12), round(window_s[1] * 1e12))
    if window is not None and not 0 <= window[0] < window[1]:
        raise UserError(f"window_s={window_s}: a window begins at 0 s or later and ends after it begins")
    options = attrs.evolve(spec, sample_phases=not whole)
    with workers(chosen, jobs) as (pool, count), progress(f"report {chosen.name}") as shown:
        runs = reported(
            chosen, axes, pool, options=options, jobs=count, budget_s=budget_s, draws=draws, window=window,
            sources=tuple(map(Path, sources)), stage=lambda name, done, of: shown(done, of),
        )  # fmt: skip
    return Report(page_of(runs, date=date))


def reported(
    scenario: Scenario,
    axes: Mapping[str, Sequence[Any]],
    pool: Executor,
    *,
    options: RunSpec,
    jobs: int,
    budget_s: float,
    window: tuple[int, int] | None,
    stage: Stage,
    draws: int | None = None,
    sources: Sequence[Path] = (),
) -> list[ReportedRun]:
    """Make the runs of a report: one, or one for each value of one axis.

    After Ctrl-C it returns the runs made so far; of the last one, only those changes that were tried by then are shown.

    axes: the values of each parameter or option. budget_s: real time for all runs together, in seconds. window: begin
    and end of what to show, in picoseconds. sources: folders with source files.

    pool, jobs: the executor that makes the runs, and how many it makes at a time. stage: called with a title, the runs
    done and those asked for. draws: with how many random samples of the uncertain costs each run is repeated. Raises
    UserError if more than one axis has several values, if one has more values than a page shows, if a folder of sources
    does not exist, and if nothing happened in the window; otherwise what `explain` raises.
    """
    doubled = [name for name, values in axes.items() if len(values) > 1]
    if len(doubled) > 1:
        raise UserError(f"{' and '.join(doubled)}: a report compares the values of one parameter")
    if any(len(axes[name]) > MOST_RUNS for name in doubled):
        raise UserError(
            f"{doubled[0]}: a report shows at most {MOST_RUNS} runs; `offloadrt compare` has tables of more"
        )
    files = Sources(sources, scenario.path)
    runs: list[ReportedRun] = []
    points = grid(scenario, axes, options)
    for point in points:
        seen: list[Observed] = []

        def watched(observed: Observed, seen: list[Observed] = seen) -> None:
            seen.append(observed)
            if window is not None and len(runs) == len(points) - 1:
                check_window([*(run.observed for run in runs), observed], window)

        name = ", ".join(f"{name}={point.axis_values[name]}" for name in doubled)
        try:
            page = explain_run(
                scenario, point.parameters, pool, options=point.options, jobs=jobs, budget_s=budget_s / len(points),
                draws=draws, stage=stage, watched=watched,
            )  # fmt: skip
        except Interrupted as interrupted:
            page = interrupted.page
            runs.append(ReportedRun(name, page, seen[0], seen[0].rows, window, files))
            break
        runs.append(ReportedRun(name, page, seen[0], seen[0].rows, window, files))
    return runs


def timeline(
    scenario: Asked, /, *, window_s: tuple[float, float] | None = None, tracks: Sequence[str] = (), **keywords: Any
) -> Any:
    """Run a scenario and draw it over virtual time, as a figure of matplotlib.

    ::

        offloadrt.timeline("overlap", threads=4, window_s=(0.0, 1e-3), tracks=["host thread *", "device table"])

    window_s: what to show, in seconds of virtual time. tracks: patterns of the names of the tracks to draw.

    Raises what `offloadrt.execute` raises; UserError for a window in which nothing happened, and without matplotlib.
    """
    chosen = found(scenario)
    parameters, fields = divided(chosen, keywords)
    window = None if window_s is None else (round(window_s[0] * 1e12), round(window_s[1] * 1e12))
    return drawn_of(chosen, parameters, RunSpec.of(None, fields), window, tracks)
