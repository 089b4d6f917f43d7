"""The panels of a figure: lines or bars of emulated runs, their scales and their ticks."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from offloadrt.study.errors import UserError, library, writing
from offloadrt.study.reporting.words import Cell
from offloadrt.study.scripts.definition import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B8A800")
"""Okabe and Ito's palette, which every kind of colour blindness tells apart (its yellow darkened for a white page)."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", ":", "-.")
CROWDED = 60
"""With more letters along x (number of texts times longest text), the texts are rotated by 30 degrees."""
WIDE_RATIOS = 5.0
"""Ratios get a logarithmic axis, on which bars begin at 1, if the largest exceeds so many times the smallest."""
_COVERING = 4
"""With at most so many lines in a panel, earlier lines are wider, so that a line below another one is visible."""
_MARKER, _FIGURE = 10.0, 36.0
"""The heights, in pixels, of half a marker and of the number at a bar."""
_LABEL = 0.055
"""The part of the x axis that a tick's label takes, with the space to the next one."""
_TICKS = ((1.0, (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)), (2.0, (1.0, 2.0, 5.0)))
"""(decades, ticks): on a logarithmic axis over fewer decades, each decade has these ticks; else it has one."""
_UNITS = {"_s": " (s)", "_bytes": " (B)", "_us": " (µs)", "_ms": " (ms)", "_gb": " (GB)"}


Heights = Mapping[float, Sequence[float]]
"""By position along x: heights along y."""


@attrs.frozen
class DrawnRun:
    """A run as a panel shows it.

    x, at: the value of the parameter along x, and its position on that axis. y: the figure's value. low, high: the ends
    of the interval of that value.
    """

    x: Cell
    at: float
    y: float
    low: float
    high: float


@attrs.frozen
class Series:
    """The runs of one line of a panel, or its bars of one colour, in the order of their positions along x.

    `name` is its text in the legend. `colour`, `marker` and `dashes` (the style of the line) are matplotlib's. `points`
    are these runs.
    """

    key: tuple[Cell, ...]
    """The values of the parameters in the figure's `lines`, in their order."""
    name: str
    colour: str
    marker: str
    dashes: str
    points: tuple[DrawnRun, ...]


def label(name: str) -> str:
    """Make an axis label from a figure's name: `time_per_volume_s` is `time per volume (s)`."""
    for suffix, unit in _UNITS.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix).replace("_", " ") + unit
    return name.replace("_", " ")


def quantity(name: str) -> str:
    """Make a label from a figure's name without its unit, for ratios: `time_per_volume_s` is `time per volume`."""
    suffix = next((suffix for suffix in _UNITS if name.endswith(suffix)), "")
    return name.removesuffix(suffix).replace("_", " ")


def number_of(value: Cell) -> float:
    """Convert a table's cell, which must be a number, to a float."""
    assert isinstance(value, int | float)
    return float(value)


def series_of(figure: Figure, rows: Sequence[dict[str, Cell]], panel: Cell, names: Sequence[str]) -> list[Series]:
    """Sort the runs (`rows`) of one panel into lines or bars; colours are the same in all panels.

    panel: the value that the parameter `figure.panels` has in them; each value has a panel. names: the texts along x.
    """
    colours = list(dict.fromkeys(cells[name] for cells in rows for name in figure.lines[:1]))
    dashes = list(dict.fromkeys(tuple(cells[name] for name in figure.lines[1:]) for cells in rows))
    lines: dict[tuple[Cell, ...], list[dict[str, Cell]]] = {}
    for cells in rows:
        if figure.panels is None or cells[figure.panels] == panel:
            lines.setdefault(tuple(cells[name] for name in figure.lines), []).append(cells)
    series = []
    for number, (key, own) in enumerate(lines.items()):
        colour = colours.index(key[0]) if key else 0
        beside = (number - (len(lines) - 1) / 2) * _bar_width(len(lines)) if figure.bars else 0.0
        points = [
            DrawnRun(
                cells[figure.x],
                beside + (names.index(str(cells[figure.x])) if names else number_of(cells[figure.x])),
                number_of(cells[figure.y]),
                *(number_of(cells.get(f"{figure.y}.{end}") or cells[figure.y]) for end in ("low", "high")),
            )
            for cells in own
        ]
        series.append(
            Series(
                key,
                ", ".join(figure.names.get(str(value), str(value)) for value in key),
                COLOURS[colour % len(COLOURS)],
                MARKERS[colour % len(MARKERS)],
                DASHES[(dashes.index(key[1:]) + colour // len(COLOURS)) % len(DASHES)],
                tuple(sorted(points, key=lambda point: point.at)),
            )
        )
    return series


def _bar_width(series: int) -> float:
    return 0.8 / series


def draw_panel(
    area: Any, figure: Figure, series: Sequence[Series], names: Sequence[str], beside: Heights, *, log_y: bool
) -> None:
    """Draw one panel of a figure: its lines or bars, its scales and its ticks.

    area: the panel's axes of matplotlib. series: its lines or bars. names: the texts along x. beside: by position along
    x, the heights of marks that are drawn there; the numbers at bars keep clear of them. log_y: whether the y axis is
    logarithmic.
    """
    bottom = 1.0 if figure.baseline and log_y else 0.0
    for number, one in enumerate(series):
        at, low, high = ([getattr(point, name) for point in one.points] for name in ("at", "low", "high"))
        if figure.bars:
            lengths = [point.y - bottom for point in one.points]
            width = _bar_width(len(series))
            area.bar(at, lengths, width, bottom=bottom, color=one.colour, label=one.name or None)
            if low != high:
                area.vlines(at, low, high, color="#303030", linewidth=1.0, zorder=3)
            continue
        if low != high:
            area.fill_between(at, low, high, color=one.colour, alpha=0.15, linewidth=0, zorder=0.9)
        area.plot(
            at,
            [point.y for point in one.points],
            color=one.colour,
            marker=one.marker,
            linestyle=one.dashes,
            markersize=5.5,
            linewidth=1.6 + 0.5 * (len(series) - 1 - number if len(series) <= _COVERING else 0),
            label=one.name or None,
        )
    if figure.baseline:
        area.axhline(1.0, color="#808080", linewidth=0.8, zorder=0.5)
    ticks = sorted({point.at for one in series for point in one.points})
    if names:
        crowded = len(names) * max(map(len, names)) > CROWDED
        shown = [figure.names.get(name, name) for name in names]
        area.set_xticks(range(len(names)), shown, **({"rotation": 30, "ha": "right"} if crowded else {}))
    elif figure.log and ticks[0] > 0:
        area.set_xscale("log", base=2)
    if not names and len(ticks) <= 12:
        ticks = spaced(ticks, log=figure.log and ticks[0] > 0)
        area.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        area.minorticks_off() if not figure.log else area.tick_params(axis="x", which="minor", bottom=False)
    if log_y:
        _logarithmic(area)
    if figure.bars:
        area.margins(y=0.2 if beside else 0.14)
        for one in series:
            _bar_figures(area, one, beside, bottom=bottom)
    area.set_xlabel(figure.xlabel or label(figure.x))
    area.grid(True, which="major", axis="y" if figure.bars else "both", color="#d9d9d9", linewidth=0.6)
    area.set_axisbelow(True)


def _logarithmic(area: Any) -> None:
    """Make the y axis logarithmic, with plain numbers at its ticks."""
    area.set_yscale("log")
    ticker = library("matplotlib.ticker")
    low, high = area.get_ylim()
    parts = next((parts for decades, parts in _TICKS if math.log10(high / low) < decades), (1.0,))
    area.yaxis.set_major_locator(ticker.LogLocator(base=10, subs=parts))
    area.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    area.yaxis.set_minor_formatter(ticker.NullFormatter())


def spaced(ticks: Sequence[float], *, log: bool) -> list[float]:
    """Return those of ascending ticks whose labels do not overlap, with the first and the last one among them.

    log: whether the axis is logarithmic.
    """
    positions = [math.log(tick) if log else tick for tick in ticks]
    room = _LABEL * (positions[-1] - positions[0])
    kept = [0]
    for number in range(1, len(ticks)):
        if positions[number] - positions[kept[-1]] >= room:
            kept.append(number)
    if kept[-1] != len(ticks) - 1:
        if len(kept) > 1:
            kept.pop()
        kept.append(len(ticks) - 1)
    return [ticks[number] for number in kept]


def _bar_figures(area: Any, series: Series, beside: Heights, *, bottom: float) -> None:
    """Write the number of each bar at its end, or beyond a marker that is drawn there."""
    for point in series.points:
        side = -1.0 if point.y < bottom else 1.0
        at, gap = point.y, 2.0
        end, *others = area.transData.transform([(point.at, y) for y in (point.y, *beside.get(point.at, ()))])[:, 1]
        for height, y in sorted(zip(others, beside.get(point.at, ()), strict=True)):
            if -_MARKER < side * (height - end) < _FIGURE:
                at, gap = (max if side > 0 else min)(at, y), 7.0
                break
        area.annotate(
            f"{point.y:.3g}", (point.at, at), xytext=(0, side * gap), textcoords="offset points", ha="center",
            va="bottom" if side > 0 else "top", fontsize=6.5, rotation=90, color=series.colour, zorder=6,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.85} if gap > 2.0 else None,
        )  # fmt: skip


def is_wide(figure: Figure, heights: Sequence[float]) -> bool:
    """Tell whether a panel's y axis should be logarithmic.

    It should if `figure.log` is set and, for bars, the largest of the values (`heights`) is at least `WIDE_RATIOS`
    times the smallest.
    """
    if not figure.log or min(heights) <= 0:
        return False
    return max(heights) / min(heights) > WIDE_RATIOS if figure.baseline else not figure.bars


_TYPES = (".png", ".svg", ".pdf")


def check_type(path: Path, option: str = "--figure") -> None:
    """Raise UserError if a figure cannot be drawn to a file: its type is not known, or matplotlib is missing.

    option: the option that gave the file, for the error.
    """
    if path.suffix not in _TYPES:
        raise UserError(f"{option} {path}: a figure is a file that ends with {', '.join(_TYPES)}")
    library("matplotlib")


def new_canvas(width: float, height: float) -> Any:
    """Return a figure of matplotlib, sized in inches, which notebooks show. Raises UserError without matplotlib.

    width, height: in inches.
    """
    canvas = library("matplotlib.figure").Figure(figsize=(width, height), layout="constrained")
    canvas._repr_png_ = partial(_as_png, canvas)  # notebooks call it, unless their inline backend can show figures
    return canvas


def _as_png(canvas: Any) -> bytes:
    image = io.BytesIO()
    canvas.savefig(image, format="png", dpi=100)
    return image.getvalue()


def save(canvas: Any, path: Path) -> None:
    """Write a figure of matplotlib to a file; equal figures give equal bytes. Raises UserError if it cannot."""
    dates = {".svg": "Date", ".pdf": "CreationDate"}
    with writing(path) as part, library("matplotlib").rc_context({"svg.hashsalt": "offloadrt"}):
        canvas.savefig(part, dpi=160, metadata={dates[path.suffix]: None} if path.suffix in dates else None)
