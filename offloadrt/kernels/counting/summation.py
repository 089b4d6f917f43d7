"""Sums over one loop of the iterations that are nested in it: exact, without adding one by one.

The integer points of a polytope are a polynomial in a parameter between the values at which vertices of it meet
(Clauss, Counting solutions to linear and nonlinear constraints through Ehrhart polynomials, ICS 1996): here, between
those at which inner loops begin or cease to be empty. A polynomial's sum follows from a few samples by Newton's forward
differences. Where steps make it none, further samples show it, and all are added.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from offloadrt.kernels.accesses.frequency import Loop
from offloadrt.kernels.algebra.intervals import FAR, Cuts
from offloadrt.kernels.algebra.polynomial import Polynomial

_ADDED_ONE_BY_ONE = 64
_ADDED_AT_MOST = 1 << 20
_SYSTEMS = 5000
"""Places where bounds meet, at most."""
_MARGIN = 2
"""Iterations on either side of a break that are added one by one: bounds are rounded to whole numbers."""


def exact(function: Callable[[int], int], count: int, breaks: tuple[int, Sequence[int]] | None) -> int | None:
    """Add function(0) + … + function(count - 1); None when that takes too long.

    `breaks`: the degree of the polynomials that the function is between some places, and these places; None when it is
    no polynomial.
    """
    if breaks is None or count <= _ADDED_ONE_BY_ONE:
        return _one_by_one(function, 0, count) if count <= _ADDED_AT_MOST else None
    degree, places = breaks
    ends = {0, count}
    for place in places:
        ends |= {place - _MARGIN, place + _MARGIN}
    total = 0
    for low, high in itertools.pairwise(sorted(end for end in ends if 0 <= end <= count)):
        part = None
        if high - low > _ADDED_ONE_BY_ONE:
            part = _by_differences(function, low, high, degree)
        if part is None:
            if high - low > _ADDED_AT_MOST:
                return None
            part = _one_by_one(function, low, high)
        total += part
    return total


def sampled(function: Callable[[int], int], count: int) -> int:
    """Estimate the same sum from samples."""
    places = [number * count // _ADDED_AT_MOST for number in range(_ADDED_AT_MOST)]
    return sum(function(place) for place in places) * count // _ADDED_AT_MOST


def breaks(
    loop: Loop, values: range, inner: Sequence[Loop], cuts: Cuts, known: Mapping[str, int]
) -> tuple[int, list[int]] | None:
    """Return the degree of the polynomials that count inner iterations, and the places where one becomes another.

    The polynomials are in the number of the outer loop's iteration. None when there are too many bounds to tell. Each
    place is where as many bounds meet as there are variables. Bounds that are products of variables have no part in it.
    """
    variables = [loop.symbol, *(other.symbol for other in inner)]
    places = {symbol: place for place, symbol in enumerate(variables)}
    bounds = [
        bound.known(known) - Polynomial.symbol(other.symbol)
        for other in inner
        for bound in (other.start, other.stop)
        if bound is not None
    ]
    for cut in cuts:
        index = cut.index.known(known)
        bounds += [index - Polynomial.number(end) for end in (cut.low, cut.high) if abs(end) < FAR // 2]
    rows = [_row(bound, places) for bound in dict.fromkeys(bounds) if bound.symbols <= set(variables)]
    sides = [row for row in rows if row is not None]
    if math.comb(len(sides), len(variables)) > _SYSTEMS:
        return None
    systems = np.array(list(itertools.combinations(sides, len(variables))))
    if not len(systems):
        return 2 * len(inner) + 1, []
    matrices, right = systems[:, :, :-1], -systems[:, :, -1]
    regular = np.abs(np.linalg.det(matrices)) > 0.5  # of whole numbers
    met = np.linalg.solve(matrices[regular], right[regular][:, :, np.newaxis])[:, 0, 0]
    meeting = {round(float(place)) for place in (met - values.start) / values.step}
    return 2 * len(inner) + 1, sorted(meeting)


def _row(side: Polynomial, places: Mapping[str, int]) -> list[float] | None:
    row = [0.0] * (len(places) + 1)
    for monomial, coefficient in side.terms:
        if len(monomial) > 1:
            return None
        row[places[monomial[0]] if monomial else -1] = float(coefficient)
    return row


def _one_by_one(function: Callable[[int], int], low: int, high: int) -> int:
    return sum(function(number) for number in range(low, high))


def _by_differences(function: Callable[[int], int], low: int, high: int, degree: int) -> int | None:
    """Add the values of a polynomial; None when samples show that it is none."""
    differences = [function(low + number) for number in range(degree + 1)]
    for order in range(1, degree + 1):
        for place in range(degree, order - 1, -1):
            differences[place] -= differences[place - 1]
    count = high - low
    samples = (count - 1, count // 2, count * 3 // 4, count // 7)
    if all(_newton(differences, at, 0) == function(low + at) for at in samples):
        return _newton(differences, count, 1)
    return None


def _newton(differences: Sequence[int], at: int, shift: int) -> int:
    """Add Σₖ Δᵏ · C(at, k + shift): with shift 0 the polynomial's value at `at`, with 1 its sum over 0 … at - 1."""
    total = 0
    for order, difference in enumerate(differences):
        total += difference * _choose(at, order + shift)
    return total


def _choose(n: int, k: int) -> int:
    result = 1
    for number in range(k):
        result = result * (n - number) // (number + 1)
    return result
