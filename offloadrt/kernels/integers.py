"""What counts as a whole number among the numbers that programs give."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np


def is_integer(value: object) -> TypeGuard[int]:
    """Tell whether a value is a whole number, also NumPy's, and no truth value.

    >>> is_integer(8), is_integer(np.int64(8)), is_integer(8.0), is_integer(True)
    (True, True, False, False)
    """
    return type(value) is int or (isinstance(value, (int, np.integer)) and not isinstance(value, bool))
