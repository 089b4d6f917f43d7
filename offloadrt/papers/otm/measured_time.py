"""The time that the OTM paper measures: computation and data transfer, without allocations and frees (section 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Protocol

ALLOCATIONS: Final = ("cuMemAlloc", "cuMemAllocManaged", "cuMemFree")
"""Calls that allocate memory of the device or managed memory, or free it."""


class _Timed(Protocol):
    @property
    def total_s(self) -> float: ...


def computing_and_moving_s(elapsed_s: float, calls: Mapping[str, _Timed]) -> float:
    """Return the seconds of one host thread outside of allocations and frees, for which nothing else goes on."""
    return elapsed_s - math.fsum(calls[name].total_s for name in ALLOCATIONS if name in calls)
