"""Finding what is mapped already, counting it down, and removing the entry when nobody needs it any more.

An entry is erased under the table lock and its own, its block freed after both are released (`getTgtPtrBegin` and
`postProcessingTargetDataEnd` of LLVM's runtime).
"""

from __future__ import annotations

import functools

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.map_type import FIRST_MEMBER, FROM, PTR_AND_OBJ, MapFlags
from offloadrt.runtime.mapping.present_table import ABSENT, Entry, TargetPointer
from offloadrt.runtime.mapping.table_visits import (
    lock_visited,
    pass_visited,
    remove_entry,
    trace_lookup,
)


async def get_present_pointer(
    device: OffloadDevice,
    array: HostArray | None,
    begin: int,
    size: int,
    cause: int,
    must_contain: bool = False,
    locks: bool = False,
) -> TargetPointer:
    """Find the counterpart of what is mapped already (`getTgtPtrBegin`), in one hold of the table.

    locks: the result keeps the entry's lock until it is released.
    """
    await device.table_lock.enter(device.costs.lookup, begin, size, False)
    try:
        lookup = device.table.lookup(begin, size)
        entry = lookup.pointer.entry if lookup.contained or not must_contain else None
        locks = locks and entry is not None
        if locks or not pass_visited(device, lookup):
            await lock_visited(device, lookup, locks)
        if device.trace is not None:
            trace_lookup(device, cause, array, begin, size, lookup.contained)
    finally:
        device.table_lock.release()
    if entry is not None:
        return TargetPointer(lookup.pointer.address, entry, True) if locks else lookup.pointer
    if device.host_pointers:
        return TargetPointer(begin) if lookup.overlaps else lookup.pointer
    return ABSENT


def count_down(entry: Entry, flags: MapFlags) -> None:
    """Take back the reference of a map item with these flags; the caller holds the table."""
    hold = flags.hold
    if flags.delete:
        entry.reset(hold)
    entry.data_end_users += 1
    if flags.counted_down:
        entry.decrement(hold)


def ending_entries(device: OffloadDevice, queue: DirectiveQueue) -> list[tuple[Entry, MapItem]]:
    """Return the list of entries that were counted down, each with its item.

    `_finish_data_end` looks after them when the queue has drained; it is put into the post-processing with the first.
    """
    if not queue.ending:
        queue.post_processing.append(functools.partial(_finish_data_end, device, queue.ending, queue.cause))
    return queue.ending


async def _finish_data_end(device: OffloadDevice, ending: list[tuple[Entry, MapItem]], cause: int) -> None:
    """Restore attached host pointers, and remove the entries that nobody needs any more.

    Only the last of all threads that counted an entry down removes it (`postProcessingTargetDataEnd`). When this is
    left early it can be done again.
    """
    table = device.table_lock
    # The counts are read without `Entry.is_unused`: each item of each directive comes by, and a property is a call.
    while ending:
        entry, item = ending[0]
        if entry.is_erased:  # it was left when the entry had been removed already
            if device.block_size(entry.block) is not None:
                await device.free(entry.block, item.array, entry.host_begin)
            del ending[0]
            continue
        await table.enter(0.0, entry.host_begin, item.size, not (entry.dynamic or entry.hold))
        try:
            await device.pass_entry(entry)
            entry.data_end_users = users = entry.data_end_users - 1
            if entry.shadow_pointers and item.type & FROM:
                restore_host_pointers(item.array, entry)
            removes = not (
                entry.dynamic
                or entry.hold
                or users
                or (item.type >= FIRST_MEMBER and not item.type & PTR_AND_OBJ)  # it leaves the block to its struct
            )
            if removes:
                await _remove(device, entry, cause)
        finally:
            table.release()
        if removes:
            device.entry_locks.give_back(entry.lock)
            await device.free(entry.block, item.array, entry.host_begin)
        del ending[0]


async def _remove(device: OffloadDevice, entry: Entry, cause: int) -> None:
    try:
        await device.work(device.costs.erase)
    except BaseException:
        entry.data_end_users += 1
        raise
    remove_entry(device, cause, entry)


def restore_host_pointers(array: HostArray | None, entry: Entry) -> None:
    """Put the host's own values back into pointers that were copied back, and so hold device addresses."""
    if array is None or array.bytes is None:
        return
    for shadow in entry.shadow_pointers.values():
        if array.holds(shadow.host_address, shadow.nbytes):
            offset = shadow.host_address - array.address
            array.bytes[offset : offset + shadow.nbytes] = shadow.content(shadow.host_value)
