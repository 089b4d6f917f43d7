"""Mapping one item, with the locks that LLVM's runtime holds meanwhile.

Follows `MappingInfoTy` (offload/libomptarget/OpenMP/Mapping.cpp), step by step:

- a lookup, under the table lock, also locks the entry that is the neighbour by address: if that one is being copied,
  all wait (`table_visits.py`);
- a new block is allocated under the table lock;
- the copy is submitted under the entry lock, after the table lock was released;
- an entry is erased under both locks, its block freed after both are released (`unmapping.py`).
"""

from __future__ import annotations

from typing import Final

from offloadrt.driver import DriverError
from offloadrt.runtime.device import OffloadDevice, Placement
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.errors import MappingError, NotPresent
from offloadrt.runtime.failures import report_failure
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.map_type import MapFlags
from offloadrt.runtime.mapping.present_table import ABSENT, Entry, Lookup, TargetPointer
from offloadrt.runtime.mapping.table_visits import (
    enter_entry,
    lock_visited,
    pass_visited,
    trace_counts,
    trace_lookup,
)
from offloadrt.runtime.mapping.unmapping import ending_entries
from offloadrt.runtime.program_events import EntryFound

_NULL: Final = "omptarget error: Call to getTargetPointer returned null pointer ({})."
DEVICE_COPY, HOST_POINTER = Placement.DEVICE_COPY, Placement.HOST_POINTER


async def get_target_pointer(
    device: OffloadDevice,
    item: MapItem,
    queue: DirectiveQueue,
    begin: int,
    base: int,
    size: int,
    flags: MapFlags,
    owned: Entry | None = None,
    release_table: bool = True,
) -> TargetPointer:
    """Find or create the counterpart of [begin, begin + size) and transfer to it if need be (`getTargetPointer`).

    The caller holds the table and has done the work of the look-up there. The table is released here, also when this
    raises; unless release_table is False, when it is kept and the pointer keeps the lock of its entry. owned: the
    entry whose lock the caller has already.
    """
    table, pointer, keeps = device.table, ABSENT, False
    try:
        lookup = table.known.get((begin, size)) or table.lookup(begin, size)
        entry = lookup.pointer.entry if lookup.contained or flags.implicit else None
        if entry is not None:
            # A member is not counted; the block of its struct may be new in this directive.
            is_new = not flags.counted and entry.total == 1
            keeps = bool(
                (flags.to and (flags.always or is_new) and size)
                or entry.lock.owner is not None
                or (entry.event is not None and device.is_pending(entry))
                or not release_table
            )
            if keeps or not pass_visited(device, lookup):
                await lock_visited(device, lookup, keeps, owned)
            pointer = lookup.pointer
            if keeps or is_new:
                pointer = TargetPointer(pointer.address, entry, keeps and entry is not owned, is_new)
            if flags.counted:
                entry.increment(flags.hold)
            if device.observer is not None:
                device.observer.handle(EntryFound(queue.cause, device.number, item, entry))
            if device.trace is not None:
                trace_lookup(device, queue.cause, item.array, begin, size, lookup.contained)
                trace_counts(device, queue.cause, entry)
        else:
            pointer = await _map_absent(device, item, queue, begin, base, size, flags, lookup, owned)
            keeps = pointer.is_new
    except BaseException as error:
        device.release(pointer)
        device.table_lock.release()
        _report(device, error)
        raise
    if release_table:
        device.table_lock.release()
    try:
        if keeps:
            await _transfer_to(device, pointer, item, begin, size, flags, queue)
    except BaseException as error:
        if not release_table:
            device.table_lock.release()
        _report(device, error)
        raise
    return pointer


async def _map_absent(
    device: OffloadDevice,
    item: MapItem,
    queue: DirectiveQueue,
    begin: int,
    base: int,
    size: int,
    flags: MapFlags,
    lookup: Lookup,
    owned: Entry | None,
) -> TargetPointer:
    """Map a section of which no entry holds all: by a new block, by the host's memory, or not at all.

    The caller holds the table. A new block's entry is locked.
    """
    present = flags.present
    placement = HOST_POINTER if lookup.overlaps else _placement(device, item, size, flags)
    inserts = placement is DEVICE_COPY and size > 0 and not present
    if inserts:
        await device.work(device.costs.insert)
    if not pass_visited(device, lookup):
        await lock_visited(device, lookup, False, owned)
    if device.trace is not None:
        trace_lookup(device, queue.cause, item.array, begin, size, lookup.contained)
    if inserts:
        return await _create(device, item, begin, base, size, flags, queue)
    if lookup.overlaps:
        if device.observer is not None and lookup.entry is not None:
            device.observer.handle(EntryFound(queue.cause, device.number, item, lookup.entry))
        _report_extension(device, item, begin, size, lookup, present)
    elif placement is HOST_POINTER and size:
        return lookup.pointer
    elif placement is not HOST_POINTER and present:
        report_absent(device, item, begin, size)
    return ABSENT


def _report(device: OffloadDevice, error: BaseException) -> None:
    """Write what LLVM writes when a call of the driver library has failed here."""
    if isinstance(error, DriverError):
        report_failure(device, error, _NULL.format("device failure or illegal mapping"))


def _undo_count_up(device: OffloadDevice, entry: Entry, item: MapItem, queue: DirectiveQueue, hold: bool) -> None:
    """Count down an entry whose item was left early; the queue's post-processing removes it if need be."""
    entry.data_end_users += 1
    entry.decrement(hold)
    if device.trace is not None:
        trace_counts(device, queue.cause, entry)
    ending_entries(device, queue).append((entry, item))


def _placement(device: OffloadDevice, item: MapItem, size: int, flags: MapFlags) -> Placement:
    """Ask the memory configuration what becomes of a section of which nothing is mapped."""
    if (placing := device.hooks.placing) is not None:
        return placing(item, size, flags)
    return device.place(size, flags.close, flags.implicit)


async def _create(
    device: OffloadDevice,
    item: MapItem,
    begin: int,
    base: int,
    size: int,
    flags: MapFlags,
    queue: DirectiveQueue,
) -> TargetPointer:
    """Allocate a block and enter it, under the table lock; its entry is locked until it has been copied to."""
    array, hold = item.array, flags.hold
    phantom = array is not None and array.phantom
    padding = item.padding if begin == item.begin else 0
    address = padding + await device.allocate(padding + size, array, begin, phantom)
    entry = Entry(
        name=item.name,
        host_base=base,
        host_begin=begin,
        host_end=begin + size,
        device_begin=address,
        dynamic=0 if hold else 1,
        hold=1 if hold else 0,
        lock=device.entry_locks.take(item.name),
        phantom=phantom,
        offset=begin if array is None else begin - array.address,
        padding=padding,
    )
    enter_entry(device, queue.cause, entry)
    await device.lock_entry(entry)
    return TargetPointer(address, entry, is_locked=True, is_new=True)


def _report_extension(
    device: OffloadDevice, item: MapItem, begin: int, size: int, lookup: Lookup, present: bool
) -> None:
    entry = lookup.entry
    assert entry is not None
    device.report(
        "omptarget message: explicit extension not allowed: host address specified is "
        f"{item.locate(begin)} ({size} bytes), but device allocation maps to host at "
        f"{item.locate(entry.host_begin)} ({entry.size} bytes)"
    )
    if present:
        report_absent(device, item, begin, size)


def report_absent(device: OffloadDevice, item: MapItem, begin: int, size: int, kind: str = "map type") -> None:
    """Write what LLVM writes of a section with the modifier `present` that is absent; kind: of the modifier."""
    device.report(
        f"omptarget message: device mapping required by 'present' {kind} modifier does not exist for host address "
        f"{item.locate(begin)} ({size} bytes)"
    )


def null_pointer(device: OffloadDevice, item: MapItem, call: str) -> MappingError:
    """Say what LLVM says when `get_target_pointer` has found no address for an item."""
    why = "'present' map type modifier" if item.flags.present else "device failure or illegal mapping"
    device.report(_NULL.format(why))
    kind = NotPresent if item.flags.present else MappingError
    return device.error(kind, f"{item.locate(item.begin)} ({item.size} bytes) cannot be mapped: {why}", call, item.name)


async def _transfer_to(
    device: OffloadDevice,
    pointer: TargetPointer,
    item: MapItem,
    begin: int,
    size: int,
    flags: MapFlags,
    queue: DirectiveQueue,
) -> None:
    """Transfer under the entry lock, or make the queue wait for the transfer that another thread began.

    Left early, it counts the item back and releases the entry.
    """
    entry = pointer.entry
    assert entry is not None
    try:
        wanted = flags.to and (pointer.is_new or flags.always) and size
        if wanted and pointer.address is not None and item.array is not None:
            end = begin + size
            if entry.shadow_pointers and any(begin <= address < end for address in entry.shadow_pointers):
                return
            await device.submit(queue, pointer.address, item.array.span(begin, size), item.array)
            entry.event = await device.plugin.record_event(queue)
        elif not flags.present and device.is_pending(entry):
            await device.plugin.wait_event(queue, entry.event)
    except BaseException:
        if flags.counted:
            _undo_count_up(device, entry, item, queue, flags.hold)
        device.release(pointer)
        raise
