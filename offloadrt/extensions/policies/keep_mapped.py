"""Keep mapped: shows what a program would gain from one `target data` around all of it that maps everything.

The first map of a section inserts an entry and copies as `copy` does, and its first end copies back. Then the entry
stays, with one additional reference, so that later maps find it present and copy nothing. So there are as many copies
as with the `target data`.

The program's values stay right. Data that its kernels changed reaches the host in no time; the real program would need
`target update from` for those that the host reads. Data that the host changed meanwhile is copied, and costs its time.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import ClassVar

import attrs
import numpy as np

from offloadrt.runtime.configurations import Copy, MapHooks
from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import DirectiveQueue, MapItem
from offloadrt.runtime.mapping.map_types import FROM, TO
from offloadrt.runtime.mapping.present_table import Entry


class KeepMapped(Copy):
    """Maps by blocks and copies, as the policy `copy`, but keeps a section on the device until its array is freed."""

    name: ClassVar[str] = "keep_mapped"

    def hooks(self, device: OffloadDevice) -> MapHooks:
        kept = _Kept(device)
        return MapHooks(
            before_data=kept.before_data, unmapping=kept.unmapping, data_ended=kept.data_ended, freed=kept.freed
        )


@attrs.define(eq=False)
class _Kept:
    """The entries of one device that are kept by an additional reference of this configuration."""

    device: OffloadDevice
    kept: dict[int, Entry] = attrs.field(factory=dict)
    """The kept entries, by the address of their first byte on the device."""
    orphans: list[Entry] = attrs.field(factory=list)
    """Entries whose arrays were freed: the next directive frees their device memory."""

    async def before_data(self, items: Sequence[MapItem], queue: DirectiveQueue, call: str) -> None:
        """Free the device memory of freed arrays, and copy sections mapped `to` that the host has changed."""
        while self.orphans:
            await self.device.free(self.orphans.pop().block, None, 0)
        for item in items:
            if item.type & TO and (entry := self._kept_by(item)) is not None and self._differs(item, entry):
                assert item.array is not None
                begin, size = item.section
                span = item.array.span(begin, size)
                await self.device.submit(queue, entry.device_address(begin), span, item.array)

    def unmapping(self, item: MapItem, entry: Entry | None, queue: DirectiveQueue) -> None:
        """Add the additional reference to an entry, once; forget an entry that the map type `delete` removes."""
        if entry is not None and not item.flags.delete and entry.device_begin not in self.kept and entry.owned:
            entry.increment(False)
            self.kept[entry.device_begin] = entry
        elif entry is not None and item.flags.delete:
            self.kept.pop(entry.device_begin, None)

    def data_ended(self, items: Sequence[MapItem], queue: DirectiveQueue) -> None:
        """After the queue has drained, copy back in no time the sections mapped `from` that the device changed."""
        if any(item.type & FROM for item in items):
            queue.post_processing.append(functools.partial(self._show, items))

    async def _show(self, items: Sequence[MapItem]) -> None:
        for item in items:
            if item.type & FROM and (entry := self._kept_by(item)) is not None and self._differs(item, entry):
                assert item.array is not None
                bytes_of = item.array.span(item.begin, item.size).bytes
                assert bytes_of is not None
                bytes_of[:] = self.device.memory.view(entry.device_address(item.begin), item.size)

    def freed(self, array: HostArray) -> None:
        """Remove the kept entries of a freed array from the present table."""
        for begin, entry in [*self.kept.items()]:
            if array.address <= entry.host_begin < array.address + array.nbytes:
                del self.kept[begin]
                if not entry.is_erased and entry.total == 1 and not entry.data_end_users:
                    self.device.table.erase(entry)
                    entry.is_erased = True
                    self.orphans.append(entry)

    def _kept_by(self, item: MapItem) -> Entry | None:
        """Return the kept entry that contains all of a map item; None if there is none or it has attached pointers."""
        if not item.size or item.array is None:
            return None
        lookup = self.device.table.lookup(item.begin, item.size)
        entry = lookup.pointer.entry if lookup.contained else None
        return entry if entry is not None and entry.device_begin in self.kept and not entry.shadow_pointers else None

    def _differs(self, item: MapItem, entry: Entry) -> bool:
        assert item.array is not None
        here = item.array.span(item.begin, item.size).bytes
        if here is None or entry.phantom:
            return False
        return not np.array_equal(here, self.device.memory.view(entry.device_address(item.begin), item.size))
