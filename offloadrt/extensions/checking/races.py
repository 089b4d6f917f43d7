"""Races: two accesses to the same bytes of one memory, at least one of them a write, that no synchronization orders.

For each byte, each strand and each place of the program, the last access is kept until all strands come after it. So
which pairs of places are reported does not depend on who came first.

`LostUpdates` finds a race that is LLVM's and not the program's: between a kernel and the copy back of its array.
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
"""Minus the number of a device: the key in `Races` of uses that the device made of mapped data, by host addresses."""
_MANY = 24
"""When a cell has more accesses than this, those that no later access can race with are dropped."""


@attrs.define(eq=False)
class _History(Cell):
    """The last accesses to the bytes of a cell: reads, and writes."""

    reads: dict[_Key, Access] = attrs.field(factory=dict)
    writes: dict[_Key, Access] = attrs.field(factory=dict)
    most: int = _MANY
    """The number of reads or writes above which the next access looks for accesses to drop."""

    def part(self, begin: int, end: int) -> _History:
        return _History(begin, end, dict(self.reads), dict(self.writes), self.most)


@attrs.define(eq=False)
class Races:
    """Finds races: keeps the accesses to each memory, and compares each new access with them.

    strands: tells which host thread, task or queue runs, and what orders them. mistakes: collects the reports. entry,
    in its methods: a mapping (an entry of a present table).
    """

    strands: Strands
    mistakes: Mistakes
    unordered_maps: set[int] = attrs.field(factory=set)
    """Numbers of devices on which LLVM makes no events that order the copies of maps."""
    _memories: dict[int, Intervals[_History]] = attrs.field(factory=dict)

    def access(self, access: Access) -> None:
        """Compare an access with earlier ones to the same bytes, report races, and keep the access."""
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
        """Keep the uses of a mapping (`entry`) that ends, by kernels and updates, to compare later ones with them.

        If another thread had mapped the same bytes earlier, it would have used the same block. So its kernels race with
        these uses even if in this run it got another block. They are kept by their host addresses.
        """
        shift = entry.host_begin - entry.device_begin
        kept = self._cells(_LIST_ITEMS - block.device)
        for cell in self._cells(block.device).cut(entry.device_begin, block.end) if self.strands.concurrent else ():
            known = (*cell.reads.values(), *cell.writes.values())
            used = [access for access in known if access.role in ("uses", "updates")]
            for mine in kept.cut(cell.begin + shift, cell.end + shift) if used else ():
                for access in used:
                    key = access.strand.chain, access.site, access.role
                    (mine.writes if access.writes else mine.reads)[key] = access

    def was_used(self, device: int, begin: int, end: int) -> bool:
        """Tell whether some of the host bytes [begin, end) were used in an earlier mapping on a device.

        `block_left` has kept these uses.
        """
        cells = self._memories.get(_LIST_ITEMS - device)
        return cells is not None and cells.holds(begin, end)

    def mapped_use(self, access: Access, shift: int) -> None:
        """Compare a use of mapped data, by a kernel or an update, with uses in earlier mappings, and report races.

        shift: what must be added to a device address to get the host's. access: the use, by device addresses.
        """
        for cell in self._cells(_LIST_ITEMS - access.memory).cut(access.begin + shift, access.end + shift):
            for other in (*cell.writes.values(), *(cell.reads.values() if access.writes else ())):
                self._compare(other, access)

    def is_overwritten(self, access: Access) -> bool:
        """Tell whether some byte of an access's range was written before, by a write that is ordered before the access.

        Returns True, too, where so many writes were seen that some were dropped from the record.
        """
        cells = self._cells(access.memory).cut(access.begin, access.end)
        return any(cell.most > _MANY or any(map(access.follows, cell.writes.values())) for cell in cells)

    def forget_host(self, begin: int, end: int) -> None:
        """Forget accesses to host addresses [begin, end), which belong to another array from now on."""
        for memory in self._memories:
            if memory <= HOST:
                self.forget(memory, begin, end)

    def forget(self, memory: int, begin: int, end: int) -> None:
        """Forget accesses to a range of a memory, because something else lies there from now on.

        begin, end: the addresses [begin, end).
        """
        self._cells(memory).forget(begin, end)

    def _cells(self, memory: int) -> Intervals[_History]:
        cells = self._memories.get(memory)
        if cells is None:
            cells = self._memories[memory] = Intervals(_History)
        return cells

    def _drop(self, kept: dict[_Key, Access], access: Access) -> None:
        """Drop accesses that the new one stands for; if these are few, also those that all strands come after.

        If another access races with an earlier one of the same place, it races with the last one too, provided that the
        last one follows the earlier one.
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
        if earlier.thread is not None and earlier.thread == access.thread:
            return  # whoever runs on a thread and knows which it is may use what belongs to that thread
        by_maps = _ordered_by_maps(earlier, access)
        if by_maps and access.maps not in self.unordered_maps and earlier.maps not in self.unordered_maps:
            return
        if not (earlier.atomic and access.atomic) and earlier.surely_meets(access):
            first, second = sorted((earlier, access), key=lambda one: (one.site, one.strand.name))
            subject = f"{access.name} {access.place}"
            stories, advice = (first.story, second.story), _UNORDERED if by_maps else _missing(first, second)
            self.mistakes.add("race", subject, stories, advice, subject, data=access.name)


_UNORDERED: Final = (
    "LIBOMPTARGET_MAP_FORCE_ATOMIC=false lets no event order what two maps copy: leave it out, or order the two."
)


def _ordered_by_counts(one: Access, other: Access) -> bool:
    """Tell whether the reference count of a mapped block orders two accesses to it."""
    if one.block is None or one.block is not other.block:
        return False
    roles = {one.role, other.role}
    if "updates" in roles and roles & {"enters", "leaves"}:
        update = one if one.role == "updates" else other
        return update.is_kept is not None and update.is_kept()
    frees = not roles - {"enters", "uses", "leaves"} and any(
        access.role == "leaves" and access.maps is None for access in (one, other)
    )
    return frees or roles == {"uses", "leaves"}


def _ordered_by_maps(one: Access, other: Access) -> bool:
    """Tell whether two accesses are ordered because maps act as if atomic; LLVM orders them by the event of the copy.

    OpenMP says so of all that a map clause does, also to its list item on the host, for one device. It does not say so
    of `target update`, whose copies LLVM queues without an event: these race as a thread's own accesses do.
    """
    if one.maps is not None and one.maps == other.maps:
        return True
    return one.block is not None and one.block is other.block and {one.role, other.role} == {"enters", "uses"}


def _missing(one: Access, other: Access) -> str:
    """Return the advice for a race: which synchronization is missing."""
    if one.strand.has_nodes and other.strand.has_nodes:
        return "Nothing orders the two nodes: an edge would, or an event or one stream, where two graphs have them."
    if one.strand.is_message and other.strand.is_message:
        return "Both messages are under way: find one complete (MPI_Wait, or a test that says so) before the other."
    if one.strand.is_message or other.strand.is_message:
        return "The message is still under way: find it complete (MPI_Wait, or a test that says so) before the access."
    if one.strand.is_queue and other.strand.is_queue:
        return "Nothing orders the two queues: let one wait for the other."
    if one.strand.is_queue or other.strand.is_queue:
        return "Nothing orders the queue and the thread: wait for the queue between them."
    if one.strand.deferred and other.strand.deferred:
        return "Nothing orders the two tasks: depend clauses on both would, not both `in`, or a taskwait between them."
    if one.strand.deferred or other.strand.deferred:
        return "Nothing orders the task and the thread: a taskwait between them would, or depend clauses on both."
    return "Nothing orders the two threads: a barrier between them would."


@attrs.define(eq=False)
class _Region:
    """A target region: what its kernel writes to mapped blocks, and copies back that did not wait for the kernel."""

    directive: Directive
    epoch: int
    writes: list[Access] = attrs.field(factory=list)
    has_ended: bool = False
    """Whether the kernel has ended."""
    overtaken: list[tuple[Access, bool]] = attrs.field(factory=list)
    """Copies back by other strands, each with True if the kernel was still running."""


@attrs.define(eq=False)
class LostUpdates:
    """Finds updates that are lost: data is copied back to the host before a kernel of another thread has written it.

    LLVM does not order such a copy behind the kernel, since a target region releases its references when its kernel is
    launched (`target` in runtime/launch/target.py cites the lines of LLVM); OpenMP lets it keep them until the kernel
    has ended. So a program without a race loses an update when the last user of the mapping copies back meanwhile. A
    region is safe if another reference to its data is certainly released after its kernel's end.
    """

    has_died: bool = False
    """Whether LLVM's runtime has ended the program with an error although the program is correct."""
    _found: Mistakes = attrs.field(factory=Mistakes)
    _possible: dict[str, Mistake] = attrs.field(factory=dict)
    """By array: an update that another schedule can lose, with one pair of directives."""
    _regions: dict[int, _Region] = attrs.field(factory=dict)
    """By directive number: the target regions whose directive has not ended."""
    _users: dict[Entry, list[_Region]] = attrs.field(factory=dict)
    """By mapping: the regions that have released their reference, unless another reference outlasted them."""

    def submitted(self, directive: Directive) -> None:
        """Begin to follow a target region, whose kernel is now put into a queue of the device."""
        self._regions[directive.number] = _Region(directive, directive.strand.epoch)

    def wrote(self, directive: Directive, access: Access) -> None:
        """Record a write (`access`) of a directive's kernel to a mapped block: a copy back must come after it."""
        if (region := self._regions.get(directive.number)) is not None:
            region.writes.append(access)

    def kernel_ended(self, cause: int) -> None:
        """Record that a kernel has ended, and report the copies to the host that did not wait for it.

        cause: the number of the directive that launched the kernel.
        """
        if (region := self._regions.get(cause)) is not None:
            region.has_ended = True
            self._judge(region)

    def directive_left(self, cause: int) -> None:
        """Forget the target region of a directive that has ended. cause: its number."""
        self._regions.pop(cause, None)

    def given_back(self, directive: Directive, entry: Entry) -> None:
        """Record that a directive releases its reference to a mapping (`entry`) while its kernel may still run."""
        users, strand = self._users.setdefault(entry, []), directive.strand
        users[:] = [one for one in users if not strand.comes_after(one.directive.strand.chain, one.epoch)]
        if (region := self._regions.get(directive.number)) is not None and region not in users:
            users.append(region)

    def copied_back(self, entry: Entry, copy: Access, number: int) -> None:
        """Check a copy to the host by the last user of a mapping: it must come after kernels that write the data.

        entry: the mapping. copy: the access to the host. number: the directive that submits the copy.
        """
        for region in self._users.get(entry, ()):
            if region.directive.number != number:
                region.overtaken.append((copy, not region.has_ended))
                if region.has_ended:
                    self._judge(region)

    def entry_left(self, entry: Entry) -> None:
        """Forget who has used a mapping (`entry`) that has ended."""
        self._users.pop(entry, None)

    def _judge(self, region: _Region) -> None:
        for copy, happened in region.overtaken:
            for write in region.writes:
                if copy.begin < write.end and write.begin < copy.end and write.surely_meets(copy):
                    self._tell(write, copy, happened)
                    break
        region.overtaken.clear()

    def _tell(self, write: Access, copy: Access, happened: bool) -> None:
        subject = f"{write.name} {write.place}" + ", by the runtime" * happened
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
        """Record an error of LLVM 22: a `target update` of a section with gaps moves other bytes than OpenMP says.

        name: the array. story: a report line on the directive.
        """
        advice = (
            "LLVM 22 multiplies the lower bound of a section by its stride, and so moves other bytes than OpenMP says. "
            "OpenMP allows the program, which is checked as OpenMP means it."
        )
        self._found.add("misplaced update", f"{name}, by the runtime", (story,), advice)

    def left_behind(self, name: str, mapped: Story, count: int) -> None:
        """Record an error of LLVM: it keeps a mapping although the program has ended it.

        name: the array. mapped: a report line on who mapped it. count: the reference count that remains.
        """
        advice = (
            f"The program has ended what it mapped, and its count is {count}: LLVM counts some items of a mapper up "
            "and not down. A later map of these bytes finds the old copy. OpenMP allows the program."
        )
        self._found.add("missing unmap", f"{name}, by the runtime", (mapped,), advice, name)

    def died(self, message: str, mapped: Story, story: Story) -> None:
        """Record an error of LLVM: a correct program died, because LLVM had kept a mapping after its end.

        message: the runtime's error. mapped: a report line on who made the mapping. story: one on the directive that
        found the mapping and died.
        """
        self.has_died = True
        advice = (
            "The directive finds what LLVM has kept of a mapping that the program has ended: LLVM counts some items of "
            "a mapper up and not down. OpenMP allows the program."
        )
        self._found.add("fatal error", f"{message}, by the runtime", (mapped, story), advice)

    def all(self) -> list[Mistake]:
        """Return the lost updates that have happened, then those that can happen under another schedule."""
        found = self._found.all()
        lost = {one.subject.removesuffix(", by the runtime") for one in found}
        return [*found, *(one for subject, one in self._possible.items() if subject not in lost)]
