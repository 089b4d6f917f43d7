"""Comparisons that are ranges of an index.

A launch counts them exactly; to a compiler they are branches like any other.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from offloadrt.kernels.accesses.frequency import Within
from offloadrt.kernels.accesses.values import Value
from offloadrt.kernels.algebra import Polynomial

_DIFFERENCE: dict[type[ast.cmpop], tuple[int | None, int | None]] = {
    ast.Lt: (1, None),
    ast.LtE: (0, None),
    ast.Gt: (None, -1),
    ast.GtE: (None, 0),
    ast.Eq: (0, 0),
}
"""Between which values the right side minus the left one lies, where the comparison holds."""


def ranges_of(values: Sequence[Value], ops: Sequence[ast.cmpop]) -> tuple[Within, ...]:
    """Return the ranges that together are a comparison, or a chain of comparisons.

    They are ranges of whole numbers that have a form over loop variables, scalars and lengths. The result is empty when
    some part is no range.
    """
    ranges = [_range(left, op, right) for left, op, right in zip(values, ops, values[1:], strict=False)]
    known = tuple(within for within in ranges if within is not None)
    return known if len(known) == len(ranges) else ()


def range_of_data(low: Value, index: Value, among: Polynomial | None, high: Value) -> tuple[Within, ...]:
    """Return the range ``low <= data % among <= high``; nothing where its ends are not known."""
    if low.polynomial is None or high.polynomial is None or low.loops | high.loops or index.polynomial is not None:
        return ()
    return (Within(low.polynomial, None, high.polynomial, among),)


def _range(left: Value, op: ast.cmpop, right: Value) -> Within | None:
    """Bring what varies with loops to one side, with a positive first term, and the rest to the other."""
    if left.polynomial is None or right.polynomial is None or type(op) not in _DIFFERENCE:
        return None
    low, high = _DIFFERENCE[type(op)]
    difference = right.polynomial - left.polynomial
    rest = difference.without({symbol for symbol in difference.symbols if "@" in symbol})
    index = difference - rest
    lowest = None if low is None else Polynomial.number(low) - rest
    highest = None if high is None else Polynomial.number(high) - rest
    if index.terms and index.terms[0][1] < 0:
        nothing = Polynomial.number(0)
        negated = (None if bound is None else nothing - bound for bound in (highest, lowest))
        return Within(next(negated), nothing - index, next(negated))
    return Within(lowest, index, highest)
