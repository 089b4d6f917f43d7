"""The error for what is no duration, for every primitive that takes one."""

from __future__ import annotations


def no_duration(call: str, given: object) -> Exception:
    """Return what `call(given)` raises when `given` is no finite number of seconds from 0 on."""
    if isinstance(given, int | float):
        return ValueError(f"{call}({given!r}): virtual seconds are finite and not negative")
    return TypeError(f"{call}({given!r}): takes virtual seconds as a number, as in {call}(1e-5) for 10 microseconds")
