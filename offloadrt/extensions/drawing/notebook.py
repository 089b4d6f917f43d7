"""HTML tables by which a notebook shows results."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from functools import singledispatch

from offloadrt.study.reporting.compare import Comparison
from offloadrt.study.reporting.results import Result
from offloadrt.study.reporting.words import figure, named, percent, seconds, where, word
from offloadrt.study.sweep import SweepOutcome

MOST_IN_HTML = 8
"""The most rows of a long table that a notebook shows."""
_MOST_POINTS = 20


def html_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with the column titles `head` as HTML, its cells escaped; an empty text if there are no rows."""
    if not (lines := list(rows)):
        return ""

    def line(cells: Sequence[str], kind: str) -> str:
        return "<tr>" + "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in cells) + "</tr>"

    caption = f"<caption>{html.escape(title)}</caption>" if title else ""
    body = "".join(line(row, "td") for row in lines)
    return f"<table>{caption}<thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>"


def html_page(title: str, remark: str, *tables: str) -> str:
    """Return the HTML for one object: a title, a remark in small print, and tables."""
    small = f"<p><small>{html.escape(remark)}</small></p>" if remark else ""
    return f"<div><p><b>{html.escape(title)}</b></p>{small}{''.join(tables)}</div>"


@singledispatch
def html_of(shown: object) -> str:
    """Return the HTML that shows `shown` (a result, a comparison or a sweep) in a notebook."""
    raise TypeError(f"{type(shown).__name__} has no form for notebooks")


@html_of.register
def _result(result: Result) -> str:
    """Return tables of parameters, measured figures, the host threads' time, and the calls that took longest."""
    given = [*result.parameters.items(), *result.inputs.items()]
    went = sorted(result.where_time_went.items(), key=lambda item: -item[1].total_s)[:MOST_IN_HTML]
    calls = sorted(result.calls.items(), key=lambda item: -item[1].total_s)[:MOST_IN_HTML]
    measured = [("elapsed (virtual time)", seconds(result.elapsed_s))]
    if (drawn := result.interval) is not None:
        measured.append((f"in 80 % of {drawn.draws} draws", f"{seconds(drawn.low)} to {seconds(drawn.high)}"))
    if (real := result.prediction_interval) is not None:
        between = f"{seconds(real.low)} to {seconds(real.high)}"
        measured.append(("on a real machine, in four of five cases", between))
    measured += [(name, figure(name, value)) for name, value in result.measured.items()]
    return html_page(
        f"{result.scenario} {named(result.parameters)}",
        f"on {where(result)}, seed {result.seed}",
        html_table("given", ("", "value"), [(name, figure(name, value)) for name, value in given]),
        html_table("measured", ("", "value"), measured),
        html_table(
            "where the host threads' time went",
            ("", "time", "share"),
            [(name, seconds(part.total_s), percent(part.share)) for name, part in went],
        ),
        html_table(
            "calls",
            ("", "calls", "total", "mean"),
            [(name, str(call.count), seconds(call.total_s), seconds(call.mean_s)) for name, call in calls],
        ),
    )


@html_of.register
def _comparison(comparison: Comparison) -> str:
    """Return a table with a row for each variant: every compared figure and its ratio to the baseline."""
    names = [*comparison.cases[0].parameters, *comparison.baseline]
    rows = []
    for case in comparison.cases:
        for variant in case.variants:
            values = {**case.parameters, **variant.parameters}
            cells = [word(values[name]) for name in names]
            for name, of in variant.figures.items():
                cells += [figure(name, of.value), "–" if of.ratio is None else f"{of.ratio:.4g}"]
            rows.append(cells)
    remark = f"baseline: {named(comparison.baseline)}; a ratio is the baseline's figure over the variant's"
    remark += "".join(f"; not run: {named(one.parameters)}: {one.reason}" for one in comparison.refused)
    head = [*names, *(part for name in comparison.measures for part in (name, "ratio"))]
    title = f"{comparison.scenario} {named(comparison.fixed)} on {where(comparison)}"
    return html_page(title, remark, html_table("", head, rows))


@html_of.register
def _sweep(outcome: SweepOutcome) -> str:
    """Return a table with a row for each of the first finished points, and one of those that failed."""
    first = outcome.finished[:_MOST_POINTS]
    values: dict[str, set[str]] = {}
    for point in outcome.points:
        for name, value in point.axis_values.items():
            values.setdefault(name, set()).add(word(value))
    swept = [name for name, of in values.items() if len(of) > 1]
    measured = list(dict.fromkeys(name for one in first for name in one.measured))
    rows = [
        [
            *(word(result.parameters.get(name)) for name in swept),
            seconds(result.elapsed_s),
            *(figure(name, result.measured.get(name)) for name in measured),
        ]
        for result in first
    ]
    count = f"{len(outcome.finished)} of {len(outcome.points)} points"
    failed = [(named(failure.point.axis_values), failure.message) for failure in outcome.failures[:_MOST_POINTS]]
    return html_page(
        f"{outcome.points[0].scenario}: {count}" if outcome.points else count,
        f"the first {len(first)} are shown; `outcome.to_polars()` has all" if rows else "",
        html_table("", [*swept, "elapsed_s", *measured], rows),
        html_table(f"{len(outcome.failures)} failed", ("", "why"), failed),
    )
