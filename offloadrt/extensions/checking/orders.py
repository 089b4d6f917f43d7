"""Copies that a map makes in another order of the program, though it makes none in this run.

A map copies to the device only where it finds no mapping, and an unmap copies back only where no reference is left. Of
unordered directives, chance decides which one does so. `References` knows who holds a reference to which bytes of the
host. So it can say whether a directive that copies nothing would copy in the order in which it comes as early as the
program allows: behind what it must come behind, and before all else. A copy that is made, or not, because of a release
that nothing orders gives its bytes a `Doubt`: a read of them is a race with the release.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from offloadrt.extensions.checking.accesses import Access, Cell, Directive, Intervals
from offloadrt.extensions.checking.mistakes import Mistakes, Story
from offloadrt.extensions.checking.strands import Clock, Strand, Strands
from offloadrt.extensions.checking.versions import Doubt, Versions
from offloadrt.runtime.events import ItemEnded, ItemFound
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.present_table import INFINITE, Entry

_MANY = 16
"""When a cell has more references than this, those that all strands have seen released are dropped."""
_MOST = 4096
"""When as many are left, the references to a cell are not followed any more: some are never released."""


@attrs.define(eq=False)
class Reference:
    """A reference to mapped bytes: which directive took it, and when it was taken and released.

    directive: the number of the directive. taken, released: these times as (index of the entry in a vector clock, value
    of the entry); `released` is None while the reference is held. by: the report line on the release. knows: the vector
    clock at the release. copies: whether the release would copy back if it were the last one. doubts: for each other
    map of these bytes whose effect depends on it, the report to make if nothing orders the release with that map.
    """

    directive: int
    taken: tuple[int, int]
    released: tuple[int, int] | None = None
    by: Story | None = None
    knows: Clock = attrs.field(factory=Clock)
    copies: bool = False
    doubts: list[Doubt] = attrs.field(factory=list)

    def outlasts(self, access: Access) -> bool:
        """Tell whether this reference is certainly not released before an access."""
        return self.released is None or self.knows[access.strand.chain] >= access.epoch

    def is_held(self, strand: Strand) -> bool:
        """Tell whether this reference is certainly taken, and not certainly released, before what `strand` does now.

        strand: a host thread, task or queue.
        """
        released = self.released is not None and strand.comes_after(*self.released)
        return not released and strand.comes_after(*self.taken)


@attrs.define(eq=False)
class _Held(Cell):
    """The references to the bytes of a cell, in the order in which they were taken."""

    references: list[Reference] = attrs.field(factory=list)
    most: int = _MANY
    is_followed: bool = True

    def part(self, begin: int, end: int) -> _Held:
        return _Held(begin, end, list(self.references), self.most, self.is_followed)


@attrs.define(eq=False)
class References:
    """Follows which directives hold references to mapped host bytes, to find maps whose effect depends on order.

    strands: tells which host thread, task or queue runs, and what orders them. versions: knows which bytes of host and
    device differ. mistakes: collects the reports. entry, in its methods: a mapping (an entry of a present table).
    """

    strands: Strands
    versions: Versions
    mistakes: Mistakes
    _devices: dict[int, Intervals[_Held]] = attrs.field(factory=dict)

    def entered(self, device: int, entry: Entry, directive: Directive) -> None:
        """Record that the directive which made the new mapping `entry` holds the first reference to it."""
        if entry.size and entry.total != INFINITE:
            self._take(self._cells(device).cut(entry.host_begin, entry.host_end), directive)

    def found(self, event: ItemFound, directive: Directive) -> bool:
        """Record that a map item takes a reference to a mapping that exists.

        Returns whether this item would itself copy to the device in another order: nothing orders it behind the maps
        that hold references to the mapping now. A pointer that is only looked up, because its pointee is mapped, takes
        no reference.
        """
        flags, cells = event.item.flags, self._counted(event)
        if flags.always:
            directive.always.add(event.begin)
        if flags.from_:
            directive.returned[event.begin] = event.nbytes
        if event.entry is None and not event.item.size:
            directive.gone = directive.gone or self.gone(event.device, event.item, directive)
        if not cells or event.begin != event.item.begin:
            return False
        is_first = flags.to and not flags.always and not flags.present and event.found
        copies = is_first and self._none_held(cells, directive.strand)
        if (
            event.entry is not None
            and is_first
            and (only := self._only_held(cells, directive.strand)) is not None
            and len(only.doubts) < _MANY
        ):
            doubt = self._doubt(directive, "the map at {}, which found it")
            if self.versions.not_brought(event.device, event.begin, event.nbytes, event.entry, doubt):
                only.doubts.append(doubt)
        self._take(cells, directive)
        return copies

    def may_be_found(self, device: int, entry: Entry | None, directive: Directive) -> Doubt | None:
        """Return an object that reports later reads of bytes which a new mapping copies to the device.

        In another order, the directive finds an older mapping of the same bytes and so copies nothing. This is possible
        if a reference to the older mapping was certainly taken before the directive, but nothing orders the release of
        that reference with the directive. entry: the new mapping. directive: the directive that made it. Returns None
        if there is no such reference.
        """
        others = self._others(device, entry, directive)
        known = next((one for one in others if directive.strand.comes_after(*one.taken)), None)
        return None if known is None else self._doubt(directive, "the map at {}, which else finds it", known.by)

    def may_be_kept(self, device: int, entry: Entry | None, directive: Directive) -> Doubt | None:
        """Return an object that reports later reads of bytes which a directive copies back as a mapping's last user.

        In another order the directive may not be the last user, and copies nothing back, so that the reads may see
        other values. entry: the mapping; None if it is not known. Returns None if the directive is the last in any
        order.
        """
        others = self._others(device, entry, directive)
        what = "the end of the map at {}, which copies back only as the last user"
        return self._doubt(directive, what, others[0].by) if others else None

    def held(self, access: Access, entry: Entry) -> list[Reference]:
        """Return the references that certainly exist when a kernel accesses bytes of the mapping `entry`."""
        shift = entry.host_begin - entry.device_begin
        first, *cells = self._cells(access.memory).cut(access.begin + shift, access.end + shift)
        held = [one for one in first.references if one.is_held(access.strand)]
        return [one for one in held if all(one in cell.references for cell in cells)]

    def keeps(self, access: Access, entry: Entry) -> Callable[[], bool]:
        """Return a function that tells, after the run, whether a reference kept the bytes mapped during an access."""
        held = self.held(access, entry)
        return lambda: any(one.outlasts(access) for one in held)

    def _others(self, device: int, entry: Entry | None, directive: Directive) -> list[Reference]:
        """Return released references of other directives that copy nothing back and may be released later."""
        if not self.strands.concurrent or self.strands.has_queues or entry is None or not entry.size:
            return []
        if entry.host_begin in directive.always:
            return []
        references = self._cells(device).cut(entry.host_begin, entry.host_end)[0].references
        return [
            one
            for one in references
            if one.released is not None and not one.copies and one.directive != directive.number
            and not directive.strand.comes_after(*one.released)
        ]  # fmt: skip

    def _doubt(self, directive: Directive, what: str, released: Story | None = None) -> Doubt:
        advice = (
            f"Nothing orders the end of the earlier mapping and {what.format(directive.where or 'another line')}: a "
            "taskwait or a barrier between them would, or depend clauses on both."
        )
        return Doubt(self.mistakes, advice, (directive.strand.chain, directive.strand.epoch), released)

    def _only_held(self, cells: list[_Held], strand: Strand) -> Reference | None:
        """Return the reference that alone certainly keeps bytes mapped before what a strand does now, if it is one."""
        if not self.strands.concurrent or self.strands.has_queues or not cells[0].is_followed:
            return None
        held = [one for one in cells[0].references if one.is_held(strand)]
        return held[0] if len(held) == 1 else None

    def gone(self, device: int, item: MapItem, directive: Directive) -> tuple[str, Story] | None:
        """Return an array of which a directive finds no mapping, and the report line on who released the mapping.

        Returns None if the directive is ordered with all releases of the mapping.
        """
        if not self.strands.concurrent or self.strands.has_queues:
            return None
        (cell,) = self._cells(device).cut(item.begin, item.begin + 1)
        strand = directive.strand
        for one in cell.references:
            if one.by is not None and one.is_held(strand):
                return item.name, one.by
        return None

    def is_absent(self, event: ItemFound, directive: Directive) -> bool:
        """Tell whether a directive that only needs a mapping would find none in another order of the program's work."""
        cells = [] if event.item.size else self._counted(event)
        return bool(cells) and self._none_held(cells, directive.strand)

    def ended(self, event: ItemEnded, directive: Directive, story: Story) -> bool:
        """Record that a map item's end releases a reference to a mapping. story: the report line on it.

        Returns whether this reference would be the last one in another order of the program's work, so that the item
        would copy back. The released reference is one that the same directive took, or else the last of those that were
        certainly taken before the directive. `delete` releases all that were certainly taken before.
        """
        flags, entry, cells, strand = event.item.flags, event.entry, self._counted(event), directive.strand
        if entry is None or not cells:
            return False
        held = self._released(cells[0].references, directive, flags.delete)
        for reference in held:
            reference.released, reference.by, reference.copies = (strand.chain, strand.epoch), story, flags.from_
            reference.knows = Clock(strand.clock)
            for doubt in () if flags.from_ else reference.doubts:
                if not strand.comes_after(*doubt.since):
                    doubt.release(story)
            reference.doubts.clear()
        is_last = entry.would_be_last(flags.hold, flags.delete)
        if is_last and not flags.from_ and self.strands.concurrent and not self.strands.has_queues:
            self._not_copied(cells[0].references, entry, event, directive, story)
        if not self.strands.concurrent:  # all that is to come will come after it
            for cell in cells:
                cell.references = [one for one in cell.references if one.released is None]
        is_other = bool(held) and not flags.always and not is_last
        return flags.from_ and is_other and self._none_held(cells, strand)

    def _not_copied(
        self, references: list[Reference], entry: Entry, event: ItemEnded, directive: Directive, story: Story
    ) -> None:
        """Doubt what the last end of a mapping does not copy back, if an unordered end would have as the last one."""
        for one in references:
            if one.copies and one.released is not None and not directive.strand.comes_after(*one.released):
                doubt = self._doubt(directive, "an end of the map that copies back as the last user, unlike {}", story)
                doubt.since = one.released
                self.versions.not_returned(event.device, event.begin, event.nbytes, entry, directive.strand, doubt)
                return

    def forget(self, begin: int, end: int) -> None:
        """Forget references to host addresses [begin, end), which belong to another array from now on."""
        for cells in self._devices.values():
            cells.forget(begin, end)

    def _counted(self, event: ItemFound) -> list[_Held]:
        """Return the cells to which an item has a reference: its section, or all of a mapping that it only looks up."""
        entry = event.entry
        if entry is None or not entry.size or entry.total == INFINITE or not event.item.flags.counted_down:
            return []
        begin, nbytes = (event.begin, event.nbytes) if event.nbytes else (entry.host_begin, entry.size)
        return self._cells(event.device).cut(begin, begin + nbytes)

    def _released(self, references: list[Reference], directive: Directive, every: bool) -> list[Reference]:
        """Return the references that a directive releases, as `ended` says."""
        last: list[Reference] = []
        for one in reversed(references):
            if one.released is not None:
                continue
            if one.directive == directive.number and not every:
                return [one]
            if (every or not last) and directive.strand.comes_after(*one.taken):
                last.append(one)
        return last

    def _take(self, cells: list[_Held], directive: Directive) -> None:
        reference = Reference(directive.number, (directive.strand.chain, directive.strand.epoch))
        for cell in cells:
            if not cell.is_followed:
                continue
            cell.references.append(reference)
            if len(cell.references) > cell.most:
                known = self.strands.known_to_all()
                cell.references = [
                    one for one in cell.references if one.released is None or known[one.released[0]] < one.released[1]
                ]
                cell.most = max(_MANY, 2 * len(cell.references))
                if cell.most > _MOST:
                    cell.is_followed, cell.references = False, []

    def _none_held(self, cells: list[_Held], strand: Strand) -> bool:
        """Tell whether nobody holds a reference in the order in which a strand goes on as early as it may.

        Only a program of several strands has other orders. Those of work in queues are not followed.
        """
        if not self.strands.concurrent or self.strands.has_queues:
            return False
        return all(cell.is_followed and not any(one.is_held(strand) for one in cell.references) for cell in cells)

    def _cells(self, device: int) -> Intervals[_Held]:
        cells = self._devices.get(device)
        if cells is None:
            cells = self._devices[device] = Intervals(_Held)
        return cells
