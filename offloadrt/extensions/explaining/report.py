"""`offloadrt report`: one self-contained HTML page that answers where the time of a run went.

`timeline_of` collects the slices that `offloadrt.trace` draws, and adds up the host threads' time from them.
`report` makes the charts and puts everything into `page/page.html`, with its script and its style. Altair's Vega
bundle is a part of the page, so that it opens from a disk without a network.

`Timeline` is a `Canvas` that keeps what `offloadrt.trace` draws; `overview` shortens that of a long run. `flame_of`
makes a tree of what lay in what.
The charts are Vega-Lite specifications that Altair makes.
"""

from __future__ import annotations

import html
import importlib.resources
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

import attrs

from offloadrt.extensions.explaining.critical_path import PathPart
from offloadrt.extensions.explaining.explain import Page
from offloadrt.extensions.explaining.sentence import Holder, Observed, PathShare
from offloadrt.study.errors import UserError, library, writing
from offloadrt.study.reporting.words import html_table, seconds
from offloadrt.trace import CausalLog, Row
from offloadrt.trace.drawing import HOST, LOCKS, Drawing, Notes

MOST_SLICES = 40_000
"""More than these are aggregated, so that a page stays small and quick."""
CRITICAL_PATH = "critical path"


@attrs.frozen
class Slice:
    """Something that took time on a track; `level` counts the slices that it lies in. Times are picoseconds."""

    begin_ps: int
    end_ps: int
    name: str
    notes: str
    level: int = 0

    @property
    def ps(self) -> int:
        return self.end_ps - self.begin_ps


@attrs.define
class TimelineTrack:
    """A track of a thread or of a lane of a resource."""

    group: str
    name: str
    slices: list[Slice] = attrs.field(factory=list)
    open: list[tuple[int, str, str]] = attrs.field(factory=list)
    """What has begun and not ended, the outermost first."""


@attrs.define
class Counter:
    """A number over time: where it changes, and what it is from then on."""

    group: str
    name: str
    unit: str
    times_ps: list[int] = attrs.field(factory=list)
    values: list[int] = attrs.field(factory=list)


class Timeline:
    """A canvas that keeps what is drawn on it."""

    def __init__(self) -> None:
        self.tracks: list[TimelineTrack] = []
        self.counters: list[Counter] = []

    def thread(self, group: str, index: int, name: str, /) -> int:
        """Make a track for a thread."""
        return self.lane(group, name)

    def lane(self, group: str, name: str, /) -> int:
        """Make a track for a lane of a resource."""
        self.tracks.append(TimelineTrack(group, name))
        return len(self.tracks) - 1

    def counter(self, group: str, name: str, unit: str, /) -> int:
        """Make a counter."""
        self.counters.append(Counter(group, name, unit))
        return len(self.counters) - 1

    def begin(self, track: int, time_ps: int, name: str, flows: Sequence[int], notes: Notes, /) -> None:
        """Begin a slice."""
        self.tracks[track].open.append((time_ps, name, _text(notes)))

    def end(self, track: int, time_ps: int, notes: Notes | None = None, /) -> None:
        """End the slice that began last on the track."""
        on = self.tracks[track]
        begin_ps, name, text = on.open.pop()
        text = ", ".join(filter(None, (text, _text(notes or {}))))
        on.slices.append(Slice(begin_ps, time_ps, name, text, len(on.open)))

    def instant(self, track: int, time_ps: int, name: str, notes: Notes, flows: Sequence[int] = (), /) -> None:
        """Leave out what takes no time."""

    def value(self, track: int, time_ps: int, value: int, /) -> None:
        """Note the new value of a counter."""
        counter = self.counters[track]
        counter.times_ps.append(time_ps)
        counter.values.append(value)


def timeline_of(
    rows: Sequence[Row], path: Iterable[PathPart], window: tuple[int, int], causal_log: CausalLog | None = None
) -> Timeline:
    """Draw a run, its critical path on a track above all others; keep what lies in the window, in picoseconds."""
    timeline = Timeline()
    drawing = Drawing(timeline, causal_log)
    drawing.draw(rows)
    drawing.finish()
    on_path = TimelineTrack(CRITICAL_PATH, CRITICAL_PATH)
    for part in path:
        words = (part.actor, part.call, part.directive, part.place)
        on_path.slices.append(Slice(part.begin_ps, part.end_ps, part.blame, ", ".join(filter(None, words))))
    timeline.tracks = [on_path, *_one_thread_each(timeline.tracks)]
    for track in timeline.tracks:
        cut = (
            attrs.evolve(one, begin_ps=max(one.begin_ps, window[0]), end_ps=min(one.end_ps, window[1]))
            for one in track.slices
        )
        track.slices = sorted((one for one in cut if one.ps > 0), key=lambda one: (one.begin_ps, one.level, one.end_ps))
    timeline.tracks = sorted((track for track in timeline.tracks if track.slices), key=_place)
    return timeline


def _one_thread_each(tracks: Sequence[TimelineTrack]) -> list[TimelineTrack]:
    """Put what host threads of one name do on one track: teams that follow one another have the same threads.

    Threads of one name that work at the same time, as those of nested teams, keep tracks of their own.
    """
    kept: list[TimelineTrack] = []
    of_name: dict[str, list[TimelineTrack]] = {}
    for track in tracks:
        if track.group != HOST:
            kept.append(track)
            continue
        others = of_name.setdefault(track.name, [])
        free = next((other for other in others if not _overlap(other.slices, track.slices)), None)
        if free is not None:
            free.slices += track.slices
        elif track.slices:
            kept.append(track)
            others.append(track)
            if len(others) > 1:
                track.name = f"{track.name} ({len(others)})"
    return kept


def _overlap(some: Sequence[Slice], others: Sequence[Slice]) -> bool:
    """Tell whether slices of two tracks lie over one another."""
    spans = sorted((one.begin_ps, one.end_ps) for one in (*some, *others) if one.level == 0 and one.ps)
    return any(after[0] < before[1] for before, after in itertools.pairwise(spans))


def _text(notes: Notes) -> str:
    return ", ".join(f"{key}: {value}" for key, value in notes.items())


def _place(track: TimelineTrack) -> tuple[object, ...]:
    """Order tracks for a reader: the critical path, host threads by number, the device, and then locks."""
    groups = {CRITICAL_PATH: 0, HOST: 1, LOCKS: 3}
    words = [(int(word), "") if word.isdigit() else (-1, word) for word in re.split(r"(\d+)", track.name)]
    return groups.get(track.group, 2), track.group, words


def overview(timeline: Timeline, most: int = MOST_SLICES) -> tuple[list[TimelineTrack], int]:
    """Return tracks of about `most` slices at most, and the length in ps below which neighbours are drawn as one.

    Neighbours on a track and level that are shorter, and no further apart, become one slice that says how many it
    stands for. A length of 0 means that nothing was aggregated.
    """
    lengths = sorted((one.ps for track in timeline.tracks for one in track.slices), reverse=True)
    if len(lengths) <= most:
        return timeline.tracks, 0
    short_ps = lengths[most // 2]
    while True:
        tracks = [attrs.evolve(track, slices=_joined(track.slices, short_ps)) for track in timeline.tracks]
        if sum(len(track.slices) for track in tracks) <= most:
            return tracks, short_ps
        short_ps *= 2


def _joined(slices: Sequence[Slice], short_ps: int) -> list[Slice]:
    joined: list[Slice] = []
    counts: list[int] = []
    """How many slices each of `joined` stands for."""
    last: dict[int, int] = {}
    """By level, where in `joined` the slice stands that a next short one may join."""
    for one in slices:
        at = last.get(one.level)
        if one.ps >= short_ps:
            last.pop(one.level, None)
        elif at is not None and one.begin_ps - joined[at].end_ps < short_ps:
            joined[at] = attrs.evolve(joined[at], end_ps=max(joined[at].end_ps, one.end_ps))
            counts[at] += 1
            continue
        else:
            last[one.level] = len(joined)
        joined.append(one)
        counts.append(1)
    return [
        one if count == 1 else attrs.evolve(one, name=f"{count} short slices", notes=f"the first is {one.name}")
        for one, count in zip(joined, counts, strict=True)
    ]


PROGRAM = "outside of directives"
"""A host thread outside of every directive: its own work, waits that belong to no directive, and no team."""
_NUMBER = re.compile(r"\s+\d+(?=\s|$)")


@attrs.define
class Frame:
    """A node of the flame graph: the time of all host threads in slices of this name at this place."""

    name: str
    ps: int = 0
    inner: dict[str, Frame] = attrs.field(factory=dict)

    def child(self, name: str) -> Frame:
        """Return the inner frame of that name, made when it is first asked for."""
        return self.inner.setdefault(name, Frame(name))


def threads_of(tracks: Iterable[TimelineTrack]) -> list[TimelineTrack]:
    """Return the tracks of host threads."""
    return [track for track in tracks if track.group == HOST]


def own_times(track: TimelineTrack, window: tuple[int, int]) -> dict[str, int]:
    """Return the picoseconds of a thread by what it did innermost; they add up to the window."""
    times: dict[str, int] = {}
    outside = window[1] - window[0]
    for path, own_ps in _own(track.slices):
        name = family(path[-1].name)
        times[name] = times.get(name, 0) + own_ps
        outside -= own_ps
    if outside > 0:
        times[PROGRAM] = outside
    return times


def flame_of(tracks: Iterable[TimelineTrack]) -> Frame:
    """Return the tree of directives, calls and waits of all host threads."""
    root = Frame("host threads")
    for track in tracks:
        for path, own_ps in _own(track.slices):
            frame = root
            frame.ps += own_ps
            for one in path:
                frame = frame.child(family(one.name))
                frame.ps += own_ps
    return root


def family(name: str) -> str:
    """Leave out the number of one of many: `wait for copy 12 (d2h)` becomes `wait for copy (d2h)`."""
    return _NUMBER.sub("", name) or name


def _own(slices: Iterable[Slice]) -> Iterator[tuple[tuple[Slice, ...], int]]:
    """Give each slice with those that it lies in, and its time that no inner slice takes."""
    open_: list[Slice] = []
    left: list[int] = []
    for one in slices:
        while open_ and (open_[-1].level >= one.level or open_[-1].end_ps <= one.begin_ps):
            yield tuple(open_), left.pop()
            open_.pop()
        if left:
            left[-1] -= one.ps
        open_.append(one)
        left.append(one.ps)
    while open_:
        yield tuple(open_), left.pop()
        open_.pop()


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


_MOST_LINES = 12


@attrs.frozen
class ReportedRun:
    """A run of the report: its name there, what `why` says of it, and its events."""

    name: str
    page: Page
    observed: Observed
    rows: Sequence[Row] = attrs.field(repr=False)
    window: tuple[int, int] | None = None
    """What to show of it, in picoseconds; None is all that was measured."""

    @property
    def shown(self) -> tuple[int, int]:
        """Return the window that is shown."""
        whole = self.observed.windows[0][0], self.observed.windows[-1][1]
        return self.window or whole


def write_page(path: Path, page: str) -> Path:
    """Write a page to a file and return its path. Raises UserError when it is no .html or cannot be written."""
    if path.suffix != ".html":
        raise UserError(f"{path}: a report is a file that ends with .html")
    with writing(path):
        path.write_text(page, encoding="utf-8")
    return path


def report(runs: Sequence[ReportedRun]) -> str:
    """Return the page."""
    by_thread: dict[str, dict[str, dict[str, int]]] = {}
    data: dict[str, Any] = {"charts": {}, "timelines": [], "flames": []}
    sections = []
    for number, run in enumerate(runs):
        timeline = timeline_of(run.rows, run.observed.path, run.shown, run.observed.causal_log)
        threads = threads_of(timeline.tracks)
        by_thread[run.name] = {track.name: own_times(track, run.shown) for track in threads}
        tracks, short_ps = overview(timeline)
        data["timelines"].append(_timeline(tracks, run.shown, short_ps))
        data["flames"].append(_frame(flame_of(threads)))
        drawn = counters_over_time(timeline.counters, run.shown)
        names = [f"counter-{number}-{place}" for place in range(len(drawn))]
        data["charts"].update(zip(names, drawn, strict=True))
        sections.append(_section(number, run, short_ps, names))
    data["charts"]["threads"] = time_by_thread(by_thread)
    files = importlib.resources.files("offloadrt.extensions.explaining").joinpath("page")
    page = Template(files.joinpath("page.html").read_text(encoding="utf-8"))
    return page.substitute(
        title=html.escape(" and ".join(run.page.command.removeprefix("offloadrt run ") for run in runs)),
        style=files.joinpath("page.css").read_text(encoding="utf-8"),
        comparison=_comparison(runs) if len(runs) > 1 else "",
        sections="\n".join(sections),
        bundle=bundle().replace("</script", "<\\/script"),
        data=json.dumps(data, separators=(",", ":")).replace("</", "<\\/"),
        script=files.joinpath("page.js").read_text(encoding="utf-8"),
    )


# ---------------------------------------------------------------------- text and tables


def _section(number: int, run: ReportedRun, short_ps: int, counters: Sequence[str]) -> str:
    page = run.page
    begin, end = run.shown
    unknown = [(key, entry) for key, entry in run.observed.spec.entries.items() if entry.is_range]
    parts = [
        f"<h2>{html.escape(run.name)}</h2>" if run.name else "",
        f'<p class="sentence">{html.escape(page.limit.sentence)}</p>',
        f"<p>{_how_run(page)}: {_time(page.elapsed_ps)}, {page.waited:.1%} of the critical path is waiting.</p>",
        *(
            f"<p class='note'>{html.escape(phase)}; the timeline shows those that were run.</p>"
            for phase in page.phases
        ),
        _what_if(page),
        _how_sure(page),
        "<h3>The critical path</h3><div class='columns'>",
        _shares("by resource", page.path_by_resource),
        _shares("by call", page.path_by_call),
        _shares("by line", page.path_by_line),
        "</div>",
        _resources(page),
        "<h3>Timeline</h3>",
        f"<p class='note'>{_time(begin)} to {_time(end)}. "
        + (f"Neighbours shorter than {_time(short_ps)} are drawn as one; a window shows all. " if short_ps else "")
        + "Drag or ← → to move, wheel or + − to zoom, Home for all, / to search, Tab and Enter to go from match to "
        "match. A slice of a lock names its holder.</p>",
        f"<div class='timeline' data-number='{number}'></div>",
        "<h3>Host threads' time by directive, call and wait</h3>",
        f"<div class='flame' data-number='{number}'></div>",
    ]
    if counters:
        parts.append("<h3>Memory, waiters and pages over time</h3>")
        parts += [f"<div class='chart' id='{name}'></div>" for name in counters]
    rows = [(key, _ends(entry), entry.source, entry.note) for key, entry in unknown]
    parts.append(
        f"<details><summary>{len(unknown)} entries of {html.escape(page.machine)} are ranges</summary>"
        + html_table("", ("entry", "range", "source", "note"), rows)
        + "</details>"
    )
    return f"<section>{''.join(parts)}</section>"


def _how_run(page: Page) -> str:
    return f"<code>{html.escape(page.command)}</code> on {html.escape(page.machine)} with {html.escape(page.runtime)}"


def _ends(entry: Any) -> str:
    factor = entry.unit.factor if entry.unit else 1.0
    return f"{entry.low / factor:g} to {entry.high / factor:g} {entry.unit.text if entry.unit else ''}"


def _what_if(page: Page) -> str:
    tried = page.tried.what_ifs[:_MOST_LINES]
    if not tried:
        return ""
    rows = [
        (
            one.change.name, one.change.kind, seconds(one.elapsed_s), f"{one.gain:.4g}",
            "" if one.interval is None else f"{one.interval.low:.4g} to {one.interval.high:.4g}",
        )
        for one in tried
    ]  # fmt: skip
    head = ("change", "kind", "elapsed", "gain", "80 % of the draws")
    return html_table(f"What if (gain in {page.tried.merit})", head, rows)


def _how_sure(page: Page) -> str:
    """Show in how many draws the sentence holds, what turns a gain round, and what to measure next."""
    rows = [("order effect", text) for text in page.order_effects]
    if page.sure is not None:
        rows.insert(0, ("the sentence", str(page.sure)))
        if (interval := page.sure.interval) is not None:
            rows.insert(
                0, (page.tried.merit, f"{seconds(interval.low)} to {seconds(interval.high)} in 80 % of the draws")
            )
        rows += [("measure next", str(decider)) for decider in page.sure.deciders]
    return html_table("How sure", ("", ""), rows)


def _shares(title: str, shares: Iterable[PathShare]) -> str:
    rows = [(one.name, _time(one.ps), f"{one.share:.1%}", f"{one.waited:.1%}") for one in list(shares)[:_MOST_LINES]]
    return html_table(title, ("", "time", "share", "waited"), rows)


def _resources(page: Page) -> str:
    rows = []
    for use in page.resources[:_MOST_LINES]:
        holders = "; ".join(map(_holder, use.holders))
        p95 = "–" if use.p95_queue is None else f"{use.p95_queue:.0f}"
        rows.append((use.name, f"{use.utilisation:.1%}", f"{use.mean_queue:.2f}", p95, holders))
    return html_table("Resources", ("", "in use", "mean queue", "95 %", "mostly by"), rows)


def _holder(holder: Holder) -> str:
    what = " in ".join(filter(None, (holder.call, holder.directive))) or "no directive"
    of = f" of {holder.array}" if holder.array else ""
    return f"{holder.share:.0%} {what}{of}" + (f" ({holder.place})" if holder.place else "")


def _comparison(runs: Sequence[ReportedRun]) -> str:
    first = runs[0].page
    rows = [
        (run.name, _time(run.page.elapsed_ps), f"{first.elapsed_ps / run.page.elapsed_ps:.4g}", run.page.limit.sentence)
        for run in runs
    ]
    return html_table("The runs side by side", ("run", "elapsed", "times as fast as the first", "what limits it"), rows)


def _time(ps: int) -> str:
    return seconds(ps * 1e-12)


# ---------------------------------------------------------------------- data for the script


def _timeline(tracks: Iterable[TimelineTrack], window: tuple[int, int], short_ps: int) -> dict[str, Any]:
    """Encode the slices in columns: begins as differences in ps, lengths, and texts by number."""
    texts: dict[str, int] = {}

    def number(text: str) -> int:
        return texts.setdefault(text, len(texts))

    encoded = []
    for track in tracks:
        before, begins = window[0], []
        for one in track.slices:
            begins.append(one.begin_ps - before)
            before = one.begin_ps
        encoded.append(
            {
                "group": track.group,
                "name": track.name,
                "path": track.group == CRITICAL_PATH,
                "begins": begins,
                "lengths": [one.ps for one in track.slices],
                "names": [number(one.name) for one in track.slices],
                "notes": [number(one.notes) for one in track.slices],
                "levels": [one.level for one in track.slices],
            }
        )
    return {"window": window, "short": short_ps, "tracks": encoded, "texts": list(texts)}


def _frame(frame: Frame) -> Mapping[str, Any]:
    inner = sorted(frame.inner.values(), key=lambda one: (-one.ps, one.name))
    return {"name": frame.name, "ps": frame.ps, "inner": [_frame(one) for one in inner]}
