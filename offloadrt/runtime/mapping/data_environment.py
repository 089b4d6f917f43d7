"""Begin, end and update of a device data environment, item by item, as LLVM's runtime does (`omptarget.cpp`).

Each function works on the lowered items of one directive and its queue; the caller synchronizes the queue afterwards.
Errors are MappingError; what LLVM prints goes to `device.messages` as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.errors import FreedHostMemory, MappingError, NotPresent
from offloadrt.runtime.host_array import POINTER_BYTES, HostSpan
from offloadrt.runtime.mapping.map_item import MapItem, MapItems
from offloadrt.runtime.mapping.map_type import (
    ALWAYS,
    FROM,
    MEMBER_OF,
    NON_CONTIG,
    NOT_MAPPED,
    PRESENT,
    TO,
    flags_of,
)
from offloadrt.runtime.mapping.present_table import Entry, ShadowPointer, TargetPointer
from offloadrt.runtime.mapping.table_visits import lock_visited, pass_visited, trace_counts, trace_lookup
from offloadrt.runtime.mapping.target_pointer import get_target_pointer, null_pointer, report_absent
from offloadrt.runtime.mapping.unmapping import (
    count_down,
    ending_entries,
    get_present_pointer,
    restore_host_pointers,
)
from offloadrt.runtime.program_events import FreedCopied, ItemEnded, UpdateMissed
from offloadrt.trace import events


async def target_data_begin(
    device: OffloadDevice, items: Sequence[MapItem], queue: DirectiveQueue, call: str
) -> dict[int, int | None]:
    """Map the items in order, then attach pointers.

    Returns the device addresses of bases for items with RETURN_PARAM (by position; None where nothing is mapped).
    """
    if device.tool is not None:
        device.tool.target_map(device.number, call, items)
    if isinstance(items, MapItems):
        items = items.mapped
    queue.items = items
    hooks = device.hooks
    if hooks.before_data is not None:
        await hooks.before_data(items, queue, call)
    attaching: list[MapItem] = []
    """ATTACH items, put off until all items of the construct are mapped."""
    new_blocks: list[tuple[int, int]] = []
    returned: dict[int, int | None] = {}
    table, lookup_s = device.table_lock, device.costs.lookup
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
    """Tell whether an address lies in a block that is new in the construct."""
    return any(begin <= address < begin + size for begin, size in blocks)


def _note_mapped(
    device: OffloadDevice, item: MapItem, pointer: TargetPointer, new_blocks: list[tuple[int, int]], call: str
) -> None:
    """Remember a new block. Raises a MappingError when there is no address for the item."""
    if pointer.address is None and (item.size or item.type & PRESENT):
        raise null_pointer(device, item, call)
    if pointer.is_new:
        new_blocks.append((item.begin, item.size))


async def _begin_pointer_and_object(
    device: OffloadDevice,
    item: MapItem,
    base: int,
    queue: DirectiveQueue,
    new_blocks: list[tuple[int, int]],
    call: str,
) -> TargetPointer:
    """Map a pointer and what it points to, which begins at `base`, in one hold of the table, then attach.

    The pointer's entry stays locked meanwhile, for the attachment is written to its block.
    """
    lookup_s = device.costs.lookup
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
    if device.observer is not None:
        device.observer.handle(FreedCopied(queue.cause, device.number, entry, op))


async def _attach(
    device: OffloadDevice,
    item: MapItem,
    owner: TargetPointer,
    pointee_base: int,
    pointee: Entry,
    queue: DirectiveQueue,
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
    if (trace := device.trace) is not None:
        trace(events.Attach, device.number, -1, queue.cause, item.name, item.base, device_value)
    await device.submit(queue, device_pointer, pointer_span(shadow), None, op="attach")
    entry.event = await device.plugin.record_event(queue)


def pointer_span(shadow: ShadowPointer) -> HostSpan:
    """Make a buffer with what an attached pointer holds on the device."""
    return HostSpan(shadow.host_address, shadow.nbytes, shadow.content(shadow.device_value))


async def _attach_item(device: OffloadDevice, item: MapItem, queue: DirectiveQueue) -> None:
    """Attach if pointer and pointee are present; one of them is new in this construct (`processAttachEntries`)."""
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
    """Unmap the items in reverse. What is removed is removed after the queue has drained.

    What a mapper function lists is removed first: LLVM unmaps it by a call of this function within this one, whose
    post-processing comes before (`targetDataMapper`).
    """
    if device.tool is not None and call != "target":
        device.tool.target_map(device.number, call, items)
    if isinstance(items, MapItems):
        items = items.mapped
    queue.items, queue.mapped = items, len(items)
    table, lookup_s, trace = device.table_lock, device.costs.lookup, device.trace
    present, known, observer = device.table, device.table.known, device.observer
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
            if observer is not None and (entry is not None or not device.host_pointers):
                observer.handle(ItemEnded(queue.cause, device.number, item, entry))
            if entry is not None:
                count_down(entry, flags)
            if trace is not None:
                trace_lookup(device, queue.cause, item.array, begin, size, lookup.contained)
                if entry is not None:
                    trace_counts(device, queue.cause, entry)
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
        elif flags.present and not device.host_pointers:
            raise _absent(device, item, begin, size, call, "map type")
    if device.hooks.data_ended is not None:
        device.hooks.data_ended(items, queue)


async def _copy_back(
    device: OffloadDevice, item: MapItem, entry: Entry, pointer: TargetPointer, queue: DirectiveQueue, call: str
) -> None:
    """Copy an item that was counted down to the host, under the lock of its entry, which is released here."""
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
            entry.event = await device.plugin.record_event(queue)
    finally:
        device.release(pointer)


async def target_data_update(
    device: OffloadDevice, items: Sequence[MapItem], queue: DirectiveQueue, call: str, specification: bool = False
) -> None:
    """Move data of present sections, in order. A section that is not wholly present is ignored.

    specification: strided sections as OpenMP says; otherwise as LLVM 22 does, which multiplies the lower bound by the
    stride.
    """
    if device.tool is not None:
        device.tool.target_map(device.number, call, items)
    for item in items.mapped if isinstance(items, MapItems) else items:
        if item.type & NOT_MAPPED:
            continue
        if item.type & NON_CONTIG:
            for begin, size in strided_pieces(item, specification):
                await _update_piece(device, item, begin, size, queue, call)
        else:
            await _update_piece(device, item, item.begin, item.size, queue, call)


def strided_pieces(item: MapItem, specification: bool) -> list[tuple[int, int]]:
    """Return address and size of each contiguous piece of a section with gaps (`targetDataNonContiguous`).

    LLVM 22 multiplies each lower bound by the stride; of the innermost dimension that is not merged with the next it
    moves the first element only; and it counts from the begin of the array, without leading subscripts.

    >>> from offloadrt.runtime.mapping.map_item import Dimension
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
        if entry is None and device.observer is not None and not pointer.is_host:
            device.observer.handle(UpdateMissed(queue.cause, device.number, item))
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
    """Say what LLVM says of a section with the modifier `present` that is absent; kind: of the modifier."""
    report_absent(device, item, begin, size, kind)
    return device.error(NotPresent, f"{item.locate(begin)} ({size} bytes) is not present", call, item.name)
