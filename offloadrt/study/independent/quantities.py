"""Units of reported values and of figures: what a number in one is in the other.

A unit is one of those of machine profiles (`ms`, `GB/s`, `MiB`), a percentage, a share, or a word for things that are
counted (`batches`, `faults`); a quotient of two of them is a unit too (`us/block`).
"""

from __future__ import annotations

import functools
import re

from offloadrt.machine.profile import units

_FRACTIONS = {"%": 0.01, "percent": 0.01, "share": 1.0, "fraction": 1.0, "ratio": 1.0, "x": 1.0}
_WRITTEN = {"KB": "kB", "GFLOPS": "GFLOP/s", "TFLOPS": "TFLOP/s", "sec": "s", "seconds": "s", "bytes": "B", "byte": "B"}
_COUNT = re.compile(r"[A-Za-z_]\w*")


class UnitMismatch(ValueError):
    """A value and the figure that should predict it are not of one dimension."""


@functools.cache
def factor(unit: str) -> tuple[float, str]:
    """Return what a number in this unit is multiplied by to be in SI, and the unit's dimension.

    Raises UnitMismatch for what is no unit.

    >>> factor("us/block")
    (1e-06, 'time / count')
    """
    text = _WRITTEN.get(unit.strip(), unit.strip())
    if text in _FRACTIONS:
        return _FRACTIONS[text], "fraction"
    try:
        known = units.unit(text)
        return known.factor, known.dimension
    except units.UnitError:
        pass
    above, slash, below = text.partition("/")
    if slash:
        (numerator, of), (denominator, by) = factor(above), factor(below)
        return numerator / denominator, f"{of} / {by}"
    if _COUNT.fullmatch(text):
        return 1.0, "count"
    raise UnitMismatch(f"{unit!r} is no unit")


def converted(number: float, unit: str, to: str) -> float:
    """Convert a figure in `unit` to the unit of a value. Raises UnitMismatch when it cannot be."""
    (here, dimension), (there, wanted) = factor(unit), factor(to)
    if dimension != wanted:
        raise UnitMismatch(f"the value is in {to} and the figure in {unit}")
    return number * here / there


def unit_of(figure: str) -> str:
    """Return the unit that a figure's name says: seconds, bytes, a fraction, or a count.

    >>> unit_of("kernel_s"), unit_of("bytes_per_batch_median"), unit_of("batches"), unit_of("copy_bytes_per_s")
    ('s', 'B', 'batches', 'B/s')
    """
    if figure.endswith("_bytes_per_s"):
        return "B/s"
    if figure.endswith("flop_per_s"):
        return "FLOP/s"
    if figure.endswith("_s_per_byte"):
        return "s/B"
    if figure.endswith("_s") or "_s_" in figure:
        return "s"
    if re.search(r"(^|_)bytes(_|$)", figure):
        return "B"
    if figure.endswith("_share"):
        return "fraction"
    return figure
