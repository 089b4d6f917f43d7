"""Runs of map items that need no more than a look at the device table, dealt with in one hold of its lock.

LLVM's runtime takes the table for every item (`mapping.py`). An item whose section is mapped already, and not to be
copied, only has its reference count changed; one that the device uses in place only is searched for. Of such items up
to ``table.items_per_hold`` of the profile are looked up in one hold, which lasts as long as all their look-ups: the
table is as busy as it would be, and another thread waits for a run instead of an item. With 1 every item is on its own.

What the search found is remembered with the construct until an entry comes into the table or leaves it.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Sequence
from typing import Any

import attrs

from offloadrt.runtime.configurations import MapRequest, Placement
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue, PostProcessing
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.map_item import MapItem, MapItems
from offloadrt.runtime.map_type import (
    ALWAYS,
    ATTACH,
    CLOSE,
    DELETE,
    FROM,
    IMPLICIT,
    LITERAL,
    OMPX_HOLD,
    PRESENT,
    PRIVATE,
    PTR_AND_OBJ,
    RETURN_PARAM,
    TO,
)
from offloadrt.runtime.present_table import INFINITE, Entry
from offloadrt.runtime.table_visits import trace_counts, trace_lookup
from offloadrt.runtime.unmapping import finish_data_end
from offloadrt.sim import PASSED

_NOT_MAPPED = LITERAL | PRIVATE | ATTACH


@attrs.define(eq=False)
class Place:
    """Where the section of an item lies.

    entry: the entry that contains it; None when the device uses the host's memory. visited: what the search locks.
    is_open: it is neither; the item goes its own way.
    """

    visited: tuple[Entry, ...] = ()
    entry: Entry | None = None
    is_open: bool = False


@attrs.frozen(eq=False)
class Stretch:
    """Items [start, stop) that share one hold of the table.

    searched: those that are looked up, each with its entry, in the order in which they are. entries: these, whose
    references are counted. visited: all entries that the searches lock; while somebody holds one, a search would wait.
    lookups: how many; fewer than two have nothing to share. bindings: where a kernel finds the arrays, for whoever
    wants to remember it; on_host: which of the region's it uses in place, when all of them are there.
    """

    start: int
    stop: int
    searched: tuple[tuple[MapItem, Entry | None], ...]
    entries: tuple[Entry, ...]
    visited: frozenset[Entry]
    lookups: int
    bindings: dict[HostArray, Any] = attrs.field(factory=dict)
    on_host: list[bool] = attrs.field(factory=list)

    @classmethod
    def of(cls, start: int, stop: int, found: Sequence[tuple[MapItem, Place]]) -> Stretch:
        visited = frozenset([entry for _, place in found for entry in place.visited])
        entries = tuple([place.entry for _, place in found if place.entry is not None])
        return cls(start, stop, tuple([(item, place.entry) for item, place in found]), entries, visited, len(found))


@attrs.define(eq=False)
class Places:
    """The places of the items of one construct on one device, at one state of its table, and the stretches of them."""

    generation: int
    of: list[Place]
    begins: dict[int, Stretch] = attrs.field(factory=dict)
    ends: dict[int, Stretch] = attrs.field(factory=dict)
    arguments: Stretch | None = None


def places(device: OffloadDevice, items: MapItems) -> Places:
    """What a search finds now; the caller holds the table, or only wants to know whether to ask for it."""
    known: Places | None = items.places.get(device.number)
    if known is not None and known.generation == device.table.generation:
        return known
    found = Places(device.table.generation, [_place(device, item) for item in items])
    items.places[device.number] = found
    return found


def _place(device: OffloadDevice, item: MapItem) -> Place:
    if item.type & _NOT_MAPPED:
        return Place()
    special = item.type & (PTR_AND_OBJ | RETURN_PARAM | OMPX_HOLD) or item.dimensions
    if special or (item.array is not None and item.array.freed):
        return Place(is_open=True)
    found = device.table.lookup(item.begin, item.size)
    if found.contained and found.entry is not None:
        return Place(found.visited, found.entry, is_open=found.entry.dynamic == INFINITE)
    if found.overlaps or item.type & PRESENT:
        return Place(is_open=True)
    close, implicit = bool(item.type & CLOSE), bool(item.type & IMPLICIT)
    request = MapRequest(item.size, close, implicit, device.number, device.mechanism(item.array))
    on_host = device.place(request) is Placement.HOST_POINTER
    return Place(found.visited, is_open=not on_host)


# At the begin of a construct


def begin_run_now(device: OffloadDevice, stretch: Stretch, queue: DirectiveQueue) -> int:
    """`begin_run` where the table's work passes in one step; 0 where it does not."""
    if device.prefaults or not device.passed_in_table(stretch.lookups * device.costs.lookup):
        return 0
    _map(device, stretch, queue)
    return stretch.stop


async def begin_run(device: OffloadDevice, items: MapItems, start: int, found: Stretch, queue: DirectiveQueue) -> int:
    """Map the stretch that `begin_stretch` has ``found`` at ``start``; returns where it ends: ``start`` when it is not
    worth it any more.
    """
    stretch: Stretch | None = found
    if not device.table_lock.take_now():
        await device.table_lock.acquire()
        stretch = begin_stretch(device, items, start)  # others have had the table meanwhile
    try:
        if stretch is None:
            await device.table_work(0.0)
            return start
        await device.table_work(stretch.lookups * device.costs.lookup)
        _map(device, stretch, queue)
    finally:
        device.table_lock.release()
    if device.prefaults:
        for item, there in stretch.searched:
            if there is None and item.size:
                await device.plugin.prefault(item.begin, item.size)
    return stretch.stop


def _map(device: OffloadDevice, stretch: Stretch, queue: DirectiveQueue) -> None:
    for entry in stretch.entries:
        entry.dynamic += 1
    queue.mapped = stretch.stop
    if device.trace is not None:
        _trace(device, stretch, queue.cause)


def begin_stretch(device: OffloadDevice, items: MapItems, start: int) -> Stretch | None:
    """What `begin_run` can map in one hold; None when fewer than two items can share it now."""
    found = places(device, items)
    stretch = found.begins.get(start)
    if stretch is None:
        stretch = found.begins[start] = _cut_begin(device, items, found.of, start)
    if stretch.lookups < 2 or not device.locked_entries.isdisjoint(stretch.visited):
        return None
    for entry in stretch.entries:
        if entry.event is not None:
            if device.plugin.needs_wait(entry.event):
                return None
            entry.event = None  # complete: nobody will have to wait for it
    return stretch


def _cut_begin(device: OffloadDevice, items: MapItems, found: Sequence[Place], start: int) -> Stretch:
    searched: list[tuple[MapItem, Place]] = []
    position = start
    while position < len(items) and len(searched) < device.items_per_hold:
        item, place = items[position], found[position]
        copied = place.entry is not None and item.type & TO and item.type & ALWAYS and item.size
        if place.is_open or copied:
            break
        if not item.type & _NOT_MAPPED:
            searched.append((item, place))
        position += 1
    return Stretch.of(start, position, searched)


# For the arguments of a kernel


def look_up_arguments_now(device: OffloadDevice, stretch: Stretch) -> bool:
    """`look_up_arguments` where the table's work passes in one step; False where it does not."""
    return device.trace is None and device.passed_in_table(stretch.lookups * device.costs.lookup)


async def look_up_arguments(device: OffloadDevice, items: MapItems, found: Stretch, cause: int) -> Stretch | None:
    """Search for the sections whose device address the kernel gets: the first of them, as many as share a hold, which
    `arguments_stretch` has ``found``.
    """
    stretch: Stretch | None = found
    if not device.table_lock.take_now():
        await device.table_lock.acquire()
        stretch = arguments_stretch(device, items)
    try:
        if stretch is not None:
            if device.trace is not None:
                _trace(device, stretch, cause, counts=False)
            await device.table_work(stretch.lookups * device.costs.lookup)
        else:
            await device.table_work(0.0)
        return stretch
    finally:
        device.table_lock.release()


def arguments_stretch(device: OffloadDevice, items: MapItems) -> Stretch | None:
    """The arguments that can share a hold now; None when fewer than two can."""
    found = places(device, items)
    stretch = found.arguments
    if stretch is None:
        searched: list[tuple[MapItem, Place]] = []
        for position in items.arguments[: device.items_per_hold]:
            if found.of[position].is_open:
                break
            searched.append((items[position], found.of[position]))
        stretch = found.arguments = Stretch.of(0, len(searched), searched)
    return stretch if stretch.lookups > 1 and device.locked_entries.isdisjoint(stretch.visited) else None


# At the end of a construct


def end_run_now(device: OffloadDevice, stretch: Stretch, queue: DirectiveQueue, left: list[PostProcessing]) -> bool:
    """`end_run` where the table's work passes in one step; False where it does not."""
    if not device.passed_in_table(stretch.lookups * device.costs.lookup):
        return False
    _unmap(device, stretch, queue, left)
    return True


async def end_run(
    device: OffloadDevice,
    items: MapItems,
    stop: int,
    found: Stretch,
    queue: DirectiveQueue,
    left: list[PostProcessing],
) -> int:
    """Unmap the stretch that `end_stretch` has ``found`` before ``stop``, backwards; returns where it begins: ``stop``
    when it is not worth it any more. What is to be done after the queue has drained is added to ``left``.
    """
    stretch: Stretch | None = found
    if not device.table_lock.take_now():
        await device.table_lock.acquire()
        stretch = end_stretch(device, items, stop)
    try:
        if stretch is None:
            await device.table_work(0.0)
            return stop
        await device.table_work(stretch.lookups * device.costs.lookup)
        _unmap(device, stretch, queue, left)
    finally:
        device.table_lock.release()
    return stretch.start


def _unmap(device: OffloadDevice, stretch: Stretch, queue: DirectiveQueue, left: list[PostProcessing]) -> None:
    for entry in stretch.entries:
        entry.dynamic -= 1
    if device.trace is not None:
        _trace(device, stretch, queue.cause)
    if stretch.entries:
        device.ending_together.append(stretch.entries)
        left.append(functools.partial(finish_run, device, stretch, queue))


def end_stretch(device: OffloadDevice, items: MapItems, stop: int) -> Stretch | None:
    """What `end_run` can unmap in one hold; None when fewer than two items can share it now."""
    found = places(device, items)
    stretch = found.ends.get(stop)
    if stretch is None:
        stretch = found.ends[stop] = _cut_end(device, items, found.of, stop)
    if stretch.lookups < 2 or not device.locked_entries.isdisjoint(stretch.visited):
        return None
    for entry in stretch.entries:
        if entry.dynamic < 2:
            return None
    return stretch


def _cut_end(device: OffloadDevice, items: MapItems, found: Sequence[Place], stop: int) -> Stretch:
    searched: list[tuple[MapItem, Place]] = []
    counted: set[Entry] = set()  # each once: what is not the last reference for one item might be for the next
    position = stop
    while position > 0 and len(searched) < device.items_per_hold:
        item, place = items[position - 1], found[position - 1]
        entry = place.entry
        copied = entry is not None and (item.type & DELETE or (item.type & FROM and item.type & ALWAYS and item.size))
        if place.is_open or copied or entry in counted:
            break
        if entry is not None:
            counted.add(entry)
        if not item.type & _NOT_MAPPED:
            searched.append((item, place))
        position -= 1
    return Stretch.of(position, stop, searched)


def finish_run(device: OffloadDevice, stretch: Stretch, queue: DirectiveQueue) -> Awaitable[None]:
    """`finish_data_end` of many entries: those that somebody needs still, in one hold; the others come next in the
    queue's post-processing, of which this is the first. Await it at once.
    """
    if device.handover_due or not device.table_lock.glance():
        return _finish_run(device, stretch, queue)
    _finish(device, stretch, queue)
    return PASSED


async def _finish_run(device: OffloadDevice, stretch: Stretch, queue: DirectiveQueue) -> None:
    device.table_lock.take_now() or await device.table_lock.acquire()
    try:
        if device.handover_due:
            await device.table_work(0.0)
        _finish(device, stretch, queue)
    finally:
        device.table_lock.release()


def _finish(device: OffloadDevice, stretch: Stretch, queue: DirectiveQueue) -> None:
    entries, locked = stretch.entries, device.locked_entries
    rest = [
        entry
        for entry in entries  # each is there once: see `_cut_end`
        if entry.shadow_pointers or not (entry.dynamic or entry.hold or device.ending(entry) > 1)
    ]
    if not locked.isdisjoint(entries):
        rest = [entry for entry in entries if entry in rest or entry in locked]
    device.ending_together.remove(entries)
    for entry in rest:
        entry.data_end_users += 1
    if rest:
        finish, cause = functools.partial(finish_data_end, device), queue.cause
        queue.post_processing[1:1] = [
            functools.partial(finish, entry, item, cause) for item, entry in stretch.searched if entry in rest
        ]


def _trace(device: OffloadDevice, stretch: Stretch, cause: int, counts: bool = True) -> None:
    for item, entry in stretch.searched:
        trace_lookup(device, cause, item.array, item.begin, item.size, entry is not None)
        if counts and entry is not None:
            trace_counts(device, cause, entry)
