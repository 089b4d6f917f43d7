"""Mistakes about how long mappings, device blocks, host arrays and tasks live.

`Lifetimes` finds arrays that the program frees while they are mapped. That alone does no harm. But a later copy reads
or writes memory that is no longer the array's, and a new array at the same address is taken for the old one until the
mapping ends. So the first use of the mapping is reported that surely comes after the free. A kernel may use the
device's copy all the while. `Mappings` judges maps, `Tasks` tasks that nobody awaits.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

import attrs

from offloadrt.extensions.checking.accesses import Access, Directive, WatchedBlock
from offloadrt.extensions.checking.mistakes import Mistakes, Story
from offloadrt.extensions.checking.orders import Reference
from offloadrt.extensions.checking.recorded import MemoryEnded
from offloadrt.extensions.checking.strands import Clock, Strand, Strands
from offloadrt.runtime.events import FreedCopied, ItemEnded, ItemFound
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.map_types import DELETE, FROM, IMPLICIT, OMPX_HOLD
from offloadrt.runtime.mapping.present_table import INFINITE, Entry


@attrs.define(eq=False)
class _Mapping:
    """A mapping, with the directive that made it and, once its host array is freed, chain and epoch of the free."""

    entry: Entry
    entered: Story
    freed: Story | None = None
    chain: int = 0
    epoch: int = 0
    is_told: bool = False


@attrs.define(eq=False)
class Lifetimes:
    """Finds host arrays that are freed while they are mapped, by following the mappings of all devices.

    In its methods, `entry` is a mapping (an entry of a present table), and `story` a report line on who does something.
    strands: tells which host thread, task or queue runs, and what orders them. mistakes: collects the reports.
    """

    strands: Strands
    mistakes: Mistakes
    _is_left_behind: Callable[[Entry], bool]
    """Tells whether LLVM has kept a mapping that the program has ended."""
    _live: dict[Entry, _Mapping] = attrs.field(factory=dict)
    _ending: MemoryEnded | None = None

    def entered(self, entry: Entry, story: Story) -> None:
        """Begin to follow a new mapping, `entry`. story: the report line on who made it."""
        self._live[entry] = _Mapping(entry, story)

    def freed(self, event: MemoryEnded) -> None:
        """Record that an array is freed; a later use of a mapping of the array is then reported as a mistake.

        Memory of omp_target_associate_ptr is left out, as the program manages it. So are mappings that the program has
        ended and that exist only because LLVM's reference count has not reached 0.
        """
        array, strand, self._ending = event.array, self.strands.current(), event
        begin, end = array.address, array.address + array.nbytes
        where = event.where or (f"after {strand.source}" if strand.source else "")
        story = Story(event.who or strand.name, event.did, where, self.strands.sim.now)
        for mapping in self._live.values():
            entry = mapping.entry
            overlaps = entry.host_begin < end and begin < entry.host_end
            if mapping.freed is None and overlaps and entry.total != INFINITE and not self._is_left_behind(entry):
                mapping.freed, mapping.chain, mapping.epoch = story, strand.chain, strand.epoch

    def take_end(self, array: HostArray) -> tuple[str, str]:
        """Return how the memory of an array ends, in words, and at which line (empty if no event has said it)."""
        event, self._ending = self._ending, None
        is_known = event is not None and event.array is array and not event.who
        return (event.did, event.where) if event is not None and is_known else (f"frees {array.name}", "")

    def freed_by(self, entry: Entry) -> Story | None:
        """Return the report line that says who freed the array of a mapping which still exists.

        Returns None if nobody has freed it, or if that was reported already.
        """
        mapping = self._live.get(entry)
        return None if mapping is None or mapping.is_told else mapping.freed

    def is_told(self, entry: Entry | None) -> bool:
        """Tell whether a use of the mapping `entry` after the end of its array has been reported already."""
        return entry is not None and (mapping := self._live.get(entry)) is not None and mapping.is_told

    def copied(self, entry: Entry | None, op: str, strand: Strand, story: Story) -> None:
        """Report a copy between a device and the host if the array of its mapping was freed before. op: h2d or d2h."""
        does = "writes" if op == "d2h" else "reads"
        self._judge(entry, strand, story, f"The copy {does} memory that is the array's no more")

    def not_copied(self, event: FreedCopied, directive: Directive) -> None:
        """Report, as `copied` does, a copy that the emulated runtime leaves out because the host array was freed."""
        way = "from" if event.op == "d2h" else "to"
        told = self._story(directive, f"copies {event.entry.name or 'data'} {way} the device in {directive.name}")
        self.copied(event.entry, event.op, directive.strand, told)

    def found(self, event: ItemFound, directive: Directive) -> None:
        """Report a map item that finds the old mapping of an array which was freed.

        Implicit items, which the program did not write, are ignored.
        """
        item, entry = event.item, event.entry
        if entry is not None and item.size and not item.type & IMPLICIT:
            told = self._story(directive, f"maps {item.name or 'data'} in {directive.name}")
            self._judge(entry, directive.strand, told, "It finds the old mapping, with what the old array had")

    def ended(self, entry: Entry, directive: Directive) -> None:
        """Report the end of the mapping `entry` (an unmap), if its array was freed before."""
        told = self._story(directive, f"unmaps it in {directive.name}")
        self._judge(entry, directive.strand, told, "Until it is unmapped, a new array at its address is taken for it")

    def left(self, entry: Entry, directive: Directive) -> None:
        """Report the end of the mapping `entry`, if its array was freed before, and forget the mapping."""
        self.ended(entry, directive)
        self._live.pop(entry, None)

    def _story(self, directive: Directive, did: str) -> Story:
        return directive.story(did, self.strands.sim.now)

    def _judge(self, entry: Entry | None, strand: Strand, story: Story, why: str) -> None:
        mapping = None if entry is None else self._live.get(entry)
        if mapping is None or mapping.freed is None or mapping.is_told:
            return
        if strand.comes_after(mapping.chain, mapping.epoch):  # otherwise it is a race, and reported as one
            mapping.is_told = True
            name = mapping.entry.name or "data"
            stories = (mapping.entered, mapping.freed, story)
            self.mistakes.add("freed while mapped", name, stories, f"{why}: unmap {name} before its memory ends.", name)


_UNMAPPING: Final = ("target exit data", "target exit data nowait", "target data end")


@attrs.define(eq=False)
class _LiveEntry:
    entry: Entry
    entered: Story
    device: int
    region: int
    """The number of the target region that made the mapping and ends it by itself; 0: no region did."""
    may_stay: bool = False
    """Whether it is no mistake if the mapping still exists at the end: OpenACC programs leave data that no `exit data`
    names to the end of the program.
    """
    is_filled: bool = False
    """Whether the map that made it copied to the device. A use that is not ordered behind that map then races with this
    copy.
    """
    brought: list[tuple[int, int]] = attrs.field(factory=list)
    """The (chain, epoch) of each directive that mapped some of its bytes `to` the device: the first one copies."""
    has_ended: bool = False
    """Whether the region that made it has ended."""
    counted_down: str = ""
    """The line where the program last unmapped it while other references remained; "": nowhere."""
    references: list[tuple[int, int]] = attrs.field(factory=list)
    """The (chain, epoch) of each directive that took a reference by mapping some of its bytes."""
    mapped: int = 1
    """How many of these references have not been released."""
    ended: Story | None = None
    """Who released the last of them; afterwards only regions without a map of their own use the mapping."""
    end: tuple[int, int] = (0, 0)
    """The (chain, epoch) of the directive that released the last reference."""
    end_knows: Clock = attrs.field(factory=Clock)
    """The vector clock at that release: what had happened before it."""
    borrowed: list[tuple[Access, list[Reference]]] = attrs.field(factory=list)
    """The accesses by kernels of regions that use the mapping without a map of their own, each with the references that
    certainly exist before it.
    """
    begun_by: set[int] = attrs.field(factory=set)
    ended_by: set[int] = attrs.field(factory=set)
    """The numbers of the directives that end a map of some of its bytes, as the program asks for it. `begun_by` has
    those that map some.
    """
    is_deleted: bool = False
    """Whether a `delete` has ended it, with all its references."""
    kept_by_mapper: bool = False
    """Whether LLVM left the reference count as it was when an item of a mapper ended."""

    is_old: bool = False
    """Whether a directive has found the mapping when LLVM alone kept it, or has made it beside such a one."""

    @property
    def is_left_behind(self) -> bool:
        """Tell whether the program has ended all its maps of these bytes, but LLVM has kept the mapping."""
        return (self.has_ended or self.kept_by_mapper) and len(self.ended_by) >= len(self.begun_by)


@attrs.define(eq=False)
class Mappings:
    """Finds mistakes in how directives map data: mappings that are missing, left over, or begin or end unordered.

    It follows the entries of all present tables, and which directives made and use them.

    In its methods, `entry` is a mapping (an entry of a present table), and `story` a report line on who does something.
    mistakes: collects the reports.
    """

    mistakes: Mistakes
    _left_behind: Callable[[str, Story, int], None]
    """Called with each mapping that LLVM has not unmapped: its name, who mapped it, and its reference count."""
    _live: dict[Entry, _LiveEntry] = attrs.field(factory=dict)
    _unordered: dict[int, set[Entry]] = attrs.field(factory=dict)
    """By directive number: mappings that it found and needs, though it is not ordered behind any directive that maps
    them.
    """
    _borrowed: dict[int, set[Entry]] = attrs.field(factory=dict)
    """By directive number: mappings that it found and needs without a map of its own."""

    _by_region: dict[int, list[_LiveEntry]] = attrs.field(factory=dict)
    """By number of a running region: the mappings that it made."""
    _deleted: list[tuple[Entry, str, tuple[Story, Story], str]] = attrs.field(factory=list)
    """Mappings that a `delete` ended under other users, each with its name, the stories and the advice of a report."""

    def entered(self, entry: Entry, story: Story, directive: Directive, is_region: bool, may_stay: bool) -> None:
        """Begin to follow a new mapping.

        story: the report line on who made it. directive: made it. is_region: whether that is a target region, whose end
        also ends the mapping. may_stay: whether it is no mistake if the mapping still exists when the program ends.
        """
        made = self._live[entry] = _LiveEntry(
            entry, story, directive.device, directive.number if is_region else 0, may_stay
        )
        made.references.append((directive.strand.chain, directive.strand.epoch))
        made.begun_by.add(directive.number)
        if is_region:
            self._by_region.setdefault(directive.number, []).append(made)

    def at(self, device: int, host_address: int) -> tuple[Entry, Story] | None:
        """Return the mapping of a host address on a device, and the report line on who mapped it; or None."""
        for entry, mapping in self._live.items():
            if mapping.device == device and entry.host_begin <= host_address < entry.host_end:
                return entry, mapping.entered
        return None

    def is_left_behind(self, entry: Entry) -> bool:
        """Tell whether LLVM keeps the mapping `entry` although the program has ended all its maps of that data."""
        mapping = self._live.get(entry)
        return mapping is not None and mapping.is_left_behind

    def old(self, entry: Entry) -> Story | None:
        """Return the report line on who made a mapping, if the mapping's bytes on the device may be old; else None.

        They may be old (from before) if the program had ended the mapping, but LLVM kept it, and a directive then found
        it.
        """
        mapping = self._live.get(entry)
        return mapping.entered if mapping is not None and mapping.is_old else None

    def set_old(self, entry: Entry) -> None:
        """Record that the device's bytes of the mapping `entry` may be old (see `old`)."""
        if (mapping := self._live.get(entry)) is not None:
            mapping.is_old = True

    def region_ended(self, region: int) -> None:
        """Record that a region has ended, so that its mappings that still exist count as left over.

        A `declare mapper` function may leave such mappings. region: the number of the region's directive.
        """
        for made in self._by_region.pop(region, ()):
            made.has_ended = True

    def repeats(self, event: ItemFound, directive: int) -> bool:
        """Tell whether LLVM makes a copy for a map item that OpenMP would not make, as other maps of the data exist.

        Call this before `found` or `item_ended` records the item. LLVM changes the reference count neither for members
        of a structure nor for the first component of a mapper. If the count is 1 when such an item begins, LLVM takes
        the data for new ("It might have been allocated with the parent", `getTargetPointer`) and copies it in; if the
        count is 1 when it ends, LLVM takes the data for unused and copies it out. After an `enter data` with a mapper,
        the count is 1. event: the item with its mapping. directive: the number of its directive.
        """
        mapping, flags = None if event.entry is None else self._live.get(event.entry), event.item.flags
        if mapping is None or flags.always:
            return False
        others = len(mapping.begun_by) - len(mapping.ended_by)
        if isinstance(event, ItemEnded):
            return not flags.counted_down and others > (directive not in mapping.ended_by)
        return not flags.counted and others > (directive in mapping.begun_by)

    def found(self, event: ItemFound, directive: Directive, may_be_absent: bool) -> None:
        """Record that a directive has found a mapping, which must therefore not end before the directive has used it.

        The directive takes a reference to the mapping, or only needs it to exist. A pointer that is in no clause is
        looked up with size 0: it only needs the mapping, and it is no mistake if there is none. may_be_absent: in
        another order of the program's work the mapping would not exist, as the map that made it has ended.
        """
        entry, strand = event.entry, directive.strand
        mapping = None if entry is None else self._live.get(entry)
        if mapping is None or entry is None or entry.total == INFINITE:
            return
        if event.item.size:
            others = entry.total - event.item.flags.counted  # without any, it was found just before it is erased
            is_kept = others > 0 or not event.found  # what lies in it in part only is not counted
            mapping.is_old = mapping.is_old or (is_kept and mapping.is_left_behind)
            mapping.begun_by.add(directive.number)
            mapping.references.append((strand.chain, strand.epoch))
            mapping.mapped += 1
            if event.item.flags.to:
                mapping.brought.append(mapping.references[-1])
            return
        self._borrowed.setdefault(directive.number, set()).add(entry)
        if may_be_absent or not any(strand.comes_after(chain, epoch) for chain, epoch in mapping.references):
            self._unordered.setdefault(directive.number, set()).add(entry)

    def needed(
        self,
        access: Access,
        entry: Entry,
        directive: int,
        is_overwritten: Callable[[Access], bool],
        held: Callable[[Access, Entry], list[Reference]],
    ) -> None:
        """Report a kernel's access to mapped data if nothing orders the kernel with the begin or end of the mapping.

        entry: the mapping. directive: the number of the kernel's directive. is_overwritten: tells whether something has
        certainly written the bytes on the device before the access, so that what the map copied does not matter. held:
        returns the references to the mapping that certainly exist before the access; one may keep the mapping alive.
        """
        if entry in self._borrowed.get(directive, ()) and (mapping := self._live.get(entry)) is not None:
            self._borrowed[directive].discard(entry)
            others = [one for one in held(access, entry) if one.directive != directive]
            mapping.borrowed.append((access, others))
            self._judge_end(mapping)
        if entry in self._unordered.get(directive, ()) and (mapping := self._live.get(entry)) is not None:
            self._unordered[directive].discard(entry)
            advice = f"a taskwait or a barrier would, or a map of {access.name} in the region."
            self._before_map(
                mapping, access.story, access.name, access.memory, f"region behind the map that it needs: {advice}"
            )
        elif not access.writes and (mapping := self._live.get(entry)) is not None and mapping.is_filled:
            strand = access.strand
            if not any(strand.comes_after(*one) for one in mapping.brought) and not is_overwritten(access):
                advice = f"a taskwait or a barrier would, or a map of {access.name} `to` in the region."
                self._before_map(
                    mapping, access.story, access.name, access.memory, f"region behind the map that copies: {advice}"
                )

    def filled(self, entry: Entry) -> None:
        """Record that the map clause which made this mapping also copies the data to the device.

        Kernels that read the data must then come after that clause; to come after some other map of it is not enough.
        """
        if (mapping := self._live.get(entry)) is not None:
            mapping.is_filled = True
            mapping.brought.append(mapping.references[0])

    def updated(self, directive: Directive, entry: Entry, story: Story, device: int) -> None:
        """Report a `target update` that nothing orders behind the map which it needs: in another order it does nothing.

        story: a report line on the update.
        """
        mapping, strand = self._live.get(entry), directive.strand
        if mapping is None or mapping.is_filled or entry.total == INFINITE:
            return
        if not any(strand.comes_after(chain, epoch) for chain, epoch in mapping.references):
            advice = "a taskwait or a barrier would, or depend clauses on both."
            self._before_map(mapping, story, entry.name, device, f"update behind the map that it needs: {advice}")

    def _before_map(self, mapping: _LiveEntry, story: Story, name: str, device: int, advice: str) -> None:
        subject = f"{name} on device {device}"
        stories = (mapping.entered, story)
        self.mistakes.add("race", subject, stories, f"Nothing orders the {advice}", subject, data=name)

    def _judge_end(self, mapping: _LiveEntry) -> None:
        """Report kernels that use a mapping whose end is ordered neither before nor behind them."""
        if mapping.ended is None:
            return
        for access, held in mapping.borrowed:
            if not mapping.is_deleted and any(one.outlasts(access) for one in held):
                continue
            chain, epoch = mapping.end
            if (
                not access.strand.comes_after(chain, epoch)
                and not mapping.end_knows[access.strand.chain] >= access.epoch
            ):
                self.ended_early(access.name, mapping.ended, access.story, access.memory)
        mapping.borrowed.clear()

    def ended_early(self, name: str, ended: Story, used: Story, device: int) -> bool:
        """Report a region that nothing orders before the end of the map that it needs.

        name: the array. ended, used: the report lines on the end of the map and on the region. Returns True always, so
        that a condition may end with the call.
        """
        subject = f"{name} on device {device}"
        advice = (
            "Nothing orders the region before the end of the map that it needs: a taskwait or a barrier would, "
            f"or a map of {name} in the region."
        )
        self.mistakes.add("race", subject, (ended, used), advice, subject, data=name)
        return True

    def directive_left(self, directive: int) -> None:
        """Forget which mappings a directive needs, as the directive has ended. directive: its number."""
        self._unordered.pop(directive, None)
        self._borrowed.pop(directive, None)

    def left(self, entry: Entry) -> Clock | None:
        """Forget a mapping that has ended; return the vector clock of what came before the directive that ended it.

        Returns None if the program did not end the mapping.
        """
        mapping = self._live.pop(entry, None)
        return None if mapping is None or mapping.ended is None else mapping.end_knows

    def item_ended(self, directive: Directive, story: Story, item: MapItem, entry: Entry | None) -> None:
        """Report mistakes at the end of one map item's map; call this before the reference count is decremented.

        story: a report line on the directive. entry: the item's mapping; None if it has none.
        """
        if entry is None:
            # OpenMP ignores `release` and `delete` of absent data; a `from` copies nothing.
            if item.type & (DELETE | IMPLICIT):  # the other user has ended as well: `map(f)`, which brings f%x along
                self._deleted = [
                    one for one in self._deleted
                    if one[0].host_end <= item.begin or item.begin + item.size <= one[0].host_begin
                ]  # fmt: skip
            asked = bool(item.type & FROM) and not item.type & IMPLICIT
            if directive.name in _UNMAPPING and item.size and item.array is not None and asked:
                advice = (
                    "Nothing of it is mapped here, so nothing is copied back: leave this unmap out, or map it before."
                )
                self.mistakes.add("surplus unmap", item.name, (story,), advice, item.name)
            return
        live = self._live.get(entry)
        if live is not None and item.size:
            live.ended_by.add(directive.number)
            if item.type & DELETE:
                live.begun_by.clear()
                live.is_deleted = True
            live.kept_by_mapper = live.kept_by_mapper or (item.listed and not item.flags.counted_down)
        if live is not None and item.size and item.flags.counted_down:
            live.mapped = 0 if item.type & DELETE else live.mapped - 1
            if not live.mapped:
                live.ended, live.end = story, (directive.strand.chain, directive.strand.epoch)
                live.end_knows = Clock(directive.strand.clock)
                self._judge_end(live)
        if directive.name not in _UNMAPPING:
            if directive.name == "exit data" and live is not None:
                live.may_stay = False
            return  # `finalize` of OpenACC ends all references that are not structured
        if live is not None:
            live.counted_down = directive.where
        held = entry.hold if item.type & OMPX_HOLD else entry.dynamic
        if item.type & DELETE and INFINITE > held > 1 and (mapping := self._live.get(entry)) is not None:
            users = held - 1
            advice = (
                f"{users} other {'mapping uses' if users == 1 else 'mappings use'} it still: `release` or `from` "
                "counts down instead."
            )
            self._deleted.append((entry, item.name, (mapping.entered, story), advice))

    def update_missed(self, story: Story, item: MapItem, device: int, gone: tuple[str, Story] | None) -> None:
        """Report a `target update` that does nothing, because its section is not wholly mapped.

        gone: the array and the report line on a release that came first, if nothing orders the update with it; else
        None.
        """
        if gone is not None:
            advice = "Nothing orders the update before the end of the map that it needs: a taskwait or a barrier would."
            subject = f"{gone[0]} on device {device}"
            self.mistakes.add("race", subject, (gone[1], story), advice, subject, data=item.name)
            return
        advice = "Its section is not wholly mapped, so the update does nothing: map it before."
        self.mistakes.add("missed update", item.name, (story,), advice, item.name)

    def judge_deletes(self) -> None:
        """Report each mapping that `delete` ended while other directives still had references to it.

        Mappings whose other references have been released by now too are not reported.
        """
        for _, name, stories, advice in self._deleted:
            self.mistakes.add("delete under other users", name, stories, advice, name)
        self._deleted.clear()

    def finish(self, blocks: list[WatchedBlock], freed_by: Callable[[Entry], Story | None]) -> None:
        """Report mappings and blocks of device memory that are left at the end of the program.

        freed_by: returns the report line on who has freed the array of a mapping; None if nobody has.
        """
        for mapping in self._live.values():
            entry = mapping.entry
            if (
                INFINITE not in (entry.dynamic, entry.hold)
                and not entry.is_unused
                and not mapping.may_stay
                and (not mapping.region or mapping.has_ended)
            ):
                name = entry.name or "data"
                if mapping.is_old or mapping.is_left_behind:
                    self._left_behind(name, mapping.entered, entry.total)
                    continue
                advice = f"Its count is {entry.total} at the end: `target exit data map(release: {name})`, or `from`."
                if mapping.counted_down:
                    advice = f"It was mapped more often than unmapped, last at {mapping.counted_down}: {advice}"
                if (freed := freed_by(entry)) is not None:
                    advice = f"{advice} Do so before its memory ends."
                stories = (mapping.entered,) if freed is None else (mapping.entered, freed)
                self.mistakes.add("missing unmap", name, stories, advice, name)
        for block in blocks:
            nbytes = block.end - block.begin
            self.mistakes.add(
                "memory leak", f"{nbytes} bytes of device memory", (block.allocated,), "`omp_target_free` frees it."
            )


@attrs.define(eq=False)
class Tasks:
    """Follows the deferred tasks of a program, to report those for which nobody waits.

    strands: tells which host thread, task or queue runs, and what orders them. mistakes: collects the reports.
    """

    strands: Strands
    mistakes: Mistakes
    _made: dict[Hashable, Story] = attrs.field(factory=dict)
    _running: dict[Strand, Hashable] = attrs.field(factory=dict)
    _ends: dict[Hashable, Hashable] = attrs.field(factory=dict)

    def made(self, task: Hashable, where: str) -> None:
        """Record that the running host thread or task makes a deferred task.

        task: an object that stands for it. where: the line of the program.
        """
        maker = self.strands.current()
        who = maker.name if maker.deferred else f"task of {maker.name}"
        self._made[task] = Story(who, "is made", where, self.strands.sim.now)
        self.strands.signalled(task)
        self.strands.concurrent = True

    def began(self, task: Hashable, after: tuple[Hashable, ...]) -> None:
        """Record that a deferred task, which `made` knows, begins in the running thread.

        after: the signals for which it has waited.
        """
        made = self._made[task]
        self.strands.began(made.who, (task, *after), True, made.where)
        self._running[self.strands.current()] = task

    def named(self, strand: Strand, source: str) -> None:
        """Give a task the first line that it reaches, if the line where it was made is not known.

        strand: the task as it runs. source: the line.
        """
        task = self._running.get(strand)
        if task is not None and not self._made[task].where:
            self._made[task] = attrs.evolve(self._made[task], where=source)

    def ended(self, what: Hashable) -> None:
        """Record that the running task ends and signals `what`, for which others may wait.

        Nothing is done for a strand (host thread or queue) that is no deferred task.
        """
        task = self._running.pop(self.strands.current(), None)
        if task is not None:
            self._ends[task] = what

    @property
    def some_left(self) -> bool:
        """Tell whether some tasks have not ended yet, or have not even begun."""
        return len(self._ends) < len(self._made)

    def finish(self, died: bool = False) -> None:
        """Report, at the end of the program, the tasks for which nobody has waited.

        died: whether the program died as it exited, so that tasks may not have run.
        """
        for task in self._made if died else self._ends:
            if self._ends.get(task) not in self.strands.awaited:
                made = self._made[task]
                advice = "Nobody waits for this task before the program ends: a taskwait would."
                subject = f"a task of {made.where}" if made.where else f"a {made.who}"
                self.mistakes.add("never awaited", subject, (made,), advice)
