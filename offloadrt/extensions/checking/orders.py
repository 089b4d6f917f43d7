"""Copies that a map makes in another order of the program, though it makes none in this run.

A map copies to the device only where it finds no mapping, and an unmap copies back only where no reference is left. Of
unordered directives, chance decides which one does so. `References` knows who holds a reference to which bytes of the
host. So it can say whether a directive that copies nothing would copy in the order in which it comes as early as the
program allows: behind what it must come behind, and before all else.
"""

from __future__ import annotations

import attrs

from offloadrt.extensions.checking.accesses import Cell, Directive, Intervals
from offloadrt.extensions.checking.strands import Strand, Strands
from offloadrt.runtime.events import ItemEnded, ItemFound
from offloadrt.runtime.mapping.present_table import INFINITE, Entry

_MANY = 16
"""When a cell has more references than this, those that all strands have seen released are dropped."""
_MOST = 4096
"""When as many are left, the references to a cell are not followed any more: some are never released."""


@attrs.define(eq=False)
class _Reference:
    """A reference to mapped bytes: the directive that took it, and the (chain, epoch) of its begin and of its end."""

    directive: int
    taken: tuple[int, int]
    released: tuple[int, int] | None = None

    def is_held(self, strand: Strand) -> bool:
        """Tell whether it is certainly taken, and not certainly released, before what a strand does now."""
        released = self.released is not None and strand.comes_after(*self.released)
        return not released and strand.comes_after(*self.taken)


@attrs.define(eq=False)
class _Held(Cell):
    """The references to the bytes of a cell, in the order in which they were taken."""

    references: list[_Reference] = attrs.field(factory=list)
    most: int = _MANY
    is_followed: bool = True

    def part(self, begin: int, end: int) -> _Held:
        return _Held(begin, end, list(self.references), self.most, self.is_followed)


@attrs.define(eq=False)
class References:
    """Follows which directives hold references to mapped host bytes, to find maps whose effect depends on order.

    strands: tells which host thread, task or queue runs, and what orders them. entry, in its methods: a mapping (an
    entry of a present table).
    """

    strands: Strands
    _devices: dict[int, Intervals[_Held]] = attrs.field(factory=dict)

    def entered(self, device: int, entry: Entry, directive: Directive) -> None:
        """Record the first reference to a new mapping, which the directive holds that made it."""
        if entry.size and entry.total != INFINITE:
            self._take(self._cells(device).cut(entry.host_begin, entry.host_end), directive)

    def found(self, event: ItemFound, directive: Directive) -> bool:
        """Record that a map item takes a reference to a mapping that exists.

        Returns whether nothing orders the item behind the maps that hold one, so that in another order it would itself
        copy to the device. The look-up of a pointer by which its pointee is mapped takes no reference.
        """
        flags, cells = event.item.flags, self._counted(event)
        if not cells or event.begin != event.item.begin:
            return False
        is_first = flags.to and not flags.always and not flags.present and event.found
        copies = is_first and self._none_held(cells, directive.strand)
        self._take(cells, directive)
        return copies

    def is_absent(self, event: ItemFound, directive: Directive) -> bool:
        """Tell whether a directive that only needs a mapping would find none in another order of the program's work."""
        cells = self._counted(event)
        return bool(cells) and not event.item.size and self._none_held(cells, directive.strand)

    def ended(self, event: ItemEnded, directive: Directive) -> bool:
        """Record that a map item's end releases a reference to a mapping.

        Returns whether in another order of the program's work this would be the last one, so that it would copy back.
        The reference is one of the same directive, or the last one that the directive is ordered behind; `delete`
        releases all of these.
        """
        flags, entry, cells, strand = event.item.flags, event.entry, self._counted(event), directive.strand
        if entry is None or not cells:
            return False
        held = self._released(cells[0].references, directive, flags.delete)
        for reference in held:
            reference.released = strand.chain, strand.epoch
        if not self.strands.concurrent:  # all that is to come will come after it
            for cell in cells:
                cell.references = [one for one in cell.references if one.released is None]
        is_other = bool(held) and not flags.always and not entry.would_be_last(flags.hold, flags.delete)
        return flags.from_ and is_other and self._none_held(cells, strand)

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

    def _released(self, references: list[_Reference], directive: Directive, every: bool) -> list[_Reference]:
        """Return the references that a directive releases, as `ended` says."""
        last: list[_Reference] = []
        for one in reversed(references):
            if one.released is not None:
                continue
            if one.directive == directive.number and not every:
                return [one]
            if (every or not last) and directive.strand.comes_after(*one.taken):
                last.append(one)
        return last

    def _take(self, cells: list[_Held], directive: Directive) -> None:
        reference = _Reference(directive.number, (directive.strand.chain, directive.strand.epoch))
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
