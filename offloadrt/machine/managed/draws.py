"""Draws of pages at random: what numpy's generator gives, for less."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

import numpy as np

_ARRAY: Final = 8
"""The most numbers that are drawn one by one; of more, numpy draws an array faster."""


def divided(counts: list[int], draws: int, rng: np.random.Generator) -> list[int]:
    """Divide some draws among several parts: ``multinomial`` of the generator, for a third of its time.

    >>> divided([3, 0, 1], 8, np.random.default_rng(1))
    [6, 0, 2]
    """
    shares: list[int] = []
    total, rest = sum(counts), 1.0
    for count in counts[:-1]:
        part = count / total
        shares.append(int(rng.binomial(draws, min(part / rest, 1.0))) if draws else 0)
        draws -= shares[-1]
        rest -= part
    return [*shares, draws]


def draw(low: int, high: int, draws: int, rng: np.random.Generator) -> list[int]:
    """Draw numbers of [low, high), fewer than 2**32: ``integers`` of the generator, a few for less of its time.

    A few are made of the bit generator's numbers as numpy makes them (Lemire, "Fast random integer generation in an
    interval", ACM TOMACS 29(1), 2019).
    """
    width = high - low
    if draws > _ARRAY or width == 1:
        drawn: list[int] = rng.integers(low, high, draws).tolist()
        return drawn
    numbers: list[int] = []
    bits, state = _bits(rng)
    biased = (1 << 32) % width
    for _ in range(draws):
        product = bits(state) * width
        while product & 0xFFFFFFFF < biased:
            product = bits(state) * width
        numbers.append(low + (product >> 32))
    return numbers


@functools.lru_cache(maxsize=1)
def _bits(rng: np.random.Generator) -> tuple[Callable[[int], int], int]:
    """Return what gives the next 32 random bits of a generator, and what to call it with."""
    interface = rng.bit_generator.ctypes
    return interface.next_uint32, interface.state_address
