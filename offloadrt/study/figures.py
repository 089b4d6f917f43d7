"""The figure of a sweep: one measured figure over one parameter, a line per value of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from offloadrt.study.definition import Figure
from offloadrt.study.errors import UserError
from offloadrt.study.results import Result
from offloadrt.study.table import Cell, library, row

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B8A800")
"""Okabe and Ito's palette, which every kind of colour blindness tells apart (its yellow darkened for a white page)."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", ":", "-.")
_UNITS = {"_s": " (s)", "_bytes": " (B)", "_us": " (µs)", "_ms": " (ms)"}


def figure_for(figure: Figure | None, axes: Mapping[str, Sequence[Any]], results: Sequence[Result]) -> Figure | None:
    """The figure to draw for a sweep over `axes`: the scenario's own, or the first swept number along x and the first
    measured figure.

    Parameters that were swept and have no place yet become lines. None when nothing numeric was swept or measured.
    """
    rows = [row(result) for result in results]
    swept = [name for name, values in axes.items() if len(values) > 1]
    if figure is None or figure.x not in swept:
        numeric = [name for name in swept if rows and all(_number(cells.get(name)) for cells in rows)]
        measured = [
            name for name in (results[0].measured if results else ()) if all(_number(cells.get(name)) for cells in rows)
        ]
        if not numeric:
            return None
        y = figure.y if figure is not None else (measured or ["elapsed_s"])[0]
        title = figure.title if figure is not None else None
        figure = Figure(x=numeric[0], y=y, title=title)
    if figure.panels is not None and figure.panels not in swept:
        figure = attrs.evolve(figure, panels=None)
    lines = [name for name in figure.lines if name in swept and name != figure.x and name != figure.panels]
    lines += [name for name in swept if name not in (figure.x, figure.panels, *lines)]
    return attrs.evolve(figure, lines=tuple(lines))


def _number(value: Cell) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def label(name: str) -> str:
    """An axis label from a figure's name: `time_per_volume_s` is `time per volume (s)`."""
    for suffix, unit in _UNITS.items():
        if name.endswith(suffix):
            return name.removesuffix(suffix).replace("_", " ") + unit
    return name.replace("_", " ")


def draw(figure: Figure, results: Sequence[Result], folder: Path, *, stem: str = "figure") -> list[Path]:
    """Draws `figure` from `results` into `stem.png` and `stem.svg`; the paths written.

    Raises UserError when matplotlib is not installed, or when the figure's columns are not in the results.
    """
    rows = [row(result) for result in results]
    for name in (figure.x, figure.y):
        if not rows or not all(_number(cells.get(name)) for cells in rows):
            known = ", ".join(n for n, value in (rows[0] if rows else {}).items() if _number(value) and "." not in n)
            raise UserError(f"the figure cannot be drawn: {name} is no number in every result (there are: {known})")
    library("matplotlib")
    module = library("matplotlib.figure")
    panels = list(dict.fromkeys(cells[figure.panels] for cells in rows)) if figure.panels else [None]
    canvas = module.Figure(figsize=(1.2 + 4.6 * len(panels), 4.2), layout="constrained")
    axes = canvas.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for panel, area in zip(panels, axes, strict=True):
        chosen = [cells for cells in rows if figure.panels is None or cells[figure.panels] == panel]
        _panel(area, figure, chosen)
        if figure.panels:
            area.set_title(f"{label(figure.panels)} = {panel}", fontsize="medium")
    axes[0].set_ylabel(figure.ylabel or label(figure.y))
    if figure.lines:
        axes[-1].legend(title=", ".join(label(name) for name in figure.lines), fontsize="small", title_fontsize="small")
    if figure.title:
        canvas.suptitle(figure.title)
    paths = [folder / f"{stem}.png", folder / f"{stem}.svg"]
    canvas.savefig(paths[0], dpi=160)
    canvas.savefig(paths[1], metadata={"Date": None})
    return paths


def _panel(area: Any, figure: Figure, rows: Sequence[dict[str, Cell]]) -> None:
    """One panel: its lines, its scales and its ticks."""
    colours = list(dict.fromkeys(cells[name] for cells in rows for name in figure.lines[:1]))
    dashes = list(dict.fromkeys(tuple(cells[name] for name in figure.lines[1:]) for cells in rows))
    lines: dict[tuple[Cell, ...], list[tuple[float, float]]] = {}
    for cells in rows:
        key = tuple(cells[name] for name in figure.lines)
        lines.setdefault(key, []).append((_as_float(cells[figure.x]), _as_float(cells[figure.y])))
    for key, places in lines.items():
        colour = colours.index(key[0]) if key else 0
        places.sort()
        area.plot(
            [x for x, _ in places],
            [y for _, y in places],
            color=COLOURS[colour % len(COLOURS)],
            marker=MARKERS[colour % len(MARKERS)],
            linestyle=DASHES[dashes.index(key[1:]) % len(DASHES)],
            markersize=4.5,
            linewidth=1.4,
            label=", ".join(str(value) for value in key) or None,
        )
    ticks = sorted({x for places in lines.values() for x, _ in places})
    heights = [y for places in lines.values() for _, y in places]
    if figure.log and ticks[0] > 0:
        area.set_xscale("log", base=2)
    if figure.log and min(heights) > 0:
        area.set_yscale("log")
    if len(ticks) <= 12:
        area.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        area.minorticks_off() if not figure.log else area.tick_params(axis="x", which="minor", bottom=False)
    area.set_xlabel(figure.xlabel or label(figure.x))
    area.grid(True, which="major", color="#d9d9d9", linewidth=0.6)
    area.set_axisbelow(True)


def _as_float(value: Cell) -> float:
    assert isinstance(value, int | float)
    return float(value)
