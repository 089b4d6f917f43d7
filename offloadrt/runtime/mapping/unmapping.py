"""Finding what is mapped already, counting it down, and removing the entry when nobody needs it any more.

An entry is erased under the table lock and its own, its block freed after both are released (`getTgtPtrBegin` and
`postProcessingTargetDataEnd` of LLVM's runtime).
"""

from __future__ import annotations

import functools
from collections import deque

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.map_type import ALWAYS, DELETE, FIRST_MEMBER, FROM, FROM_MAPPER, OMPX_HOLD, PTR_AND_OBJ
from offloadrt.runtime.mapping.present_table import ABSENT, Entry, TargetPointer
from offloadrt.runtime.mapping.table_visits import (
    lock_visited,
    pass_visited,
    remove_entry,
    trace_counts,
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
    """Take the table, and find the counterpart of what is mapped already, as `find_present` does."""
    await device.table_lock.enter(device.costs.lookup, begin, size, False)
    return await find_present(device, array, begin, size, cause, must_contain, locks)


async def find_present(
    device: OffloadDevice,
    array: HostArray | None,
    begin: int,
    size: int,
    cause: int,
    must_contain: bool = False,
    locks: bool = False,
    ends: MapItem | None = None,
) -> TargetPointer:
    """Find the counterpart of what is mapped already (`getTgtPtrBegin`); the table is released here.

    locks: the result keeps the entry's lock until it is released. ends: count the entry down for this item; the lock is
    kept if the item is to be copied back.
    """
    pointer, is_last, hold = ABSENT, False, False
    try:
        lookup = device.table.lookup(begin, size)
        entry = lookup.entry if lookup.contained or (lookup.overlaps and not must_contain) else None
        if entry is None:
            locks = False
        elif ends is not None:
            bits = ends.type
            hold = bits & OMPX_HOLD != 0
            is_last = entry.would_be_last(hold, bits & DELETE != 0)
            locks = bool(bits & FROM and ends.size and (bits & ALWAYS or is_last))
        if locks or not pass_visited(device, lookup):
            await lock_visited(device, lookup, locks)
        if device.trace is not None:
            trace_lookup(device, cause, array, begin, size, lookup.contained)
        if entry is not None:
            pointer = lookup.pointer
            if ends is not None:
                if locks or is_last:
                    pointer = TargetPointer(pointer.address, entry, locks, is_last=is_last)
                _count_down(device, entry, bits, hold, cause)
            elif locks:
                pointer = TargetPointer(pointer.address, entry, True)
        elif device.configuration.host_pointers:
            pointer = TargetPointer(begin) if lookup.overlaps else lookup.pointer
    except BaseException:
        device.release(pointer)
        raise
    finally:
        device.table_lock.release()
    return pointer


def _count_down(device: OffloadDevice, entry: Entry, bits: int, hold: bool, cause: int) -> None:
    if bits & DELETE:
        entry.reset(hold)
    entry.data_end_users += 1
    if bits < FROM_MAPPER or (bits & PTR_AND_OBJ and not bits & FROM_MAPPER):
        entry.decrement(hold)
    if device.trace is not None:
        trace_counts(device, cause, entry)


def put_off_data_end(device: OffloadDevice, entry: Entry, item: MapItem, queue: DirectiveQueue) -> None:
    """Have `_finish_data_end` look after an entry that was counted down for an item, when the queue has drained."""
    if not queue.ending:
        queue.post_processing.append(functools.partial(_finish_data_end, device, queue.ending, queue.cause))
    queue.ending.append((entry, item))


async def _finish_data_end(device: OffloadDevice, ending: deque[tuple[Entry, MapItem]], cause: int) -> None:
    """Restore attached host pointers, and remove the entries that nobody needs any more.

    Only the last of all threads that counted an entry down removes it (`postProcessingTargetDataEnd`). When this is
    left early it can be done again.
    """
    table = device.table_lock
    while ending:
        entry, item = ending[0]
        if entry.is_erased:  # it was left when the entry had been removed already
            if device.block_size(entry.block) is not None:
                await device.free(entry.block, item.array, entry.host_begin)
            ending.popleft()
            continue
        await table.enter(0.0, entry.host_begin, item.size, entry.is_unused)
        try:
            await device.pass_entry(entry)
            entry.data_end_users -= 1
            if item.type & FROM and entry.shadow_pointers:
                restore_host_pointers(item.array, entry)
            removes = (
                entry.is_unused
                and entry.data_end_users == 0
                and not (item.type >= FIRST_MEMBER and not item.type & PTR_AND_OBJ)
            )  # a member leaves the block to its struct
            if removes:
                await _remove(device, entry, cause)
        finally:
            table.release()
        if removes:
            device.entry_locks.give_back(entry.lock)
            await device.free(entry.block, item.array, entry.host_begin)
        ending.popleft()


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
