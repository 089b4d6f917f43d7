"""Numbers as people write them on a command line: `1M`, `64Ki`, `64KiB`, `20GB`, `10us`.

k, M, G and T are powers of 1000, Ki, Mi, Gi and Ti powers of 1024. A parameter has a unit when its name ends with one
(`size_gb`, `nbytes`, `reported_s`); a quantity is then turned into that unit. Other parameters take plain numbers.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

from offloadrt.study.errors import ParameterError

_UNITS = {
    "s": "s",
    "ms": "ms",
    "us": "us",
    "ns": "ns",
    "gb": "GB",
    "mb": "MB",
    "gib": "GiB",
    "mib": "MiB",
    "kib": "KiB",
    "bytes": "B",
    "nbytes": "B",
    "seconds": "s",
    "milliseconds": "ms",
}
_POWERS = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12} | {
    f"{letter}i": 1 << 10 * power for power, letter in enumerate("KMGT", 1)
}
_NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*([^\W\d_]\S*)\s*")


def unit_of(name: str) -> str | None:
    """Return the unit that the name of a parameter ends with, None without one.

    >>> unit_of("size_gb"), unit_of("nbytes"), unit_of("threads")
    ('GB', 'B', None)
    """
    before, _, last = name.rpartition("_")
    return _UNITS.get(last) if before or len(last) > 2 else None


def read_int(name: str, text: str) -> int:
    """Read a whole number of the parameter `name`. Raises ValueError for no number, ParameterError for a wrong unit."""
    for base in (0, 10):
        try:
            return int(text, base)
        except ValueError:
            pass
    exact = _exact(name, text)
    if (isinstance(exact, float) and not math.isfinite(exact)) or exact != int(exact):
        raise ValueError(text)
    return int(exact)


def read_float(name: str, text: str) -> float:
    """Read a number of the parameter `name`. Raises ValueError for no number, ParameterError for a wrong unit."""
    try:
        return float(_exact(name, text))
    except OverflowError:
        return math.inf


def _exact(name: str, text: str) -> Fraction | float:
    """Return the number that `text` is, in the unit of the parameter. Raises as `read_int`."""
    try:
        return float(text)
    except ValueError:
        written = _NUMBER.fullmatch(text)
    if written is None:
        raise ValueError(text)
    number, suffix = Fraction(Decimal(written[1])), written[2]
    power = _POWERS.get("k" if suffix == "K" else suffix)
    if power is not None:
        return number * power
    from offloadrt.machine.profile import units  # here, for `from offloadrt import scenario` needs no machine

    try:
        given = units.unit(suffix)
    except units.UnitError:
        raise ValueError(text) from None
    own = unit_of(name)
    if own is None:
        if given.is_count:
            return number
        power_only = suffix.removesuffix("B")
        plain = f"; write {name}={written[1]}{power_only} for as many of them" if power_only in _POWERS else ""
        raise ParameterError(name, f"{text!r} is a quantity of {given.dimension}, and this is a plain number{plain}")
    wanted = units.unit(own)
    if given.dimension != wanted.dimension:
        raise ParameterError(
            name, f"{text!r} is a quantity of {given.dimension}, and this is a number of {own}, as in {name}=4{own}"
        )
    return number * Fraction(str(given.factor)) / Fraction(str(wanted.factor))
