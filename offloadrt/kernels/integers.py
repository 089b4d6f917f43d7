"""The test for whole numbers among the numbers that programs pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

import numpy as np


def is_integer(value: object) -> TypeGuard[int]:
    """Tell whether a value is a whole number of Python or NumPy, and not a truth value.

    >>> is_integer(8), is_integer(np.int64(8)), is_integer(8.0), is_integer(True)
    (True, True, False, False)
    """
    return type(value) is int or (isinstance(value, (int, np.integer)) and not isinstance(value, bool))


def check_integers(call: str, values: Iterable[tuple[str, object, int]]) -> None:
    """Raise ValueError for the first value that is not a whole number, or is smaller than its least value.

    values: name, value and least value of each argument of the call.
    """
    for name, value, least in values:
        if not (is_integer(value) and value >= least):
            raise ValueError(f"{call}: {name} is {value!r}, but must be a whole number from {least}")
