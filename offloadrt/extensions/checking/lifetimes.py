"""Arrays of the host that the program frees while they are mapped.

That alone does no harm. But a later copy reads or writes memory that is the array's no more, and a new array at the
same address is taken for the old one until the mapping ends. So the first thing is reported that the program does with
the mapping and that surely comes after the free. A kernel may use the device's copy all the while.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import Final

import attrs

from offloadrt.address_map import AddressMap
from offloadrt.extensions.checking.accesses import Access, Directive, WatchedBlock
from offloadrt.extensions.checking.mistakes import UNKNOWN, Mistakes, Story
from offloadrt.extensions.checking.recorded import (
    ConstantKnown,
    KernelAccess,
    KernelRaced,
    KernelStrayed,
    MappedFreed,
    MapStrayed,
)
from offloadrt.extensions.checking.strands import Clock, Strand, Strands
from offloadrt.runtime.events import FreedCopied, ItemFound
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.map_types import DELETE, FROM, IMPLICIT, OMPX_HOLD
from offloadrt.runtime.mapping.present_table import INFINITE, Entry
from offloadrt.trace.events import plain_kernel


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

    def found(self, event: ItemFound, directive: Directive) -> None:
        """Judge an item that is mapped already. One that the program does not name may be no more than an address."""
        item, entry = event.item, event.entry
        if entry is not None and item.size and not item.type & IMPLICIT:
            told = self._story(directive, f"maps {item.name or 'data'} in {directive.name}")
            why = "It finds the old mapping, with what the old array had"
            self._judge(entry, directive.strand, told, why)

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


_UNMAPPING: Final = ("target exit data", "target exit data nowait", "target data end")


@attrs.define(eq=False)
class _LiveEntry:
    entry: Entry
    entered: Story
    region: int
    """The target region that made it, which ends by itself what it maps; 0: none did."""
    may_stay: bool = False
    """Whether it is no mistake that it is there at the end: OpenACC's data that no `exit data` was about, as such
    programs leave its end to the program's.
    """
    is_filled: bool = False
    """Whether the map that made it has copied to it: what nothing orders behind that races with the copy itself."""
    has_ended: bool = False
    """Whether that region has ended."""
    counted_down: str = ""
    """Where the program has last unmapped it, though others had it mapped still."""
    references: list[tuple[int, int]] = attrs.field(factory=list)
    """Chain and epoch of each directive that has taken a reference by mapping some of its bytes."""
    mapped: int = 1
    """How many of these references have not been given back."""
    ended: Story | None = None
    """Who gave back the last of them; what is left are regions that use it without a map of their own."""
    end: tuple[int, int] = (0, 0)
    """Chain and epoch of that."""
    end_knows: Clock = attrs.field(factory=Clock)
    """What had happened before it."""
    borrowed: list[Access] = attrs.field(factory=list)
    """What the kernels of such regions do, an access each."""
    begun_by: set[int] = attrs.field(factory=set)
    ended_by: set[int] = attrs.field(factory=set)
    """The directives that map some of its bytes, and those that end a map of some, as the program asks for them."""
    kept_by_mapper: bool = False
    """Whether LLVM has not counted down what a mapper's item ended."""

    @property
    def is_left_behind(self) -> bool:
        """Tell whether the program has ended all that it mapped, and LLVM has kept it."""
        return self.has_ended or (self.kept_by_mapper and len(self.ended_by) >= len(self.begun_by))


@attrs.define(eq=False)
class Mappings:
    """The entries of all present tables, with who made them."""

    mistakes: Mistakes
    _left_behind: Callable[[str, Story, int], None]
    """Takes what LLVM has not unmapped: its name, who has mapped it, and its count."""
    _live: dict[Entry, _LiveEntry] = attrs.field(factory=dict)
    _unordered: dict[int, set[Entry]] = attrs.field(factory=dict)
    """By directive: the mappings that it found, needs, and may come before."""
    _borrowed: dict[int, set[Entry]] = attrs.field(factory=dict)
    """By directive: the mappings that it found, needs, and has no map of."""

    _by_region: dict[int, list[_LiveEntry]] = attrs.field(factory=dict)
    """Those of a region that runs."""

    def entered(self, entry: Entry, story: Story, directive: Directive, is_region: bool, may_stay: bool) -> None:
        made = self._live[entry] = _LiveEntry(entry, story, is_region * directive.number, may_stay)
        made.references.append((directive.strand.chain, directive.strand.epoch))
        made.begun_by.add(directive.number)
        if is_region:
            self._by_region.setdefault(directive.number, []).append(made)

    def at(self, host_address: int) -> tuple[Entry, Story] | None:
        """Return what is mapped there, and who has mapped it."""
        for entry, mapping in self._live.items():
            if entry.host_begin <= host_address < entry.host_end:
                return entry, mapping.entered
        return None

    def region_ended(self, region: int) -> None:
        """Note that a region has ended: what it has left mapped, as a mapper may do, is left over."""
        for made in self._by_region.pop(region, ()):
            made.has_ended = True

    def found(self, event: ItemFound, directive: Directive) -> None:
        """Note who takes a reference to a mapping, and who needs it without being ordered behind any that maps it.

        A pointer in no clause is looked up with a size of 0, which maps nothing where nothing is mapped.
        """
        entry, strand = event.entry, directive.strand
        mapping = None if entry is None else self._live.get(entry)
        if mapping is None or entry is None or entry.total == INFINITE:
            return
        if event.item.size:
            mapping.begun_by.add(directive.number)
            mapping.references.append((strand.chain, strand.epoch))
            mapping.mapped += 1
            return
        self._borrowed.setdefault(directive.number, set()).add(entry)
        if not any(strand.comes_after(chain, epoch) for chain, epoch in mapping.references):
            self._unordered.setdefault(directive.number, set()).add(entry)

    def needed(self, access: Access, entry: Entry, directive: int) -> None:
        """Judge what a kernel does to a mapping."""
        if entry in self._borrowed.get(directive, ()) and (mapping := self._live.get(entry)) is not None:
            self._borrowed[directive].discard(entry)
            mapping.borrowed.append(access)
            self._judge_end(mapping)
        if entry in self._unordered.get(directive, ()) and (mapping := self._live.get(entry)) is not None:
            self._unordered[directive].discard(entry)
            advice = f"a taskwait or a barrier would, or a map of {access.name} in the region."
            self._before_map(
                mapping, access.story, access.name, access.memory, f"region behind the map that it needs: {advice}"
            )

    def filled(self, entry: Entry) -> None:
        """Note that the map that made a mapping copies to it."""
        if (mapping := self._live.get(entry)) is not None:
            mapping.is_filled = True

    def updated(self, directive: Directive, entry: Entry, story: Story, device: int) -> None:
        """Judge a `target update`, which needs a mapping and does nothing where it comes before the map."""
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
        """Look for kernels that use a mapping whose end is ordered neither before nor behind them."""
        if mapping.ended is None:
            return
        for access in mapping.borrowed:
            chain, epoch = mapping.end
            if (
                not access.strand.comes_after(chain, epoch)
                and not mapping.end_knows[access.strand.chain] >= access.epoch
            ):
                subject = f"{access.name} on device {access.memory}"
                advice = (
                    "Nothing orders the region before the end of the map that it needs: a taskwait or a barrier would, "
                    f"or a map of {access.name} in the region."
                )
                stories = (mapping.ended, access.story)
                self.mistakes.add("race", subject, stories, advice, subject, data=access.name)
        mapping.borrowed.clear()

    def directive_left(self, directive: int) -> None:
        self._unordered.pop(directive, None)
        self._borrowed.pop(directive, None)

    def left(self, entry: Entry) -> Clock | None:
        """Forget a mapping; return what had happened before the program ended it, None where it did not."""
        mapping = self._live.pop(entry, None)
        return None if mapping is None or mapping.ended is None else mapping.end_knows

    def item_ended(self, directive: Directive, story: Story, item: MapItem, entry: Entry | None) -> None:
        """Judge the end of one item; the counts are still those before it."""
        if entry is None:
            # OpenMP lets `release` and `delete` pass over what is absent; what `from` asks for does not come.
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
            self.mistakes.add("delete under other users", item.name, (mapping.entered, story), advice, item.name)

    def update_missed(self, story: Story, item: MapItem) -> None:
        """Report an update that does nothing."""
        advice = "Its section is not wholly mapped, so the update does nothing: map it before."
        self.mistakes.add("missed update", item.name, (story,), advice, item.name)

    def finish(self, blocks: list[WatchedBlock]) -> None:
        """Report what is left at the end of the program."""
        for mapping in self._live.values():
            entry = mapping.entry
            if (
                INFINITE not in (entry.dynamic, entry.hold)
                and not entry.is_unused
                and not mapping.may_stay
                and (not mapping.region or mapping.has_ended)
            ):
                name = entry.name or "data"
                if mapping.is_left_behind:
                    self._left_behind(name, mapping.entered, entry.total)
                    continue
                advice = f"Its count is {entry.total} at the end: `target exit data map(release: {name})`, or `from`."
                if mapping.counted_down:
                    advice = f"It was mapped more often than unmapped, last at {mapping.counted_down}: {advice}"
                self.mistakes.add("missing unmap", name, (mapping.entered,), advice, name)
        for block in blocks:
            nbytes = block.end - block.begin
            self.mistakes.add(
                "memory leak", f"{nbytes} bytes of device memory", (block.allocated,), "`omp_target_free` frees it."
            )


@attrs.frozen
class _FreedBlock:
    """A block of device memory that was freed, up to this end, and by which epoch of which strand."""

    end: int
    name: str
    story: Story
    chain: int
    epoch: int


@attrs.define(eq=False)
class RecordedFaults:
    """Tells of them in the words of a report."""

    strands: Strands
    mistakes: Mistakes
    _constants: AddressMap[ConstantKnown] = attrs.field(factory=AddressMap)
    _freed: dict[int, AddressMap[_FreedBlock]] = attrs.field(factory=lambda: defaultdict(AddressMap))
    """By device, the blocks that were freed there, by their addresses."""
    _unmapped: dict[int, AddressMap[_FreedBlock]] = attrs.field(factory=lambda: defaultdict(AddressMap))
    """The same by the host's address of what each was the copy of."""
    _strayed: dict[tuple[str, str, str], bool] = attrs.field(factory=dict)
    """By kernel, array and line: whether it was a write that was told of first. `a[i] += 1` is one mistake."""
    _beside: dict[Entry, list[tuple[str, int, int, Story, Story]]] = attrs.field(factory=dict)
    """By mapping: the kernels that have used the host's addresses of it, by chain and epoch, and who has mapped it."""

    def raced(self, event: KernelRaced) -> None:
        """Report two accesses of threads that nothing orders."""
        first, second = event.accesses
        stories = [_story(event.kernel, event.name, access, self.strands.sim.now) for access in event.accesses]
        subject = f"{event.name} on device {event.device}"
        if first.team != second.team:
            advice = (
                "Nothing orders threads of different teams: `atomic` on both would. A critical section or a lock "
                "excludes threads of one team only."
            )
        else:
            advice = "Nothing orders the two threads: `atomic` on both would, a critical section or lock, or a barrier."
        group = event.kernel, subject
        self.mistakes.add("race", subject, sorted(stories, key=str), advice, subject, group, event.name)

    def block_freed(self, block: WatchedBlock, host_address: int, story: Story) -> None:
        """Remember who has freed a block of device memory, as which a mapping may have ended."""
        strand, nbytes = self.strands.current(), block.end - block.begin
        for freed, begin in ((self._freed[block.device], block.begin), (self._unmapped[block.device], host_address)):
            if begin:
                freed.pop(begin)
                freed[begin] = _FreedBlock(begin + nbytes, block.name, story, strand.chain, strand.epoch)

    def _use_after_free(self, event: KernelStrayed, device: int, address: int, host_address: int) -> None:
        freed = self._freed[device] if address else self._unmapped[device]
        near = freed.before(address or host_address)
        by = near[1].story if near is not None and (address or host_address) < near[1].end else None
        if by is None and host_address:
            return  # here its mapping ends later: what the kernel does is told of as any use is
        name = event.name or "device memory"
        told = _story(event.kernel, name, event.access, self.strands.sim.now)
        advice = (
            f"The device address of {name} is good only while it is mapped: keep it mapped until the kernel has ended."
            if host_address
            else "Free the block when the kernels that use it have ended."
        )
        stories = (told,) if by is None else (by, told)
        self.mistakes.add("use after free", name, stories, advice, name, (event.kernel, name))

    def strayed(self, event: KernelStrayed, mapping: tuple[Entry, Story] | None) -> None:
        """Report an access outside of what the kernel may use.

        mapping: what is mapped there in this run, and by whom, though the kernel has used the host's address. Was it
        mapped when the program was recorded? The run keeps every order that the program asks for. So it was, if the
        end of the mapping is ordered behind the kernel (`left`).
        """
        place = event.kernel, event.name, event.access.where
        if self._strayed.setdefault(place, event.access.writes) != event.access.writes:
            return
        if event.freed is not None:
            self._use_after_free(event, *event.freed)
            return
        name, now = event.name or UNKNOWN, self.strands.sim.now
        told = _story(event.kernel, f"{name} {event.how}" if event.name else event.how, event.access, now)
        if mapping is not None:
            strand = self.strands.current()
            told = _story(event.kernel, f"{mapping[0].name or 'data'} by the host's address", event.access, now)
            self._beside.setdefault(mapping[0], []).append((event.kernel, strand.chain, strand.epoch, mapping[1], told))
        elif (freed := self._ended_beside(event.host_address)) is not None:
            self._raced_with_end(event.kernel, freed.name, freed.story, told)
        else:
            advice = f"The kernel reaches beyond what is mapped: map the whole section of {name} that it uses."
            if not event.name:
                advice = "Map what the kernel uses."
            self.mistakes.add("outside of what is mapped", name, (told,), advice, name, (event.kernel, name))

    def _raced_with_end(self, kernel: str, name: str, mapped: Story, told: Story) -> None:
        advice = f"Nothing orders the kernel before the end of the mapping: wait for it, then unmap {name}."
        self.mistakes.add("race", name, (mapped, told), advice, name, (kernel, name), name)

    def left(self, entry: Entry, known: Clock | None) -> None:
        """Judge the kernels that have used the host's addresses of a mapping.

        known: what had happened before its end; None where the program did not end it.
        """
        name = entry.name or "data"
        for kernel, chain, epoch, mapped, told in self._beside.pop(entry, ()):
            if known is not None and known[chain] < epoch:
                self._raced_with_end(kernel, name, mapped, told)
                continue
            advice = (
                f"It is the host's address of {name}, which is mapped: give the kernel the device's "
                "(`use_device_ptr`, `use_device_addr`), or map what holds the address."
            )
            self.mistakes.add("outside of what is mapped", name, (mapped, told), advice, name, (kernel, name))

    def finish(self) -> None:
        """Judge what is left at the end of the program."""
        for entry in [*self._beside]:
            self.left(entry, None)

    def _ended_beside(self, address: int) -> _FreedBlock | None:
        """Return the device's copy of an address of the host that was freed before, though nothing orders the two."""
        strand = self.strands.current()
        for blocks in self._unmapped.values() if address else ():
            near = blocks.before(address)
            if near is not None and address < near[1].end and not strand.comes_after(near[1].chain, near[1].epoch):
                return near[1]
        return None

    def map_strayed(self, event: MapStrayed) -> None:
        """Report a map of more than an array has."""
        strand, name = self.strands.current(), event.name
        did = f"maps {event.nbytes} bytes of {name}, which has {max(0, event.there)} there"
        told = Story(strand.name, did, strand.source, self.strands.sim.now)
        self.mistakes.add("map beyond the array", name, (told,), "The copy reads or writes what lies behind it.", name)

    def constant_known(self, event: ConstantKnown) -> None:
        """Remember a constant."""
        if self._constants.get(event.address) is None:  # a library may have been loaded again
            self._constants[event.address] = event

    def copied_back(self, told: Story, begin: int) -> None:
        """Report a copy from the device that writes a constant."""
        found = self._constants.before(begin)
        if found is None or begin >= found[0] + found[1].nbytes:
            return
        name = found[1].name
        advice = (
            f"Nothing can be written there, and the program may crash: map {name} `to`. Where no clause names "
            "an array, it is mapped `tofrom`."
        )
        self.mistakes.add("write to a constant", name, (told,), advice, name)


def _story(kernel: str, what: str, access: KernelAccess, now: float) -> Story:
    verb = "writes" if access.writes else "reads"
    atomically = " atomically" if access.atomic else ""
    who = f"thread {access.thread} of team {access.team}"
    return Story(who, f"{verb} {what}{atomically} in kernel {plain_kernel(kernel)!r}", access.where, now)


@attrs.define(eq=False)
class Tasks:
    """The deferred tasks of a program, by what `TaskMade` calls them."""

    strands: Strands
    mistakes: Mistakes
    _made: dict[Hashable, Story] = attrs.field(factory=dict)
    _running: dict[Strand, Hashable] = attrs.field(factory=dict)
    _ends: dict[Hashable, Hashable] = attrs.field(factory=dict)

    def made(self, task: Hashable, name: str, where: str) -> None:
        """Let the running strand make a task."""
        maker = self.strands.current()
        who = maker.name if maker.deferred else f"task of {maker.name}"
        self._made[task] = Story(who, f"is {name}", where, self.strands.sim.now)
        self.strands.signalled(task)
        self.strands.concurrent = True

    def began(self, task: Hashable, after: tuple[Hashable, ...]) -> None:
        made = self._made[task]
        self.strands.began(made.who, (task, *after), True, made.where)
        self._running[self.strands.current()] = task

    def named(self, strand: Strand, source: str) -> None:
        """Take the line that a task comes to for its own, when none was known where it was made."""
        task = self._running.get(strand)
        if task is not None and not self._made[task].where:
            self._made[task] = attrs.evolve(self._made[task], where=source)

    def ended(self, what: Hashable) -> None:
        """Let the running strand, which may be a task, signal its end."""
        task = self._running.pop(self.strands.current(), None)
        if task is not None:
            self._ends[task] = what

    def finish(self) -> None:
        """Report the tasks that nobody has waited for."""
        for task, what in self._ends.items():
            if what not in self.strands.awaited:
                made = self._made[task]
                advice = "Nobody waits for this task before the program ends: a taskwait would."
                subject = f"a task of {made.where}" if made.where else f"a {made.who}"
                self.mistakes.add("never awaited", subject, (made,), advice)
