"""`offloadrt report`: one self-contained HTML page that answers where the time of a run went.

`report` fills the template `page/page.html`. This module writes tables and still pictures as HTML and SVG; the timeline
is JSON in the page, which `page.js` draws. The page loads nothing from a network. `tracks.py` makes the tracks of the
timeline, `lines.py` the figures of each source line.
"""

from __future__ import annotations

import html
import importlib.metadata
import importlib.resources
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any, Final

import attrs

from offloadrt.extensions.drawing.notebook import html_table
from offloadrt.extensions.explaining.explain import Page
from offloadrt.extensions.explaining.lines import (
    LineUse,
    Roofline,
    RooflineKernel,
    Sources,
    lines_of,
    roofline_of,
)
from offloadrt.extensions.explaining.sentence import Holder, Observed, PathShare
from offloadrt.extensions.explaining.tracks import (
    CRITICAL_PATH,
    KINDS,
    PROGRAM,
    Counter,
    Frame,
    Timeline,
    TimelineTrack,
    by_number,
    flame_of,
    kind_of,
    kind_of_counter,
    means_of,
    overview,
    own_times,
    phases_of,
    threads_of,
    timeline_of,
)
from offloadrt.extensions.explaining.what_if import WhatIf, notes_on_work, tried_of
from offloadrt.study.errors import UserError, writing
from offloadrt.study.reporting.words import counted, named, percent, seconds, size
from offloadrt.study.running.execution import patient_collector
from offloadrt.trace import Row

_MOST_LINES = 12
_MOST_SOURCE_LINES = 20
_MOST_CURVES = 4
_MOST_KERNELS = 12
_KIND_NUMBERS: Final = {kind: number for number, kind in enumerate(KINDS)}
_DEVICE = "device "
_ONE_OF_MANY = re.compile(
    r" \(\d+\)$|(?<=^hidden helper thread) \d+$|(?<=^host thread) \d+$|(?<=^hardware queue) \d+$|"
    r"(?<=^rank) \d+(?=$| sends)|(?<=^kernel driver) \d+$|( \d+)? of process \d+$"
)


@attrs.frozen
class ReportedRun:
    """One run that a report shows: its name in the report, the page that `why` prints for it, and its events.

    `page` is what `why` prints, `observed` the recorded run, `rows` are all its events, and `sources` finds the text of
    source lines.
    """

    name: str
    page: Page
    observed: Observed
    rows: Sequence[Row] = attrs.field(repr=False)
    window: tuple[int, int] | None = None
    """Begin and end of the time to show, in picoseconds; None shows all that was measured."""
    sources: Sources = attrs.field(factory=Sources, repr=False)

    @property
    def shown(self) -> tuple[int, int]:
        """Return the begin and the end of the time that the report shows, in picoseconds."""
        whole = self.observed.windows[0][0], self.observed.windows[-1][1]
        return self.window or whole


def write_page(path: Path, page: str) -> Path:
    """Write a page to a file and return its path. Raises UserError when it is no .html or cannot be written."""
    if path.suffix != ".html":
        raise UserError(f"{path}: a report is a file that ends with .html")
    with writing(path) as part:
        part.write_text(page, encoding="utf-8")
    return path


@attrs.frozen
class _Drawn:
    """A run with all that the sections of the page need: timeline, tracks, source lines, and data for the script."""

    run: ReportedRun
    timeline: Timeline
    tracks: Sequence[TimelineTrack]
    short_ps: int
    lines: Sequence[LineUse]
    data: dict[str, Any]

    @classmethod
    def of(cls, run: ReportedRun) -> _Drawn:
        """Draw a run on a timeline and prepare its data."""
        log = run.observed.causal_log
        phases = phases_of(log)
        timeline = timeline_of(run.rows, run.observed.path, run.shown, log)
        tracks, short_ps = overview(timeline)
        data = {"name": run.name, "phases": phases, "flame": _frame(flame_of(threads_of(timeline.tracks)))}
        data |= _timeline(tracks, timeline.counters, run.shown, short_ps)
        return cls(run, timeline, tracks, short_ps, lines_of(run.observed), data)


@patient_collector()
def report(runs: Sequence[ReportedRun], *, date: str = "") -> str:
    """Return the HTML page of one or more runs. `date` is the day to print on it, as text; no clock is read here."""
    drawn = [_Drawn.of(run) for run in runs]
    data = {"kinds": list(KINDS.items()), "runs": [one.data for one in drawn]}
    sections = [
        _section("What would make it faster", "faster", drawn, _what_if),
        _section("The source, lines that matter first", "source", drawn, _source),
        _timeline_section(drawn),
        _section("Host threads", "threads", drawn, _threads),
        _section("Kernels, and where their regions belong", "kernels", drawn, _kernels),
        _section("The critical path and the resources", "path", drawn, _path),
        _section("How sure", "sure", drawn, _how_sure),
    ]
    files = importlib.resources.files("offloadrt.extensions.explaining").joinpath("page")
    page = Template(files.joinpath("page.html").read_text(encoding="utf-8"))
    return page.substitute(
        title=html.escape(" and ".join(run.page.command.removeprefix("offloadrt run ") for run in runs)),
        style=files.joinpath("page.css").read_text(encoding="utf-8"),
        header=_header(drawn, date),
        sections="\n".join(filter(None, sections)),
        data=json.dumps(data, separators=(",", ":")).replace("</", "<\\/"),
        script=files.joinpath("page.js").read_text(encoding="utf-8"),
    )


# ---------------------------------------------------------------------- the head of the page


def _header(drawn: Sequence[_Drawn], date: str) -> str:
    title = f"<h1>{html.escape(Path(drawn[0].run.page.scenario).name)}: where the time went</h1>"
    compared = _comparison([one.run for one in drawn]) if len(drawn) > 1 else ""
    answers = []
    for one in drawn:
        page = one.run.page
        name = f"<h2>{html.escape(one.run.name)}</h2>" if one.run.name else ""
        answers.append(
            f'<div class="answer">{name}<p class="sentence">{html.escape(page.limit.sentence)}</p>'
            f'<p class="note">{html.escape(_certainty(page))}</p>{_facts(page, date)}</div>'
        )
    return f'{title}{compared}<div class="{_columns(drawn)}">{"".join(answers)}</div>'


def _columns(drawn: Sequence[_Drawn]) -> str:
    return "runs" if len(drawn) > 1 else "run"


def _certainty(page: Page) -> str:
    if page.sure is None:
        return "No draw was run: a --budget, or a larger one, says in how many draws of uncertain costs this holds."
    text = f"This {page.sure}."
    if page.sure.interval is not None:
        low, high = seconds(page.sure.interval.low), seconds(page.sure.interval.high)
        text += f" {page.tried.merit} is {low} to {high} in 80 % of the draws"
        real = page.sure.prediction_interval
        between = "" if real is None else f"{seconds(real.low)} to {seconds(real.high)} in four of five cases"
        text += f", on a real machine {between}." if between else "."
    return text


def _facts(page: Page, date: str) -> str:
    facts = {
        "elapsed": f"{_time(page.elapsed_ps)} of virtual time; {percent(page.waited)} of the critical path is waiting",
        "program": page.scenario,
        "parameters": named(page.parameters) or "none",
        "machine": page.machine,
        "runtime": page.runtime or "none",
        "made by": f"offloadrt {importlib.metadata.version('offloadrt')}" + (f" on {date}" if date else ""),
    }
    rows = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in facts.items())
    command = html.escape(page.command)
    phases = "".join(f"<dt></dt><dd>{html.escape(phase)}</dd>" for phase in page.phases)
    return f'<dl>{rows}{phases}<dt>to repeat it</dt><dd><code class="command">{command}</code></dd></dl>'


def _comparison(runs: Sequence[ReportedRun]) -> str:
    first = runs[0]
    works = [run.observed.work.over(first.observed.work) for run in runs]
    differs = works[0] is not None and set(works) != {1.0}
    rows = []
    for run, work in zip(runs, works, strict=True):
        faster = first.page.elapsed_ps / run.page.elapsed_ps
        for_equal = ("other work", "") if work is None else (f"{work:.3g}", f"{work * faster:.4g}")
        figures = (f"{faster:.4g}", *(for_equal if differs else ()))
        rows.append((run.name, _time(run.page.elapsed_ps), *figures, run.page.limit.sentence))
    more = ("times its work", "for equal work") if differs else ()
    head = ("run", "elapsed", "times as fast as the first", *more, "what limits it")
    return _scrolled(html_table("The runs side by side", head, rows))


def _section(title: str, name: str, drawn: Sequence[_Drawn], content: Any) -> str:
    """Return a section as HTML, with a column for each run; empty if `content` is empty for every run."""
    bodies = [content(one) for one in drawn]
    if not any(bodies):
        return ""
    if len(drawn) > 1:
        bodies = [
            f"<div><h3>{html.escape(one.run.name)}</h3>{body}</div>" for one, body in zip(drawn, bodies, strict=True)
        ]
    return f'<section id="{name}"><h2>{title}</h2><div class="{_columns(drawn)}">{"".join(bodies)}</div></section>'


def _scrolled(table: str) -> str:
    return f'<div class="scroll">{table}</div>' if table else ""


# ---------------------------------------------------------------------- what if


def _what_if(one: _Drawn) -> str:
    page = one.run.page
    tried = page.tried.what_ifs[:_MOST_LINES]
    if not tried:
        return '<p class="note">No change was tried: a --budget, or a larger one, tries the most promising ones.</p>'
    gains = [
        1.0,
        1.1,
        *(what_if.gain for what_if in tried),
        *(end for w in tried if (i := w.interval) for end in (i.low, i.high)),
    ]
    span = min(gain for gain in gains if gain > 0.0), max(gain for gain in gains if math.isfinite(gain))
    has_draws = any(what_if.interval is not None for what_if in tried)
    rows = "".join(_change_row(what_if, span, has_draws) for what_if in tried)
    names = ("change", "gain", *(["80 % of the draws"] if has_draws else []), "", "elapsed", "kind")
    head = f"<tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>"
    caption = f"<caption>Gain in {html.escape(page.tried.merit)}</caption>"
    table = f'<table class="changes">{caption}<thead>{head}</thead><tbody>{rows}</tbody></table>'
    left = ". ".join(
        [*(html.escape(note) for note in notes_on_work(page.tried, _MOST_LINES)), f"{tried_of(page.tried)}."]
    )
    effects = "".join(f"<p>An order effect: {html.escape(text)}.</p>" for text in page.order_effects[:_MOST_CURVES])
    curves = [what_if for what_if in tried if what_if.curve][:_MOST_CURVES]
    return f'{_scrolled(table)}<p class="note">{left}</p>{effects}{_curves(curves)}'


def _change_row(tried: WhatIf, span: tuple[float, float], has_draws: bool) -> str:
    """Return a table row of a change: a bar from gain 1 to its gain, on a log scale, and a line over its interval."""
    between = "" if tried.interval is None else f"{tried.interval.low:.4g} to {tried.interval.high:.4g}"

    def x(gain: float) -> float:
        return 120 * math.log(min(max(gain, span[0]), span[1]) / span[0]) / math.log(span[1] / span[0])

    bar = f'<rect x="{min(x(1.0), x(tried.gain)):.1f}" y="3" width="{abs(x(tried.gain) - x(1.0)):.1f}" height="8"/>'
    if tried.interval is not None:
        bar += f'<path d="M{x(tried.interval.low):.1f} 7H{x(tried.interval.high):.1f}"/>'
    picture = f'<svg class="gain" width="122" height="14" aria-hidden="true"><path d="M{x(1.0):.1f} 0V14"/>{bar}</svg>'
    cells = (tried.change.name, f"{tried.gain:.4g}", *([between] if has_draws else []))
    first = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
    last = "".join(f"<td>{html.escape(cell)}</td>" for cell in (seconds(tried.elapsed_s), tried.change.kind))
    return f"<tr title='{html.escape(tried.command, quote=True)}'>{first}<td>{picture}</td>{last}</tr>"


def _curves(tried: Sequence[WhatIf]) -> str:
    """Plot the gain over the share by which each leading cost is reduced, as Coz does (Curtsinger and Berger 2015)."""
    if not tried:
        return ""
    lines = []
    for what_if in tried:
        gains = {0.0: 1.0, 1.0: what_if.gain} | {1.0 - point.part: point.gain for point in what_if.curve}
        lines.append((what_if.change.name, sorted(gains.items())))
    low = min(1.0, *(gain for _, points in lines for _, gain in points))
    high = max(1.01, *(gain for _, points in lines for _, gain in points))

    def x(part: float) -> float:
        return 52 + 380 * part

    def y(gain: float) -> float:
        return 170 - 150 * (gain - low) / (high - low)

    parts = [f'<path class="grid" d="M{x(0)} {y(1.0):.1f}H{x(1)}"/>']
    quarters = (0.0, 0.25, 0.5, 0.75, 1.0)
    parts += [f'<text x="{x(part)}" y="188" text-anchor="middle">{part:.0%}</text>' for part in quarters]
    parts += [
        f'<text x="{x(0) - 6}" y="{y(gain) + 4:.1f}" text-anchor="end">{gain:.3g}</text>'
        for gain in sorted({1.0, low, high})
    ]
    for number, (_, points) in enumerate(lines):
        d = "L".join(f"{x(part):.1f} {y(gain):.1f}" for part, gain in points)
        dots = "".join(f'<circle cx="{x(part):.1f}" cy="{y(gain):.1f}" r="3"/>' for part, gain in points)
        parts.append(f'<g class="line{number}"><path d="M{d}"/>{dots}</g>')
    parts.append('<text x="242" y="206" text-anchor="middle">how much cheaper the cost is</text>')
    names = "".join(f'<li class="line{number}">{html.escape(name)}</li>' for number, (name, _) in enumerate(lines))
    about = 'role="img" aria-label="gain over the part of each cost that is gone"'
    picture = f'<svg class="curves" viewBox="0 0 460 212" {about}>{"".join(parts)}</svg>'
    caption = "<figcaption>Gain by how much cheaper each leading cost gets</figcaption>"
    return f"<figure>{caption}{picture}<ul>{names}</ul></figure>"


# ---------------------------------------------------------------------- the source


def _source(one: _Drawn) -> str:
    lines = [use for use in one.lines if use.path_ps or use.threads_ps]
    if not lines:
        return ""
    whole = one.run.page.elapsed_ps or 1
    has_faults = any(use.faulted_pages for use in lines)
    head = [
        "line",
        "critical path",
        "host threads",
        "of it waiting",
        "kernels",
        "moved",
        *["faulted pages"] * has_faults,
        "",
    ]
    rows = [_line_row(use, whole, one.run.sources, has_faults) for use in lines]
    cells = "".join(f"<th>{cell}</th>" for cell in head)
    first, rest = (
        _scrolled(f'<table class="source"><thead><tr>{cells}</tr></thead><tbody>{"".join(of)}</tbody></table>')
        for of in (rows[:_MOST_SOURCE_LINES], rows[_MOST_SOURCE_LINES:])
    )
    folded = f"<details><summary>{counted(len(rows) - _MOST_SOURCE_LINES, 'line')} more</summary>{rest}</details>"
    table = first + (folded if len(rows) > _MOST_SOURCE_LINES else "")
    missing = sorted({use.place.rpartition(":")[0] for use in lines if not one.run.sources.text(use.place)})
    note = "A line's time is that of its directives, on all threads. Choose a line to mark its slices in the timeline."
    if missing and any(missing):
        note += f" Not found: {', '.join(filter(None, missing))}; --source DIR says where it is."
    return f'{table}<p class="note">{html.escape(note)}</p>{_listing(lines, whole, one.run.sources)}'


def _line_row(use: LineUse, whole: int, sources: Sources, has_faults: bool) -> str:
    moved = ", ".join(f"{size(nbytes)} {direction}" for direction, nbytes in use.bytes.items() if nbytes)
    waiting = use.waits_ps / use.threads_ps if use.threads_ps else 0.0
    cells = [
        f"{use.path_ps / whole:.1%}", _time(use.threads_ps), f"{waiting:.0%}" if waiting else "",
        _time(use.kernels_ps) if use.kernels_ps else "", moved, *[f"{use.faulted_pages:,}"] * has_faults,
    ]  # fmt: skip
    place = html.escape(use.place, quote=True)
    what = ", ".join(f"{count:,} × {name}" for name, count in use.directives.items())
    text = html.escape(sources.text(use.place) or what)
    share = min(100.0, 100 * use.path_ps / whole)
    return (
        f'<tr><td><button type="button" class="to-slices" data-place="{place}">{place}</button></td>'
        f'<td class="share" style="--share: {share:.1f}%">{cells[0]}</td>'
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells[1:])
        + f'<td class="code" title="{html.escape(what, quote=True)}">{text}</td></tr>'
    )


def _listing(lines: Sequence[LineUse], whole: int, sources: Sources) -> str:
    """Show each source file's lines around its directives, with each line's share of the critical path."""
    files: dict[str, dict[int, LineUse]] = {}
    for use in lines:
        file, _, at = use.place.rpartition(":")
        if at.isdigit() and sources.file(file):
            files.setdefault(file, {})[int(at)] = use
    parts = []
    for name, uses in files.items():
        text = sources.file(name)
        wanted = sorted({n for number in uses for n in range(number - 3, number + 4) if 0 < n <= len(text)})
        rows, before = [], 0
        for number in wanted:
            if number > before + 1:
                rows.append('<div class="gap">⋯</div>')
            before = number
            found = uses.get(number)
            share = "" if found is None else f"{found.path_ps / whole:.1%}"
            width = 0.0 if found is None else min(100.0, 100 * found.path_ps / whole)
            code = html.escape(text[number - 1].rstrip()) or " "
            rows.append(
                f'<div style="--share: {width:.1f}%"><span class="number">{number}</span>'
                f'<span class="share">{share}</span><code>{code}</code></div>'
            )
        listing = f'<div class="listing">{"".join(rows)}</div>'
        parts.append(f'<details class="source"><summary>{html.escape(name)}</summary>{listing}</details>')
    return "".join(parts)


# ---------------------------------------------------------------------- the timeline


def _timeline_section(drawn: Sequence[_Drawn]) -> str:
    keys = (
        "Drag to move, double-click or + to zoom in, − to zoom out, Ctrl with the wheel to zoom, 0 for all; arrows "
        "move and choose a row, space folds it; / searches, Enter goes from match to match. A slice of a lock names "
        "its holder."
    )
    short = "".join(
        f" Slices{f' of {one.run.name}' if one.run.name else ''} shorter than {_time(one.short_ps)} are drawn together."
        for one in drawn
        if one.short_ps
    )
    spans = "; ".join(
        f"{f'{one.run.name}: ' if one.run.name else ''}{_time(one.run.shown[1] - one.run.shown[0])} from "
        f"{_time(one.run.shown[0])} on"
        for one in drawn
    )
    return (
        f'<section id="timeline"><h2>Timeline</h2><p class="note">{html.escape(spans)}.{html.escape(short)}</p>'
        '<div class="legend" role="group" aria-label="kinds of work"></div><div class="timeline"></div>'
        f'<p class="chosen" role="status" aria-live="polite"></p><p class="note keys">{html.escape(keys)}</p></section>'
    )


def _timeline(
    tracks: Iterable[TimelineTrack], counters: Iterable[Counter], window: tuple[int, int], short_ps: int
) -> dict[str, Any]:
    """Encode tracks as columns for page.js: begins as differences in ps, lengths in ps, names as numbers of texts."""
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
                "family": _ONE_OF_MANY.sub("", track.name),
                "path": track.group == CRITICAL_PATH,
                "begins": begins,
                "lengths": [one.ps for one in track.slices],
                "names": [number(one.name) for one in track.slices],
                "notes": [number(one.notes) for one in track.slices],
                "levels": [one.level for one in track.slices],
                "kinds": [_KIND_NUMBERS[kind_of(track, one)] for one in track.slices],
                "fills": [round(one.fill, 2) for one in track.slices] if any(s.fill < 1 for s in track.slices) else [],
            }
        )
    names = list(dict.fromkeys(counter.name for counter in counters))
    ordered = sorted(counters, key=lambda counter: (names.index(counter.name), by_number(counter.group)))
    several = len({counter.group for counter in counters if counter.group.startswith(_DEVICE)}) > 1
    return {
        "window": window,
        "short": short_ps,
        "tracks": encoded,
        "texts": list(texts),
        "counters": [drawn for one in ordered if any((drawn := _counter(one, window, several))["most"])],
    }


def _counter(counter: Counter, window: tuple[int, int], several: bool) -> dict[str, Any]:
    pieces = means_of(counter, window)
    before, begins = window[0], []
    for begin, _, _ in pieces:
        begins.append(begin - before)
        before = begin
    return {
        "group": counter.group,
        "name": f"{counter.group}: {counter.name}" if several and counter.group.startswith(_DEVICE) else counter.name,
        "unit": counter.unit,
        "kind": _KIND_NUMBERS[kind_of_counter(counter)],
        "begins": begins,
        "means": [round(mean, 3) for _, mean, _ in pieces],
        "most": [most for _, _, most in pieces],
    }


# ---------------------------------------------------------------------- host threads


def _threads(one: _Drawn) -> str:
    """Draw one bar for each host thread, divided by kinds of work; the script draws the flame graph below."""
    threads = threads_of(one.timeline.tracks)
    window = one.run.shown
    whole = window[1] - window[0] or 1
    bars = []
    for track in threads:
        times = own_times(track, window)
        parts = "".join(
            f'<span style="width: {100 * times[kind] / whole:.2f}%; background: {KINDS.get(kind, "transparent")}" '
            f'title="{html.escape(kind)}: {_time(times[kind])}, {times[kind] / whole:.1%}"></span>'
            for kind in (*KINDS, PROGRAM)
            if times.get(kind)
        )
        bars.append(f'<div class="bar"><span class="name">{html.escape(track.name)}</span><span>{parts}</span></div>')
    shown, more = "".join(bars[:_MOST_LINES]), bars[_MOST_LINES:]
    if more:
        shown += f"<details><summary>{counted(len(more), 'thread')} more</summary>{''.join(more)}</details>"
    return (
        '<p class="note">The whole width is the time shown, the colours are those of the timeline; what is blank is '
        f'outside of directives.</p><div class="bars">{shown}</div>'
        f'<h3>By directive, call and wait</h3><div class="flame"></div>'
    )


def _frame(frame: Frame) -> Mapping[str, Any]:
    inner = sorted(frame.inner.values(), key=lambda one: (-one.ps, one.name))
    kind = _KIND_NUMBERS.get(frame.kind, -1)
    return {"name": frame.name, "ps": frame.ps, "kind": kind, "inner": [_frame(one) for one in inner]}


# ---------------------------------------------------------------------- kernels


def _kernels(one: _Drawn) -> str:
    roofline = roofline_of(one.run.observed)
    if roofline is None:
        return ""
    rows = [
        (
            kernel.name, kernel.place, f"{kernel.launches:,}", seconds(kernel.seconds / kernel.launches),
            f"{kernel.intensity:.3g}" if kernel.flops else "0",
            f"{kernel.flops / kernel.seconds / 1e9:.4g} Gflop/s" if kernel.seconds else "",
            f"{kernel.bytes / kernel.seconds / 1e9:.4g} GB/s" if kernel.seconds else "",
            f"{roofline.reached(kernel):.1%} of {roofline.bound_of(kernel)}",
        )
        for kernel in roofline.kernels[:_MOST_KERNELS]
    ]  # fmt: skip
    head = ("kernel", "line", "launches", "mean time", "flop/byte", "attained", "drawn", "of its ceiling")
    verdicts = [
        (
            verdict.place,
            f"{verdict.runs:,}",
            *map(seconds, (verdict.as_run_s, verdict.mapped_s, verdict.host_s)),
            verdict.best,
        )
        for verdict in one.run.page.verdicts[:_MOST_KERNELS]
    ]
    columns = ("line", "launches", "as it ran", "data kept mapped", "on the host", "where it belongs")
    note = (
        "As it ran: the host threads' time in the line's target regions. Data kept mapped: launches and kernels alone. "
        "On the host: the kernels' counted work on the modelled cores, as if(target: 0) runs it. Estimates; the "
        "transfers of data that is kept mapped are made elsewhere."
    )
    tables = _scrolled(html_table("", head, rows)) + _scrolled(
        html_table("Where each region belongs", columns, verdicts)
    )
    text = f'<p class="note">{note}</p>' if verdicts else ""
    return f"{_roofline_picture(roofline)}{tables}{text}"


def _roofline_picture(roofline: Roofline) -> str:
    """Draw the roofline on logarithmic axes, with a dot for each kernel that grows with its share of the time."""
    kernels = [kernel for kernel in roofline.kernels if kernel.flops and kernel.bytes and kernel.seconds]
    if not kernels:
        return ""
    ridge = roofline.peak / roofline.bandwidth
    low = 10 ** math.floor(math.log10(min([ridge / 10, *(kernel.intensity for kernel in kernels)])))
    high = 10 ** math.ceil(math.log10(max([ridge * 10, *(kernel.intensity for kernel in kernels)])))
    top = max(roofline.peak, roofline.single_peak) * 2
    bottom = 10 ** math.floor(math.log10(min([low * roofline.bandwidth, *(k.flops / k.seconds for k in kernels)])))

    def x(intensity: float) -> float:
        return 70 + 380 * math.log10(intensity / low) / math.log10(high / low)

    def y(rate: float) -> float:
        return 250 - 230 * math.log10(rate / bottom) / math.log10(top / bottom)

    parts = []
    for rate, text, below in ((roofline.peak, "double", 13), (roofline.single_peak, "single", -4)):
        corner = rate / roofline.bandwidth
        start = max(low, bottom / roofline.bandwidth)
        roof = f"M{x(start):.1f} {y(start * roofline.bandwidth):.1f}L{x(corner):.1f} {y(rate):.1f}H450"
        name = f"{rate / 1e12:.3g} Tflop/s, {text} precision"
        label = f'<text x="448" y="{y(rate) + below:.1f}" text-anchor="end">{name}</text>'
        parts.append(f'<path class="roof" d="{roof}"/>{label}')
    middle = math.sqrt(low * ridge)
    at = f'x="{x(middle) - 8:.1f}" y="{y(middle * roofline.bandwidth) - 8:.1f}"'
    parts.append(f'<text {at} text-anchor="end">{roofline.bandwidth / 1e9:.4g} GB/s</text>')
    step = low
    while step <= high * 1.01:
        parts.append(f'<text x="{x(step):.1f}" y="266" text-anchor="middle">{step:g}</text>')
        step *= 10
    rate = bottom
    while rate <= top:
        parts.append(f'<text x="64" y="{y(rate) + 4:.1f}" text-anchor="end">{rate / 1e9:g}</text>')
        parts.append(f'<path class="grid" d="M70 {y(rate):.1f}H450"/>')
        rate *= 100
    whole = sum(kernel.seconds for kernel in kernels)
    parts += [
        _dot(kernel, x(kernel.intensity), y(kernel.flops / kernel.seconds), kernel.seconds / whole)
        for kernel in reversed(kernels[:_MOST_KERNELS])
    ]
    parts.append('<text x="260" y="284" text-anchor="middle">flop for each byte of the device\'s memory</text>')
    parts.append('<text transform="translate(14 140) rotate(-90)" text-anchor="middle">Gflop/s</text>')
    return (
        '<figure><figcaption>Roofline</figcaption><svg class="roofline" viewBox="0 0 480 290" role="img" '
        f'aria-label="kernels under the roofline of the device">{"".join(parts)}</svg></figure>'
    )


def _dot(kernel: RooflineKernel, x: float, y: float, share: float) -> str:
    radius = 3 + 9 * share**0.5
    name = (
        f'<text x="{x + radius + 3:.1f}" y="{y + 4:.1f}">{html.escape(kernel.name[:28])}</text>' if share > 0.1 else ""
    )
    title = f"{kernel.name} ({kernel.place}): {seconds(kernel.seconds)}"
    circle = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{KINDS["kernel"]}">'
    dot = f"{circle}<title>{html.escape(title)}</title></circle>"
    return dot + name


# ---------------------------------------------------------------------- the critical path, resources, and how sure


def _path(one: _Drawn) -> str:
    page = one.run.page
    tables = [
        _scrolled(_shares("by resource", page.path_by_resource)),
        _scrolled(_shares("by call", page.path_by_call)),
        _scrolled(_shares("by line", page.path_by_line)),
        *([_scrolled(_shares("by phase", page.path_by_phase))] if page.path_by_phase else []),
    ]
    return f'<div class="columns">{"".join(tables)}</div>{_scrolled(_resources(page))}'


def _shares(title: str, shares: Iterable[PathShare]) -> str:
    rows = [(one.name, _time(one.ps), f"{one.share:.1%}", f"{one.waited:.1%}") for one in list(shares)[:_MOST_LINES]]
    return html_table(title, ("", "time", "share", "waited"), rows)


def _resources(page: Page) -> str:
    """Return the table of resources; the holders of each have a row of their own, which can wrap on narrow screens."""
    rows = []
    for use in page.resources[:_MOST_LINES]:
        p95 = "–" if use.p95_queue is None else f"{use.p95_queue:.0f}"
        cells = (use.name, f"{use.utilisation:.1%}", f"{use.mean_queue:.2f}", p95)
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
        if use.holders:
            holders = html.escape("; ".join(map(_holder, use.holders)))
            rows.append(f'<tr class="holders"><td colspan="4">{holders}</td></tr>')
    if not rows:
        return ""
    head = "".join(f"<th>{cell}</th>" for cell in ("", "in use", "mean queue", "95 %"))
    caption = "<caption>Resources, and who mostly held them</caption>"
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<table class="resources">{caption}{body}</table>'


def _holder(holder: Holder) -> str:
    what = " in ".join(filter(None, (holder.call, holder.directive))) or "no directive"
    of = f" of {holder.array}" if holder.array else ""
    return f"{holder.share:.0%} {what}{of}" + (f" ({holder.place})" if holder.place else "")


def _how_sure(one: _Drawn) -> str:
    """Show how many draws agree with the sentence, which entry to measure next, and the machine's uncertain entries."""
    page = one.run.page
    rows: list[tuple[str, str]] = []
    if page.sure is not None:
        if (interval := page.sure.interval) is not None:
            between = f"{seconds(interval.low)} to {seconds(interval.high)} in 80 % of the draws"
            rows.append((page.tried.merit, between))
        if page.sure.prediction_interval is not None:
            rows.append(("", str(page.sure.prediction_interval)))
        rows.append(("the sentence", str(page.sure)))
        rows += [("measure next", str(decider)) for decider in page.sure.deciders]
    unknown = [(key, entry) for key, entry in one.run.observed.spec.entries.items() if entry.is_range]
    ranges = [(key, _ends(entry), entry.source, entry.note) for key, entry in unknown]
    if not ranges:
        return _scrolled(html_table("", ("", ""), rows))
    return (
        _scrolled(html_table("", ("", ""), rows))
        + f"<details><summary>{len(unknown)} entries of {html.escape(page.machine)} are ranges</summary>"
        + _scrolled(html_table("", ("entry", "range", "source", "note"), ranges))
        + "</details>"
    )


def _ends(entry: Any) -> str:
    factor = entry.unit.factor if entry.unit else 1.0
    return f"{entry.low / factor:g} to {entry.high / factor:g} {entry.unit.text if entry.unit else ''}"


def _time(ps: int) -> str:
    return seconds(ps * 1e-12)
