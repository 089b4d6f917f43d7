"""`expect`: what a programmer tells the compiler about a branch or a loop, as `__builtin_expect_with_probability` does.

    if expect(mask[i], probability=0.05): ...
    for e in expect(range(first[i], first[i + 1]), trips=6, near=1): ...
    nb = expect(neighbours[i], near=0.9)

A number is seen by the static analysis (a probability; a compiler knows no trip counts of such loops, and neither does
LAF). All are seen when a launch's costs are counted, and there a hint may also be the name of a scalar parameter of
the kernel, so that a phantom program can say how much each launch does.

`near` is about data that decide an index: the part of them that lies near its own iteration, so that a kernel whose
iterations are done in order comes to those elements in order (the rows of a compressed matrix, the neighbours in a mesh
that is numbered well). The others may lie anywhere; without the hint all may. An index that is data as it stands
(``a[expect(neighbours[i], near=1)]``) lies near its own number, and so within the range of `i`; one that is computed
from data lies near an unknown place.
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def expect(value: T, *, probability: float | None = None, trips: float | None = None, near: float | None = None) -> T:
    """Return `value` itself, and tell the compiler about it.

    `value` is a condition with the `probability` (0 to 1) that it holds, a `range` with the average number of `trips`
    and the part of them that lies `near` (0 to 1), or an index with that part.
    """
    return value
