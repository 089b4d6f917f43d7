"""Arrays of the host that the program frees while they are mapped.

That alone does no harm. But a later copy reads or writes memory that is the array's no more, and a new array at the
same address is taken for the old one until the mapping ends. So the first thing is reported that the program does with
the mapping and that surely comes after the free. A kernel may use the device's copy all the while.
"""

from __future__ import annotations

import attrs

from offloadrt.checking.accesses import Directive
from offloadrt.checking.mistakes import Mistakes, Story
from offloadrt.checking.strands import Strand, Strands
from offloadrt.runtime.mapping.map_item import IMPLICIT
from offloadrt.runtime.mapping.present_table import INFINITE, Entry
from offloadrt.runtime.program_events import EntryFound, FreedCopied, MappedFreed


@attrs.define(eq=False)
class _Mapping:
    """A mapping: who made it, who has freed its array since, and in which epoch of which strand."""

    entry: Entry
    entered: Story
    freed: Story | None = None
    chain: int = 0
    epoch: int = 0
    is_told: bool = False


@attrs.define(eq=False)
class Lifetimes:
    """The mappings of all devices, and which of them have outlived their arrays."""

    strands: Strands
    mistakes: Mistakes
    _live: dict[Entry, _Mapping] = attrs.field(factory=dict)

    def entered(self, entry: Entry, story: Story) -> None:
        self._live[entry] = _Mapping(entry, story)

    def freed(self, event: MappedFreed) -> None:
        """Note that an array is freed. How long associated memory is used is the program's own affair."""
        array, strand = event.array, self.strands.current()
        begin, end = array.address, array.address + array.nbytes
        where = event.where or (f"after {strand.source}" if strand.source else "")
        story = Story(event.who or strand.name, event.did, where, self.strands.sim.now)
        for mapping in self._live.values():
            entry = mapping.entry
            if mapping.freed is None and entry.host_begin < end and begin < entry.host_end and entry.total != INFINITE:
                mapping.freed, mapping.chain, mapping.epoch = story, strand.chain, strand.epoch

    def is_told(self, entry: Entry | None) -> bool:
        """Tell whether a mapping is known to be that of an array that was freed."""
        return entry is not None and (mapping := self._live.get(entry)) is not None and mapping.is_told

    def copied(self, entry: Entry | None, op: str, strand: Strand, story: Story) -> None:
        """Judge a copy between the device and the array of a mapping."""
        does = "writes" if op == "d2h" else "reads"
        self._judge(entry, strand, story, f"The copy {does} memory that is the array's no more")

    def not_copied(self, event: FreedCopied, directive: Directive) -> None:
        """Judge a copy that the emulated runtime does not make."""
        way = "from" if event.op == "d2h" else "to"
        told = self._story(directive, f"copies {event.entry.name or 'data'} {way} the device in {directive.name}")
        self.copied(event.entry, event.op, directive.strand, told)

    def found(self, event: EntryFound, directive: Directive) -> None:
        """Judge an item that is mapped already. One that the program does not name may be no more than an address."""
        item = event.item
        if item.size and not item.type & IMPLICIT:
            told = self._story(directive, f"maps {item.name or 'data'} in {directive.name}")
            why = "It finds the old mapping, with what the old array had"
            self._judge(event.entry, directive.strand, told, why)

    def left(self, entry: Entry, directive: Directive) -> None:
        """Judge the end of a mapping."""
        told = self._story(directive, f"unmaps it in {directive.name}")
        self._judge(entry, directive.strand, told, "Until it is unmapped, a new array at its address is taken for it")
        self._live.pop(entry, None)

    def _story(self, directive: Directive, did: str) -> Story:
        return directive.story(did, self.strands.sim.now)

    def _judge(self, entry: Entry | None, strand: Strand, story: Story, why: str) -> None:
        mapping = None if entry is None else self._live.get(entry)
        if mapping is None or mapping.freed is None or mapping.is_told:
            return
        if strand.comes_after(mapping.chain, mapping.epoch):  # else it is a race, and reported as one
            mapping.is_told = True
            name = mapping.entry.name or "data"
            stories = (mapping.entered, mapping.freed, story)
            self.mistakes.add("freed while mapped", name, stories, f"{why}: unmap {name} before its memory ends.", name)
