"""Inputs of a program that its paper does not give, as ranges of possible values with their sources.

A program asks a range for its value (`InputRange.at`), at an end or at the mean. The user may choose other quantiles
for ranges that have a name (`inputs_at`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import attrs

_QUANTILES: Mapping[str, float] = {"low": 0.0, "mean": 0.5, "high": 1.0}
"""The quantiles that have names. Equal steps of a quantile are equal factors, because estimates err by a factor."""


@attrs.frozen
class _Taken:
    """The named inputs of one run: the quantiles that the user chose, and the values that the program used."""

    quantiles: Mapping[str, str | float]
    values: dict[str, float]


_NAMED: dict[str, InputRange] = {}
"""The named ranges that programs have made."""

_CURRENT: ContextVar[_Taken | None] = ContextVar("inputs of this run", default=None)


@attrs.frozen
class InputRange:
    """An input of a program, known only to lie from `low` to `high`; by default a run takes the geometric mean."""

    low: float
    high: float
    unit: str
    source: str
    name: str = attrs.field(default="", kw_only=True)
    """The name `PROGRAM.INPUT` by which a user chooses a position in the range; if empty, only the program chooses."""
    affordable: float | None = attrs.field(default=None, kw_only=True)
    """The largest value that a random draw of the inputs takes, as larger ones run too long; None: all values."""

    def at(self, where: str | float = "mean") -> float:
        """Return the value at the position `where`: `low`, `high`, `mean` (geometric), or a quantile between 0 and 1.

        Raises ValueError for any other position.
        """
        taken = _CURRENT.get() if self.name else None
        if taken is None:
            return self._value(where)
        taken.values[self.name] = value = self._value(taken.quantiles.get(self.name, where))
        return value

    def __attrs_post_init__(self) -> None:
        if self.name:
            _NAMED[self.name] = self

    @property
    def highest(self) -> float:
        """Return the highest quantile that a draw of the inputs takes: 1, or the quantile of the value `affordable`."""
        if self.affordable is None:
            return 1.0
        return math.log(self.affordable / self.low) / math.log(self.high / self.low)

    def _value(self, where: str | float) -> float:
        quantile = _QUANTILES.get(where, -1.0) if isinstance(where, str) else where
        if not 0.0 <= quantile <= 1.0:
            raise ValueError(f"{where}: a range is taken at low, mean or high, or between 0 and 1")
        known = {0.0: self.low, 0.5: math.sqrt(self.low * self.high), 1.0: self.high}
        return known[quantile] if quantile in known else self.low ** (1.0 - quantile) * self.high**quantile


@contextmanager
def inputs_at(quantiles: Mapping[str, str | float]) -> Iterator[dict[str, float]]:
    """Set inputs with a range to these quantiles, by name, while the body runs; yield a dict of the values used."""
    taken = _Taken(quantiles, {})
    token = _CURRENT.set(taken)
    try:
        yield taken.values
    finally:
        _CURRENT.reset(token)


def named_range(name: str) -> InputRange | None:
    """Return the input range with this name, of all that programs have made; None if there is none."""
    return _NAMED.get(name)
