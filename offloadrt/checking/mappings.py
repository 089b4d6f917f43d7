"""The use of the present table: mappings that are left, ended too often, or ended under others; blocks that leak."""

from __future__ import annotations

from typing import Final

import attrs

from offloadrt.checking.accesses import Directive, WatchedBlock
from offloadrt.checking.mistakes import Mistakes, Story
from offloadrt.runtime.mapping.map_item import DELETE, IMPLICIT, OMPX_HOLD, MapItem
from offloadrt.runtime.mapping.present_table import INFINITE, Entry

_UNMAPPING: Final = ("target exit data", "target exit data nowait", "target data end")


@attrs.define(eq=False)
class _Mapping:
    entry: Entry
    entered: Story
    structured: bool
    """Whether a target region made it, which ends by itself what it maps."""


@attrs.define(eq=False)
class Mappings:
    """The entries of all present tables, with who made them."""

    mistakes: Mistakes
    _live: dict[Entry, _Mapping] = attrs.field(factory=dict)

    def entered(self, entry: Entry, story: Story, structured: bool) -> None:
        self._live[entry] = _Mapping(entry, story, structured)

    def left(self, entry: Entry) -> None:
        self._live.pop(entry, None)

    def item_ended(self, directive: Directive, story: Story, item: MapItem, entry: Entry | None) -> None:
        """Judge the end of one item; the counts are still those before it."""
        if entry is None:
            if directive.name in _UNMAPPING and item.size and item.array is not None and not item.type & IMPLICIT:
                advice = "Nothing of it is mapped here: leave this unmap out, or map it before."
                self.mistakes.add("surplus unmap", item.name, (story,), advice, item.name)
            return
        held = entry.hold if item.type & OMPX_HOLD else entry.dynamic
        if item.type & DELETE and INFINITE > held > 1 and (mapping := self._live.get(entry)) is not None:
            users = held - 1
            advice = (
                f"{users} other {'mapping uses' if users == 1 else 'mappings use'} it still: `release` or `from` "
                "counts down instead."
            )
            self.mistakes.add("delete under other users", item.name, (mapping.entered, story), advice, item.name)

    def update_missed(self, story: Story, item: MapItem) -> None:
        """Report an update that does nothing."""
        advice = "Its section is not wholly mapped, so the update does nothing: map it before."
        self.mistakes.add("missed update", item.name, (story,), advice, item.name)

    def finish(self, blocks: list[WatchedBlock]) -> None:
        """Report what is left at the end of the program."""
        for mapping in self._live.values():
            entry = mapping.entry
            if INFINITE not in (entry.dynamic, entry.hold) and not entry.is_unused and not mapping.structured:
                name = entry.name or "data"
                advice = f"Its count is {entry.total} at the end: `target exit data map(release: {name})`, or `from`."
                self.mistakes.add("missing unmap", name, (mapping.entered,), advice)
        for block in blocks:
            nbytes = block.end - block.begin
            self.mistakes.add(
                "memory leak", f"{nbytes} bytes of device memory", (block.allocated,), "`omp_target_free` frees it."
            )
