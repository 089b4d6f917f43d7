"""Says which entries a trace measures on a machine with ROCr as its driver: from HSA's calls and device commands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from offloadrt.extensions.calibration.cuda_entries import waits_and_starts
from offloadrt.extensions.calibration.operations import (
    ENTRIES,
    SMALL,
    Measurement,
    Operations,
    described,
    latencies,
    linear_cost,
    measurement,
    rates,
)
from offloadrt.extensions.calibration.readers.rocpd import ALLOCATE, FREE
from offloadrt.machine import MachineSpec

WAITS: Final = frozenset({"hsa_signal_wait_scacquire", "hsa_signal_wait_relaxed"})
_CALLS: Final[dict[str, list[str]]] = ENTRIES["rocr"]["calls"]
_POOL: Final = {ALLOCATE: "alloc", FREE: "free"}
MEASURED: Final = (
    *_CALLS,
    *(f"{pool}.pool_{part}" for pool in _POOL.values() for part in ("fragment", "base", "per_gib")),
    "dma.latency", "dma.occupancy", "dma.bw", "launch.latency", "launch.gap", "sync.latency",
)  # fmt: skip
"""The entries that a trace can measure."""
USED: Final = frozenset({name for names in _CALLS.values() for name in names} | _POOL.keys())


def measure(operations: Operations, base: MachineSpec) -> Iterator[Measurement | None]:
    """Yield a measurement for each entry (cost or rate) of a profile that a profiler's ROCm trace can show.

    Yields None for an entry that this trace does not show. operations: the calls and commands of the trace. base: the
    machine profile whose entries are measured anew.
    """
    for key, names in _CALLS.items():
        name = operations.most_called(names)
        yield measurement(key, [call.seconds for call in operations.alone(name)], f"{name} calls")
    for name, pool in _POOL.items():
        yield from _pool(operations, base, name, pool)
    yield from _copies(operations, base)
    yield from waits_and_starts(operations)


def _pool(operations: Operations, base: MachineSpec, name: str, pool: str) -> Iterator[Measurement | None]:
    """Yield the cost of blocks from cached fragments, and the linear cost of larger blocks from the kernel driver."""
    segment = base.value("alloc.segment")
    points = [(float(call.nbytes), call.seconds) for call in operations.alone(name, idle_device=True) if call.nbytes]
    fragments = [seconds for nbytes, seconds in points if nbytes < segment]
    what = {ALLOCATE: "allocations", FREE: "frees"}[name]
    yield measurement(f"{pool}.pool_fragment", fragments, f"{what} of less than alloc.segment")
    line = linear_cost([point for point in points if point[0] >= segment])
    if line is not None:
        yield line.fixed(f"{pool}.pool_base", f"{what} of alloc.segment and more, without their bytes")
        yield line.per_unit(f"{pool}.pool_per_gib", f"{what} of alloc.segment and more: slopes over size")


def _copies(operations: Operations, base: MachineSpec) -> Iterator[Measurement | None]:
    found = operations.engine_copies
    yield measurement("dma.occupancy", latencies(found), described(found, "of at most 4 KiB"))
    large = rates(found, "", base.value("dma.occupancy"))
    yield measurement("dma.bw", large, described(found, "of 256 KiB and more"))
    chosen = {copy for copy in found if copy.nbytes <= SMALL}
    whole = [(copy.end - call.end) * 1e-9 for call, copy in operations.submitted if copy in chosen]
    yield measurement("dma.latency", whole, "copies of at most 4 KiB, from the return of the submission to the end")
