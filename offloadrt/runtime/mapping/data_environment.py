"""Begin, end and update of a device data environment, item by item, as LLVM's runtime does.

`target_data_begin`, `target_data_end` and `target_data_update` follow omptarget.cpp: each works on the lowered items of
one directive and its queue, and the caller synchronizes the queue afterwards. Below them an item meets the present
table, step by step as in `MappingInfoTy` (OpenMP/Mapping.cpp):

- a lookup, under the table lock, also locks the entry that is the neighbour by address: if that one is being copied,
  all wait (`lock_visited`);
- a new block is allocated under the table lock (`get_target_pointer`);
- the copy is submitted under the entry lock, after the table lock was released (`_transfer_to`);
- an entry is erased under both locks, its block freed after both are released (`_finish_data_end`).

Errors are MappingError; what LLVM prints goes to `device.messages` as well.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Final

from offloadrt.driver import DriverError
from offloadrt.runtime.device import OffloadDevice, Placement, report_failure
from offloadrt.runtime.errors import FreedHostMemory, MappingError, NotPresent
from offloadrt.runtime.events import (
    EntryCounted,
    EntryEntered,
    EntryLeft,
    FreedCopied,
    ItemEnded,
    ItemFound,
    ItemsTaken,
    PointerAttached,
    SectionFound,
    UpdateMissed,
)
from offloadrt.runtime.host_array import POINTER_BYTES, HostArray, HostSpan
from offloadrt.runtime.mapping.map_item import DirectiveQueue, MapItem, MapItems
from offloadrt.runtime.mapping.map_types import (
    ALWAYS,
    FIRST_MEMBER,
    FROM,
    MEMBER_OF,
    NON_CONTIG,
    NOT_MAPPED,
    PRESENT,
    PTR_AND_OBJ,
    TO,
    MapFlags,
    flags_of,
)
from offloadrt.runtime.mapping.present_table import ABSENT, Entry, Lookup, ShadowPointer, TargetPointer


async def lock_visited(device: OffloadDevice, lookup: Lookup, keeps: bool, owned: Entry | None = None) -> None:
    """Lock the entries that a look-up has visited, one after the other as `lookupMapping` does.

    The caller holds the table lock, also while it waits here for an entry that is being copied. LLVM keeps the lock of
    the last entry while the directive works with that entry. Here it is kept only if `keeps` is set, because the caller
    awaits something under it; otherwise, and for other entries, this waits until the lock is free. When this raises, no
    lock is kept. owned: an entry whose lock the caller holds already, which is skipped.
    """
    for entry in lookup.visited:
        if entry is owned:
            continue
        if keeps and entry is lookup.entry:
            await device.lock_entry(entry)
        else:
            await device.pass_entry(entry)


def pass_visited(device: OffloadDevice, lookup: Lookup) -> bool:
    """Count one taking and release of the lock of each entry that `lookup` has visited, if all are free.

    Returns False, without effect, if one of them is held. This is the fast path of `lock_visited`.
    """
    locks = lookup.locks
    for lock in locks:
        if lock.owner is not None:
            return False
    device.entry_locks.passed += len(locks)
    return True


def enter_entry(device: OffloadDevice, cause: int, entry: Entry) -> None:
    """Put a new entry into the present table. The caller holds the table's lock, unless no other thread can use it yet.

    cause: the number of the directive, for the trace.
    """
    device.table.insert(entry)
    if device.tell is not None:
        device.tell(EntryEntered(cause, device.number, entry))


def remove_entry(device: OffloadDevice, cause: int, entry: Entry) -> None:
    """Remove an entry from the present table for directive `cause`; the caller holds the table's lock."""
    device.table.erase(entry)
    entry.is_erased = True
    if device.tell is not None:
        device.tell(EntryLeft(cause, device.number, entry))


async def get_present_pointer(
    device: OffloadDevice,
    array: HostArray | None,
    begin: int,
    size: int,
    cause: int,
    must_contain: bool = False,
    locks: bool = False,
) -> TargetPointer:
    """Look up the device address of host memory [begin, begin + size) (`getTgtPtrBegin`), under the table's lock.

    The result's entry is None if nothing there is mapped. array: the array of these bytes, for the trace; None if that
    is not known. must_contain: whether only an entry that holds all these bytes counts. locks: whether to return with
    the entry's lock held for the caller. cause: the number of the directive.
    """
    await device.table_lock.enter(device.table.search_s, begin, size, False)
    try:
        lookup = device.table.lookup(begin, size)
        entry = lookup.pointer.entry if lookup.contained or not must_contain else None
        locks = locks and entry is not None
        if locks or not pass_visited(device, lookup):
            await lock_visited(device, lookup, locks)
        if device.tell is not None:
            device.tell(SectionFound(cause, device.number, array, begin, size, lookup.contained))
    finally:
        device.table_lock.release()
    if entry is not None:
        return TargetPointer(lookup.pointer.address, entry, True) if locks else lookup.pointer
    if device.host_pointers:
        return TargetPointer(begin) if lookup.overlaps else lookup.pointer
    return ABSENT


def count_down(entry: Entry, flags: MapFlags) -> None:
    """Decrement an entry's reference count at a map's end, as `flags` say; the caller holds the table's lock."""
    hold = flags.hold
    if flags.delete:
        entry.reset(hold)
    entry.data_end_users += 1
    if flags.counted_down:
        entry.decrement(hold)


def ending_entries(device: OffloadDevice, queue: DirectiveQueue) -> list[tuple[Entry, MapItem]]:
    """Return the list of (entry, map item) whose counts the queue's directive has decremented; callers append to it.

    The first call schedules the clean-up: when the queue has drained, unused entries of the list are removed.
    """
    if not queue.ending:
        queue.post_processing.append(functools.partial(_finish_data_end, device, queue.ending, queue.cause))
    return queue.ending


async def _finish_data_end(device: OffloadDevice, ending: list[tuple[Entry, MapItem]], cause: int) -> None:
    """Restore attached host pointers, erase the entries without references, and free their blocks.

    Only the last of all threads that counted an entry down erases it (`postProcessingTargetDataEnd`). If a cancellation
    interrupts this function, it can be called again for the rest of `ending`.
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
    """Write the host's addresses back into the entry's attached pointers, which a copy from the device overwrote."""
    if array is None or array.bytes is None:
        return
    for shadow in entry.shadow_pointers.values():
        if array.holds(shadow.host_address, shadow.nbytes):
            offset = shadow.host_address - array.address
            array.bytes[offset : offset + shadow.nbytes] = shadow.content(shadow.host_value)


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
    """Find or create the device counterpart of [begin, begin + size), and copy to it if need be (`getTargetPointer`).

    base: host address of the item's base pointer. flags: the item's map type. The caller holds the table's lock and has
    charged the look-up. This function releases that lock, also when it raises. With release_table False, it keeps the
    lock if it succeeds, and the result owns the lock of its entry. owned: an entry whose lock the caller holds already.
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
            if (tell := device.tell) is not None:
                tell(ItemFound(queue.cause, device.number, item, begin, size, lookup.contained, entry))
                tell(EntryCounted(queue.cause, device.number, entry))
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
    """Map a section that no entry contains: by a new device block, by its host address, or not at all (`ABSENT`).

    The caller holds the table's lock. The result owns the lock of a new block's entry.
    """
    present = flags.present
    placement = HOST_POINTER if lookup.overlaps else _placement(device, item, size, flags)
    inserts = placement is DEVICE_COPY and size > 0 and not present
    if inserts:
        await device.work(device.costs.insert)
    if not pass_visited(device, lookup):
        await lock_visited(device, lookup, False, owned)
    if device.tell is not None:
        entry = lookup.entry if lookup.overlaps else None
        device.tell(ItemFound(queue.cause, device.number, item, begin, size, lookup.contained, entry))
    if inserts:
        return await _create(device, item, begin, base, size, flags, queue)
    if lookup.overlaps:
        _report_extension(device, item, begin, size, lookup, present)
    elif placement is HOST_POINTER and size:
        return lookup.pointer
    elif placement is not HOST_POINTER and present:
        report_absent(device, item, begin, size)
    return ABSENT


def _report(device: OffloadDevice, error: BaseException) -> None:
    """Report what LLVM prints when the driver library fails in `getTargetPointer`; do nothing for other errors."""
    if isinstance(error, DriverError):
        report_failure(device, error, _NULL.format("device failure or illegal mapping"))


def _undo_count_up(device: OffloadDevice, entry: Entry, item: MapItem, queue: DirectiveQueue, hold: bool) -> None:
    """Count an entry down whose item failed or was cancelled; the queue's post-processing erases it if unused."""
    entry.data_end_users += 1
    entry.decrement(hold)
    if device.tell is not None:
        device.tell(EntryCounted(queue.cause, device.number, entry))
    ending_entries(device, queue).append((entry, item))


def _placement(device: OffloadDevice, item: MapItem, size: int, flags: MapFlags) -> Placement:
    """Ask the memory configuration for the placement of a section of which nothing is mapped."""
    if (placing := device.hooks.placing) is not None:
        return placing(item, size, flags)
    return device.place(size, flags.close, flags.implicit)


async def _create(
    device: OffloadDevice, item: MapItem, begin: int, base: int, size: int, flags: MapFlags, queue: DirectiveQueue
) -> TargetPointer:
    """Allocate a device block and enter it in the table, which the caller holds; the result owns the entry's lock."""
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
    """Report LLVM's line about an absent section with the modifier `present`; kind: "map type" or "motion"."""
    device.report(
        f"omptarget message: device mapping required by 'present' {kind} modifier does not exist for host address "
        f"{item.locate(begin)} ({size} bytes)"
    )


def null_pointer(device: OffloadDevice, item: MapItem, call: str) -> MappingError:
    """Report LLVM's line about an item for which `get_target_pointer` gave no address; return the error of `call`."""
    why = "'present' map type modifier" if item.flags.present else "device failure or illegal mapping"
    device.report(_NULL.format(why))
    kind = NotPresent if item.flags.present else MappingError
    entry = device.table.lookup(item.begin, item.size).entry
    there = 0 if entry is None else min(item.begin + item.size, entry.host_end) - max(item.begin, entry.host_begin)
    of_it = f" {there} of them are mapped already." if 0 < there < item.size else ""
    told = f"{item.locate(item.begin)} ({item.size} bytes) cannot be mapped: {why}"
    return device.error(kind, f"{told}.{of_it}" if of_it else told, call, item.name)


async def _transfer_to(
    device: OffloadDevice,
    pointer: TargetPointer,
    item: MapItem,
    begin: int,
    size: int,
    flags: MapFlags,
    queue: DirectiveQueue,
) -> None:
    """Copy an item to the device under its entry's lock, or make the queue wait for a copy that is in progress.

    When this raises or is cancelled, it undoes the count-up and releases the entry's lock.
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
            await device.add_event(entry, queue)
        elif not flags.present and device.is_pending(entry):
            await device.plugin.wait_event(queue, entry.event)
    except BaseException:
        if flags.counted:
            _undo_count_up(device, entry, item, queue, flags.hold)
        device.release(pointer)
        raise


async def target_data_begin(
    device: OffloadDevice, items: Sequence[MapItem], queue: DirectiveQueue, call: str
) -> dict[int, int | None]:
    """Map the items in order, then attach pointers (`targetDataBegin`); errors name `call`.

    Returns the device addresses of the bases of RETURN_PARAM items, by position; None where nothing is mapped.
    """
    if device.tell is not None:
        device.tell(ItemsTaken(device.number, call, items))
    if isinstance(items, MapItems):
        items = items.mapped
    queue.items = items
    hooks = device.hooks
    if hooks.before_data is not None:
        await hooks.before_data(items, queue, call)
    attaching: list[MapItem] = []
    """ATTACH items, which are postponed until all items of the construct are mapped."""
    new_blocks: list[tuple[int, int]] = []
    returned: dict[int, int | None] = {}
    table, lookup_s = device.table_lock, device.table.search_s
    in_place = hooks.in_place
    for position, item in enumerate(items):
        flags, base = item.flags, item.base
        if flags.skipped:
            if not flags.not_mapped:
                attaching.append(item)
            continue
        if item.array is not None and item.array.freed:
            raise _freed(device, item, call)
        if flags.pointer_and_object:
            base = item.pointee_base
            pointer = await _begin_pointer_and_object(device, item, base, queue, new_blocks, call)
        else:
            await table.enter(lookup_s, item.begin, item.size)
            pointer = await get_target_pointer(device, item, queue, item.begin, base, item.size, flags)
            if pointer.is_locked:
                device.release(pointer)
            if pointer.is_new or pointer.address is None:
                _note_mapped(device, item, pointer, new_blocks, call)
        if pointer.entry is None and in_place is not None and item.size:
            await in_place(item, queue)
        queue.mapped = position + 1
        if flags.returned:
            returned[position] = None if pointer.address is None else pointer.address - (item.begin - base)
    for item in attaching:
        if item.flags.always or _is_new(item.begin, new_blocks) or _is_new(item.base, new_blocks):
            await _attach_item(device, item, queue)
    return returned


def _is_new(address: int, blocks: Sequence[tuple[int, int]]) -> bool:
    """Tell whether an address lies in a block that is new in this construct."""
    return any(begin <= address < begin + size for begin, size in blocks)


def _note_mapped(
    device: OffloadDevice, item: MapItem, pointer: TargetPointer, new_blocks: list[tuple[int, int]], call: str
) -> None:
    """Add an item's new block to `new_blocks`. Raises MappingError if the item got no device address."""
    if pointer.address is None and (item.size or item.type & PRESENT):
        raise null_pointer(device, item, call)
    if pointer.is_new:
        new_blocks.append((item.begin, item.size))


async def _begin_pointer_and_object(
    device: OffloadDevice, item: MapItem, base: int, queue: DirectiveQueue, new_blocks: list[tuple[int, int]], call: str
) -> TargetPointer:
    """Map a pointer and its pointee, whose base is `base`, under one hold of the table; then attach the pointer.

    The pointer's entry stays locked until its device copy has been overwritten with the pointee's device address.
    """
    lookup_s = device.table.search_s
    await device.table_lock.enter(lookup_s, item.base, POINTER_BYTES)
    flags = flags_of(item.type & ~(TO | ALWAYS))
    owner = await get_target_pointer(
        device, item, queue, item.base, item.base, POINTER_BYTES, flags, release_table=False
    )
    try:
        try:
            if owner.address is None:
                raise null_pointer(device, item, call)
            if owner.is_new:
                new_blocks.append((item.base, POINTER_BYTES))
            await device.work(lookup_s)
        except BaseException:
            device.table_lock.release()
            raise
        flags = flags_of(item.type & ~MEMBER_OF)
        pointer = await get_target_pointer(device, item, queue, item.begin, base, item.size, flags, owned=owner.entry)
        try:
            _note_mapped(device, item, pointer, new_blocks, call)
            if pointer.entry is not None:
                await _attach(device, item, owner, base, pointer.entry, queue)
        finally:
            device.release(pointer)
    finally:
        device.release(owner)
    return pointer


def _freed(device: OffloadDevice, item: MapItem, call: str) -> FreedHostMemory:
    return device.error(FreedHostMemory, f"{item.locate(item.begin)} ({item.size} bytes) was freed", call, item.name)


def _tell_freed(device: OffloadDevice, queue: DirectiveQueue, entry: Entry, op: str) -> None:
    if device.tell is not None:
        device.tell(FreedCopied(queue.cause, device.number, entry, op))


async def _attach(
    device: OffloadDevice, item: MapItem, owner: TargetPointer, pointee_base: int, pointee: Entry, queue: DirectiveQueue
) -> None:
    """Write the device address of the pointee's base into the device's copy of the pointer.

    The caller has locked the pointer's entry.
    """
    entry, device_pointer = owner.entry, owner.address
    assert entry is not None and device_pointer is not None
    device_value = pointee.device_address(pointee_base)
    shadow = ShadowPointer(item.base, device_pointer, pointee_base, device_value, pointee.binding, item.descriptor)
    if not entry.attach(shadow):
        return
    if device.tell is not None:
        device.tell(PointerAttached(queue.cause, device.number, item, item.base, device_value))
    await device.submit(queue, device_pointer, pointer_span(shadow), None, op="attach")
    await device.add_event(entry, queue)


def pointer_span(shadow: ShadowPointer) -> HostSpan:
    """Return the source of the copy that attaches a pointer: the host pointer's address and the device pointer's bytes.

    The bytes are the address that the device's copy must hold. shadow: the runtime's record of the attached pointer.
    """
    return HostSpan(shadow.host_address, shadow.nbytes, shadow.content(shadow.device_value))


async def _attach_item(device: OffloadDevice, item: MapItem, queue: DirectiveQueue) -> None:
    """Attach a pointer if it and its pointee are both present (`processAttachEntries`)."""
    pointee = await get_present_pointer(device, item.array, item.begin, 0, queue.cause, must_contain=True)
    if pointee.entry is None:
        return
    owner = await get_present_pointer(device, None, item.base, item.size, queue.cause, must_contain=True, locks=True)
    try:
        if owner.entry is None or item.array is None:
            return
        await _attach(device, item, owner, item.pointee_base, pointee.entry, queue)
    finally:
        device.release(owner)


async def target_data_end(device: OffloadDevice, items: Sequence[MapItem], queue: DirectiveQueue, call: str) -> None:
    """Unmap the items in reverse order (`targetDataEnd`); unused entries are erased once the queue has drained.

    Entries of a mapper function's components are erased before all others: LLVM unmaps them by a nested call of
    `targetDataEnd`, whose post-processing comes first (`targetDataMapper`).
    """
    if device.tell is not None and call != "target":
        device.tell(ItemsTaken(device.number, call, items))
    if isinstance(items, MapItems):
        items = items.mapped
    queue.items, queue.mapped = items, len(items)
    table, lookup_s, tell = device.table_lock, device.table.search_s, device.tell
    present, known, in_place = device.table, device.table.known, device.host_pointers
    ending, listed = queue.ending, 0
    unmapping = device.hooks.unmapping
    for position in reversed(range(len(items))):
        item = items[position]
        flags = item.flags
        if flags.skipped:
            continue
        begin, size = section = item.section
        await table.enter(lookup_s, begin, size)
        try:
            lookup = known.get(section) or present.lookup(begin, size)
            entry = lookup.pointer.entry if lookup.contained or flags.implicit else None
            copies = is_last = False
            if entry is not None and flags.from_ and size:
                is_last = entry.would_be_last(flags.hold, flags.delete)
                copies = is_last or flags.always
            if copies or not pass_visited(device, lookup):
                await lock_visited(device, lookup, copies)
            if unmapping is not None:
                unmapping(item, entry, queue)
            if tell is not None:
                found = lookup.contained
                tell(ItemEnded(queue.cause, device.number, item, begin, size, found, entry, in_place))
            if entry is not None:
                count_down(entry, flags)
                if tell is not None:
                    tell(EntryCounted(queue.cause, device.number, entry))
        finally:
            table.release()
        queue.mapped = position
        if entry is not None:
            if item.listed:
                ending_entries(device, queue).insert(listed, (entry, item))
                listed += 1
            else:
                (ending or ending_entries(device, queue)).append((entry, item))
            if copies:
                pointer = TargetPointer(lookup.pointer.address, entry, is_locked=True, is_last=is_last)
                await _copy_back(device, item, entry, pointer, queue, call)
        elif flags.present and not in_place:
            raise _absent(device, item, begin, size, call, "map type")
    if device.hooks.data_ended is not None:
        device.hooks.data_ended(items, queue)


async def _copy_back(
    device: OffloadDevice, item: MapItem, entry: Entry, pointer: TargetPointer, queue: DirectiveQueue, call: str
) -> None:
    """Copy an item to the host after its entry was counted down; releases the entry's lock, which the caller holds."""
    try:
        if item.array is None or pointer.address is None:
            return
        if item.array.freed:
            _tell_freed(device, queue, entry, "d2h")
            raise _freed(device, item, call)
        if device.is_pending(entry):
            await device.plugin.wait_event(queue, entry.event)
        await device.retrieve(queue, item.array.span(item.begin, item.size), pointer.address, item.array)
        if pointer.is_last:
            await device.add_event(entry, queue)
    finally:
        device.release(pointer)


async def target_data_update(
    device: OffloadDevice, items: Sequence[MapItem], queue: DirectiveQueue, call: str, specification: bool = False
) -> None:
    """Copy the items' data to or from the device, in order (`targetDataUpdate`); errors name `call`.

    A section that is not wholly present is skipped. specification: whether strided sections follow OpenMP's
    specification; otherwise they follow LLVM 22, which multiplies the lower bound by the stride.
    """
    if device.tell is not None:
        device.tell(ItemsTaken(device.number, call, items))
    for item in items.mapped if isinstance(items, MapItems) else items:
        if item.type & NOT_MAPPED:
            continue
        if item.type & NON_CONTIG:
            for begin, size in strided_pieces(item, specification):
                await _update_piece(device, item, begin, size, queue, call)
        else:
            await _update_piece(device, item, item.begin, item.size, queue, call)


def strided_pieces(item: MapItem, specification: bool) -> list[tuple[int, int]]:
    """Return (host address, number of bytes) of each contiguous piece of a section (`targetDataNonContiguous`).

    LLVM 22 multiplies each lower bound by the stride. It copies only the first element of the innermost dimension that
    it has not merged with the next one. It starts at the begin of the array and ignores leading subscripts.

    >>> from offloadrt.runtime.host_array import Dimension
    >>> row = MapItem(None, 0, 4, 2, NON_CONTIG, (Dimension(1, 2, 8), Dimension(0, 1, 4)))
    >>> strided_pieces(row, specification=False)
    [(8, 4), (16, 4)]
    >>> strided_pieces(row, specification=True)
    [(4, 4), (12, 4)]
    """
    dimensions = item.dimensions
    size = dimensions[-1].count * dimensions[-1].stride
    if specification:
        starts = [item.begin]
        for dimension in dimensions[:-1]:
            starts = [start + i * dimension.stride for start in starts for i in range(dimension.count)]
        return [(start, size) for start in starts]
    merged = 0
    for outer, inner in itertools.pairwise(dimensions):
        merged += inner.count * inner.stride == outer.stride
    starts = [item.base]
    kept = dimensions[: len(dimensions) - merged]
    for dimension in kept:
        counted = min(dimension.count, 1) if dimension is kept[-1] else dimension.count
        starts = [start + (dimension.offset + i) * dimension.stride for start in starts for i in range(counted)]
    return [(start, size) for start in starts]


async def _update_piece(
    device: OffloadDevice, item: MapItem, begin: int, size: int, queue: DirectiveQueue, call: str
) -> None:
    pointer = await get_present_pointer(device, item.array, begin, size, queue.cause, must_contain=True, locks=True)
    try:
        if pointer.entry is None and item.type & PRESENT:
            raise _absent(device, item, begin, size, call, "motion")
        entry, array = pointer.entry, item.array
        if entry is None and device.tell is not None and not pointer.is_host:
            device.tell(UpdateMissed(queue.cause, device.number, item))
        if device.hooks.updating is not None and pointer.is_host and array is not None and item.type & TO:
            device.hooks.updating(array)
        if entry is None or array is None or pointer.address is None:
            return
        if array.freed:
            _tell_freed(device, queue, entry, "h2d" if item.type & TO else "d2h")
            raise _freed(device, item, call)
        # LLVM's arithmetic can lead a strided piece out of the array: it takes its time, but there is nothing to move.
        piece = array.span(begin, size) if array.holds(begin, size) else HostSpan(begin, size, None)
        if item.type & TO:
            await device.submit(queue, pointer.address, piece, array)
            for shadow in entry.shadow_pointers.values():
                await device.submit(queue, shadow.device_address, pointer_span(shadow), None, op="attach")
        if item.type & FROM:
            await device.retrieve(queue, piece, pointer.address, array)
            if entry.shadow_pointers:

                async def restore() -> None:
                    restore_host_pointers(array, entry)

                queue.post_processing.append(restore)
    finally:
        device.release(pointer)


def _absent(device: OffloadDevice, item: MapItem, begin: int, size: int, call: str, kind: str) -> MappingError:
    """Report LLVM's line about an absent section, as `report_absent` does, and return the error to raise."""
    report_absent(device, item, begin, size, kind)
    return device.error(NotPresent, f"{item.locate(begin)} ({size} bytes) is not present", call, item.name)
