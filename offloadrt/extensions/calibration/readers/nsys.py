"""Nsight Systems' export to SQLite (`nsys export --type sqlite`).

Its tables are made only if they have rows, and their columns differ by version; numbers of enumerations are read from
the file's own `ENUM_` tables where it has them (schema 3), else they are CUPTI's. Thread identifiers hold the process
in their upper bits (Nsight Systems' documentation, "Serialized Process and Thread Identifiers").
"""

from __future__ import annotations

import bisect
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final

import attrs

from offloadrt.extensions.calibration.device_trace import Correlation, Database, DeviceTrace, TracedCall, TracedCommand

TABLES: Final = frozenset({"CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"})
"""An export of a program that uses CUDA has one of these."""
WHAT: Final = f"an export of Nsight Systems with CUDA calls ({', '.join(sorted(TABLES))})"
_COPIES: Final = {1: "CUDA_MEMCPY_KIND_HTOD", 2: "CUDA_MEMCPY_KIND_DTOH", 8: "CUDA_MEMCPY_KIND_DTOD"}
_MEMORIES: Final = {0: "PAGEABLE", 1: "PINNED", 2: "DEVICE"}
_FACTS: Final = {
    "smCount": "gpu.sms",
    "totalMemory": "mem.size",
    "l2CacheSize": "mem.l2",
    "maxWarpsPerSm": "sm.max_warps",
    "maxRegistersPerSm": "sm.registers",
}
"""Columns of TARGET_INFO_GPU, with the entries of a profile that have the same meaning."""


def knows(tables: Collection[str]) -> bool:
    """Tell whether a database with these tables is an export of Nsight Systems."""
    return not TABLES.isdisjoint(tables)


def read(database: Database) -> DeviceTrace:
    """Read the calls and commands of an export of Nsight Systems. Raises CalibrationError for a damaged one."""
    names: dict[int, str] = {number: str(text) for number, text in database.rows("StringIds", "id", texts=("value",))}
    calls = _calls(database, names)
    sized = _with_sizes(database, calls)
    device, facts = _device(database)
    hints = []
    if sized is None and any(re.match(r"cu(da|Mem)(Malloc|Free|Alloc)", call.name) for call in calls):
        hints.append(
            "sizes of allocations are not in the file; `nsys profile --cuda-memory-usage=true` records them, and then "
            "alloc.cudaMalloc_large, alloc.cudaMalloc_segment and alloc.cudaFree_large can be measured"
        )
    return DeviceTrace(
        str(database.path),
        f"{database.path.name}: {_version(database)}{device and f', {device}'}",
        tuple(sized if sized is not None else calls),
        (*_kernels(database, names), *_copies(database), *_sets(database)),
        "cuda",
        facts,
        tuple(hints),
    )


def _process(identifier: int) -> int:
    return identifier >> 24


def _correlation(number: int | None, identifier: int | None) -> Correlation | None:
    """Return the correlation of a row; rows without a process identifier all belong to process 0."""
    return None if number is None else (_process(identifier or 0), number)


def _calls(database: Database, names: Mapping[int, str]) -> list[TracedCall]:
    columns = ("start", "end", "nameId", "globalTid?", "correlationId?", "returnValue?")
    calls = []
    for start, end, name, thread, number, returned in database.rows("CUPTI_ACTIVITY_KIND_RUNTIME", *columns):
        if not returned and end >= start:
            plain = re.sub(r"(_ptsz|_ptds)?(_v\d+)?(_ptsz|_ptds)?$", "", names.get(name, ""))
            correlation = _correlation(number, thread)
            calls.append(TracedCall(plain, _process(thread or 0), thread or 0, start, end, correlation))
    return calls


def _kernels(database: Database, names: Mapping[int, str]) -> list[TracedCommand]:
    columns = ("start", "end", "deviceId", "streamId", "correlationId?", "globalPid?", "shortName?", "demangledName?")
    return [
        TracedCommand(
            "kernel",
            names.get(short if short is not None else demangled, ""),
            device,
            stream,
            start,
            end,
            _correlation(number, process),
        )
        for start, end, device, stream, number, process, short, demangled in database.rows(
            "CUPTI_ACTIVITY_KIND_KERNEL", *columns
        )
        if end >= start
    ]


def _copies(database: Database) -> list[TracedCommand]:
    kinds = _enumeration(database, "ENUM_CUDA_MEMCPY_OPER", _COPIES)
    memories = _enumeration(database, "ENUM_CUDA_MEM_KIND", _MEMORIES)
    columns = (
        "start", "end", "deviceId", "streamId", "bytes", "copyKind",
        "correlationId?", "globalPid?", "srcKind?", "dstKind?",
    )  # fmt: skip
    copies = []
    for start, end, device, stream, nbytes, kind, number, process, source, target in database.rows(
        "CUPTI_ACTIVITY_KIND_MEMCPY", *columns
    ):
        label = kinds.get(kind, "")
        direction = (
            "" if "UVM" in label else "h2d" if label.endswith("HTOD") else "d2h" if label.endswith("DTOH") else ""
        )
        host = memories.get(source if direction == "h2d" else target, "")
        pinned = True if host.endswith("PINNED") else False if host.endswith("PAGEABLE") else None
        if end >= start:
            correlation = _correlation(number, process)
            copies.append(
                TracedCommand("copy", label, device, stream, start, end, correlation, nbytes, direction, pinned)
            )
    return copies


def _sets(database: Database) -> list[TracedCommand]:
    columns = ("start", "end", "deviceId", "streamId", "bytes", "correlationId?", "globalPid?")
    return [
        TracedCommand("set", "", device, stream, start, end, _correlation(number, process), nbytes)
        for start, end, device, stream, nbytes, number, process in database.rows("CUPTI_ACTIVITY_KIND_MEMSET", *columns)
        if end >= start
    ]


def _enumeration(database: Database, table: str, otherwise: Mapping[int, str]) -> dict[int, str]:
    return {number: str(name) for number, name in database.rows(table, "id", texts=("name",))} or dict(otherwise)


def _with_sizes(database: Database, calls: list[TracedCall]) -> list[TracedCall] | None:
    """Return the calls with the bytes of their memory events, matched by number or time; None if there are none."""
    events = list(database.rows("CUDA_GPU_MEMORY_USAGE_EVENTS", "start", "bytes", "globalPid?", "correlationId?"))
    if not events:
        return None
    by_number: dict[Correlation, int] = {}
    by_time: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for start, nbytes, process, number in events:
        if number:
            by_number[_process(process or 0), number] = nbytes
        by_time[_process(process or 0)].append((start, nbytes))
    for found in by_time.values():
        found.sort()

    def size(call: TracedCall) -> int | None:
        if call.correlation in by_number:
            return by_number[call.correlation]
        found = by_time.get(call.process, [])
        first = bisect.bisect_left(found, (call.start, 0))
        inside = bisect.bisect_right(found, (call.end, 1 << 62)) - first
        return found[first][1] if inside == 1 else None

    return [attrs.evolve(call, nbytes=size(call)) for call in calls]


def _device(database: Database) -> tuple[str, dict[str, float]]:
    """Return the name of the first device, and its facts by the profile's entry."""
    columns = tuple(f"{column}?" for column in _FACTS)
    for *values, name in database.rows("TARGET_INFO_GPU", *columns, texts=("name?",)):
        said = zip(_FACTS.values(), values, strict=True)
        return str(name or ""), {key: float(value) for key, value in said if value}
    return "", {}


def _version(database: Database) -> str:
    """Return in words which version of Nsight Systems exported the file, and in which schema."""
    said: dict[str, str] = {}
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        said |= {str(name): str(value) for name, value in database.rows(table, texts=("name", "value"))}
    product = said.get("EXPORT_PRODUCT_VERSION", "")
    schema = said.get("EXPORT_SCHEMA_VERSION", "")
    return f"Nsight Systems{product and f' {product}'}{schema and f', schema {schema}'}"
