"""The two overheads of the zero-copy paper's Table III, from what a run counted.

MM, memory management: what host threads spend on allocating and freeing device memory, filling its page table ahead of
time, pinning, and copying. MI, memory initialisation: how long kernels stand still because a page they touch for the
first time has no translation on the device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

MANAGEMENT_CALLS = (
    "memory_pool_allocate",
    "memory_pool_free",
    "memory_async_copy",
    "memory_lock",
    "memory_unlock",
    "svm_attributes_set",
    "cuMemAlloc",
    "cuMemFree",
    "cuMemHostRegister",
    "cuMemHostUnregister",
)
"""Calls of the ROCm and CUDA driver libraries that manage memory."""


class _Timed(Protocol):
    @property
    def total_s(self) -> float: ...


class _Faults(Protocol):
    @property
    def service_s(self) -> float: ...
    @property
    def wait_s(self) -> float: ...


def memory_management_s(calls: Mapping[str, _Timed], host_time: Mapping[str, float]) -> float:
    """Return MM in seconds, summed over the host threads: the management calls, and staging and waiting for copies."""
    spent = [calls[name].total_s for name in MANAGEMENT_CALLS if name in calls]
    return math.fsum([*spent, host_time.get("copies", 0.0)])


def memory_initialization_s(faults: _Faults, before: _Faults | None = None) -> float:
    """Return MI in seconds, summed over the kernels; since `before` when that is given."""
    stalled = faults.service_s + faults.wait_s
    return stalled if before is None else stalled - before.service_s - before.wait_s
