"""`expect`: what a programmer tells the compiler about a branch or a loop, as `__builtin_expect_with_probability` does.

    if expect(mask[i], probability=0.05): ...
    for e in expect(range(first[i], first[i + 1]), trips=6): ...

A number is seen by the static analysis (a probability; a compiler knows no trip counts of such loops, and neither does
LAF). Both are seen when a launch's costs are counted, and there a hint may also be the name of a scalar parameter of
the kernel, so that a phantom program can say how much each launch does.
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def expect(value: T, *, probability: float | None = None, trips: float | None = None) -> T:
    """`value` itself, which is a condition with the `probability` (0 to 1) that it holds, or a `range` with the
    average number of `trips`.
    """
    return value
