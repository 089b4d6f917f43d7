"""The trace as a listener to a device: what the runtime tells, as rows of the trace's own events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from offloadrt.runtime import events as told
from offloadrt.runtime.host_array import HostArray
from offloadrt.trace import Trace, events

NO_QUEUE: Final = events.NONE


class TracedEvents:
    """Writes rows of those events that the trace has words for."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._rows: dict[type, Callable[[Any], None]] = {
            told.DirectiveBegan: self._began,
            told.DirectiveLeft: self._left,
            told.Reported: self._reported,
            told.SectionFound: self._section,
            told.ItemFound: self._item,
            told.ItemEnded: self._item,
            told.EntryCounted: self._counted,
            told.EntryEntered: self._entered,
            told.EntryLeft: self._removed,
            told.PointerAttached: self._attached,
        }

    def __call__(self, event: told.DeviceEvent) -> None:
        """Write the row of an event, if it has one."""
        write = self._rows.get(type(event))
        if write is not None:
            write(event)

    def _began(self, event: told.DirectiveBegan) -> None:
        self._trace.directive(event.device, event.cause, event.name)

    def _left(self, event: told.DirectiveLeft) -> None:
        self._trace(events.DirectiveEnd, event.device, NO_QUEUE, event.cause, event.cause, event.name)

    def _reported(self, event: told.Reported) -> None:
        self._trace(events.RuntimeError_, event.device, NO_QUEUE, event.cause, "omptarget", event.message)

    def _section(self, event: told.SectionFound) -> None:
        self._lookup(event.device, event.cause, event.array, event.begin, event.nbytes, event.found)

    def _item(self, event: told.ItemFound | told.ItemEnded) -> None:
        self._lookup(event.device, event.cause, event.item.array, event.begin, event.nbytes, event.found)

    def _lookup(self, device: int, cause: int, array: HostArray | None, begin: int, nbytes: int, found: bool) -> None:
        name = ""
        if array is not None and array.address <= begin <= array.address + array.nbytes:
            name, begin = array.name, begin - array.address
        self._trace(events.MapLookup, device, NO_QUEUE, cause, name, begin, nbytes, found)

    def _counted(self, event: told.EntryCounted) -> None:
        entry = event.entry
        counts = _signed(entry.dynamic), _signed(entry.hold)
        self._trace(events.MapCount, event.device, NO_QUEUE, event.cause, entry.name, entry.offset, entry.size, *counts)

    def _entered(self, event: told.EntryEntered) -> None:
        entry = event.entry
        place = entry.name, entry.offset, entry.size, entry.device_begin
        counts = _signed(entry.dynamic), _signed(entry.hold)
        self._trace(events.MapInsert, event.device, NO_QUEUE, event.cause, *place, *counts)

    def _removed(self, event: told.EntryLeft) -> None:
        entry = event.entry
        place = entry.name, entry.offset, entry.size, entry.device_begin
        self._trace(events.MapRemove, event.device, NO_QUEUE, event.cause, *place)

    def _attached(self, event: told.PointerAttached) -> None:
        place = event.item.name, event.begin, event.device_address
        self._trace(events.Attach, event.device, NO_QUEUE, event.cause, *place)


def _signed(count: int) -> int:
    """Write a reference count for the trace: -1 is infinite."""
    return -1 if count >> 63 else count
