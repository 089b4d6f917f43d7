"""Mapping one item, with the locks that LLVM's runtime holds meanwhile.

Follows `MappingInfoTy` (offload/libomptarget/OpenMP/Mapping.cpp), step by step:

- a lookup, under the table lock, also locks the entry that is the neighbour by address: if that one is being copied,
  all wait (`table_visits.py`);
- a new block is allocated under the table lock;
- the copy is submitted under the entry lock, after the table lock was released;
- an entry is erased under both locks, its block freed after both are released (`unmapping.py`).
"""

from __future__ import annotations

import functools

from offloadrt.runtime.configurations import MapRequest, Placement
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.errors import MappingError, NotPresent
from offloadrt.runtime.map_item import MapItem
from offloadrt.runtime.map_type import ALWAYS, CLOSE, IMPLICIT, OMPX_HOLD, PRESENT, TO
from offloadrt.runtime.present_table import Entry
from offloadrt.runtime.table_visits import TargetPointer, enter_entry, trace_counts, trace_lookup, visit, visit_now
from offloadrt.runtime.unmapping import finish_data_end


async def get_target_pointer(
    device: OffloadDevice,
    item: MapItem,
    queue: DirectiveQueue,
    *,
    begin: int,
    base: int,
    size: int,
    type_bits: int,
    update_count: bool = True,
    owned: Entry | None = None,
    release_table: bool = True,
) -> TargetPointer:
    """Find or create the counterpart of [begin, begin + size) and transfer to it if need be (`getTargetPointer`).

    The caller holds the table, which is released here unless release_table is False, also when this raises.
    """
    pointer = TargetPointer()
    try:
        await _find_or_create(device, pointer, item, begin, base, size, type_bits, update_count, owned, queue)
    except BaseException:
        pointer.release(device)
        device.table_lock.release()
        raise
    if release_table:
        device.table_lock.release()
    try:
        await transfer_to(device, pointer, item, begin, size, type_bits, queue)
    except BaseException:
        if not release_table:
            device.table_lock.release()
        raise
    return pointer


def get_resident_pointer_now(device: OffloadDevice, item: MapItem, queue: DirectiveQueue) -> TargetPointer | None:
    """The first part of `get_target_pointer`, table included, for an item whose section is mapped already, where it
    passes in one step; `transfer_to` is the second. None, and nothing has happened, otherwise.
    """
    if not device.table.lookup(item.begin, item.size).contained:
        return None
    pointer = TargetPointer()
    if visit_now(device, pointer, item.begin, item.size) is None:
        return None
    entry = pointer.entry
    assert entry is not None
    pointer.is_present = pointer.counted = True
    entry.increment(item.type & OMPX_HOLD != 0)
    if device.trace is not None:
        trace_lookup(device, queue.cause, item.array, item.begin, item.size, True)
        trace_counts(device, queue.cause, entry)
    pointer.address = entry.device_address(item.begin)
    return pointer


def _count_back(device: OffloadDevice, entry: Entry, item: MapItem, queue: DirectiveQueue, hold: bool) -> None:
    """The item that has just counted an entry up was left early: the queue's post-processing removes it if need be."""
    entry.data_end_users += 1
    entry.decrement(hold)
    if device.trace is not None:
        trace_counts(device, queue.cause, entry)
    queue.post_processing.append(functools.partial(finish_data_end, device, entry, item, queue.cause))


async def _find_or_create(
    device: OffloadDevice,
    pointer: TargetPointer,
    item: MapItem,
    begin: int,
    base: int,
    size: int,
    type_bits: int,
    update_count: bool,
    owned: Entry | None,
    queue: DirectiveQueue,
) -> None:
    """The part under the table lock."""
    implicit = type_bits & IMPLICIT != 0
    present = type_bits & PRESENT != 0
    hold = type_bits & OMPX_HOLD != 0
    placement = device.place(
        MapRequest(size, type_bits & CLOSE != 0, implicit, device.number, device.mechanism(item.array))
    )
    inserts = placement is Placement.DEVICE_COPY and not present
    found = await visit(device, pointer, begin, size, owned, inserts)
    if device.trace is not None:
        trace_lookup(device, queue.cause, item.array, begin, size, found.contained)
    pointer.is_present = True
    entry = pointer.entry
    if entry is not None and (found.contained or (implicit and found.overlaps)):
        if update_count:
            entry.increment(hold)
            pointer.counted = True
            if device.trace is not None:
                trace_counts(device, queue.cause, entry)
        else:
            pointer.is_new = entry.total == 1
        pointer.address = entry.device_address(begin)
    elif entry is not None and found.overlaps:
        device.report(
            "omptarget message: explicit extension not allowed: host address specified is "
            f"{item.locate(begin)} ({size} bytes), but device allocation maps to host at "
            f"{item.locate(entry.host_begin)} ({entry.size} bytes)"
        )
        if present:
            _report_absent(device, item, begin, size)
    elif placement is Placement.HOST_POINTER:
        if size:
            pointer.is_present = False
            pointer.is_host = True
            pointer.address = begin
    elif present:
        _report_absent(device, item, begin, size)
    elif size:
        pointer.is_new = pointer.counted = True
        array = item.array
        phantom = array is not None and array.phantom
        address = await device.allocate(size, array, begin, phantom)
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
        )
        enter_entry(device, queue.cause, entry)
        pointer.release(device)
        pointer.borrowed = False
        if not device.lock_entry_now(entry):
            await device.lock_entry(entry)
        pointer.entry = entry
        pointer.address = address
    else:
        pointer.is_present = False


def _report_absent(device: OffloadDevice, item: MapItem, begin: int, size: int) -> None:
    device.report(
        "omptarget message: device mapping required by 'present' map type modifier does not exist for host address "
        f"{item.locate(begin)} ({size} bytes)"
    )


def null_pointer(device: OffloadDevice, item: MapItem, call: str) -> MappingError:
    """What LLVM says when `get_target_pointer` has found no address for an item."""
    why = "'present' map type modifier" if item.type & PRESENT else "device failure or illegal mapping"
    device.report(f"omptarget error: Call to getTargetPointer returned null pointer ({why}).")
    kind = NotPresent if item.type & PRESENT else MappingError
    return device.error(kind, f"{item.locate(item.begin)} ({item.size} bytes) cannot be mapped: {why}", call, item.name)


async def transfer_to(
    device: OffloadDevice,
    pointer: TargetPointer,
    item: MapItem,
    begin: int,
    size: int,
    type_bits: int,
    queue: DirectiveQueue,
) -> None:
    """The part under the entry lock: transfer, or make the queue wait for the transfer that another thread began.

    Left early, it counts the item back and releases the entry.
    """
    entry = pointer.entry
    if entry is None or pointer.is_host:
        return
    try:
        wanted = type_bits & TO and (pointer.is_new or type_bits & ALWAYS) and size
        if wanted and pointer.address is not None and item.array is not None:
            end = begin + size
            if entry.shadow_pointers and any(begin <= address < end for address in entry.shadow_pointers):
                return
            await device.submit(queue, pointer.address, item.array.span(begin, size), item.array)
            entry.event = await device.plugin.record_event(queue)
        elif not type_bits & PRESENT and entry.event is not None:
            await device.plugin.wait_event(queue, entry.event)
    except BaseException:
        if pointer.counted and pointer.entry is not None:
            _count_back(device, pointer.entry, item, queue, type_bits & OMPX_HOLD != 0)
        pointer.release(device)
        raise
