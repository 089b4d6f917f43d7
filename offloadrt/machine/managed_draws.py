"""Draws of pages at random: what numpy's generator gives, for less."""

from __future__ import annotations

from typing import Final

import numpy as np

_ARRAY: Final = 3
"""Up to so many numbers are drawn one by one."""


def divided(counts: list[int], draws: int, rng: np.random.Generator) -> list[int]:
    """How many of some draws fall to each of several parts; ``multinomial`` of the generator, for a third of its time.

    >>> divided([3, 0, 1], 8, np.random.default_rng(1))
    [6, 0, 2]
    """
    total, rest, shares = sum(counts), 1.0, list[int]()
    for count in counts[:-1]:
        part = count / total
        shares.append(int(rng.binomial(draws, min(part / rest, 1.0))) if draws else 0)
        draws -= shares[-1]
        rest -= part
    return [*shares, draws]


def draw(low: int, high: int, draws: int, rng: np.random.Generator) -> list[int]:
    """Numbers of [low, high); a few one by one, which costs less and gives the same."""
    if draws > _ARRAY:
        drawn: list[int] = rng.integers(low, high, draws).tolist()
        return drawn
    return [int(rng.integers(low, high)) for _ in range(draws)]
