"""The SQLite files of rocprofv3 (`--output-format rocpd`), schema 3.

Tables have a UUID in their names; views `rocpd_…` over them do not, and are read only where there are no such tables.
Several processes may have written into one file, each with tables of its own, without views.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, Final

from offloadrt.extensions.calibration.device_trace import (
    CalibrationError,
    Correlation,
    Database,
    DeviceTrace,
    TracedCall,
    TracedCommand,
)

PREFIX: Final = "rocpd_"
WHAT: Final = "a rocpd file of rocprofv3"
SCHEMA: Final = "3"
ALLOCATE: Final = "ALLOC"
FREE: Final = "FREE"
"""The names, ALLOCATE and FREE, of the calls made from rows of the table of allocations by HSA's allocator."""


def knows(tables: Collection[str]) -> bool:
    """Tell whether a database with these tables is a file of rocprofv3."""
    return any(table.startswith(PREFIX) for table in tables)


def read(database: Database) -> DeviceTrace:
    """Read the calls and commands of a file of rocprofv3. Raises CalibrationError for a damaged one."""
    metadata = {str(tag): str(value) for _, tag, value in _rows(database, "metadata", texts=("tag", "value"))}
    schema = metadata.get("schema_version", "")
    if schema != SCHEMA:
        raise CalibrationError(
            f"{database.path}: rocpd's schema {schema or 'without a number'} is not known, only 3 is"
        )
    correlations = {(uuid, number): stack or 0 for uuid, number, stack in _rows(database, "event", "id", "stack_id?")}
    agents = {
        (uuid, number): (str(kind), str(product or name or ""))
        for uuid, number, kind, product, name in _rows(
            database, "info_agent", "id", texts=("type", "product_name?", "name?")
        )
    }
    devices = [name for kind, name in agents.values() if kind == "GPU"]
    calls = (*_regions(database, correlations), *_allocations(database))
    commands = (*_kernels(database, correlations), *_copies(database, correlations, agents))
    source = ", ".join([f"{database.path.name}: rocprofv3, rocpd schema {schema}", *devices[:1]])
    return DeviceTrace(str(database.path), source, calls, commands, "hip")


_Correlations = dict[tuple[str, int], int]


def _rows(database: Database, table: str, *numbers: str, texts: tuple[str, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield (UUID, *columns) of a table's rows, from all tables rocpd_TABLE_UUID or from the view rocpd_TABLE."""
    names = [name for name in sorted(database.tables) if re.fullmatch(rf"{PREFIX}{table}(_[0-9a-fA-F_]{{8,}})?", name)]
    with_uuid = [name for name in names if name != f"{PREFIX}{table}"]
    for name in with_uuid or names:
        for row in database.rows(name, *numbers, texts=texts):
            yield name.removeprefix(f"{PREFIX}{table}"), *row


def _correlation(uuid: str, event: int | None, process: int, of_event: _Correlations) -> Correlation | None:
    number = None if event is None else of_event.get((uuid, event))
    return (process, number) if number else None


def _regions(database: Database, correlations: _Correlations) -> list[TracedCall]:
    names = {(uuid, number): str(text) for uuid, number, text in _rows(database, "string", "id", texts=("string",))}
    columns = ("start", "end", "name_id", "pid", "tid", "event_id?")
    calls = []
    for uuid, start, end, name, process, thread, event in _rows(database, "region", *columns):
        if end >= start:
            correlation = _correlation(uuid, event, process, correlations)
            calls.append(TracedCall(names.get((uuid, name), ""), process, thread, start, end, correlation))
    return calls


def _allocations(database: Database) -> list[TracedCall]:
    """Return allocations and frees as calls; a free, which has no size in the file, gets that of its block."""
    columns = ("start", "end", "pid", "tid?", "address?", "size?")
    rows = sorted(_rows(database, "memory_allocate", *columns, texts=("type", "level?")), key=lambda row: row[1])
    sizes: dict[tuple[str, int, int], int] = {}
    calls = []
    for uuid, start, end, process, thread, address, nbytes, kind, level in rows:
        if level not in (None, "REAL") or kind not in (ALLOCATE, FREE) or end < start:
            continue
        block = uuid, process, address or 0
        if kind == ALLOCATE and address and nbytes:
            sizes[block] = nbytes
        known = nbytes if kind == ALLOCATE else sizes.pop(block, None)
        calls.append(TracedCall(kind, process, thread or 0, start, end, None, known))
    return calls


def _kernels(database: Database, correlations: _Correlations) -> list[TracedCommand]:
    symbols = {
        (uuid, number): str(shown or name or "")
        for uuid, number, shown, name in _rows(
            database, "info_kernel_symbol", "id", texts=("display_name?", "kernel_name?")
        )
    }
    columns = ("start", "end", "agent_id", "queue_id", "kernel_id", "pid", "event_id?")
    return [
        TracedCommand(
            "kernel",
            symbols.get((uuid, kernel), ""),
            agent,
            queue,
            start,
            end,
            _correlation(uuid, event, process, correlations),
        )
        for uuid, start, end, agent, queue, kernel, process, event in _rows(database, "kernel_dispatch", *columns)
        if end >= start
    ]


def _copies(
    database: Database, correlations: _Correlations, agents: dict[tuple[str, int], tuple[str, str]]
) -> list[TracedCommand]:
    columns = ("start", "end", "size", "src_agent_id?", "dst_agent_id?", "queue_id?", "pid", "event_id?")
    copies = []
    for uuid, start, end, nbytes, source, target, queue, process, event in _rows(database, "memory_copy", *columns):
        kinds = [agents.get((uuid, agent), ("", ""))[0] for agent in (source, target)]
        direction = {"CPUGPU": "h2d", "GPUCPU": "d2h"}.get("".join(kinds), "")
        device = source if kinds[0] == "GPU" else target
        if end >= start:
            correlation = _correlation(uuid, event, process, correlations)
            copies.append(
                TracedCommand("copy", "", device or 0, queue or 0, start, end, correlation, nbytes, direction, None)
            )
    return copies
