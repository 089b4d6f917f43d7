"""Visits of the present table: what a look-up finds, with the lock of its entry, and what the trace tells of it.

A `TargetPointer` owns the lock of its entry until `release`.
"""

from __future__ import annotations

import attrs

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.present_table import Entry, Lookup
from offloadrt.trace import events


@attrs.define(eq=False)
class TargetPointer:
    """What a lookup found (LLVM's `TargetPointerResultTy`): a device address, and an entry that stays locked until
    `release`.

    address: None means that there is nothing to use (an illegal mapping, or a zero-length section of absent memory).
    borrowed: the entry was already locked by the caller, who unlocks it. counted: the search has counted it up.
    """

    address: int | None = None
    entry: Entry | None = None
    is_new: bool = False
    is_host: bool = False
    is_present: bool = False
    is_last: bool = False
    borrowed: bool = False
    counted: bool = False

    def release(self, device: OffloadDevice) -> None:
        if self.entry is not None:
            if not self.borrowed:
                device.unlock_entry(self.entry)
            self.entry = None


async def visit(
    device: OffloadDevice,
    pointer: TargetPointer,
    begin: int,
    size: int,
    owned: Entry | None = None,
    inserts: bool = False,
) -> Lookup:
    """Search the table as `lookupMapping` does; the caller holds the table.

    The last visited entry ends up locked by `pointer`. inserts: what is not there will be entered; that work is done
    here, too.
    """
    device.table_lock.assert_held()
    found = device.table.lookup(begin, size)
    costs = device.costs
    await device.table_work(costs.lookup + costs.insert if inserts and size and not found.overlaps else costs.lookup)
    for entry in found.visited:
        if pointer.entry is not None:
            pointer.release(device)
        pointer.borrowed = entry is owned
        if not (pointer.borrowed or device.lock_entry_now(entry)):
            await device.lock_entry(entry)
        pointer.entry = entry
    return found


def visit_now(device: OffloadDevice, pointer: TargetPointer, begin: int, size: int) -> Lookup | None:
    """`visit` of a table that the caller does not hold, from taking it to giving it back, where all passes in one step:
    nobody has it or one of the entries, or is due meanwhile. None, and nothing has happened, otherwise.
    """
    found = device.table.lookup(begin, size)
    visited = found.visited
    if not device.locked_entries.isdisjoint(visited) or device.sim.fuel <= len(visited):
        return None
    if not device.passed_in_table(device.costs.lookup):
        return None
    for entry in visited:
        pointer.release(device)
        taken = device.lock_entry_now(entry)
        assert taken, "the lock of an entry that nobody has"
        pointer.entry = entry
    return found


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
    """A new entry for the table, which the caller holds (or nobody else can use yet)."""
    device.table.insert(entry)
    if (trace := device.trace) is not None:
        trace(
            events.MapInsert, device.number, -1, cause,
            entry.name, entry.offset, entry.size, entry.device_begin, signed(entry.dynamic), signed(entry.hold),
        )  # fmt: skip


def remove_entry(device: OffloadDevice, cause: int, entry: Entry) -> None:
    """An entry out of the table, which the caller holds."""
    device.table.erase(entry)
    if (trace := device.trace) is not None:
        trace(
            events.MapRemove, device.number, -1, cause,
            entry.name, entry.offset, entry.size, entry.device_begin,
        )  # fmt: skip


def signed(count: int) -> int:
    """A reference count in the trace: -1 is infinite."""
    return -1 if count >> 63 else count
