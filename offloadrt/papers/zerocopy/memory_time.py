"""The two overheads of the zero-copy paper's Table III, from what a run counted.

MM, memory management: what host threads spend on allocating and freeing device memory, filling its page table ahead of
time, pinning, and copying. MI, memory initialisation: how long kernels stand still because a page they touch for the
first time has no translation on the device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from offloadrt.study import Run

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


def memory_overheads(run: Run, before: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return, in seconds, the memory management and memory initialisation overheads of the paper's Table III.

    The first, summed over the host threads: the management calls, and staging and waiting for copies. The second: how
    long kernels waited for pages that they touched first, since `before` (an earlier `run.counted.kernels`) if given.
    """
    measured, kernels = run.measured, run.counted.kernels
    calls = measured.calls.table()
    spent = [calls[name].total_s for name in MANAGEMENT_CALLS if name in calls]
    stalled = kernels["fault_service_s"] + kernels["fault_wait_s"]
    return {
        "memory_management_s": math.fsum([*spent, measured.host_time.get("copies", 0.0)]),
        "memory_initialization_s": (
            stalled if before is None else stalled - before["fault_service_s"] - before["fault_wait_s"]
        ),
    }
