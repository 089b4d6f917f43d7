"""Visits of the present table: the locks of the entries that a look-up meets, and what the trace tells of it."""

from __future__ import annotations

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.present_table import Entry, Lookup
from offloadrt.runtime.program_events import EntryEntered, EntryLeft
from offloadrt.trace import events


async def lock_visited(device: OffloadDevice, lookup: Lookup, keeps: bool, owned: Entry | None = None) -> None:
    """Lock the entries that a search has visited, one after the other as `lookupMapping` does.

    The caller holds the table, and waits with it for an entry that is being copied. LLVM keeps the last lock while the
    directive goes on with that entry. Here it is kept only if `keeps`, that is if something is awaited under it: a lock
    that would be given back at the same instant is only waited for (`pass_visited`, where none is taken). When this
    raises, no lock is kept. owned: the caller has this one already.
    """
    for entry in lookup.visited:
        if entry is owned:
            continue
        if keeps and entry is lookup.entry:
            await device.lock_entry(entry)
        else:
            await device.pass_entry(entry)


def pass_visited(device: OffloadDevice, lookup: Lookup) -> bool:
    """Pass the entries that a search has visited if all are free; False, and nothing has happened, if one is locked.

    Their locks count as taken and given back at once.
    """
    locks = lookup.locks
    for lock in locks:
        if lock.owner is not None:
            return False
    device.entry_locks.passed += len(locks)
    return True


def trace_lookup(
    device: OffloadDevice, cause: int, array: HostArray | None, begin: int, size: int, found: bool
) -> None:
    if (trace := device.trace) is not None:
        if array is None or not array.address <= begin <= array.address + array.nbytes:
            name, offset = "", begin
        else:
            name, offset = array.name, begin - array.address
        trace(events.MapLookup, device.number, -1, cause, name, offset, size, found)


def trace_counts(device: OffloadDevice, cause: int, entry: Entry) -> None:
    if (trace := device.trace) is not None:
        trace(
            events.MapCount, device.number, -1, cause,
            entry.name, entry.offset, entry.size, signed(entry.dynamic), signed(entry.hold),
        )  # fmt: skip


def enter_entry(device: OffloadDevice, cause: int, entry: Entry) -> None:
    """Put a new entry into the table, which the caller holds (or nobody else can use yet)."""
    device.table.insert(entry)
    if device.observer is not None:
        device.observer.handle(EntryEntered(cause, device.number, entry))
    if (trace := device.trace) is not None:
        trace(
            events.MapInsert, device.number, -1, cause,
            entry.name, entry.offset, entry.size, entry.device_begin, signed(entry.dynamic), signed(entry.hold),
        )  # fmt: skip


def remove_entry(device: OffloadDevice, cause: int, entry: Entry) -> None:
    """Take an entry out of the table, which the caller holds."""
    device.table.erase(entry)
    entry.is_erased = True
    if device.observer is not None:
        device.observer.handle(EntryLeft(cause, device.number, entry))
    if (trace := device.trace) is not None:
        trace(
            events.MapRemove, device.number, -1, cause,
            entry.name, entry.offset, entry.size, entry.device_begin,
        )  # fmt: skip


def signed(count: int) -> int:
    """Write a reference count for the trace: -1 is infinite."""
    return -1 if count >> 63 else count
