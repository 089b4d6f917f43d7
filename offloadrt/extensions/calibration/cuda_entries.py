"""Says which entries a trace measures on a machine with CUDA's driver; calls of HIP count as those of CUDA.

A call of the CUDA runtime counts as the driver's call below it. Of several names of a call, the one that the trace has
most often is measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from offloadrt.extensions.calibration.device_trace import TracedCall
from offloadrt.extensions.calibration.operations import (
    ENTRIES,
    Measurement,
    Operations,
    described,
    latencies,
    linear_cost,
    measurement,
    nearer_to,
    rates,
    two_groups,
)
from offloadrt.machine import MachineSpec

WAITS: Final = frozenset(
    f"{prefix}{what}Synchronize"
    for prefix, whats in {"cu": ("Stream", "Ctx", "Event"), "cuda": ("Stream", "Device", "Event")}.items()
    for what in whats
) | {"hipStreamSynchronize", "hipDeviceSynchronize", "hipEventSynchronize"}
_CALLS, _ONCE = ENTRIES["cuda"]["calls"], ENTRIES["cuda"]["once"]
_SUBMITS: Final = ("cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuMemcpyAsync", "cudaMemcpyAsync", "hipMemcpyAsync")
_ALLOCATES: Final = ("cuMemAlloc", "cudaMalloc", "hipMalloc")
_FREES: Final = ("cuMemFree", "cudaFree", "hipFree")
MEASURED: Final = (
    *_CALLS, *_ONCE, "alloc.cudaMalloc_small", "alloc.cudaMalloc_large", "alloc.cudaMalloc_segment", "alloc.cudaFree",
    "alloc.cudaFree_large", "driver.copy_submit", "launch.latency", "launch.gap", "sync.latency", "driver.sync_idle",
    "copy.latency", "link.h2d_pinned", "link.d2h_pinned",
)  # fmt: skip
"""The entries that a trace can measure."""
USED: Final = frozenset(
    name for names in (*_CALLS.values(), *_ONCE.values(), _SUBMITS, _ALLOCATES, _FREES) for name in names
)


def measure(operations: Operations, base: MachineSpec) -> Iterator[Measurement | None]:
    """Yield a measurement for each entry (cost or rate) of a profile that a profiler's CUDA trace can show.

    Yields None for an entry that this trace does not show. operations: the calls and commands of the trace. base: the
    machine profile whose entries are measured anew.
    """
    for entries, least in ((_CALLS, 3), (_ONCE, 1)):
        for key, names in entries.items():
            name = operations.most_called(names)
            yield measurement(key, _seconds(operations.alone(name)), f"{name} calls", least)
    yield from _allocations(operations, base)
    yield from _frees(operations, base)
    pinned = {call for call, command in operations.submitted if command.pinned}
    name = operations.most_called(_SUBMITS)
    submits = [call for call in operations.alone(name) if call in pinned]
    yield measurement("driver.copy_submit", _seconds(submits), f"{name} calls for pinned memory")
    yield from _copies(operations, base)
    yield from waits_and_starts(operations)
    yield measurement("driver.sync_idle", operations.wait_ends()[1], "synchronizing calls with nothing to wait for")


def waits_and_starts(operations: Operations) -> Iterator[Measurement | None]:
    """Yield the measurements of three latencies that all drivers have, each of them None if the trace does not show it.

    They are the time from a launch to the kernel's start, the gap between two kernels of a stream, and the time from
    the end of a command to the return of the wait for it. operations: the calls and commands of the trace.
    """
    starts = operations.launch_latencies()
    yield measurement("launch.latency", starts, "kernels on an idle device, from the return of the launch to the begin")
    gaps = operations.launch_gaps()
    yield measurement("launch.gap", gaps, "kernels that were submitted before the one before them ended")
    yield measurement(
        "sync.latency", operations.wait_ends()[0], "waits, from the end of the last command to the return"
    )


def _allocations(operations: Operations, base: MachineSpec) -> Iterator[Measurement | None]:
    """Yield the costs of allocations from memory that the driver holds, and of those that get new segments."""
    name = operations.most_called(_ALLOCATES)
    calls = operations.alone(name)
    held, new = _divided(calls, base, "alloc.cudaMalloc_small", base.value("alloc.cudaMalloc_large"))
    what = _part(name, "from memory that the driver held", held, new)
    yield measurement("alloc.cudaMalloc_small", _seconds(held), what)
    points = _sized(new, base)
    first = [seconds for segments, seconds in points if segments == 1]
    yield measurement("alloc.cudaMalloc_large", first, f"{name} calls that got one new segment")
    line = linear_cost(points)
    if line is not None:
        yield line.per_unit("alloc.cudaMalloc_segment", f"{name} calls: slopes over new segments")


def _frees(operations: Operations, base: MachineSpec) -> Iterator[Measurement | None]:
    """Yield the cost of frees after which the driver keeps the memory, and the cost of each segment given back."""
    name = operations.most_called(_FREES)
    calls = operations.alone(name, idle_device=True)  # a free waits for what the device does
    both = base.value("alloc.cudaFree") + base.value("alloc.cudaFree_large")
    kept, given = _divided(calls, base, "alloc.cudaFree", both)
    what = _part(name, "after which the driver kept the memory", kept, given)
    small = measurement("alloc.cudaFree", _seconds(kept), what)
    yield small
    call = small.value if small is not None else base.value("alloc.cudaFree")
    segments = [(seconds - call) / count for count, seconds in _sized(given, base)]
    yield measurement("alloc.cudaFree_large", segments, f"{name} calls that gave segments back, for each segment")


def _divided(
    calls: Sequence[TracedCall], base: MachineSpec, key: str, other: float
) -> tuple[list[TracedCall], list[TracedCall]]:
    """Divide calls by their times: those served from memory that the driver holds, and those of the kernel driver.

    If all take about the same time, all belong to the kind whose cost in the base is nearer: entry `key`, or `other`.
    """
    quick, slow = two_groups(_seconds(calls))
    if not slow:
        if not quick or nearer_to(base, float(np.median(quick)), key, other):
            return list(calls), []
        return [], list(calls)
    return [c for c in calls if c.seconds < slow[0]], [c for c in calls if c.seconds >= slow[0]]


def _sized(calls: Sequence[TracedCall], base: MachineSpec) -> list[tuple[float, float]]:
    """Return the number of segments and the seconds of each call whose size is known."""
    segment = base.value("alloc.segment")
    return [(float(math.ceil(call.nbytes / segment)), call.seconds) for call in calls if call.nbytes]


def _part(name: str, which: str, part: Sequence[TracedCall], others: Sequence[TracedCall]) -> str:
    """Return in words which calls were measured, with the medians of the other calls and of all together."""
    if not others:
        return f"{name} calls"
    other, together = (float(np.median(_seconds(calls))) * 1e6 for calls in (others, (*part, *others)))
    count = len(part) + len(others)
    return f"{name} calls {which}; the other {len(others)} took {other:.4g} us, all {count} together {together:.4g} us"


def _copies(operations: Operations, base: MachineSpec) -> Iterator[Measurement | None]:
    found = operations.engine_copies
    pinned = [copy for copy in found if copy.pinned]
    for key, direction in (("link.h2d_pinned", "h2d"), ("link.d2h_pinned", "d2h")):
        chosen = pinned if len(rates(pinned, direction, 0.0)) >= 3 else found
        large = rates(chosen, direction, base.value("copy.latency"))
        yield measurement(key, large, described(chosen, "of 256 KiB and more", direction))
    small = pinned if len(latencies(pinned)) >= 3 else found
    yield measurement("copy.latency", latencies(small), described(small, "of at most 4 KiB"))


def _seconds(calls: Sequence[TracedCall]) -> list[float]:
    return [call.seconds for call in calls]
