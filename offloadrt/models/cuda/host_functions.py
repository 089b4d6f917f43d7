"""Functions of the host that streams and graphs run."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable


def check_host_function(call: str, function: Callable[[], object] | None, seconds: float) -> None:
    """Raise TypeError for a coroutine function, ValueError for a time that is negative or not finite."""
    if inspect.iscoroutinefunction(function) or not (function is None or callable(function)):
        raise TypeError(f"{call}: {function!r} is no plain function; a host function makes no calls")
    if not isinstance(seconds, int | float) or not 0.0 <= seconds < math.inf:
        raise ValueError(f"{call}: seconds is {seconds!r}, but must be finite and not negative")
