"""The charts of a report, as Vega-Lite specifications that Altair makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from offloadrt.extensions.explaining.report.timeline import Counter
from offloadrt.study.reporting.results import library

_PALETTE = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#B8AC2B", "#666666", "#999999"]
"""Okabe and Ito's colours, which colour-blind readers can tell apart."""
_MOST_PARTS = 8
_MOST_STEPS = 2_000
"""Places of a line; a screen has no more."""
_US = 1e-6
REST = "everything else"


def time_by_thread(runs: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, Any]:
    """Stack where each host thread's time went; picoseconds by run, thread and what it did."""
    alt = library("altair", "report")

    total: dict[str, int] = {}
    for threads in runs.values():
        for times in threads.values():
            for what, ps in times.items():
                total[what] = total.get(what, 0) + ps
    chosen = sorted(total, key=lambda what: (-total[what], what))[:_MOST_PARTS]
    rows = []
    for run, threads in runs.items():
        for place, (thread, times) in enumerate(threads.items()):
            shown = {what: times[what] for what in chosen if what in times}
            shown[REST] = sum(times.values()) - sum(shown.values())
            rows += [
                {"run": run, "thread": thread, "order": place, "what": what, "ms": ps * 1e-9, "rank": rank}
                for rank, (what, ps) in enumerate(shown.items())
                if ps > 0
            ]
    names = [what for what in (*chosen, REST) if any(row["what"] == what for row in rows)]
    chart = alt.Chart(alt.InlineData(values=rows)).mark_bar()
    coded = chart.encode(
        y=alt.Y("thread:N", sort=alt.EncodingSortField("order"), title=None),
        x=alt.X("ms:Q", title="time (ms)"),
        color=alt.Color("what:N", scale=alt.Scale(domain=names, range=_PALETTE[: len(names)]), title="what it did"),
        order=alt.Order("rank:Q"),
        row=alt.Row("run:N", title=None, header=alt.Header(labelAngle=0, labelAlign="left", labelOrient="top")),
        tooltip=["run:N", "thread:N", "what:N", alt.Tooltip("ms:Q", format=".4g", title="ms")],
    )
    return _plain(coded.properties(width=620).resolve_scale(y="independent").to_dict())


def counters_over_time(counters: Sequence[Counter], window: tuple[int, int]) -> list[dict[str, Any]]:
    """Draw a chart of each counter, in its own unit."""
    alt = library("altair", "report")

    charts = []
    for counter in counters:
        unit, scale = ("MiB", 2.0**-20) if counter.unit == "bytes" else ("", 1.0)
        rows = [{"us": ps * _US, "value": value * scale} for ps, value in _thinned(counter, window)]
        title = f"{counter.group}: {counter.name}" + (f" ({unit})" if unit else "")
        chart = alt.Chart(alt.InlineData(values=rows), title=alt.TitleParams(title, anchor="start"))
        charts.append(
            chart.mark_area(interpolate="step-after", line=True, opacity=0.35, color=_PALETTE[0])
            .encode(
                x=alt.X("us:Q", title="virtual time (µs)", scale=alt.Scale(domain=[ps * _US for ps in window])),
                y=alt.Y("value:Q", title=None),
                tooltip=[alt.Tooltip("us:Q", format=".6g"), alt.Tooltip("value:Q", format=".6g")],
            )
            .properties(width=760, height=70)
        )
    return [_plain(chart.to_dict()) for chart in charts]


def _thinned(counter: Counter, window: tuple[int, int]) -> Iterable[tuple[int, int]]:
    """Give the highest value of each of at most `_MOST_STEPS` pieces of the window."""
    begin, end = window
    piece = max(1, (end - begin) // _MOST_STEPS)
    highest: dict[int, int] = {0: 0}
    for ps, value in zip(counter.times_ps, counter.values, strict=True):
        at = max(0, min(ps, end) - begin) // piece
        highest[at] = max(highest[at], value) if at in highest and at else value
    points = [(begin + at * piece, value) for at, value in sorted(highest.items())]
    return [*points, (end, points[-1][1])]


def _plain(spec: dict[str, Any]) -> dict[str, Any]:
    """Let the page's own colours show through."""
    spec["config"] = {**spec.get("config", {}), "background": "transparent", "view": {"stroke": "transparent"}}
    return spec


def bundle() -> str:
    """Return the script of Vega, Vega-Lite and Vega-Embed."""
    return str(library("vl_convert", "report").javascript_bundle())
