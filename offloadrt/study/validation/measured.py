"""Measured figures as the judges of all papers need them: as numbers, their mean, and as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

DISCERNIBLE = 1.01
"""The ratio from which one time counts as longer than another: real machines cannot tell less apart."""


def longer(time: float, other: float) -> bool:
    """Tell whether a time, or another positive figure, is discernibly larger than the other one."""
    return time >= DISCERNIBLE * other


def number(value: Any) -> float:
    """Read a measured figure that is a number."""
    assert isinstance(value, int | float)
    return float(value)


def numbers(measured: Mapping[str, Any], *names: str) -> list[float]:
    """Read several measured figures that are numbers."""
    return [number(measured[name]) for name in names]


def mean(values: Iterable[float]) -> float:
    """Take the arithmetic mean, as the papers average."""
    terms = list(values)
    return math.fsum(terms) / len(terms)


def listed(values: Mapping[Any, float], form: str = ".3g") -> str:
    """Write figures by place.

    >>> listed({2.0: 1.6, "S4": 1.5})
    '2: 1.6, S4: 1.5'
    """
    return ", ".join(f"{_text(place)}: {value:{form}}" for place, value in values.items())


def _text(place: Any) -> str:
    return f"{place:g}" if isinstance(place, float) else str(place)
