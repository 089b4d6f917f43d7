"""Accesses of a program to memory: which bytes, by which strand, in which directive; and what lies on each device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, Literal, Self, TypeVar

import attrs

from offloadrt.address_map import AddressMap
from offloadrt.extensions.checking.mistakes import Story
from offloadrt.extensions.checking.recorded import KernelCopied
from offloadrt.extensions.checking.strands import Clock, Strand
from offloadrt.runtime.events import HOST
from offloadrt.runtime.mapping.present_table import Entry

Role = Literal["", "enters", "uses", "leaves", "repeats", "updates"]
"""The part that an access has in the mapping of its block. "enters": the map that creates the entry, with its copy to
the device; the runtime orders the allocation and this copy. "uses": a kernel of a directive that holds a reference.
"leaves": the unmap that drops the last reference, with its copy back and the free. "updates": a `target update`. "":
none of these.
"""


@attrs.define(eq=False)
class WatchedBlock:
    """A block of device memory, from its allocation to its free, as the checker follows it.

    entry: the mapping that it was allocated for; None for a block of no mapping. cause: the number of the directive
    that allocated it. by_routine: whether the program itself allocated it (`omp_target_alloc`). end_unseen: the host's
    array may have ended unnoticed, so another one may lie at its address (`EndUnseen`). was_used: kernels have used the
    same host bytes in an earlier mapping. begin, end: its device addresses [begin, end). allocated: the report line on
    who allocated it. is_freed: whether it has been freed since.
    """

    device: int
    begin: int
    end: int
    name: str
    allocated: Story
    entry: Entry | None = None
    cause: int = 0
    by_routine: bool = False
    end_unseen: bool = False
    was_used: bool = False
    is_freed: bool = False


@attrs.define(eq=False)
class Directive:
    """What the checker knows of a directive while the directive runs.

    strand: the host thread, task or queue that runs it. waiting: its copies that are checked after its kernel has run,
    because only the run shows which bytes the kernel uses; None if there is no such kernel. number: identifies the
    directive; events name it as their `cause`. where: its line in the program. time_s: when it began, in virtual
    seconds.
    """

    number: int
    device: int
    name: str
    where: str
    strand: Strand
    time_s: float
    kernel: str = ""
    """The name of its kernel; empty if it launches none."""
    waiting: list[Any] | None = None
    clock: Clock | None = None
    """For work in a queue: the vector clock of what had happened before this work. The clock of the queue itself may
    have advanced since.
    """
    held: int = 0
    """How many of its events `Queued` keeps back, to be checked when earlier kernels have run."""
    is_ordered: bool = False
    """Whether some of its work must come after other work in a queue."""
    has_left: bool = False
    """Whether the thread has returned from the directive; work that it put into a queue may still be under way."""
    entries: dict[Entry, int] = attrs.field(factory=dict)
    """The mappings that its maps have found or made; the value is the device's number."""
    old: Story | None = None
    """The report line on who made the mapping among `entries` that LLVM had kept though the program had ended it; the
    last one that was found."""
    old_arrays: set[str] = attrs.field(factory=set)
    """Names of the arrays that it maps for which it found a mapping as in `old`, perhaps of another array."""
    repeated: set[tuple[str, int]] = attrs.field(factory=set)
    """The copies (h2d or d2h, host address) of its maps that LLVM makes though OpenMP asks for none."""
    gone: tuple[str, Story] | None = None
    """An array of which it found no mapping, and the report line on the release of the mapping, unordered with it."""
    returned: dict[int, int] = attrs.field(factory=dict)
    """What its maps copy back to the host at the end: the number of bytes, by host address."""
    always: set[int] = attrs.field(factory=set)
    """The host addresses of sections that its maps copy in any case (`always`)."""
    copied: list[KernelCopied] = attrs.field(factory=list)
    """The bytes that its kernel reads only because it copies whole objects: some may be padding, which nobody ever
    writes.
    """
    is_refused: bool = False
    """Whether a mistake that was reported explains why the driver library refuses its copy."""

    @property
    def maps(self) -> bool:
        """Tell whether the directive's copies come from map clauses, and not from `target update` or a routine."""
        return self.name.startswith("target") and "update" not in self.name

    def story(self, did: str, now: float) -> Story:
        """Return the line of a report about what the directive did; `did` begins with a verb, as in ``writes a``.

        now: the virtual time in seconds.
        """
        return Story(self.strand.name, did, self.where, now)

    def access(
        self, now: float, memory: int, begin: int, end: int, writes: bool, exact: bool, did: str, name: str,
        role: Role = "", block: WatchedBlock | None = None, atomic: bool = False, maps: int | None = None,
    ) -> Access:  # fmt: skip
        """Make an `Access` of this directive, or of its kernel, to the bytes [begin, end) of a memory.

        now: its `time_s`. memory: the number of a device, or HOST. did: what it does, beginning with a verb, for
        reports. name: the array. writes: whether it is a write. exact: whether it is to every byte of the range, or
        else to some. role: what it does for a mapping (`Role`). block: the device block in which it lies. atomic:
        whether it is one atomic operation. maps: for a copy of a map clause, the number of the device.
        """
        strand, clock = self.strand, self.clock
        epoch = strand.epoch if clock is None else clock[strand.chain]
        return Access(
            memory, begin, end, writes, exact, strand, epoch, did, self.where, now, name, role, block, atomic,
            maps, clock,
        )  # fmt: skip


Action = Callable[[], None]
"""Passes one part of a directive on to the checker's state machines (races, versions, lifetimes, waste)."""


@attrs.define(eq=False)
class Queued:
    """Delays the check of work behind a kernel in a queue, if only the kernel's run shows what memory it accesses.

    Everything that is submitted to a queue later, or that is ordered behind a queue, is delayed as well. So the parts
    of the checker that look for races or stale data get the events in an order that the program allows. When a thread
    has waited for a queue, no event of the queue is delayed any more.
    """

    _held: deque[tuple[Directive, Clock | None, Action | None]] = attrs.field(factory=deque)

    def hold(self, directive: Directive, action: Action) -> bool:
        """Delay the check of an event of a directive until earlier kernels have run; return whether it is delayed.

        action: a function that checks the event. If False is returned, no earlier kernel is outstanding, and the caller
        must call `action` itself.
        """
        if not self._held or not (directive.strand.is_queue or directive.is_ordered):
            return False
        self._add(directive, action)
        return True

    def expect(self, directive: Directive) -> None:
        """Delay the check of all events from now on, until the kernel of this directive has run."""
        self._add(directive, None)

    def _add(self, directive: Directive, action: Action | None) -> None:
        directive.held += 1
        self._held.append((directive, directive.clock, action))

    def ran(self, directive: Directive, action: Action) -> Iterator[Directive]:
        """Check a directive's kernel, which has run, and then the events that were delayed until then.

        action: checks the kernel. Yields the directives to which the delayed events belong, one after the other.
        """
        place = next(place for place, (one, _, known) in enumerate(self._held) if one is directive and known is None)
        self._held[place] = directive, self._held[place][1], action
        while self._held and (first := self._held[0])[2] is not None:
            self._held.popleft()
            done, clock, known = first
            now, done.clock = done.clock, clock
            if known is not None:
                known()
            done.clock = now
            done.held -= 1
            yield done


@attrs.frozen(eq=False)
class Access:
    """A read or a write of bytes [begin, end) of a memory: of every byte if `exact`, else of at least one of them.

    memory: the number of a device, or HOST. strand: the host thread, task or queue that makes the access. epoch: the
    number of the strand's part, between two of its signals, in which the access lies. where: the line of the program.
    time_s: virtual seconds. name: the array. writes: whether it is a write. role: what the access does for the mapping
    of its block: it makes the mapping, uses it, updates it or ends it (`Role`). block: the block of device memory
    accessed; None for host memory.
    """

    memory: int
    begin: int
    end: int
    writes: bool
    exact: bool
    strand: Strand
    epoch: int
    did: str
    """What the access does, beginning with a verb: ``writes a in kernel 'scale' of target``."""
    where: str
    time_s: float
    name: str
    role: Role = ""
    block: WatchedBlock | None = None
    atomic: bool = False
    """Whether it is atomic. Two atomic accesses never race."""
    maps: int | None = None
    """For a copy made by a map clause: the number of the device; None for all other accesses."""
    clock: Clock | None = None
    """The vector clock of what had happened before the access; None if that is still the clock of its strand."""
    is_kept: Callable[[], bool] | None = None
    """For an update: tells whether a reference certainly keeps the block mapped from before the access until after it.
    """
    thread: int | None = None
    """The host thread, if the task has asked which thread runs it, as code does that uses data of the thread's own."""

    def follows(self, earlier: Access) -> bool:
        """Tell whether the program's synchronization orders this access after an earlier one."""
        clock = self.strand.clock if self.clock is None else self.clock
        return clock[earlier.strand.chain] >= earlier.epoch

    def stands_for(self, earlier: Access) -> bool:
        """Tell whether all later accesses that race with `earlier` also race with this one, which replaces it then."""
        alike = self.site == earlier.site and self.role == earlier.role and self.block is earlier.block
        same_bytes = (self.exact and earlier.exact) or (self.begin, self.end) == (earlier.begin, earlier.end)
        same_rules = self.maps == earlier.maps and self.thread == earlier.thread
        return alike and same_bytes and same_rules and self.follows(earlier)

    @property
    def site(self) -> tuple[str, str]:
        """Return what identifies the access in reports: what it does, and its line in the program.

        Accesses with equal sites are reported once.
        """
        return self.did, self.where

    @property
    def place(self) -> str:
        """Return the name of the memory that is accessed, such as host memory or a device's, for reports."""
        return "on the host" if self.memory == HOST else f"on device {self.memory}"

    @property
    def story(self) -> Story:
        return Story(self.strand.name, self.did, self.where, self.time_s)

    def surely_meets(self, other: Access) -> bool:
        """Tell whether two accesses with overlapping ranges certainly touch a common byte.

        An access that is not `exact` may touch only some bytes of its range. other: an access whose range overlaps.
        """
        if self.exact and other.exact:
            return True
        if self.exact:
            return self.begin <= other.begin and other.end <= self.end
        return other.exact and other.begin <= self.begin and self.end <= other.end


@attrs.define(eq=False)
class Cell(ABC):
    """A range of addresses [begin, end) whose bytes are all in the same state, as far as a part of the checker knows.

    Subclasses add that state, such as the last accesses.
    """

    begin: int
    end: int

    @abstractmethod
    def part(self, begin: int, end: int) -> Self:
        """Return a cell for some of this cell's addresses, [begin, end), in the same state."""


C = TypeVar("C", bound=Cell)


class Intervals(Generic[C]):
    """A memory as a list of cells that do not overlap: ranges of addresses whose bytes are in the same state.

    `make(begin, end)` creates the cell for addresses that nobody has used yet. The addresses are one sorted list, as in
    `AddressMap`.
    """

    def __init__(self, make: Callable[[int, int], C]) -> None:
        self._make = make
        self._begins: list[int] = []
        self._cells: dict[int, C] = {}

    def cut(self, begin: int, end: int) -> list[C]:
        """Return the cells that cover just the addresses [begin, end), in order.

        Cells that reach beyond the range are split, and cells are made for addresses without a cell.
        """
        if begin >= end:
            return []
        exact = self._cells.get(begin)
        if exact is not None and exact.end == end:
            return [exact]
        first, last = self._split(begin), self._split(end)
        cells: list[C] = []
        at = begin
        for start in self._begins[first:last]:
            if at < start:
                cells.append(self._add(at, start))
            cells.append(cell := self._cells[start])
            at = cell.end
        if at < end:
            cells.append(self._add(at, end))
        return cells

    def holds(self, begin: int, end: int) -> bool:
        """Tell whether there is a cell for any byte of [begin, end)."""
        last = bisect_left(self._begins, end)
        return last > 0 and self._cells[self._begins[last - 1]].end > begin

    def forget(self, begin: int, end: int) -> None:
        """Remove all cells of the addresses [begin, end), and with them what was known of these bytes."""
        if begin >= end:
            return
        last = self._split(end)
        first = bisect_left(self._begins, begin)
        if first and (cell := self._cells[self._begins[first - 1]]).end > begin:
            cell.end = begin
        if first < last:
            for start in self._begins[first:last]:
                del self._cells[start]
            del self._begins[first:last]

    def replace(self, begin: int, end: int) -> C:
        """Replace the cells of [begin, end) by one new cell, and return it.

        The new cell is as `make` creates it, without any earlier access.
        """
        self.forget(begin, end)
        return self._add(begin, end) if begin < end else self._make(begin, end)

    def join(self, cells: list[C], alike: Callable[[C, C], bool]) -> None:
        """Merge neighbouring cells that are in the same state, as `alike` tells for each pair.

        cells: a list that `cut` has returned.
        """
        kept = cells[:1]
        for cell in cells[1:]:
            if alike(kept[-1], cell):
                del self._cells[cell.begin]
                kept[-1].end = cell.end
            else:
                kept.append(cell)
        if len(kept) < len(cells):
            first = bisect_left(self._begins, cells[0].begin)
            self._begins[first : first + len(cells)] = [cell.begin for cell in kept]

    def _add(self, begin: int, end: int) -> C:
        cell = self._cells[begin] = self._make(begin, end)
        insort(self._begins, begin)
        return cell

    def _split(self, at: int) -> int:
        """Split the cell that spans an address; return the index of the first cell at or behind the address."""
        place = bisect_left(self._begins, at)
        if place and at < (cell := self._cells[self._begins[place - 1]]).end:
            self._cells[at] = cell.part(at, cell.end)
            cell.end = at
            self._begins.insert(place, at)
        return place


@attrs.define(eq=False)
class Memories:
    """The blocks of device memory and the mappings that exist on each device at the moment, by address."""

    _blocks: dict[int, AddressMap[WatchedBlock]] = attrs.field(factory=dict)
    _entries: dict[int, AddressMap[Entry]] = attrs.field(factory=dict)

    def add_block(self, block: WatchedBlock) -> None:
        blocks = self._blocks.setdefault(block.device, AddressMap())
        blocks.pop(block.begin)
        blocks[block.begin] = block

    def pop_block(self, device: int, begin: int) -> WatchedBlock | None:
        """Remove the block that begins at a device address, and return the block; None if there is none.

        begin: that address.
        """
        blocks = self._blocks.get(device)
        return None if blocks is None else blocks.pop(begin)

    def block_at(self, device: int, address: int) -> WatchedBlock | None:
        """Return the block that holds an address of a device; None if there is none."""
        blocks = self._blocks.get(device)
        near = None if blocks is None else blocks.before(address)
        return near[1] if near is not None and address < near[1].end else None

    @property
    def leaked(self) -> list[WatchedBlock]:
        """Return the blocks that `omp_target_alloc` allocated and nobody has freed."""
        return [block for blocks in self._blocks.values() for block in blocks if block.by_routine]

    def add_entry(self, device: int, entry: Entry) -> None:
        entries = self._entries.setdefault(device, AddressMap())
        entries.pop(entry.device_begin)
        if entry.size:
            entries[entry.device_begin] = entry

    def pop_entry(self, device: int, entry: Entry) -> None:
        self._entries[device].pop(entry.device_begin)

    def entry_at(self, device: int, address: int) -> Entry | None:
        """Return the mapping whose device memory holds an address; None if there is none."""
        entries = self._entries.get(device)
        near = None if entries is None else entries.before(address)
        return near[1] if near is not None and address < near[0] + near[1].size else None

    def is_elsewhere(self, device: int, address: int) -> bool:
        """Tell whether the host data that is mapped at this device address is also mapped on another device."""
        entry = self.entry_at(device, address)
        others = [entries for number, entries in self._entries.items() if number != device]
        return entry is not None and any(
            other.host_begin < entry.host_end and entry.host_begin < other.host_end
            for entries in others
            for other in entries
        )

    def is_mapped(self, host_address: int) -> bool:
        """Tell whether a mapping on some device covers an address of the host."""
        return any(
            entry.host_begin <= host_address < entry.host_end for entries in self._entries.values() for entry in entries
        )
