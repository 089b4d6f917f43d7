"""`offloadrt report`: the command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from offloadrt.cli.options import DEFAULTS, Jobs, ScenarioName, Whole, several, single
from offloadrt.cli.terminal import stages
from offloadrt.extensions.explaining.command import seconds_of
from offloadrt.study.spec import RunSpec

if TYPE_CHECKING:
    from offloadrt.extensions.explaining.report.page import ReportedRun
    from offloadrt.extensions.explaining.sentence import Observed


def report(
    out: Path,
    scenario: ScenarioName,
    /,
    *parameters: str,
    budget: str = "0s",
    window: str = "",
    whole: Whole = False,
    jobs: Jobs = None,
    spec: RunSpec = DEFAULTS,
) -> None:
    """Write one HTML page that shows where the time of a run went; it opens from a disk, without a network.

    What limits the run, its critical path, its timeline of threads, locks and device, host time as a flame graph, and
    memory over time. One parameter, or the machine, may have two values: the page then compares two runs.

    Parameters
    ----------
    out:
        The HTML file to write.
    parameters:
        The scenario's parameters, as name=value; one of them may be name=value1,value2.
    budget:
        Real time for trying what would make the run faster (see `offloadrt why`), as in 30s; none by default.
    window:
        What to show of a long run, in virtual time, as in 1ms:2.5ms; by default all that is measured.
    """
    import attrs

    from offloadrt.cli.options import check_files
    from offloadrt.extensions.explaining.explain import explain
    from offloadrt.extensions.explaining.report.page import ReportedRun, write_report
    from offloadrt.study.errors import UserError
    from offloadrt.study.scripts import registry
    from offloadrt.study.scripts.parameters import sweep_axes
    from offloadrt.study.sweep import executor, grid, processors

    if out.suffix != ".html":
        raise UserError(f"{out}: a report is a file that ends with .html")
    chosen = registry.find(scenario)
    check_files({"report": out}, [chosen.path])
    spec, varied = several(spec)
    axes = (sweep_axes(chosen.name, parameters, {}) if parameters else {}) | varied
    doubled = [name for name, values in axes.items() if len(values) > 1]
    if len(doubled) > 1 or any(len(axes[name]) > 2 for name in doubled):
        raise UserError(f"{' and '.join(doubled)}: a report compares two runs: give one parameter two values")
    shown = _window(window)
    workers = jobs if jobs is not None else processors()
    seconds = seconds_of(budget)
    runs: list[ReportedRun] = []
    with executor("process", workers if seconds else 1) as pool, stages(f"report {chosen.name}") as advanced:
        for value in axes[doubled[0]] if doubled else (None,):
            given = {name: values[0] for name, values in axes.items()}
            if value is not None:
                given[doubled[0]] = value
            (point,) = grid(chosen, {name: (text,) for name, text in given.items()}, single(spec))
            found: list[Observed] = []
            page = explain(
                chosen,
                point.parameters,
                pool,
                options=attrs.evolve(point.options, sample_phases=not whole),
                jobs=workers,
                budget_s=seconds,
                stage=advanced,
                watched=found.append,
            )
            name = "" if value is None else f"{doubled[0]}={value}"
            runs.append(ReportedRun(name, page, found[0], found[0].rows, shown))
    write_report(out, runs)
    print(out)


def _window(text: str) -> tuple[int, int] | None:
    from offloadrt.study.errors import UserError

    if not text:
        return None
    wanted = f"--window {text}: a window is written FROM:TO in virtual time, as in 1ms:2.5ms"
    try:
        begin, end = (round(_seconds(part) * 1e12) for part in text.split(":"))
    except ValueError:
        raise UserError(wanted) from None
    if not 0 <= begin < end:
        raise UserError(wanted)
    return begin, end


def _seconds(text: str) -> float:
    for unit, scale in (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("s", 1.0)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * scale
    raise ValueError(text)
