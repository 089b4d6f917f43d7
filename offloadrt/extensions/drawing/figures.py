"""The figure of a sweep: one measured figure over one parameter, with a line for each value of the others.

A `PublishedPoint` of a figure names a claim of a paper; `PUBLISHED` finds the runs of a panel that it is about, and
`draw_mark` draws it there with hollow markers. Claims are read when a figure is drawn: no program can use them while it
runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np

from offloadrt.extensions.drawing.notebook import html_of as html_of
from offloadrt.extensions.drawing.panels import (
    COLOURS,
    Series,
    draw_panel,
    is_wide,
    label,
    new_canvas,
    number_of,
    quantity,
    save,
    series_of,
)
from offloadrt.extensions.drawing.panels import (
    check_type as check_type,
)
from offloadrt.registry import Registry
from offloadrt.study.errors import UserError, did_you_mean, library, writing
from offloadrt.study.reporting.results import Interval, Result, row
from offloadrt.study.reporting.words import Cell, is_number, seconds, where
from offloadrt.study.reporting.words import named as named_as
from offloadrt.study.scripts.definition import Figure, Scenario

PUBLISHED: Final = Registry[Any]("reader of published points", "offloadrt.published")
"""Functions that return the `Mark`s of a panel. They are called with the figure, the value of the panel's parameter,
the panel's series, the parameters of all runs of the figure, and the factor from seconds to the unit of times along y.
"""


@attrs.frozen
class Mark:
    """A published number to draw beside the runs: its positions along x, with the lowest and highest value at each.

    `label` is its text in the legend. `role` is the role of the claim that states it: `predict`, or `calibrate` if
    parameters may have been fitted to it. `colour` and `marker` are matplotlib's. `x` are the positions, `low` and
    `high` the ends of the value's range at each.
    """

    label: str
    role: str
    colour: str
    x: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    """`low` and `high` are values along y. If they are empty, the mark is a vertical line at x."""
    marker: str = "D"
    is_curve: bool = False
    """True if the number is about all runs along x and is drawn as a line or band; False if it is about one run."""


def draw_mark(area: Any, mark: Mark) -> None:
    """Draw a published value with hollow markers, a range as a bar or band, and a value of x as a vertical line.

    area: the panel, one of the axes of the figure of matplotlib.
    """
    dashed = (0, (4, 3))
    hollow = {"markerfacecolor": "white", "markeredgecolor": mark.colour, "markeredgewidth": 1.6, "zorder": 5}
    if not mark.low:
        area.axvline(mark.x[0], color=mark.colour, linestyle=dashed, linewidth=1.3, zorder=1.5)
    elif mark.low == mark.high:
        line = dashed if mark.is_curve else "none"
        hollow |= {"linestyle": line, "linewidth": 1.3, "marker": mark.marker, "markersize": 7.0}
        area.plot(mark.x, mark.low, color=mark.colour, **hollow)
    elif mark.is_curve:
        area.fill_between(mark.x, mark.low, mark.high, color=mark.colour, alpha=0.13, linewidth=0, zorder=0.8)
        for edge in (mark.low, mark.high):
            area.plot(mark.x, edge, color=mark.colour, linestyle=dashed, linewidth=1.2, zorder=0.9)
    else:
        area.vlines(mark.x, mark.low, mark.high, color=mark.colour, linewidth=1.6, zorder=4)
        for edge in (mark.low, mark.high):
            area.plot(mark.x, edge, linestyle="none", marker=mark.marker, markersize=5.0, clip_on=False, **hollow)


_APART = 9.5
"""The least distance, in points, between the names at the right ends of lines; nearer ones are moved apart."""
_FULL = 0.9
"""The part of a panel's height that names at lines may take; if they need more, a legend is drawn."""
_EARLY = 0.06
"""If a line ends more than this part of the panel's width before the others, its name stands inside the panel."""
_BESIDE = 1.012
"""The position along x, in widths of a panel, at which the names of lines begin."""
_DISTANCES = (9.0, 16.0, 26.0, 40.0, 60.0)
"""Distances, in points, that are tried between a published point and its name."""
_DIRECTIONS = tuple(
    (across, up)
    for up in (1.0, 0.0, -1.0)
    for across in (0.0, 0.5, -0.5, 0.8, -0.8, 1.0, -1.0)
    if up or abs(across) == 1
)
"""Directions (across, up) that are tried from a point to its name; 1 is wholly to its right, or wholly above it."""
_FAR = 0.25
"""One point of distance costs as much as so many covered pixels of lines."""
_LEADER = 20.0
"""From this distance on, in points, a thin line leads from a name to its point."""
_STEP = 4.0
"""The distance, in pixels, of the points that stand for a line when covered pixels are counted."""
_MARKER = np.stack(np.meshgrid((-8.0, 0.0, 8.0), (-8.0, 0.0, 8.0)), axis=-1).reshape(-1, 2)
"""Offsets, in pixels, of the points that stand for a marker when covered pixels are counted."""


def name_lines(canvas: Any, panels: Sequence[tuple[Any, Sequence[Series]]], title: str) -> bool:
    """Write the names of lines at their right ends; return False, and write none, if a panel has too many lines.

    canvas: the figure of matplotlib. panels: each panel's axes with its lines. title: a heading above the names, in the
    last panel.
    """
    canvas.draw_without_rendering()
    gap = _APART * canvas.dpi / 72
    for area, series in panels:
        if len(series) * gap > _FULL * area.bbox.height:
            return False
    for area, series in panels:
        ends = sorted(((_pixels(area, one)[-1], one) for one in series), key=lambda end: float(end[0][1]))
        last = max(float(end[0]) for end, _ in ends)
        late = [(end, one) for end, one in ends if end[0] >= last - _EARLY * area.bbox.width]
        heights = _apart([float(end[1]) for end, _ in late], gap, area.bbox.y0, area.bbox.y1)
        for (end, one), height in zip(late, heights, strict=True):
            leader = {"arrowstyle": "-", "color": one.colour, "linewidth": 0.7, "shrinkA": 0, "shrinkB": 4}
            area.annotate(
                one.name, (one.points[-1].at, one.points[-1].y), va="center", fontsize="small", color=one.colour,
                xytext=(_BESIDE, area.transData.inverted().transform((end[0], height))[1]),
                textcoords=area.get_yaxis_transform(),
                annotation_clip=False,
                arrowprops=leader if abs(height - float(end[1])) > gap / 4 else None,
            )  # fmt: skip
    if title:
        area = panels[-1][0]
        area.text(_BESIDE, 1.0, title, transform=area.transAxes, va="bottom", fontsize="small", color="#303030")
    return True


def name_inside(canvas: Any, area: Any, series: Sequence[Series], marks: Sequence[Mark], *, lines: bool) -> None:
    """Write names inside a panel: of published points, each name once, and if `lines`, of lines that end early.

    Each name is put where it covers least of the drawing. The panel must have its final size. canvas: the figure of
    matplotlib. area: the panel, which is one of its axes. series, marks: the panel's lines and published points.
    """
    ends = [(float(_pixels(area, one)[-1][0]), one) for one in series if lines]
    for end, one in ends:
        if end < max(end for end, _ in ends) - _EARLY * area.bbox.width:
            _name(canvas, area, series, one.name, [(one.points[-1].at, one.points[-1].y)], one.colour)
    _name_marks(canvas, area, series, marks)


def _apart(heights: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move ascending heights apart to distances of `gap` pixels, each as little as possible, within `low` to `high`."""
    groups: list[list[float]] = []
    for height in heights:
        groups.append([height])
        while len(groups) > 1 and _first(groups[-1], gap) - _first(groups[-2], gap) < len(groups[-2]) * gap:
            last = groups.pop()
            groups[-1] += last
    moved = [_first(group, gap) + number * gap for group in groups for number in range(len(group))]
    shift = max(0.0, low + gap / 2 - moved[0]) + min(0.0, high - gap / 2 - moved[-1])
    return [height + shift for height in moved]


def _first(group: Sequence[float], gap: float) -> float:
    """Return the lowest height of a group of names that is centred on the mean of their wanted heights."""
    return sum(group) / len(group) - (len(group) - 1) / 2 * gap  # of pixels: nothing emulated depends on their sum


def _name_marks(canvas: Any, area: Any, series: Sequence[Series], marks: Sequence[Mark]) -> None:
    for text, colour in dict.fromkeys((mark.label, mark.colour) for mark in marks):
        own = [mark for mark in marks if (mark.label, mark.colour) == (text, colour)]
        if own[0].low:
            points = [point for mark in own for point in zip(mark.x, mark.high, strict=True)]
            _name(canvas, area, series, text, points, colour)
        else:
            to_data = (area.transAxes + area.transData.inverted()).transform
            points = [(own[0].x[0], float(to_data((0.0, part / 20))[1])) for part in range(19, 0, -1)]
            _name(canvas, area, series, text, points, colour, ((-1, 0), (1, 0)))


def _name(
    canvas: Any, area: Any, series: Sequence[Series], text: str, points: Sequence[tuple[float, float]], colour: str,
    directions: Sequence[tuple[float, float]] = _DIRECTIONS,
) -> None:  # fmt: skip
    """Write a text near one of several points, in the direction in which it covers least of the drawing."""
    covered = _covered(area, series)
    note = area.annotate(
        text, points[0], xytext=(0, 0), textcoords="offset points", ha="center", va="center", fontsize="small",
        color=colour, zorder=6,
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.75},
        arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.7, "shrinkA": 2, "shrinkB": 4},
    )  # fmt: skip
    extent = note.get_window_extent()
    width, height = extent.width, extent.height
    scale = canvas.dpi / 72
    best: tuple[float, int, tuple[float, float], tuple[float, float]] | None = None
    for number, (distance, point, (across, up)) in enumerate(
        (distance, point, direction) for distance in _DISTANCES for point in points for direction in directions
    ):
        offset = (across * (width / 2 + distance * scale), up * (height / 2 + distance * scale))
        x, y = area.transData.transform(point) + np.array(offset)
        low, high = (x - width / 2, y - height / 2), (x + width / 2, y + height / 2)
        hidden = float(np.all((covered >= low) & (covered <= high), axis=1).sum())
        box = area.bbox
        beyond = max(0.0, box.x0 - low[0], high[0] - box.x1) + max(0.0, box.y0 - low[1], high[1] - box.y1)
        cost = hidden + _FAR * distance + 10.0 * beyond
        if best is None or (cost, number) < best[:2]:
            best = (cost, number, point, offset)
    assert best is not None
    _, _, point, offset = best
    note.xy = point
    note.set_position((offset[0] / scale, offset[1] / scale))
    near = best[1] < len(points) * len(directions) * sum(distance < _LEADER for distance in _DISTANCES)
    note.arrow_patch.set_visible(not near)


def _covered(area: Any, series: Sequence[Series]) -> Any:
    """Return pixels of a panel that names should not cover: along lines, in bars, at markers, and in other names."""
    points = [_dense(_pixels(area, one)) for one in series if not area.patches]
    for line in area.get_lines():
        if line.get_transform() == area.transData:  # not the lines that cross the whole panel
            drawn = np.asarray(area.transData.transform(line.get_xydata()))
            points += [_dense(drawn), (drawn[:, None, :] + _MARKER).reshape(-1, 2)]
    boxes = [bar.get_window_extent() for bar in area.patches]
    boxes += [text.get_window_extent() for text in area.texts]
    for box in boxes:
        across, up = np.arange(box.x0, box.x1 + 1, _STEP), np.arange(box.y0, box.y1 + 1, _STEP)
        points.append(np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2))
    return np.concatenate(points) if points else np.empty((0, 2))


def _pixels(area: Any, series: Series) -> Any:
    return np.asarray(area.transData.transform([(point.at, point.y) for point in series.points]))


def _dense(corners: Any) -> Any:
    """Return points along a line, at most `_STEP` pixels apart."""
    parts = [corners[:1]]
    for begin, end in itertools.pairwise(corners):
        steps = max(2, int(np.hypot(*(end - begin)) / _STEP))
        parts.append(np.linspace(begin, end, steps))
    return np.concatenate(parts)


_SCALES = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))
_READABLE = 10.0
"""Times are in s if the longest is at least so many seconds, in ms if it is at least 1 ms, and else in µs."""
_ROLES = {
    "predict": "nothing was fitted to it",
    "calibrate": "it may have been fitted to",
    "input": "it was put in",
}


def figure_for(
    figure: Figure | None, axes: Mapping[str, Sequence[Any]], results: Sequence[Result], machine: str | None = None
) -> Figure | None:
    """Choose the figure (drawing) of a sweep over the parameters `axes`, and what lies along its axes.

    It is `figure`, which the scenario declares. If that is None, the first swept parameter that is a number lies along
    x and the first number that the scenario measures along y; if all swept parameters are texts, there is a bar for
    each value of the first one. All other swept parameters become lines.

    machine: the machine of all runs; None: the scenario's own. Published points are kept only if it is the scenario's
    own. Returns None if neither numbers nor texts were swept.
    """
    rows = [row(result) for result in results]
    swept = [name for name, values in axes.items() if len(values) > 1]
    if figure is None or figure.x not in swept:
        numeric = [name for name in swept if rows and all(is_number(cells.get(name)) for cells in rows)]
        baseline = figure.baseline if figure is not None and figure.baseline.keys() & set(swept) else {}
        measured = [
            name
            for name in (results[0].measured if results else ())
            if all(is_number(cells.get(name)) for cells in rows)
        ]
        texts = [name for name in swept if _texts(name, rows)]
        if not numeric and not texts:
            return None
        y = figure.y if figure is not None else (measured or ["elapsed_s"])[0]
        title = figure.title if figure is not None else None
        figure = Figure(x=(numeric or texts)[0], y=y, title=title, baseline=baseline, bars=not numeric)
    if not all(str(value) in map(str, axes.get(name, ())) for name, value in figure.baseline.items()):
        figure = attrs.evolve(figure, baseline={})
    if figure.panels is not None and figure.panels not in swept:
        figure = attrs.evolve(figure, panels=None)
    if any(result.machine != machine for result in results):
        figure = attrs.evolve(figure, published=())
    lines = [name for name in figure.lines if name in swept and name != figure.x and name != figure.panels]
    lines += [name for name in swept if name not in (figure.x, figure.panels, *lines)]
    return attrs.evolve(figure, lines=tuple(lines))


def check_swept(named: Mapping[str, Sequence[str]], swept: Iterable[str]) -> None:
    """Raise UserError unless the names in `named` (by option) are all among `swept`, the varied parameters."""
    known = list(swept)
    for option, names in named.items():
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known)
                raise UserError(f"{option} {name}: is no parameter of this sweep{hint} (it has: {', '.join(known)})")


def chosen(
    figure: Figure | None, axes: Mapping[str, Sequence[Any]], results: Sequence[Result], machine: str | None, *,
    x: str | None, y: str | None, series: Sequence[str], log: bool | None,
) -> Figure | None:  # fmt: skip
    """Return the figure of a sweep as `figure_for` does, but with the axes and lines that the user chose.

    figure: the scenario's own, if it has one. x, y, series, log: the user's choices; None (or an empty `series`) leaves
    them open. machine: the machine of all runs; published points are left out if it is not the scenario's own. Returns
    None if there is nothing to draw. Raises UserError for a `y` that is no number which the runs return.
    """
    own = figure_for(figure if x in (None, figure and figure.x) else None, axes, results, machine)
    cells = row(results[0])
    if y is not None and not is_number(cells.get(y)):
        known = [name for name, value in cells.items() if is_number(value)]
        there = ", ".join(name for name in known if "." not in name)
        raise UserError(f"--y {y}: is no figure of the results{did_you_mean(y, known)} (there are: {there})")
    if own is None:
        return None
    if x is not None and x != own.x:
        own = Figure(x=x, y=own.y, bars=bool(_texts(x, [cells])))
    if y is not None and y != own.y:
        own = attrs.evolve(own, y=y, ylabel=None, title=None, published=(), baseline={})
    swept = [name for name, values in axes.items() if len(values) > 1]
    rest = [name for name in swept if name not in (own.x, own.panels, *series)]
    lines = (*(name for name in series if name not in (own.x, own.panels)), *rest)
    return attrs.evolve(own, lines=lines if series or x else own.lines, log=own.log if log is None else log)


def draw_sweep(
    scenario: Scenario, axes: Mapping[str, Sequence[Any]], results: Sequence[Result], folder: Path, **wishes: Any
) -> list[Path]:
    """Draw the figure of a sweep into a folder, and delete the files of an earlier one first; return the new paths.

    scenario: what was swept. results: of its runs. axes: the swept values by parameter. wishes: what the user chose of
    the figure: `x`, `y`, `series` and `log`.
    """
    delete(folder)
    figure = chosen(scenario.figure, axes, results, scenario.machine, **wishes)
    return [] if figure is None else draw(figure, results, folder)


def draw(figure: Figure, results: Sequence[Result], folder: Path, *, stem: str = "figure") -> list[Path]:
    """Draw `figure` from `results` into `stem.png`, `.svg` and `.pdf` in a folder; return the paths.

    Raises UserError without matplotlib, when a column of the figure is not in the results, and when a file cannot be
    written.
    """
    canvas = canvas_of(figure, results)
    paths = _paths(folder, stem)
    for path in paths:
        save(canvas, path)
    return paths


def canvas_of(figure: Figure, results: Sequence[Result]) -> Any:
    """Return `figure`, drawn from `results`, as a figure of matplotlib.

    Raises UserError when matplotlib is not installed, or when the figure's columns are not in the results.
    """
    rows = [row(result) for result in results]
    names = _texts(figure.x, rows)
    for name in (figure.y,) if names else (figure.x, figure.y):
        if not rows or not all(is_number(cells.get(name)) for cells in rows):
            known = ", ".join(n for n, value in (rows[0] if rows else {}).items() if is_number(value) and "." not in n)
            raise UserError(f"the figure cannot be drawn: {name} is no number in every result (there are: {known})")
    if figure.baseline:
        rows = _over_baseline(figure, results, rows)
        names = _texts(figure.x, rows)  # the baseline itself is not drawn
    figure, rows, unit = _in_readable_units(figure, rows)
    library("matplotlib")
    values = list(dict.fromkeys(cells[figure.panels] for cells in rows)) if figure.panels else [None]
    panels = [series_of(figure, rows, value, names) for value in values]
    given = [result.parameters for result in results]
    marks_of = PUBLISHED.load("claims") if figure.published else lambda *_: []
    marks: list[list[Mark]] = [marks_of(figure, *panel, given, unit) for panel in zip(values, panels, strict=True)]
    heights = [point.y for series in panels for one in series for point in one.points]
    heights += [height for own in marks for mark in own for height in (*mark.low, *mark.high)]
    width = 7.0 if len(values) == 1 else 1.2 + 4.6 * len(values)
    legend = 1.1 if figure.lines else 0.0
    canvas = new_canvas(width + legend, 4.4)
    areas = canvas.subplots(1, len(values), sharey=True, squeeze=False)[0]
    for value, area, series, own in zip(values, areas, panels, marks, strict=True):
        for mark in own:
            draw_mark(area, mark)
        beside = {x: (*mark.low, *mark.high) for mark in own for x in mark.x if not mark.is_curve}
        draw_panel(area, figure, series, names, beside, log_y=is_wide(figure, heights))
        if figure.panels:
            area.set_title(figure.names.get(str(value), f"{label(figure.panels)} = {value}"), fontsize="medium")
    areas[0].set_ylabel(
        figure.ylabel or (f"baseline over variant, {quantity(figure.y)}" if figure.baseline else label(figure.y))
    )
    if figure.title:
        canvas.suptitle(figure.title, wrap=True)
    compared = "" if figure.ylabel or not figure.baseline else f"; baseline: {named_as(figure.baseline)}"
    origin = _origin(results, [mark for own in marks for mark in own], compared)
    canvas.supxlabel(origin, fontsize="x-small", color="#606060")
    title = figure.legend or ", ".join(label(name) for name in figure.lines)
    speaking = figure.legend is None and all(isinstance(value, str) for one in panels[0] for value in one.key)
    named = (
        figure.lines
        and not figure.bars
        and name_lines(canvas, list(zip(areas, panels, strict=True)), "" if speaking else title)
    )
    if figure.lines and not named:
        handles, labels = areas[-1].get_legend_handles_labels()
        canvas.legend(
            handles, labels, title=title, loc="outside right center", fontsize="small", title_fontsize="small"
        )
    canvas.draw_without_rendering()
    canvas.set_layout_engine("none")  # what is named inside a panel takes no room of it
    for area, series, own in zip(areas, panels, marks, strict=True):
        name_inside(canvas, area, series, own, lines=bool(named))
    return canvas


def delete(folder: Path, *, stem: str = "figure") -> None:
    """Delete the files that `draw` has written into a folder as `stem`, if any. Raises UserError if that fails."""
    for path in _paths(folder, stem):
        with writing(path):
            path.unlink(missing_ok=True)


def _paths(folder: Path, stem: str) -> list[Path]:
    return [folder / f"{stem}{suffix}" for suffix in (".png", ".svg", ".pdf")]


def _origin(results: Sequence[Result], marks: Sequence[Mark], compared: str) -> str:
    """Return the text below a figure: machine and runtime, the meaning of hollow markers, and of the claims' roles.

    compared: a text on what ratios are relative to.
    """
    emulated = ", ".join(dict.fromkeys(f"{result.machine} with {result.runtime}" for result in results))
    roles = "; ".join(f"{role}: {_ROLES[role]}" for role in dict.fromkeys(mark.role for mark in marks))
    published = f"\ndashed or with hollow markers: published by the authors ({roles})" if marks else ""
    draws = max((result.draws for result in results), default=0)
    bands = f"; bands: 80 % of {draws} draws" if draws else ""
    return f"emulated on {emulated}{compared}{bands}{published}"


def _in_readable_units(figure: Figure, rows: Sequence[dict[str, Cell]]) -> tuple[Figure, list[dict[str, Cell]], float]:
    """Convert times along y to s, ms or µs; return figure, rows, and the factor by which times were multiplied."""
    if not figure.y.endswith("_s") or figure.baseline:
        return figure, list(rows), 1.0
    highest = max(number_of(cells[figure.y]) for cells in rows)
    unit, scale = _SCALES[0] if highest >= _READABLE else _SCALES[1] if highest >= 1e-3 else _SCALES[2]
    named = (figure.ylabel or label(figure.y)).removesuffix(" (s)")
    along_y = (figure.y, f"{figure.y}.low", f"{figure.y}.high")
    scaled = [{**cells, **{y: number_of(cells[y]) * scale for y in along_y if y in cells}} for cells in rows]
    return attrs.evolve(figure, ylabel=f"{named} ({unit})"), scaled, scale


def _texts(name: str, rows: Sequence[dict[str, Cell]]) -> tuple[str, ...]:
    """Return the values of a column of texts, each once; empty for a column of numbers."""
    values = tuple(dict.fromkeys(cells.get(name) for cells in rows))
    return tuple(str(value) for value in values) if values and all(isinstance(value, str) for value in values) else ()


def _over_baseline(figure: Figure, results: Sequence[Result], rows: Sequence[dict[str, Cell]]) -> list[dict[str, Cell]]:
    """Return the rows with `y` replaced by the baseline's `y` divided by their own.

    Rows of the baseline, and rows that have none, are left out. Raises UserError if none are left.
    """

    def place(result: Result) -> tuple[tuple[str, Cell], ...]:
        return tuple(item for item in result.parameters.items() if item[0] not in figure.baseline)

    def is_base(result: Result) -> bool:
        return all(result.parameters[name] == value for name, value in figure.baseline.items())

    base = {
        place(result): (number_of(cells[figure.y]), result)
        for result, cells in zip(results, rows, strict=True)
        if is_base(result)
    }
    ratios: list[dict[str, Cell]] = []
    for result, cells in zip(results, rows, strict=True):
        own = number_of(cells[figure.y])
        if not is_base(result) and place(result) in base and own:
            before, of = base[place(result)]
            band = ratio_in_draws(of, result, figure.y)
            ends = {} if band is None else {f"{figure.y}.low": band.low, f"{figure.y}.high": band.high}
            ratios.append({**cells, figure.y: before / own, **ends})
    if not ratios:
        named = ", ".join(f"{name}={value}" for name, value in figure.baseline.items())
        raise UserError(f"the figure cannot be drawn: no run beside its baseline {named}")
    return ratios


_NOTHING = 1e-4
"""Parts with a smaller share of the time are left out."""
_NARROW = 0.06
"""Parts with a smaller share have no name in the bar, since it does not fit."""


def draw_time(result: Result, path: Path) -> None:
    """Draw to a file on what the host threads of a run spent their time, in percent (see `time_figure`).

    Raises UserError if that fails. result: of the run. path: the file.
    """
    save(time_figure(result), path)


def time_figure(result: Result) -> Any:
    """Return a figure of matplotlib that shows on what a run's host threads spent their time, in percent of it.

    A thread's time is that from its begin to its end. result: of the run. Raises UserError if no host thread lived in
    the measured time, and without matplotlib.
    """
    if not result.where_time_went:
        raise UserError(f"{result.scenario}: no host thread lived in the measured time, so there is nothing to draw")
    canvas = new_canvas(9.0, 2.4)
    area = canvas.subplots()
    left = 0.0
    parts = [item for item in result.where_time_went.items() if item[1].share >= _NOTHING]
    for number, (name, part) in enumerate(parts):
        share = 100.0 * part.share
        label = f"{name}: {seconds(part.total_s)}"
        area.barh([0], [share], left=left, color=COLOURS[number % len(COLOURS)], edgecolor="white", label=label)
        if part.share >= _NARROW:
            area.text(
                left + share / 2, 0, f"{name}\n{share:.0f} %", ha="center", va="center", color="white", fontsize=8
            )
        left += share
    area.set_xlim(0.0, 100.0)
    area.set_yticks([])
    area.set_xlabel("share of the host threads' time (%)")
    area.set_title(
        f"{result.scenario} {named_as(result.parameters)}\n{seconds(result.elapsed_s)} on {where(result)}",
        fontsize="small",
        wrap=True,
    )
    area.spines[["top", "right", "left"]].set_visible(False)
    canvas.legend(loc="outside lower center", ncols=4, fontsize="x-small", frameon=False)
    return canvas


def ratio_in_draws(base: Result, own: Result, name: str) -> Interval | None:
    """Return the interval of the ratio of two runs' figures (base / own), over the draws that both runs have.

    A draw is a run with a random sample of the uncertain values. base, own: the results of the two runs. name: the
    figure. Returns None if no draw is common to both.
    """
    one, other = base.intervals.get(name), own.intervals.get(name)
    if one is None or other is None or not all(other.values) or not other.nominal:
        return None
    ratios = [above / below for above, below in zip(one.values, other.values, strict=False)]
    return Interval.of(one.nominal / other.nominal, ratios, one.seed)
