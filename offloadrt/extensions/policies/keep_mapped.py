"""Keep mapped: what the program would gain if one `target data` around all of it mapped everything.

The first map of a section enters it and copies as `copy` does, and its first end copies back. Then the entry stays,
with one reference more, so that later maps find it there and move nothing. So there are as many copies as with the
`target data`.

The program's values stay right. What its kernels have changed reaches the host in no time, where the real program would
have to ask by `target update from`, as far as it reads it. What the host has changed since is copied, and paid for.
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
    """As `copy`, and what has been mapped once stays on the device until its array is freed."""

    name: ClassVar[str] = "keep_mapped"

    def hooks(self, device: OffloadDevice) -> MapHooks:
        kept = _Kept(device)
        return MapHooks(
            before_data=kept.before_data, unmapping=kept.unmapping, data_ended=kept.data_ended, freed=kept.freed
        )


@attrs.define(eq=False)
class _Kept:
    """The entries of one device that have a reference more than the program knows of."""

    device: OffloadDevice
    kept: dict[int, Entry] = attrs.field(factory=dict)
    """By the address of their lowest byte on the device."""
    orphans: list[Entry] = attrs.field(factory=list)
    """Those whose arrays are freed: the next directive frees their memory."""

    async def before_data(self, items: Sequence[MapItem], queue: DirectiveQueue, call: str) -> None:
        """Free what belongs to freed arrays, and copy what the host has changed since."""
        while self.orphans:
            await self.device.free(self.orphans.pop().block, None, 0)
        for item in items:
            if item.type & TO and (entry := self._kept_by(item)) is not None and self._differs(item, entry):
                assert item.array is not None
                begin, size = item.section
                span = item.array.span(begin, size)
                await self.device.submit(queue, entry.device_address(begin), span, item.array)

    def unmapping(self, item: MapItem, entry: Entry | None, queue: DirectiveQueue) -> None:
        """Give an entry its reference more, once; one that `delete` removes is new when it comes again."""
        if entry is not None and not item.flags.delete and entry.device_begin not in self.kept and entry.owned:
            entry.increment(False)
            self.kept[entry.device_begin] = entry
        elif entry is not None and item.flags.delete:
            self.kept.pop(entry.device_begin, None)

    def data_ended(self, items: Sequence[MapItem], queue: DirectiveQueue) -> None:
        """Have the host see what the device has written, when the queue has drained."""
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
        """Take the entries of an array that ends out of the table."""
        for begin, entry in [*self.kept.items()]:
            if array.address <= entry.host_begin < array.address + array.nbytes:
                del self.kept[begin]
                if not entry.is_erased and entry.total == 1 and not entry.data_end_users:
                    self.device.table.erase(entry)
                    entry.is_erased = True
                    self.orphans.append(entry)

    def _kept_by(self, item: MapItem) -> Entry | None:
        """Return the kept entry that has all of an item, unless it holds attached pointers."""
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
