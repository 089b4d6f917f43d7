"""Which entries the rows of the micro-benchmarks measure.

Only rows of a single operation do. Those of many threads, of faults in batches and beside kernels are what the emulator
has to predict, so no entry is fitted to them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from offloadrt.calibration.measurement import LinearCost, Measurement, linear_cost
from offloadrt.calibration.operations import LARGE, SMALL
from offloadrt.calibration.readers.benchmarks import BenchmarkRow
from offloadrt.machine import MachineSpec

_Name = tuple[str, str]
"""What was measured, and the variant."""
_SINGLE: Final[dict[_Name, str]] = {
    ("launch", "call"): "driver.launch",
    ("launch", "begin"): "launch.latency",
    ("launch", "gap"): "launch.gap",
    ("sync", "return"): "sync.latency",
    ("sync", "idle"): "driver.sync_idle",
    ("stream", "create"): "driver.stream_create",
    ("stream", "destroy"): "driver.stream_destroy",
    ("event", "record"): "driver.event_record",
    ("event", "wait"): "driver.event_wait",
    ("copy", "h2d_pinned_call"): "driver.copy_submit",
    ("malloc_managed", "idle"): "alloc.cuMemAllocManaged",
    ("managed", "prefetch_call"): "prefetch_async.call",
    ("managed", "advise_call"): "advise.call",
    ("memory", "latency"): "mem.latency",
    ("lock", "handover"): "driver.handover",
    ("first_touch", "host_4k"): "fault.cpu_4k",
    ("first_touch", "host_2m"): "fault.cpu_2m",
    ("first_touch", "gpu_present_2m"): "fault.service_2m",
}
"""Rows whose time is an entry; of several sizes, that of the smallest."""
_LINES: Final[dict[_Name, tuple[str, str]]] = {
    ("host_register", "idle"): ("pin.register", "pin.register_per_gib"),
    ("host_unregister", "idle"): ("pin.unregister", ""),
    ("malloc_host", "idle"): ("usm.malloc_host", ""),
}
"""Rows over size: the entry of the part without the bytes, and that of the bytes."""
_RATES: Final[dict[_Name, str]] = {
    ("engine", "h2d"): "link.h2d_pinned",
    ("engine", "d2h"): "link.d2h_pinned",
    ("memcpy", "host"): "host.memcpy_1t",
    ("memcpy", "host_together"): "host.memcpy_max",
    ("bandwidth", "all_sms"): "mem.bw",
    ("bandwidth", "one_sm_cached"): "sm.bandwidth",
}
"""Rows whose size over time is an entry, at the size or number of threads that gives the most."""
_TOGETHER: Final = ("memcpy", "host_together")
"""What all threads reach together is the capacity of the host's memory, so its rows are of many threads."""
MEASURED: Final = (
    *_SINGLE.values(),
    *(key for keys in _LINES.values() for key in keys if key),
    *_RATES.values(),
    "alloc.cudaMalloc_small", "alloc.cudaMalloc_large", "alloc.cudaMalloc_segment", "alloc.cudaFree",
    "alloc.cudaFree_large", "copy.latency", "dma.occupancy", "dma.bw", "fault.populate_2m",
)  # fmt: skip
"""The entries that benchmarks can measure."""


def measure(rows: Sequence[BenchmarkRow], base: MachineSpec) -> Iterator[Measurement | None]:
    """Yield what the rows say of entries; None for what they do not say."""
    by_name: dict[_Name, list[BenchmarkRow]] = {}
    for row in rows:
        name = row.what, row.variant
        if row.threads == 1 or name == _TOGETHER:
            by_name.setdefault(name, []).append(row)
    for name, key in _SINGLE.items():
        if found := by_name.get(name):
            yield _single(key, min(found, key=lambda row: row.size))
    for name, (fixed, per_byte) in _LINES.items():
        if line := _line(by_name.get(name, ())):
            yield line.fixed(fixed, f"benchmarks {' '.join(name)}, without the bytes")
            yield line.per_unit(per_byte, f"benchmarks {' '.join(name)}: slopes over size") if per_byte else None
    for name, key in _RATES.items():
        found = [row for row in by_name.get(name, ()) if row.p10_s > 0 and row.size >= LARGE]
        if found:
            yield _rate(key, max(found, key=lambda row: row.size / row.median_s))
    if small := [row for row in by_name.get(("engine", "h2d"), ()) if row.size <= SMALL]:
        yield _single("copy.latency", min(small, key=lambda row: row.size))
    yield from _dma(by_name)
    yield from _segments(by_name, base)
    yield _populating(by_name)


def _single(key: str, row: BenchmarkRow) -> Measurement | None:
    what = f"benchmarks {row.what} {row.variant}".rstrip()
    return Measurement(key, row.median_s, row.p10_s, row.p90_s, row.n, what) if row.median_s > 0 else None


def _rate(key: str, row: BenchmarkRow) -> Measurement:
    low, median, high = (row.size / seconds for seconds in (row.p90_s, row.median_s, row.p10_s))
    threads = f" with {row.threads} threads" if row.threads > 1 else ""
    return Measurement(key, median, low, high, row.n, f"benchmarks {row.what} {row.variant}{threads}")


def _line(rows: Sequence[BenchmarkRow]) -> LinearCost | None:
    return linear_cost([(row.size, row.median_s) for row in rows], sum(row.n for row in rows))


def _dma(by_name: dict[_Name, list[BenchmarkRow]]) -> Iterator[Measurement | None]:
    """Yield what copies in a row say of a DMA ring."""
    rows = by_name.get(("dma", "in_a_row"), ())
    if small := [row for row in rows if row.size <= SMALL]:
        yield _single("dma.occupancy", min(small, key=lambda row: row.size))
    if large := [row for row in rows if row.size >= LARGE and row.p10_s > 0]:
        yield _rate("dma.bw", max(large, key=lambda row: row.size / row.median_s))


def _segments(by_name: dict[_Name, list[BenchmarkRow]], base: MachineSpec) -> Iterator[Measurement | None]:
    """Yield what allocations and frees cost within a segment of the driver's, and with new segments."""
    if "alloc.segment" not in base.entries:
        return
    segment = base.value("alloc.segment")
    for what, key, added in (
        ("malloc", "alloc.cudaMalloc_small", "alloc.cudaMalloc_large"),
        ("free", "alloc.cudaFree", "alloc.cudaFree_large"),
    ):
        rows = by_name.get((what, "idle"), ())
        small = [row for row in rows if row.size < segment]
        yield _single(key, min(small, key=lambda row: row.size)) if small else None
        large = [row for row in rows if row.size >= segment]
        points = [(float(math.ceil(row.size / segment)), row.median_s) for row in large]
        line = linear_cost(points, sum(row.n for row in large))
        if line is not None and what == "malloc":
            first = [row for row in large if row.size == segment]
            yield _single(added, first[0]) if first else None
            yield line.per_unit("alloc.cudaMalloc_segment", f"benchmarks {what} idle: slopes over segments")
        elif line is not None:
            yield line.per_unit(added, f"benchmarks {what} idle: slopes over segments")


def _populating(by_name: dict[_Name, list[BenchmarkRow]]) -> Measurement | None:
    """Return what a huge page that nobody touched adds to a GPU's fault."""
    present, new = (by_name.get(("first_touch", f"gpu_{which}_2m"), ()) for which in ("present", "new"))
    if not present or not new:
        return None
    low, median, high = (
        getattr(new[0], name) - present[0].median_s for name in ("p10_s", "median_s", "p90_s")
    )  # fmt: skip
    what = "benchmarks first_touch gpu_new_2m, less those of pages that are present"
    return Measurement("fault.populate_2m", median, low, high, new[0].n, what) if low > 0 else None
