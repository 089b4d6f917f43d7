"""The figure of a sweep: one measured figure over one parameter, a line per value of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from offloadrt.study.errors import UserError, writing
from offloadrt.study.reporting.labels import name_inside, name_lines
from offloadrt.study.reporting.panels import draw_panel, is_wide, label, number_of, quantity, series_of
from offloadrt.study.reporting.published import Mark, draw_mark, marks_of
from offloadrt.study.reporting.results import Result
from offloadrt.study.reporting.table import Cell, library, row
from offloadrt.study.reporting.words import named as named_as
from offloadrt.study.scripts.definition import Figure

_SCALES = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))
_READABLE = 10.0
"""Times are in s when the longest takes so many seconds, in ms when it takes a millisecond, and else in µs."""
_ROLES = {
    "predict": "nothing was fitted to it",
    "calibrate": "it may have been fitted to",
    "input": "it was put in",
}


def figure_for(
    figure: Figure | None, axes: Mapping[str, Sequence[Any]], results: Sequence[Result], machine: str | None = None
) -> Figure | None:
    """Choose the figure to draw for a sweep over `axes`.

    It is the scenario's own figure; without one, the first swept number lies along x and the first measured figure
    along y; without a number, bars stand over the first parameter that was swept.

    Parameters that were swept and have no place yet become lines. Published points stay while all runs are on the
    scenario's own `machine`. Returns None when neither numbers nor texts were swept.
    """
    rows = [row(result) for result in results]
    swept = [name for name, values in axes.items() if len(values) > 1]
    if figure is None or figure.x not in swept:
        numeric = [name for name in swept if rows and all(_number(cells.get(name)) for cells in rows)]
        baseline = figure.baseline if figure is not None and figure.baseline.keys() & set(swept) else {}
        measured = [
            name for name in (results[0].measured if results else ()) if all(_number(cells.get(name)) for cells in rows)
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


def _number(value: Cell) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
        names = _texts(figure.x, rows)  # the baseline itself is not drawn
    figure, rows, unit = _in_readable_units(figure, rows)
    library("matplotlib")
    values = list(dict.fromkeys(cells[figure.panels] for cells in rows)) if figure.panels else [None]
    panels = [series_of(figure, rows, value, names) for value in values]
    given = [result.parameters for result in results]
    marks = [marks_of(figure, value, series, given, unit) for value, series in zip(values, panels, strict=True)]
    heights = [place.y for series in panels for one in series for place in one.places]
    heights += [height for own in marks for mark in own for height in (*mark.low, *mark.high)]
    width = 7.0 if len(values) == 1 else 1.2 + 4.6 * len(values)
    legend = 1.1 if figure.lines else 0.0
    canvas = library("matplotlib.figure").Figure(figsize=(width + legend, 4.4), layout="constrained")
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
    png, svg = paths = _paths(folder, stem)
    with writing(folder):
        canvas.savefig(png, dpi=160)
        canvas.savefig(svg, metadata={"Date": None})
    return paths


def delete(folder: Path, *, stem: str = "figure") -> None:
    """Delete what `draw` has written into a folder, if it has. Raises UserError when that cannot be done."""
    for path in _paths(folder, stem):
        with writing(path):
            path.unlink(missing_ok=True)


def _paths(folder: Path, stem: str) -> list[Path]:
    return [folder / f"{stem}.png", folder / f"{stem}.svg"]


def _origin(results: Sequence[Result], marks: Sequence[Mark], compared: str) -> str:
    """Say where the figure's numbers come from: machine and runtime, what hollow markers are, what their roles mean.

    `compared` says what ratios are relative to.
    """
    emulated = ", ".join(dict.fromkeys(f"{result.machine} with {result.runtime}" for result in results))
    roles = "; ".join(f"{role}: {_ROLES[role]}" for role in dict.fromkeys(mark.role for mark in marks))
    published = f"\ndashed or with hollow markers: published by the authors ({roles})" if marks else ""
    return f"emulated on {emulated}{compared}{published}"


def _in_readable_units(figure: Figure, rows: Sequence[dict[str, Cell]]) -> tuple[Figure, list[dict[str, Cell]], float]:
    """Give times along y in ms or µs, or in s when they are long; return by what they were multiplied, too."""
    if not figure.y.endswith("_s") or figure.baseline:
        return figure, list(rows), 1.0
    highest = max(number_of(cells[figure.y]) for cells in rows)
    unit, scale = _SCALES[0] if highest >= _READABLE else _SCALES[1] if highest >= 1e-3 else _SCALES[2]
    named = (figure.ylabel or label(figure.y)).removesuffix(" (s)")
    scaled = [{**cells, figure.y: number_of(cells[figure.y]) * scale} for cells in rows]
    return attrs.evolve(figure, ylabel=f"{named} ({unit})"), scaled, scale


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
        place(result): number_of(cells[figure.y])
        for result, cells in zip(results, rows, strict=True)
        if is_base(result)
    }
    ratios = []
    for result, cells in zip(results, rows, strict=True):
        own = number_of(cells[figure.y])
        if not is_base(result) and place(result) in base and own:
            ratios.append({**cells, figure.y: base[place(result)] / own})
    if not ratios:
        named = ", ".join(f"{name}={value}" for name, value in figure.baseline.items())
        raise UserError(f"the figure cannot be drawn: no run beside its baseline {named}")
    return ratios
