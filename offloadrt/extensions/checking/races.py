"""Races: two accesses to the same bytes of one memory, one of them a write, that no synchronization orders.

Of each strand's accesses from one place of the program the last one is kept for each byte, until all strands come after
it. So which pairs of places are reported does not depend on who came first.

`LostUpdates` looks for one race that is not the program's: LLVM's own, between a kernel and the copy back of its array.
"""

from __future__ import annotations

from typing import Final

import attrs

from offloadrt.extensions.checking.accesses import Access, Cell, Directive, Intervals, WatchedBlock
from offloadrt.extensions.checking.mistakes import Mistake, Mistakes, Story
from offloadrt.extensions.checking.strands import Strands
from offloadrt.runtime.events import HOST
from offloadrt.runtime.mapping.present_table import Entry

_Key = tuple[int, tuple[str, str], str]
_LIST_ITEMS = HOST - 1
"""Less the number of a device: what the device has of the host's memory, by the host's addresses."""
_MANY = 24
"""Accesses of one cell from which on those are dropped that no later access need be compared with."""


@attrs.define(eq=False)
class _History(Cell):
    """Who has used the bytes of a cell."""

    reads: dict[_Key, Access] = attrs.field(factory=dict)
    writes: dict[_Key, Access] = attrs.field(factory=dict)
    most: int = _MANY
    """With more reads or writes than this, some may be needless."""

    def part(self, begin: int, end: int) -> _History:
        return _History(begin, end, dict(self.reads), dict(self.writes), self.most)


@attrs.define(eq=False)
class Races:
    """Keeps the accesses to each memory."""

    strands: Strands
    mistakes: Mistakes
    unordered_maps: set[int] = attrs.field(factory=set)
    """Devices on which no events order the copies of maps."""
    _memories: dict[int, Intervals[_History]] = attrs.field(factory=dict)

    def access(self, access: Access) -> None:
        """Compare an access with the earlier ones, and keep it."""
        key = access.strand.chain, access.site, access.role
        for cell in self._cells(access.memory).cut(access.begin, access.end):
            for other in cell.writes.values():
                self._compare(other, access)
            if access.writes:
                for other in cell.reads.values():
                    self._compare(other, access)
            kept = cell.writes if access.writes else cell.reads
            kept[key] = access
            if len(kept) > cell.most:
                self._drop(kept, access)
                cell.most = max(_MANY, 2 * len(kept))

    def block_left(self, block: WatchedBlock, entry: Entry) -> None:
        """Keep the uses of a mapping that ends, by the host's addresses.

        Had another thread mapped the same bytes earlier, it would have used the same block. So its kernels race with
        these also where this run has given it a block of its own.
        """
        shift = entry.host_begin - entry.device_begin
        kept = self._cells(_LIST_ITEMS - block.device)
        for cell in self._cells(block.device).cut(entry.device_begin, block.end) if self.strands.concurrent else ():
            used = [access for access in (*cell.reads.values(), *cell.writes.values()) if access.role == "uses"]
            for mine in kept.cut(cell.begin + shift, cell.end + shift) if used else ():
                for access in used:
                    key = access.strand.chain, access.site, access.role
                    (mine.writes if access.writes else mine.reads)[key] = access

    def was_used(self, device: int, begin: int, end: int) -> bool:
        """Tell whether `block_left` has kept uses of some bytes of the host."""
        cells = self._memories.get(_LIST_ITEMS - device)
        return cells is not None and cells.holds(begin, end)

    def mapped_use(self, access: Access, shift: int) -> None:
        """Compare a use of a mapping with those of earlier ones of the same bytes. shift: to the host's addresses."""
        for cell in self._cells(_LIST_ITEMS - access.memory).cut(access.begin + shift, access.end + shift):
            for other in (*cell.writes.values(), *(cell.reads.values() if access.writes else ())):
                self._compare(other, access)

    def forget_host(self, begin: int, end: int) -> None:
        """Forget a range of the host that is another array's from now on."""
        for memory in self._memories:
            if memory <= HOST:
                self.forget(memory, begin, end)

    def forget(self, memory: int, begin: int, end: int) -> None:
        """Forget a range whose memory is another one from now on."""
        self._cells(memory).forget(begin, end)

    def _cells(self, memory: int) -> Intervals[_History]:
        cells = self._memories.get(memory)
        if cells is None:
            cells = self._memories[memory] = Intervals(_History)
        return cells

    def _drop(self, kept: dict[_Key, Access], access: Access) -> None:
        """Drop what the last access stands for, and if that is little, what all strands come after.

        What races with an earlier access of the same place races with the last one, if that follows the earlier one.
        """
        over = [key for key, one in kept.items() if one is not access and access.stands_for(one)]
        if 2 * len(over) < len(kept):
            known = self.strands.known_to_all()
            over = [key for key, one in kept.items() if known[one.strand.chain] >= one.epoch or access.stands_for(one)]
        for key in over:
            if kept[key] is not access:
                del kept[key]

    def _compare(self, earlier: Access, access: Access) -> None:
        # A function of the host runs after later work of its stream has been submitted.
        if access.follows(earlier) or (earlier.clock is not None and earlier.follows(access)):
            return
        if _ordered_by_counts(earlier, access):
            return
        by_maps = _ordered_by_maps(earlier, access)
        if by_maps and access.maps not in self.unordered_maps and earlier.maps not in self.unordered_maps:
            return
        if not (earlier.atomic and access.atomic) and earlier.surely_meets(access):
            first, second = sorted((earlier, access), key=lambda one: (one.site, one.strand.name))
            subject = f"{access.name} {_where(access.memory)}"
            stories, advice = (first.story, second.story), _UNORDERED if by_maps else _missing(first, second)
            self.mistakes.add("race", subject, stories, advice, subject, data=access.name)


_UNORDERED: Final = (
    "LIBOMPTARGET_MAP_FORCE_ATOMIC=false lets no event order what two maps copy: leave it out, or order the two."
)


def _ordered_by_counts(one: Access, other: Access) -> bool:
    """Tell whether the runtime orders two accesses to a mapped block by its reference count."""
    if one.block is None or one.block is not other.block:
        return False
    roles = {one.role, other.role}
    frees = not roles - {"enters", "uses", "leaves"} and any(
        access.role == "leaves" and access.maps is None for access in (one, other)
    )
    return frees or roles == {"uses", "leaves"}


def _ordered_by_maps(one: Access, other: Access) -> bool:
    """Tell whether two accesses are ordered because a map is as if atomic, by the event of its copy in LLVM.

    OpenMP says so of all that a map clause does, also on its list item of the host, for one device. It says so of no
    `target update`, whose copies LLVM puts into queues without an event: these race as what a thread does by itself.
    """
    if one.maps is not None and one.maps == other.maps:
        return True
    return one.block is not None and one.block is other.block and {one.role, other.role} == {"enters", "uses"}


def _where(memory: int) -> str:
    return "on the host" if memory == HOST else f"on device {memory}"


def _missing(one: Access, other: Access) -> str:
    """Say which synchronization is missing."""
    if one.strand.has_nodes and other.strand.has_nodes:
        return "Nothing orders the two nodes: an edge would, or an event or one stream, where two graphs have them."
    if one.strand.is_queue and other.strand.is_queue:
        return "Nothing orders the two queues: let one wait for the other."
    if one.strand.is_queue or other.strand.is_queue:
        return "Nothing orders the queue and the thread: wait for the queue between them."
    if one.strand.deferred and other.strand.deferred:
        return "Nothing orders the two tasks: depend clauses on both would, or a taskwait between them."
    if one.strand.deferred or other.strand.deferred:
        return "Nothing orders the task and the thread: a taskwait between them would, or depend clauses on both."
    return "Nothing orders the two threads: a barrier between them would."


@attrs.define(eq=False)
class _Region:
    """A target region: what its kernel writes in mapped blocks, and the copies back that did not wait for it."""

    directive: Directive
    epoch: int
    writes: list[Access] = attrs.field(factory=list)
    has_ended: bool = False
    """Whether its kernel has ended."""
    overtaken: list[tuple[Access, bool]] = attrs.field(factory=list)
    """Copies back by other strands, each with whether the kernel was still to end."""


@attrs.define(eq=False)
class LostUpdates:
    """Copies back that LLVM does not order behind a kernel of another strand: an update can be lost.

    A region gives its references back when its kernel is launched (`target` in runtime/launch/target.py has the lines
    of LLVM). OpenMP lets it keep them until the kernel has ended. So a program without a race loses an update when the
    last user of the mapping copies back meanwhile. A region is safe if some other reference was given back after it.
    """

    _found: Mistakes = attrs.field(factory=Mistakes)
    _possible: dict[str, Mistake] = attrs.field(factory=dict)
    """What another schedule can lose, one pair of directives for each array."""
    _regions: dict[int, _Region] = attrs.field(factory=dict)
    """By directive, until its kernel has ended and its thread goes on."""
    _users: dict[Entry, list[_Region]] = attrs.field(factory=dict)
    """The regions that have given back a mapping, as far as no other reference outlasted them."""

    def submitted(self, directive: Directive) -> None:
        """Begin a region: its kernel is put into its queue."""
        self._regions[directive.number] = _Region(directive, directive.strand.epoch)

    def wrote(self, directive: Directive, access: Access) -> None:
        """Note what the region's kernel writes by way of a map."""
        if (region := self._regions.get(directive.number)) is not None:
            region.writes.append(access)

    def kernel_ended(self, cause: int) -> None:
        """Note that a kernel has ended, and judge the copies that had not waited for it."""
        if (region := self._regions.get(cause)) is not None:
            region.has_ended = True
            self._judge(region)

    def directive_left(self, cause: int) -> None:
        self._regions.pop(cause, None)

    def given_back(self, directive: Directive, entry: Entry) -> None:
        """Note that a directive gives back its reference to a mapping."""
        users, strand = self._users.setdefault(entry, []), directive.strand
        users[:] = [one for one in users if not strand.comes_after(one.directive.strand.chain, one.epoch)]
        if (region := self._regions.get(directive.number)) is not None and region not in users:
            users.append(region)

    def copied_back(self, entry: Entry, copy: Access, number: int) -> None:
        """Take the copy of the last user of a mapping, which the directive of this number submits."""
        for region in self._users.get(entry, ()):
            if region.directive.number != number:
                region.overtaken.append((copy, not region.has_ended))
                if region.has_ended:
                    self._judge(region)

    def entry_left(self, entry: Entry) -> None:
        self._users.pop(entry, None)

    def _judge(self, region: _Region) -> None:
        for copy, happened in region.overtaken:
            for write in region.writes:
                if copy.begin < write.end and write.begin < copy.end and write.surely_meets(copy):
                    self._tell(write, copy, happened)
                    break
        region.overtaken.clear()

    def _tell(self, write: Access, copy: Access, happened: bool) -> None:
        subject = f"{write.name} {_where(write.memory)}" + ", by the runtime" * happened
        then = (
            "LLVM counts the mapping down before the kernel has ended, so that another thread was its last user and "
            "copied back without waiting for the kernel."
            if happened
            else "LLVM counts the mapping down before the kernel has ended, which here came first by chance."
        )
        advice = (
            f"{then} OpenMP allows the program. A barrier or a taskwait between the two helps; "
            "`--set table.count_down=kernel` runs it under a runtime without the fault."
        )
        stories = (write.story, copy.story)
        if happened:
            self._found.add("lost update", subject, stories, advice, subject)
        else:
            self._possible.setdefault(subject, Mistake("possible lost update", subject, stories, advice))

    def misplaced(self, name: str, story: Story) -> None:
        """Note an update of a section with gaps of which LLVM 22 moves other bytes than OpenMP says."""
        advice = (
            "LLVM 22 multiplies the lower bound of a section by its stride, and so moves other bytes than OpenMP says. "
            "OpenMP allows the program, which is checked as OpenMP means it."
        )
        self._found.add("misplaced update", f"{name}, by the runtime", (story,), advice)

    def left_behind(self, name: str, mapped: Story, count: int) -> None:
        """Note a mapping that the runtime has kept, though the program has ended it."""
        advice = (
            f"The program has ended what it mapped, and its count is {count}: LLVM counts some items of a mapper up "
            "and not down. A later map of these bytes finds the old copy. OpenMP allows the program."
        )
        self._found.add("missing unmap", f"{name}, by the runtime", (mapped,), advice, name)

    def all(self) -> list[Mistake]:
        """Return the updates that were lost and what was left mapped, then what another schedule can lose."""
        found = self._found.all()
        lost = {one.subject.removesuffix(", by the runtime") for one in found}
        return [*found, *(one for subject, one in self._possible.items() if subject not in lost)]
