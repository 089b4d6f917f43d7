"""Names beside what they name: of lines where they end, of published points where there is room."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from offloadrt.study.reporting.panels import Series
from offloadrt.study.reporting.published import Mark

_APART = 9.5
"""Points between the names of lines where they end: those that would be nearer are moved apart."""
_FULL = 0.9
"""The part of a panel's height that names may take; more of them have a legend."""
_EARLY = 0.06
"""A line that ends this part of the panel's width before the others is named inside the panel."""
_BESIDE = 1.012
"""Where the names of lines begin, in widths of a panel."""
_DISTANCES = (9.0, 16.0, 26.0, 40.0, 60.0)
"""Points between a published point and its name, the nearest first."""
_DIRECTIONS = tuple(
    (across, up)
    for up in (1.0, 0.0, -1.0)
    for across in (0.0, 0.5, -0.5, 0.8, -0.8, 1.0, -1.0)
    if up or abs(across) == 1
)
"""Where a name may stand: 1 is wholly to the right of its point, or wholly above it."""
_FAR = 0.25
"""What a point of distance costs, in hidden places of lines."""
_LEADER = 20.0
"""Points from which on a thin line leads from a name to its point."""
_STEP = 4.0
"""Pixels between the places of a line that a name should not cover."""
_MARKER = np.stack(np.meshgrid((-8.0, 0.0, 8.0), (-8.0, 0.0, 8.0)), axis=-1).reshape(-1, 2)
"""Pixels of a marker around its middle."""


def name_lines(canvas: Any, panels: Sequence[tuple[Any, Sequence[Series]]], title: str) -> bool:
    """Name lines at their right ends, below `title` in the last panel; False where a panel has too many lines."""
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
                one.name, (one.places[-1].at, one.places[-1].y), va="center", fontsize="small", color=one.colour,
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
    """Name what has its name inside a panel: published points, those of one name once, and `lines` that end early.

    Each name stands where it covers least of what is drawn. The panel must have its final place.
    """
    ends = [(float(_pixels(area, one)[-1][0]), one) for one in series if lines]
    for end, one in ends:
        if end < max(end for end, _ in ends) - _EARLY * area.bbox.width:
            _name(canvas, area, series, one.name, [(one.places[-1].at, one.places[-1].y)], one.colour)
    _name_marks(canvas, area, series, marks)


def _apart(heights: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move ascending heights apart until `gap` lies between any two, each as little as can be, within two ends."""
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
    """Return the lowest height of a group of names around the mean of where they should be."""
    return sum(group) / len(group) - (len(group) - 1) / 2 * gap  # of pixels: nothing emulated depends on their sum


def _name_marks(canvas: Any, area: Any, series: Sequence[Series], marks: Sequence[Mark]) -> None:
    for text, colour in dict.fromkeys((mark.label, mark.colour) for mark in marks):
        own = [mark for mark in marks if (mark.label, mark.colour) == (text, colour)]
        if own[0].low:
            places = [place for mark in own for place in zip(mark.x, mark.high, strict=True)]
            _name(canvas, area, series, text, places, colour)
        else:
            to_data = (area.transAxes + area.transData.inverted()).transform
            places = [(own[0].x[0], float(to_data((0.0, part / 20))[1])) for part in range(19, 0, -1)]
            _name(canvas, area, series, text, places, colour, ((-1, 0), (1, 0)))


def _name(
    canvas: Any,
    area: Any,
    series: Sequence[Series],
    text: str,
    places: Sequence[tuple[float, float]],
    colour: str,
    directions: Sequence[tuple[float, float]] = _DIRECTIONS,
) -> None:
    """Write a text near one of several places, in one of several directions, where it covers least."""
    covered = _covered(area, series)
    note = area.annotate(
        text, places[0], xytext=(0, 0), textcoords="offset points", ha="center", va="center", fontsize="small",
        color=colour, zorder=6,
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.75},
        arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.7, "shrinkA": 2, "shrinkB": 4},
    )  # fmt: skip
    extent = note.get_window_extent()
    width, height = extent.width, extent.height
    scale = canvas.dpi / 72
    best: tuple[float, int, tuple[float, float], tuple[float, float]] | None = None
    for number, (distance, place, (across, up)) in enumerate(
        (distance, place, direction) for distance in _DISTANCES for place in places for direction in directions
    ):
        offset = (across * (width / 2 + distance * scale), up * (height / 2 + distance * scale))
        x, y = area.transData.transform(place) + np.array(offset)
        low, high = (x - width / 2, y - height / 2), (x + width / 2, y + height / 2)
        hidden = float(np.all((covered >= low) & (covered <= high), axis=1).sum())
        box = area.bbox
        beyond = max(0.0, box.x0 - low[0], high[0] - box.x1) + max(0.0, box.y0 - low[1], high[1] - box.y1)
        cost = hidden + _FAR * distance + 10.0 * beyond
        if best is None or (cost, number) < best[:2]:
            best = (cost, number, place, offset)
    assert best is not None
    _, _, place, offset = best
    note.xy = place
    note.set_position((offset[0] / scale, offset[1] / scale))
    near = best[1] < len(places) * len(directions) * sum(distance < _LEADER for distance in _DISTANCES)
    note.arrow_patch.set_visible(not near)


def _covered(area: Any, series: Sequence[Series]) -> Any:
    """List the pixels of a panel that names should not cover: along lines, in bars, at markers, of other names."""
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
    return np.asarray(area.transData.transform([(place.at, place.y) for place in series.places]))


def _dense(corners: Any) -> Any:
    """List places along a line, at most `_STEP` apart."""
    parts = [corners[:1]]
    for begin, end in itertools.pairwise(corners):
        steps = max(2, int(np.hypot(*(end - begin)) / _STEP))
        parts.append(np.linspace(begin, end, steps))
    return np.concatenate(parts)
