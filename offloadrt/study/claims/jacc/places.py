"""Where the judges of the JACC claims look: the ten benchmarks on a DGX-1, a part of their iterations.

A part is enough: iterations are alike once the adaptive controller has decided, which it does in the first few.
`scaled` says how what a part measures becomes that of the whole run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from offloadrt.study.claims import claims_of
from offloadrt.study.judging import Bench, Judgement
from offloadrt.study.parameters import Value

SCENARIO = "jacc"
MACHINE = "dgx1-v100"
BENCHMARKS = ("BT", "CG", "EP", "FT", "LU", "MG", "SP", "CloverLeaf", "CCS-QCD", "Himeno")
HIMENO_SIZES = ("M", "L", "XL")
CANDIDATES: dict[str, dict[str, str]] = {}
SENSITIVITY: tuple[dict[str, Value], ...] = ()

bench = Bench()
claims = {claim.id: claim for claim in claims_of("jacc")}


def number(value: Any) -> float:
    """A measured figure that is a number."""
    assert isinstance(value, int | float)
    return float(value)


def mean(values: Iterable[float]) -> float:
    """The arithmetic mean, as the paper's averages over benchmarks."""
    listed = list(values)
    return math.fsum(listed) / len(listed)


def listed(values: Mapping[Any, float], form: str = ".3g") -> str:
    """`BT: 1.6, CG: 1.5`."""
    return ", ".join(f"{place}: {value:{form}}" for place, value in values.items())


def in_band(claim: str, value: float) -> bool:
    """Whether `value` lies in the band that counts as right."""
    lo, hi = claims[claim].lo, claims[claim].hi
    return (lo is None or value >= lo) and (hi is None or value <= hi)


def banded(claim: str, value: float, said: str, low: str, high: str) -> Judgement:
    """Whether `value` is in the claim's band; `low` and `high` are why it would be below and above it."""
    lo = claims[claim].lo
    return Judgement(said, in_band(claim, value), low if lo is not None and value < lo else high)
