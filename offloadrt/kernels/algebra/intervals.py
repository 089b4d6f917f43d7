"""Conditions ``low <= index <= high`` on loop variables: which iterations they leave, and how conditions combine.

The share of a nest's iterations in which a condition holds is written as a sum of products (its indicator function):
``a or b`` is a + b - a·b, where a product of ranges over one index is their intersection. So counts stay exact.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from offloadrt.kernels.algebra.polynomial import Polynomial

FAR = 1 << 100
"""A bound that excludes nothing: no index comes so far."""


@attrs.frozen
class Cut:
    """Iterations in which an index without a constant term lies between two numbers, both inclusive."""

    index: Polynomial
    low: int
    high: int

    @classmethod
    def of(cls, index: Polynomial, low: int, high: int) -> Cut:
        """Make the cut ``low <= index <= high``."""
        constant = index.value(dict.fromkeys(index.symbols, 0))
        return cls(index - Polynomial.number(constant), low - constant, high - constant)


Cuts = tuple[Cut, ...]
"""All of them hold; sorted, each index once."""

Share = dict[Cuts, float]
"""A sum of weights, each counting in the iterations where its cuts hold."""

EVERYWHERE: Share = {(): 1.0}


def both(first_share: Share, other: Share) -> Share:
    """Return the share in which both conditions hold."""
    total: Share = {}
    for first, weight in first_share.items():
        for second, factor in other.items():
            cuts = intersection(first, second)
            if cuts is not None:
                total[cuts] = total.get(cuts, 0.0) + weight * factor
    return {cuts: weight for cuts, weight in total.items() if weight or not cuts}


def neither(share: Share) -> Share:
    """Return the share in which a condition does not hold."""
    left = {cuts: -weight for cuts, weight in share.items() if cuts}
    return {(): 1.0 - share.get((), 0.0), **left}


def intersection(first: Cuts, second: Cuts) -> Cuts | None:
    """Return the cuts that hold where both do; None when that is nowhere."""
    by_index = {cut.index: cut for cut in first}
    for cut in second:
        earlier = by_index.get(cut.index, cut)
        by_index[cut.index] = Cut(cut.index, max(earlier.low, cut.low), min(earlier.high, cut.high))
        if by_index[cut.index].low > by_index[cut.index].high:
            return None
    return tuple(sorted(by_index.values(), key=lambda cut: (cut.index.terms, cut.low, cut.high)))


def cut_range(values: range, cut: Cut, symbol: str, known: Mapping[str, int]) -> range:
    """Return the values of a loop's variable for which a cut holds, the variables around it being `known`."""
    slope = cut.index.coefficient(symbol).value(known)
    rest = cut.index.without({symbol}).value(known)
    per_step = slope * values.step
    if per_step == 0:
        return values if cut.low <= slope * values.start + rest <= cut.high else values[:0]
    low, high = (bound - rest - slope * values.start for bound in (cut.low, cut.high))
    if per_step < 0:
        low, high, per_step = -high, -low, -per_step
    first, last = -(-low // per_step), high // per_step
    return values[max(first, 0) : max(last + 1, 0)]
