"""Published points beside emulated ones: the numbers of a paper's claims, drawn into a figure of emulated runs.

A `PublishedPoint` of a figure names a claim; `marks_of` finds the runs of a panel that the claim is about. Claims are
read when a figure is drawn: no program can use them while it runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import attrs

from offloadrt.extensions.drawing.figures import Mark
from offloadrt.extensions.drawing.panels import DrawnRun, Series, label, number_of
from offloadrt.extensions.evidence.validation.claims import Claim, claims_of
from offloadrt.study.errors import UserError, did_you_mean
from offloadrt.study.reporting.words import Cell
from offloadrt.study.scripts.definition import Figure, PublishedPoint

_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_RATIOS = ("x", "ratio", "fraction")
_NEUTRAL = "#303030"
_ROLES = ("predict", "calibrate", "input")
"""Roles of claims, in order. A ratio of two claims has the role that comes first here."""
_claims = cache(claims_of)


def _claim(package: str, name: str) -> Claim:
    claims = _claims(package)
    if name not in claims:
        raise UserError(
            f"{package}: a published point names the claim {name}: there is none{did_you_mean(name, claims)}"
        )
    return claims[name]


@attrs.frozen
class _Reported:
    """The number, or the range from `low` to `high`, that the claims of a published point report.

    Times are seconds if the figure shows seconds; ratios have no unit.
    """

    point: PublishedPoint
    low: float
    high: float
    is_bound: bool
    """Whether the claim is open above: the paper reports `low` or more."""
    unit: str
    role: str
    label: str


def _reported(point: PublishedPoint, y: str) -> _Reported:
    """Read the claims of a point in a figure that shows `y`.

    Raises UserError for an unknown claim, one without a number, and one whose unit does not fit.
    """
    claim = _claim(point.package, point.claim)
    given = [claim.lo, claim.hi] if point.band else claim.value if isinstance(claim.value, list) else [claim.value]
    numbers = [float(value) for value in given if isinstance(value, int | float)]
    if not numbers or len(numbers) < len(given):
        raise UserError(f"{point.package}: the claim {point.claim} cannot be drawn: it has no number")
    role, scale = claim.role, _scale(point, claim, y)
    if point.per is not None:
        divisor = _claim(point.package, point.per)
        if not isinstance(divisor.value, int | float) or divisor.unit != claim.unit:
            raise UserError(f"{point.package}: the claim {point.per} cannot divide {point.claim}: it has another unit")
        role, scale = min(role, divisor.role, key=_ROLES.index), 1.0 / divisor.value
    is_bound = not point.band and claim.lo == claim.value and claim.hi is None
    section = re.match(r"\d|[IVX]+\b", claim.where)
    source = f"sec. {claim.where}" if section else claim.where
    return _Reported(
        point, min(numbers) * scale, max(numbers) * scale, is_bound, claim.unit, role, f"({source}, {role})"
    )


def _scale(point: PublishedPoint, claim: Claim, y: str) -> float:
    if point.per is not None or point.along_x:
        return 1.0
    if point.over or point.times:
        known: Mapping[str, float] = dict.fromkeys(_RATIOS, 1.0)
    elif y.endswith("_s"):
        known = _SECONDS
    else:
        known = dict.fromkeys((label(y).rpartition("(")[2].removesuffix(")"), *_RATIOS), 1.0)
    if claim.unit not in known:
        raise UserError(
            f"{point.package}: the claim {point.claim} cannot be drawn over {y}: "
            f"its unit is {claim.unit or 'not given'} (drawn are: {', '.join(known)})"
        )
    return known[claim.unit]


def marks_of(
    figure: Figure, panel: Cell, series: Sequence[Series], given: Sequence[Mapping[str, Any]], unit: float
) -> list[Mark]:
    """Return the marks to draw in a panel for the numbers that a paper published for these runs.

    figure: the scenario's figure with its published points. panel: the value of the parameter `figure.panels` in all
    runs of the panel. series: the panel's lines or bars. given: the parameters of all runs of the figure. unit: the
    factor from seconds to the figure's unit, which has been applied to the times of the runs, too. Raises UserError for
    a claim that cannot be drawn.
    """
    marks = []
    for point in figure.published:
        others = {name: value for name, value in point.at.items() if name != figure.x and name not in figure.lines}
        if figure.panels in others and not _is_among(panel, others.pop(figure.panels)):
            continue
        if all(_is_among(parameters.get(name), value) for name, value in others.items() for parameters in given):
            marks += _marks(figure, _reported(point, figure.y), series, unit)
    return marks


def _is_among(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, list) else bool(value == wanted)


def _marks(figure: Figure, reported: _Reported, series: Sequence[Series], unit: float) -> list[Mark]:
    """Return the marks of a published point, at the places of the series that it is about; none if there are none."""
    point = reported.point
    asked = {name: point.at[name] for name in figure.lines if name in point.at}
    own = [one for one in series if all(_is_among(_value(figure, one, name), asked[name]) for name in asked)]
    colour = own[0].colour if len(own) == 1 and asked and not figure.bars else _NEUTRAL
    if point.along_x:
        drawn = [point.at for one in own for point in one.points]
        inside = bool(drawn) and min(drawn) <= reported.low <= max(drawn)
        text = f"published {point.what}: {reported.low:g} {reported.unit} {reported.label}"
        return [Mark(text, reported.role, colour, (reported.low,))] if inside else []
    ratio = dict(point.over or point.times)
    if ratio and not figure.baseline:
        return _from_emulated(figure, reported, series, own, colour)
    if ratio != dict(figure.baseline):
        return []
    low, high = (1.0 / reported.high, 1.0 / reported.low) if point.times else (reported.low, reported.high)
    if not ratio and figure.y.endswith("_s"):
        low, high = low * unit, high * unit
    marker, sign = _bound(reported, is_inverse=bool(point.times))
    x = sorted({place.at for one in own for place in _at(point, figure.x, one)})
    is_curve = figure.x not in point.at or isinstance(point.at[figure.x], list)
    number = f"{low:g} to {high:g}" if low < high and is_curve else f"{sign}{low:g}" if sign or point.what else ""
    text = f"published {point.what}".rstrip() + (number and f": {number}") + f" {reported.label}"
    if is_curve:
        return (
            [Mark(text, reported.role, colour, tuple(x), (low,) * len(x), (high,) * len(x), marker, True)] if x else []
        )
    return [Mark(text, reported.role, colour, (place,), (low,), (high,), marker) for place in x]


def _value(figure: Figure, series: Series, name: str) -> Cell:
    return series.key[figure.lines.index(name)]


def _bound(reported: _Reported, *, is_inverse: bool) -> tuple[str, str]:
    """Return the marker and the sign of a published number; for a bound they show in which direction it is open."""
    if not reported.is_bound:
        return "D", ""
    return ("v", "≤ ") if is_inverse else ("^", "≥ ")


def _at(point: PublishedPoint, x: str, series: Series) -> list[DrawnRun]:
    """Return the runs of a series that a point is about: at one x, at several texts, or between two numbers."""
    wanted = point.at.get(x)
    if isinstance(wanted, list) and all(isinstance(end, int | float) for end in wanted):
        return [point for point in series.points if wanted[0] <= number_of(point.x) <= wanted[-1]]
    return [point for point in series.points if wanted is None or _is_among(point.x, wanted)]


def _from_emulated(
    figure: Figure, reported: _Reported, series: Sequence[Series], own: Sequence[Series], colour: str
) -> list[Mark]:
    """Draw a published ratio in a figure of times: the ratio times the emulated times of its reference runs."""
    point = reported.point
    ratio = dict(point.over or point.times)
    factor = 1.0 / reported.low if point.over else reported.low
    marker, sign = _bound(reported, is_inverse=bool(point.over))
    marks = []
    for one in own:
        key = tuple(ratio.get(name, value) for name, value in zip(figure.lines, one.key, strict=True))
        shown = {point.x for point in one.points}
        for base in series:
            places = [place for place in _at(point, figure.x, base) if place.x in shown]
            if base.key != key or not places or not ratio.keys() <= set(figure.lines):
                continue
            named = f"{figure.legend} {base.name}" if figure.legend else base.name
            relation = f"{named} / {reported.low:g}" if point.over else f"{reported.low:g} × ({named})"
            text = f"{f'published {point.what}'.rstrip()}: {sign}{relation}\n{reported.label}"
            heights = tuple(place.y * factor for place in places)
            x = tuple(place.at for place in places)
            marks.append(Mark(text, reported.role, colour, x, heights, heights, marker, is_curve=len(x) > 1))
    return marks
