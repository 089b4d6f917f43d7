"""The figure of a sweep: one measured figure over one parameter, a line per value of the others."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from offloadrt.study.errors import UserError, writing
from offloadrt.study.reporting.results import Result
from offloadrt.study.reporting.table import Cell, library, row
from offloadrt.study.scripts.definition import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B8A800")
"""Okabe and Ito's palette, which every kind of colour blindness tells apart (its yellow darkened for a white page)."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", ":", "-.")
FEW = 4
"""The most lines of which those drawn first are wider, so that equal ones stay visible below one another."""
CROWDED = 60
"""The most letters along x, every text taken as long as the longest; with more the texts stand aslant."""
_LABEL = 0.055
"""The part of the x axis that a number below it takes, with the space to the next one."""
_UNITS = {"_s": " (s)", "_bytes": " (B)", "_us": " (µs)", "_ms": " (ms)"}


def figure_for(figure: Figure | None, axes: Mapping[str, Sequence[Any]], results: Sequence[Result]) -> Figure | None:
    """Choose the figure to draw for a sweep over `axes`.

    It is the scenario's own figure; without one, the first swept number lies along x and the first measured figure
    along y.

    Parameters that were swept and have no place yet become lines. Returns None when nothing numeric was swept or
    measured.
    """
    rows = [row(result) for result in results]
    swept = [name for name, values in axes.items() if len(values) > 1]
    if figure is None or figure.x not in swept:
        numeric = [name for name in swept if rows and all(_number(cells.get(name)) for cells in rows)]
        baseline = figure.baseline if figure is not None and figure.baseline.keys() & set(swept) else {}
        measured = [
            name for name in (results[0].measured if results else ()) if all(_number(cells.get(name)) for cells in rows)
        ]
        if not numeric:
            return None
        y = figure.y if figure is not None else (measured or ["elapsed_s"])[0]
        title = figure.title if figure is not None else None
        figure = Figure(x=numeric[0], y=y, title=title, baseline=baseline)
    if not all(str(value) in map(str, axes.get(name, ())) for name, value in figure.baseline.items()):
        figure = attrs.evolve(figure, baseline={})
    if figure.panels is not None and figure.panels not in swept:
        figure = attrs.evolve(figure, panels=None)
    lines = [name for name in figure.lines if name in swept and name != figure.x and name != figure.panels]
    lines += [name for name in swept if name not in (figure.x, figure.panels, *lines)]
    return attrs.evolve(figure, lines=tuple(lines))


def _number(value: Cell) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def label(name: str) -> str:
    """Make an axis label from a figure's name: `time_per_volume_s` is `time per volume (s)`."""
    for suffix, unit in _UNITS.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix).replace("_", " ") + unit
    return name.replace("_", " ")


def draw(figure: Figure, results: Sequence[Result], folder: Path, *, stem: str = "figure") -> list[Path]:
    """Draw `figure` from `results` into `stem.png` and `stem.svg`; return the paths written.

    Raises UserError when matplotlib is not installed, or when the figure's columns are not in the results.
    """
    rows = [row(result) for result in results]
    names = _texts(figure.x, rows)
    for name in (figure.y,) if names else (figure.x, figure.y):
        if not rows or not all(_number(cells.get(name)) for cells in rows):
            known = ", ".join(n for n, value in (rows[0] if rows else {}).items() if _number(value) and "." not in n)
            raise UserError(f"the figure cannot be drawn: {name} is no number in every result (there are: {known})")
    if figure.baseline:
        rows = _over_baseline(figure, results, rows)
    library("matplotlib")
    module = library("matplotlib.figure")
    panels = list(dict.fromkeys(cells[figure.panels] for cells in rows)) if figure.panels else [None]
    legend = 1.1 if figure.lines else 0.0
    canvas = module.Figure(figsize=(1.2 + 4.6 * len(panels) + legend, 4.2), layout="constrained")
    axes = canvas.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for panel, area in zip(panels, axes, strict=True):
        chosen = [cells for cells in rows if figure.panels is None or cells[figure.panels] == panel]
        _panel(area, figure, chosen, names)
        if figure.panels:
            title = figure.names.get(str(panel), f"{label(figure.panels)} = {panel}")
            area.set_title(title, fontsize="medium")
    axes[0].set_ylabel(
        figure.ylabel or (f"baseline over variant, {label(figure.y)}" if figure.baseline else label(figure.y))
    )
    if figure.lines:
        title = figure.legend or ", ".join(label(name) for name in figure.lines)
        handles, labels = axes[-1].get_legend_handles_labels()
        canvas.legend(
            handles, labels, title=title, loc="outside right center", fontsize="small", title_fontsize="small"
        )
    if figure.title:
        canvas.suptitle(figure.title, wrap=True)
    paths = [folder / f"{stem}.png", folder / f"{stem}.svg"]
    with writing(folder):
        canvas.savefig(paths[0], dpi=160)
        canvas.savefig(paths[1], metadata={"Date": None})
    return paths


def _texts(name: str, rows: Sequence[dict[str, Cell]]) -> tuple[str, ...]:
    """Return the values of a column of texts, each once; nothing for a column of numbers."""
    values = tuple(dict.fromkeys(cells.get(name) for cells in rows))
    return tuple(str(value) for value in values) if values and all(isinstance(value, str) for value in values) else ()


def _over_baseline(figure: Figure, results: Sequence[Result], rows: Sequence[dict[str, Cell]]) -> list[dict[str, Cell]]:
    """Divide the baseline's `y` by that of the other rows. Raises UserError when there is no baseline."""

    def place(result: Result) -> tuple[tuple[str, Cell], ...]:
        return tuple(item for item in result.parameters.items() if item[0] not in figure.baseline)

    def is_base(result: Result) -> bool:
        return all(result.parameters[name] == value for name, value in figure.baseline.items())

    base = {
        place(result): _as_float(cells[figure.y])
        for result, cells in zip(results, rows, strict=True)
        if is_base(result)
    }
    ratios = []
    for result, cells in zip(results, rows, strict=True):
        own = _as_float(cells[figure.y])
        if not is_base(result) and place(result) in base and own:
            ratios.append({**cells, figure.y: base[place(result)] / own})
    if not ratios:
        named = ", ".join(f"{name}={value}" for name, value in figure.baseline.items())
        raise UserError(f"the figure cannot be drawn: no run beside its baseline {named}")
    return ratios


def _panel(area: Any, figure: Figure, rows: Sequence[dict[str, Cell]], names: Sequence[str]) -> None:
    """Draw one panel: its lines, its scales and its ticks; `names` are the texts along x, when there are any."""
    colours = list(dict.fromkeys(cells[name] for cells in rows for name in figure.lines[:1]))
    dashes = list(dict.fromkeys(tuple(cells[name] for name in figure.lines[1:]) for cells in rows))
    lines: dict[tuple[Cell, ...], list[tuple[float, float]]] = {}
    for cells in rows:
        key = tuple(cells[name] for name in figure.lines)
        x = names.index(str(cells[figure.x])) if names else _as_float(cells[figure.x])
        lines.setdefault(key, []).append((x, _as_float(cells[figure.y])))
    for number, (key, places) in enumerate(lines.items()):
        colour = colours.index(key[0]) if key else 0
        places.sort()
        label_of = ", ".join(figure.names.get(str(value), str(value)) for value in key) or None
        shade = COLOURS[colour % len(COLOURS)]
        if figure.bars:
            _bars(area, places, number, len(lines), shade, label_of)
            continue
        wider = len(lines) - 1 - number if len(lines) <= FEW else 0
        area.plot(
            [x for x, _ in places],
            [y for _, y in places],
            color=shade,
            marker=MARKERS[colour % len(MARKERS)],
            linestyle=DASHES[(dashes.index(key[1:]) + colour // len(COLOURS)) % len(DASHES)],
            markersize=4.5 + 2 * wider,
            linewidth=1.4 + 1.2 * wider,
            label=label_of,
        )
    ticks = sorted({x for places in lines.values() for x, _ in places})
    heights = [y for places in lines.values() for _, y in places]
    if figure.baseline:
        area.axhline(1.0, color="#808080", linewidth=0.8, zorder=0.5)
    if names:
        crowded = len(names) * max(map(len, names)) > CROWDED
        area.set_xticks(range(len(names)), names, **({"rotation": 30, "ha": "right"} if crowded else {}))
    elif figure.log and ticks[0] > 0:
        area.set_xscale("log", base=2)
    if figure.log and not (figure.bars or figure.baseline) and min(heights) > 0:
        area.set_yscale("log")
    if not names and len(ticks) <= 12:
        ticks = spaced(ticks, log=figure.log and ticks[0] > 0)
        area.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        area.minorticks_off() if not figure.log else area.tick_params(axis="x", which="minor", bottom=False)
    area.set_xlabel(figure.xlabel or label(figure.x))
    area.grid(True, which="major", color="#d9d9d9", linewidth=0.6)
    area.set_axisbelow(True)


def spaced(ticks: Sequence[float], *, log: bool) -> list[float]:
    """Choose those of ascending ticks whose labels do not overlap; the first and the last one are among them."""
    places = [math.log(tick) if log else tick for tick in ticks]
    room = _LABEL * (places[-1] - places[0])
    kept = [0]
    for number in range(1, len(ticks)):
        if places[number] - places[kept[-1]] >= room:
            kept.append(number)
    if kept[-1] != len(ticks) - 1:
        if len(kept) > 1:
            kept.pop()
        kept.append(len(ticks) - 1)
    return [ticks[number] for number in kept]


def _bars(
    area: Any, places: Sequence[tuple[float, float]], number: int, of: int, shade: str, label_of: str | None
) -> None:
    """Draw the bars of one line of several, beside those of the others, each with its figure."""
    width = 0.8 / of
    drawn = area.bar(
        [x + (number - (of - 1) / 2) * width for x, _ in places],
        [y for _, y in places],
        width,
        color=shade,
        label=label_of,
    )
    area.bar_label(drawn, fmt="%.3g", fontsize=6, rotation=90, padding=2)
    area.margins(y=0.12)


def _as_float(value: Cell) -> float:
    assert isinstance(value, int | float)
    return float(value)
