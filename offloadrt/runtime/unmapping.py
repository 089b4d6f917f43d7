"""Finding what is mapped already, counting it down, and removing the entry when nobody needs it any more.

An entry is erased under the table lock and its own, its block freed after both are released (`getTgtPtrBegin` and
`postProcessingTargetDataEnd` of LLVM's runtime).
"""

from __future__ import annotations

from collections.abc import Awaitable

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.map_item import MapItem
from offloadrt.runtime.map_type import FROM
from offloadrt.runtime.present_table import Entry
from offloadrt.runtime.table_visits import TargetPointer, remove_entry, trace_counts, trace_lookup, visit, visit_now
from offloadrt.sim import PASSED


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
