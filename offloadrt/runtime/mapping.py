"""Looking up, mapping and unmapping one item, with the locks that LLVM's runtime holds meanwhile.

Follows `MappingInfoTy` (offload/libomptarget/OpenMP/Mapping.cpp), step by step:

- a lookup, under the table lock, also locks the entry that is the neighbour by address: if that one is being copied,
  all wait;
- a new block is allocated under the table lock;
- the copy is submitted under the entry lock, after the table lock was released;
- an entry is erased under both locks, its block freed after both are released.

A `TargetPointer` owns the lock of its entry until `release`.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable

import attrs

from offloadrt.runtime.configurations import MapRequest, Placement
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.errors import MappingError, NotPresent
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.map_item import MapItem
from offloadrt.runtime.map_type import ALWAYS, CLOSE, FROM, IMPLICIT, OMPX_HOLD, PRESENT, TO
from offloadrt.runtime.present_table import Entry, Lookup
from offloadrt.sim import PASSED
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
    placement = device.configuration.place(
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


async def get_present_pointer(
    device: OffloadDevice,
    array: HostArray | None,
    begin: int,
    size: int,
    *,
    update_count: bool = False,
    hold: bool = False,
    must_contain: bool = False,
    force_delete: bool = False,
    from_data_end: bool = False,
    cause: int = 0,
) -> TargetPointer:
    """Find the counterpart of what is mapped already, maybe counting down (`getTgtPtrBegin`).

    The entry stays locked by the result.
    """
    pointer = TargetPointer()
    found = visit_now(device, pointer, begin, size)
    held = found is None
    if found is None and not device.table_lock.take_now():
        await device.table_lock.acquire()
    try:
        if found is None:
            found = await visit(device, pointer, begin, size)
        if device.trace is not None:
            trace_lookup(device, cause, array, begin, size, found.contained)
        entry = pointer.entry
        if entry is not None and (found.contained or (not must_contain and found.overlaps)):
            pointer.is_present = True
            pointer.is_last = entry.would_be_last(hold, force_delete)
            if force_delete:
                entry.reset(hold)
            if from_data_end:
                entry.data_end_users += 1
            if update_count:
                entry.decrement(hold)
                if device.trace is not None:
                    trace_counts(device, cause, entry)
            pointer.address = entry.device_address(begin)
        else:
            pointer.is_host = device.configuration.host_pointers
            pointer.address = begin
    except BaseException:
        pointer.release(device)
        raise
    finally:
        if held:
            device.table_lock.release()
    return pointer


def finish_data_end(device: OffloadDevice, entry: Entry, item: MapItem, cause: int) -> Awaitable[None]:
    """After the queue has drained: restore attached host pointers, and remove the entry if nobody needs it any more.

    Only the last of all threads that counted it down removes it (`postProcessingTargetDataEnd`). When it is left early
    it can be done again. Await it at once.
    """
    needed = entry.dynamic or entry.hold or device.ending(entry) > 1
    if not needed or entry.shadow_pointers or entry in device.locked_entries or device.handover_due:
        return _finish_data_end(device, entry, item, cause)
    if device.sim.fuel < 2 or not device.table_lock.glance():
        return _finish_data_end(device, entry, item, cause)
    if not device.entries_uncontended:
        passed = entry.lock.pass_now()
        assert passed, "the lock of an entry that nobody has"
    entry.data_end_users -= 1
    return PASSED


async def _finish_data_end(device: OffloadDevice, entry: Entry, item: MapItem, cause: int) -> None:
    if device.table.at(entry.host_begin) is not entry:  # it was left when the entry had been removed already
        if device.block_size(entry.device_begin) is not None:
            await device.free(entry.device_begin, item.array, entry.host_begin)
        return
    table = device.table_lock
    table.take_now() or await table.acquire()
    try:
        if device.handover_due:
            await device.table_work(0.0)
        if not device.lock_entry_now(entry):
            await device.lock_entry(entry)
        entry.data_end_users -= 1
        remove = entry.total == 0 and device.ending(entry) == 0
        if not remove:
            table.release()
        if item.type & FROM and entry.shadow_pointers:
            restore_host_pointers(item.array, entry)
        device.unlock_entry(entry)
        if not remove:
            return
        try:
            await device.work(device.costs.erase)
        except BaseException:
            entry.data_end_users += 1
            raise
        remove_entry(device, cause, entry)
    finally:
        if table.held_by_me():
            table.release()
    device.entry_locks.give_back(entry.lock)
    await device.free(entry.device_begin, item.array, entry.host_begin)


def restore_host_pointers(array: HostArray | None, entry: Entry) -> None:
    """Pointers that were copied back hold device addresses: put the host's own values back."""
    if array is None or array.bytes is None:
        return
    for shadow in entry.shadow_pointers.values():
        offset = shadow.host_address - array.address
        if 0 <= offset <= array.nbytes - 8:
            array.bytes[offset : offset + 8].view("<u8")[0] = shadow.host_value
