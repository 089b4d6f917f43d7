"""Who does what to which bytes, and the directive that it belongs to."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, Literal, Self, TypeVar

import attrs

from offloadrt.address_map import AddressMap
from offloadrt.extensions.checking.mistakes import Story
from offloadrt.extensions.checking.strands import Clock, Strand
from offloadrt.runtime.mapping.present_table import Entry

Role = Literal["", "enters", "uses", "leaves"]
"""How an access stands to the mapping of its block: the runtime itself orders the copy and the block of a map that
enters it, the uses of those who hold the mapping, and the copy and the free of the one that leaves it last."""


@attrs.define(eq=False)
class WatchedBlock:
    """A block of device memory. entry: the mapping that it was allocated for; cause: of the directive that did so.

    end_unseen: another array of the host may lie where this one's was (`EndUnseen`). was_used: kernels have used what
    an earlier mapping had of the same bytes.
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
    """A directive while it runs. waiting: what is in its queue behind a kernel of which only its run shows the uses."""

    number: int
    device: int
    name: str
    where: str
    strand: Strand
    time_s: float
    kernel: str = ""
    waiting: list[Any] | None = None
    clock: Clock | None = None
    """In a queue: what comes before that which is being done; its strand may be further."""
    held: int = 0
    """How much of what it has put into a queue is held back (`Queued`)."""
    is_ordered: bool = False
    """Whether a part of it comes after what is in a queue."""
    has_left: bool = False
    is_refused: bool = False
    """Whether a mistake that was found says why the driver library refuses its copy."""

    @property
    def maps(self) -> bool:
        """Tell whether its copies are those of map clauses: not those of `target update`, nor of a routine."""
        return self.name.startswith("target") and "update" not in self.name

    def story(self, did: str, now: float) -> Story:
        """Tell what the directive does. did: with a verb."""
        return Story(self.strand.name, did, self.where, now)

    def access(
        self, now: float, memory: int, begin: int, end: int, writes: bool, exact: bool, did: str, name: str,
        role: Role = "", block: WatchedBlock | None = None, atomic: bool = False, maps: int | None = None,
    ) -> Access:  # fmt: skip
        """Make an access of the directive, or of its kernel. did: `Access.did`."""
        strand, clock = self.strand, self.clock
        epoch = strand.epoch if clock is None else clock[strand.chain]
        return Access(
            memory, begin, end, writes, exact, strand, epoch, did, self.where, now, name, role, block, atomic,
            maps, clock,
        )  # fmt: skip


Action = Callable[[], None]
"""Tells the state machines of a part of a directive."""


@attrs.define(eq=False)
class Queued:
    """Holds back what is put into queues behind kernels of which only their run shows the uses.

    Whatever is submitted later to a queue, or comes after one, is held back as well, so that the state machines are
    told of it in an order that the program allows. A thread that has waited for a queue finds nothing held back there.
    """

    _held: deque[tuple[Directive, Clock | None, Action | None]] = attrs.field(factory=deque)

    def hold(self, directive: Directive, action: Action) -> bool:
        """Hold an action of a directive back; returns False where nothing is to be awaited."""
        if not self._held or not (directive.strand.is_queue or directive.is_ordered):
            return False
        self._add(directive, action)
        return True

    def expect(self, directive: Directive) -> None:
        """Hold back what comes now until the kernel of a directive has run."""
        self._add(directive, None)

    def _add(self, directive: Directive, action: Action | None) -> None:
        directive.held += 1
        self._held.append((directive, directive.clock, action))

    def ran(self, directive: Directive, action: Action) -> Iterator[Directive]:
        """Do what a kernel that has run was awaited for; yields the directives of which something was done."""
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
    """Bytes [begin, end) of a memory are read or written; all of them if it is exact, else some."""

    memory: int
    begin: int
    end: int
    writes: bool
    exact: bool
    strand: Strand
    epoch: int
    did: str
    """What it is, with a verb: ``writes a in kernel 'scale' of target``."""
    where: str
    time_s: float
    name: str
    role: Role = ""
    block: WatchedBlock | None = None
    atomic: bool = False
    """It races with no other atomic one."""
    maps: int | None = None
    """Of a copy that a map makes: the number of its device."""
    clock: Clock | None = None
    """What comes before it, where its strand may have gone on."""

    def follows(self, earlier: Access) -> bool:
        """Tell whether the program orders it behind another."""
        clock = self.strand.clock if self.clock is None else self.clock
        return clock[earlier.strand.chain] >= earlier.epoch

    def stands_for(self, earlier: Access) -> bool:
        """Tell whether whatever races with an earlier access to the same bytes races with this one as well."""
        alike = self.site == earlier.site and self.role == earlier.role and self.block is earlier.block
        same_bytes = (self.exact and earlier.exact) or (self.begin, self.end) == (earlier.begin, earlier.end)
        return alike and same_bytes and self.maps == earlier.maps and self.follows(earlier)

    @property
    def site(self) -> tuple[str, str]:
        """Return the place in the program."""
        return self.did, self.where

    @property
    def story(self) -> Story:
        return Story(self.strand.name, self.did, self.where, self.time_s)

    def surely_meets(self, other: Access) -> bool:
        """Tell whether some byte is certainly touched by both, which overlap."""
        if self.exact and other.exact:
            return True
        if self.exact:
            return self.begin <= other.begin and other.end <= self.end
        return other.exact and other.begin <= self.begin and self.end <= other.end


@attrs.define(eq=False)
class Cell:
    """What is known of the addresses [begin, end)."""

    begin: int
    end: int

    def part(self, begin: int, end: int) -> Self:
        """Return the same for a part of them."""
        raise NotImplementedError


C = TypeVar("C", bound=Cell)


class Intervals(Generic[C]):
    """Cells in order of their addresses; `make(begin, end)` gives the cell of what nobody has used yet.

    The addresses are one sorted list, as in `AddressMap`.
    """

    def __init__(self, make: Callable[[int, int], C]) -> None:
        self._make = make
        self._begins: list[int] = []
        self._cells: dict[int, C] = {}

    def cut(self, begin: int, end: int) -> list[C]:
        """Return the cells of [begin, end), in order; there is one for every byte, and none reaches outside."""
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
        """Tell whether something is known of [begin, end)."""
        last = bisect_left(self._begins, end)
        return last > 0 and self._cells[self._begins[last - 1]].end > begin

    def forget(self, begin: int, end: int) -> None:
        """Forget what is known of [begin, end)."""
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
        """Forget what is known of [begin, end), and return its one new cell."""
        self.forget(begin, end)
        return self._add(begin, end) if begin < end else self._make(begin, end)

    def join(self, cells: list[C], alike: Callable[[C, C], bool]) -> None:
        """Make one cell of neighbours that are alike; cells: as `cut` gives them."""
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
        """Let no cell lie on both sides of an address; returns the place of the first cell behind it."""
        place = bisect_left(self._begins, at)
        if place and at < (cell := self._cells[self._begins[place - 1]]).end:
            self._cells[at] = cell.part(at, cell.end)
            cell.end = at
            self._begins.insert(place, at)
        return place


@attrs.define(eq=False)
class Memories:
    """What lies in the memory of each device now."""

    _blocks: dict[int, AddressMap[WatchedBlock]] = attrs.field(factory=dict)
    _entries: dict[int, AddressMap[Entry]] = attrs.field(factory=dict)

    def add_block(self, block: WatchedBlock) -> None:
        blocks = self._blocks.setdefault(block.device, AddressMap())
        blocks.pop(block.begin)
        blocks[block.begin] = block

    def pop_block(self, device: int, begin: int) -> WatchedBlock | None:
        """Remove the block that begins at an address, and return it; None if there is none."""
        blocks = self._blocks.get(device)
        return None if blocks is None else blocks.pop(begin)

    def block_at(self, device: int, address: int) -> WatchedBlock | None:
        """Return the block that holds an address."""
        blocks = self._blocks.get(device)
        near = None if blocks is None else blocks.before(address)
        return near[1] if near is not None and address < near[1].end else None

    @property
    def leaked(self) -> list[WatchedBlock]:
        """Return the blocks of `omp_target_alloc` that are there still."""
        return [block for blocks in self._blocks.values() for block in blocks if block.by_routine]

    def add_entry(self, device: int, entry: Entry) -> None:
        entries = self._entries.setdefault(device, AddressMap())
        entries.pop(entry.device_begin)
        if entry.size:
            entries[entry.device_begin] = entry

    def pop_entry(self, device: int, entry: Entry) -> None:
        self._entries[device].pop(entry.device_begin)

    def entry_at(self, device: int, address: int) -> Entry | None:
        """Return the mapping whose device memory holds an address."""
        entries = self._entries.get(device)
        near = None if entries is None else entries.before(address)
        return near[1] if near is not None and address < near[0] + near[1].size else None

    def is_elsewhere(self, device: int, address: int) -> bool:
        """Tell whether other devices have copies of what lies at an address of a device, too."""
        entry = self.entry_at(device, address)
        others = [entries for number, entries in self._entries.items() if number != device]
        return entry is not None and any(
            other.host_begin < entry.host_end and entry.host_begin < other.host_end
            for entries in others
            for other in entries
        )

    def is_mapped(self, host_address: int) -> bool:
        """Tell whether some device has a copy of what lies at an address of the host."""
        return any(
            entry.host_begin <= host_address < entry.host_end for entries in self._entries.values() for entry in entries
        )
