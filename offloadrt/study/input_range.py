"""Inputs of a program that its authors leave open: ranges with their sources, taken at an end or at the mean."""

from __future__ import annotations

import math
from typing import Literal

import attrs

Where = Literal["low", "mean", "high"]
"""Where in its range an input is taken."""


@attrs.frozen
class InputRange:
    """An input known only as a range; it runs at its geometric mean."""

    low: float
    high: float
    unit: str
    source: str

    def at(self, where: str = "mean") -> float:
        """Return the value at the `low` end, the `high` end, or the geometric `mean`. Raises ValueError elsewhere."""
        if where == "low":
            return self.low
        if where == "high":
            return self.high
        if where == "mean":
            return math.sqrt(self.low * self.high)
        raise ValueError(f"{where}: a range is taken at low, mean or high")
