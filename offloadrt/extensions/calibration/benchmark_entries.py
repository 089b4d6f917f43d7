"""Says which entries of a profile are measured by which rows of the micro-benchmarks (`bench/hardware/`).

Only rows of a single operation measure an entry. Rows of many threads, of batches of faults, and of operations beside
kernels are what the emulator has to predict, so no entry is fitted to them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from offloadrt.extensions.calibration.operations import ENTRIES, LARGE, SMALL, Measurement, linear_cost
from offloadrt.extensions.calibration.readers.kinds import BenchmarkRow
from offloadrt.machine import MachineSpec

_Name = tuple[str, str]
"""The operation that was measured, and its variant."""
_SINGLE, _RATES = (
    {(what, variant): key for row, key in ENTRIES["benchmarks"][table].items() for what, variant in [row.split()]}
    for table in ("single", "rates")
)
_PINNING: Final[dict[str, list[str]]] = ENTRIES["benchmarks"]["pinning"]
_TOGETHER: Final = ("memcpy", "host_together")
"""The rows of copies by many threads at once, whose rate together is the bandwidth of the host's memory."""
MEASURED: Final = (
    *_SINGLE.values(),
    *(key for keys in _PINNING.values() for key in keys if key),
    *_RATES.values(),
    "alloc.cudaMalloc_small", "alloc.cudaMalloc_large", "alloc.cudaMalloc_segment", "alloc.cudaFree",
    "alloc.cudaFree_large", "alloc.cudaFree_segment", "copy.latency", "dma.occupancy", "dma.bw", "fault.populate_2m",
    "fault.repeat_2m", "mempool.grow", "mempool.grow_segment", "sm.saturating_occupancy", "staging.copy_per_gib",
    "stream.interrupt",
)  # fmt: skip
"""The entries that benchmarks can measure."""


def measure(rows: Sequence[BenchmarkRow], base: MachineSpec) -> Iterator[Measurement | None]:
    """Yield a measurement for each entry (cost or rate) of a machine profile that a known benchmark measures.

    Yields None for an entry if no row has its benchmark. rows: lines of the benchmarks' result files. base: the machine
    profile whose entries are measured anew.
    """
    by_name: dict[_Name, list[BenchmarkRow]] = {}
    for row in rows:
        name = row.what, row.variant
        if row.threads == 1 or name == _TOGETHER:
            by_name.setdefault(name, []).append(row)
    for name, key in _SINGLE.items():
        if found := by_name.get(name):
            yield _single(key, min(found, key=lambda row: row.size))
    for name, key in _RATES.items():
        found = [row for row in by_name.get(name, ()) if row.p10_s > 0 and row.size >= LARGE]
        if found:
            yield _rate(key, max(found, key=lambda row: row.size / row.p90_s))
    yield _staged(by_name)
    yield _interrupt(by_name)
    yield _saturating(by_name, base)
    if small := [row for row in by_name.get(("engine", "h2d"), ()) if row.size <= SMALL]:
        yield _single("copy.latency", min(small, key=lambda row: row.size))
    yield from _dma(by_name)
    yield from _segments(by_name, base)
    yield from _populating(by_name)
    yield from _pinning(by_name, base)
    yield from _pools(by_name, base)


def _single(key: str, row: BenchmarkRow) -> Measurement | None:
    what = f"benchmarks {row.what} {row.variant}".rstrip()
    return Measurement(key, row.median_s, row.p10_s, row.p90_s, row.n, what) if row.median_s > 0 else None


def _rate(key: str, row: BenchmarkRow) -> Measurement:
    low, median, high = (row.size / seconds for seconds in (row.p90_s, row.median_s, row.p10_s))
    threads = f" with {row.threads} threads" if row.threads > 1 else ""
    return Measurement(key, median, low, high, row.n, f"benchmarks {row.what} {row.variant}{threads}")


def _pools(by_name: dict[_Name, list[BenchmarkRow]], base: MachineSpec) -> Iterator[Measurement | None]:
    """Yield the cost of memory that a pool gets from the driver, after a synchronization freed all that it held."""
    rows, kept = (by_name.get(("malloc_async", variant), ()) for variant in ("idle", "idle_kept"))
    if not rows or not kept or "mempool.chunk" not in base.entries or not base.value("mempool.chunk"):
        return
    smallest, largest = min(rows, key=lambda row: row.size), max(rows, key=lambda row: row.size)
    chunk = _single("mempool.grow", smallest)
    yield None if chunk is None else _less(chunk, kept[0].median_s)
    further = (largest.size - base.value("mempool.chunk")) / base.value("alloc.segment")
    if further >= 1 and (large := _single("mempool.grow_segment", largest)) is not None:
        large = _less(large, smallest.median_s)
        low, median, high = (0.0,) * 3 if large is None else (x / further for x in (large.low, large.value, large.high))
        yield None if large is None else attrs.evolve(large, value=median, low=low, high=high)


def _pinning(by_name: dict[_Name, list[BenchmarkRow]], base: MachineSpec) -> Iterator[Measurement | None]:
    """Yield the costs of pinning memory: by the call and by the page. Registered memory had its pages before.

    For memory that the driver allocates, the costs of clearing and pinning its pages are subtracted, since other
    entries have them.
    """
    page, pinned = base.value("page.size"), 0.0
    for what, (fixed, each) in _PINNING.items():
        rows = by_name.get((what, "idle"), ())
        line = linear_cost([(row.size / page, row.median_s) for row in rows], sum(row.n for row in rows))
        if line is None:
            continue
        yield line.fixed(fixed, f"benchmarks {what} idle, without the pages") if fixed else None
        slope = line.per_unit(each, f"benchmarks {what} idle: slopes over pages")
        pinned = slope.value if slope is not None and each == "pin.page" else pinned
        if slope is not None and each == "pin.alloc_page":
            besides = (pinned or base.value("pin.page")) + page / base.value("host.clear_1t")
            low, median, high = (max(end - besides, 0.0) for end in (slope.low, slope.value, slope.high))
            what = f"{slope.what}, less clearing and pinning"
            slope = attrs.evolve(slope, value=median, low=low, high=high, what=what) if median else None
        yield slope


def _dma(by_name: dict[_Name, list[BenchmarkRow]]) -> Iterator[Measurement | None]:
    """Yield the time and the rate of a DMA ring, from copies that follow one another."""
    rows = by_name.get(("dma", "in_a_row"), ())
    if small := [row for row in rows if row.size <= SMALL]:
        yield _single("dma.occupancy", min(small, key=lambda row: row.size))
    if large := [row for row in rows if row.size >= LARGE and row.p10_s > 0]:
        yield _rate("dma.bw", max(large, key=lambda row: row.size / row.median_s))


def _segments(by_name: dict[_Name, list[BenchmarkRow]], base: MachineSpec) -> Iterator[Measurement | None]:
    """Yield the costs of allocations and frees: within a segment that the driver holds, and with new segments."""
    if "alloc.segment" not in base.entries:
        return
    segment = base.value("alloc.segment")
    for what, key, added, further in (
        ("malloc", "alloc.cudaMalloc_small", "alloc.cudaMalloc_large", "alloc.cudaMalloc_segment"),
        ("free", "alloc.cudaFree", "alloc.cudaFree_large", "alloc.cudaFree_segment"),
    ):
        within = by_name.get((what, "within_segment"), ())
        small = _single(key, min(within, key=lambda row: row.size)) if within else None
        yield small
        rows = [row for row in by_name.get((what, "idle"), ()) if row.size >= segment]
        points = [(float(math.ceil(row.size / segment)), row.median_s) for row in rows]
        line = linear_cost(points, sum(row.n for row in rows))
        first = [row for row in rows if row.size == segment]
        if line is None or small is None or not first:
            continue
        # The entry of an allocation with a segment is its whole cost; that of a free comes on top of a small free.
        one = _single(added, first[0])
        yield _less(one, small.value) if one is not None and what == "free" else one
        yield line.per_unit(further, f"benchmarks {what} idle: slopes over segments")


def _less(measured: Measurement, part: float) -> Measurement | None:
    """Return a measurement minus `part` seconds, which another entry has; None if nothing is left."""
    low, median, high = (end - part for end in (measured.low, measured.value, measured.high))
    return attrs.evolve(measured, value=median, low=low, high=high) if low > 0 else None


def _staged(by_name: dict[_Name, list[BenchmarkRow]]) -> Measurement | None:
    """Return the seconds per byte of large copies from pageable memory by one thread, which staging limits."""
    rows = [row for row in by_name.get(("copy", "h2d_pageable"), ()) if row.size >= LARGE and row.p10_s > 0]
    if not rows:
        return None
    best = min(rows, key=lambda row: row.median_s / row.size)
    low, median, high = (seconds / best.size for seconds in (best.p10_s, best.median_s, best.p90_s))
    what = f"benchmarks copy h2d_pageable of {best.size / 2**20:.0f} MiB"
    return Measurement("staging.copy_per_gib", median, low, high, best.n, what)


def _interrupt(by_name: dict[_Name, list[BenchmarkRow]]) -> Measurement | None:
    """Return by how much a blocking synchronization returns later than one that polls."""
    polling, asleep = (by_name.get(("sync", variant), ()) for variant in ("return", "return_blocking"))
    if not polling or not asleep:
        return None
    one = _single("stream.interrupt", asleep[0])
    return None if one is None else _less(one, polling[0].median_s)


def _saturating(by_name: dict[_Name, list[BenchmarkRow]], base: MachineSpec) -> Measurement | None:
    """Return which part of an SM's threads is needed to hide the latency of arithmetic, by Little's law.

    The benchmark has a thread that waits for each multiply-add before the next one. Its latency times the SM's rate is
    the number of operations that must be under way. The precision that needs more is taken; a kernel is assumed to have
    one such chain in each thread.
    """
    found = []
    for precision in ("fp64", "fp32"):
        for row in by_name.get(("arithmetic", f"{precision}_chain"), ()):
            rate = base.value(f"gpu.{precision}") / (2 * base.value("gpu.sms")) / base.value("sm.max_threads")
            low, median, high = (seconds * rate for seconds in (row.p10_s, row.median_s, row.p90_s))
            what = f"benchmarks arithmetic {row.variant}, times an SM's rate"
            found.append(Measurement("sm.saturating_occupancy", median, low, high, row.n, what))
    most = max(found, key=lambda one: one.value, default=None)
    return most if most is not None and most.low > 0 and most.high <= 1 else None


def _populating(by_name: dict[_Name, list[BenchmarkRow]]) -> Iterator[Measurement | None]:
    """Yield what populating a huge page takes by the host's first touch, and how much more a GPU's fault adds.

    The former has the host's exception of about 1 us in it, or, without rows of the host, all that a GPU's fault adds.
    """
    names = "host_2m", "gpu_present_2m", "gpu_new_2m"
    host, present, new = (by_name.get(("first_touch", name), ()) for name in names)
    if host:
        yield _single("fault.populate_2m", host[0])
    if present and new:
        before = present[0].median_s + (host[0].median_s if host else 0.0)
        low, median, high = (getattr(new[0], name) - before for name in ("p10_s", "median_s", "p90_s"))
        what = "benchmarks first_touch gpu_new_2m, less those of pages that are present, and of the host"
        key = "fault.repeat_2m" if host else "fault.populate_2m"
        yield Measurement(key, median, low, high, new[0].n, what) if low > 0 else None


def way_to_measure(entry: str, machine: str) -> str:
    """Return the shell commands that measure an entry (cost or rate) of a machine profile; empty if no benchmark does.

    machine: the name or file of the profile that `offloadrt calibrate` starts from.
    """
    if entry not in MEASURED:
        return ""
    programs = ENTRIES["benchmarks"]["programs"].items()
    begins = {begin: program for program, names in programs for begin in names if entry.startswith(begin)}
    program = begins[max(begins, key=len)]
    measured = f"python3 bench/hardware/measure.py mine --only {program}"
    return f"{measured}; offloadrt calibrate mine/benchmarks.jsonl --base {machine} -o mine.toml"
