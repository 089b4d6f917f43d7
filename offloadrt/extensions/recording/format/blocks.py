"""Memory while a recording is made: in which host array, and in which block of a device, an address lies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Final

import attrs
import numpy as np

from offloadrt.address_map import AddressMap
from offloadrt.extensions.recording.format.recording import (
    NONE,
    ArrayEnd,
    Column,
    ListTable,
    OmptOperation,
    RecordedArray,
    TaskKind,
    TaskRow,
)
from offloadrt.extensions.recording.format.slots import (
    EXACT,
    LATE,
    LOADS,
    MAYBE_STORED,
    NEW_BLOCK,
    SCRATCH,
    STORES,
    UNNAMED,
    Row,
    a_of,
)

_ADDRESS_BITS = 48
_SERIALS = 1 << 15
"""The number of distinct prefixes, in bits above those of addresses, that tell blocks of omp_target_alloc apart."""


@attrs.define(eq=False)
class HostBlock:
    """An array of the host while it exists.

    `number` is its index in the recording's table of arrays, which it gets when it is first used. address: that of its
    first byte. origin: how it came to be, such as ``malloc`` or ``global`` (see `RecordedArray`).
    """

    address: int
    nbytes: int
    origin: str
    name: str = ""
    number: int = NONE
    pointer: int = 0
    """For a `declare target link` global: the address of the pointer by which the device finds it."""
    own: int = 0
    """The size in bytes that the program gave it, if a map reaches beyond its end; 0: `nbytes` is that size."""
    parts: list[int] = attrs.field(factory=list)
    """The numbers of arrays that were merged into this one."""
    where: str = ""
    """The line of the source that allocates it, if that is known."""
    is_watched: bool = False
    """Whether all uses of it by the host are recorded: it is a variable, or the program's own code allocated it."""
    is_unnamed: bool = False
    """Whether no directive names it."""
    freed_by: int = NONE
    """The number of the task that has freed it."""

    @property
    def title(self) -> str:
        """Return the array's name, or else its size and the line that allocates it, without the source's folder."""
        return self.name or f"{self.origin} {self.nbytes} B" + (
            f" of {PurePath(self.where).name}" if self.where else ""
        )

    def holds(self, address: int, nbytes: int) -> bool:
        """Tell whether all the bytes [address, address + nbytes) lie in the array."""
        return self.address <= address and address + nbytes <= self.address + self.nbytes


def _overlapping(blocks: AddressMap[HostBlock], address: int, nbytes: int) -> list[HostBlock]:
    found = []
    place = address + max(1, nbytes) - 1
    while (near := blocks.before(place)) is not None and near[0] + near[1].nbytes > address:
        found.append(near[1])
        place = near[0] - 1
    return found[::-1]


@attrs.frozen
class ArrayPlace:
    """Where an array finally lies: its index in the recording's table, and the address where it begins.

    Both are known at the end only: an array may have grown downwards, or been merged into another one. number: that
    index. address: that of the first byte.
    """

    number: int
    address: int


@attrs.define(eq=False)
class HostArrays:
    """The host's arrays, as far as a recorder knows them: allocations, globals, and other memory that map items cover.

    Stacks and small blocks are not reported to the recorder. Of them, only the address ranges of map items are known:
    ranges that overlap make one array, which grows. In its methods, `address` is that of the first byte.
    """

    used: list[HostBlock] = attrs.field(factory=list)
    """The arrays that directives or kernels use, by number."""
    on_new: Callable[[HostBlock], None] = lambda block: None
    """Called with each array that becomes known, or grows, because an item maps it."""
    _live: AddressMap[HostBlock] = attrs.field(factory=AddressMap)
    _freed: AddressMap[HostBlock] = attrs.field(factory=AddressMap)
    """Allocations that the program has freed, until other memory is allocated there."""
    _ended: dict[tuple[int, int, str], HostBlock] = attrs.field(factory=dict)
    """By (address, bytes, name): stack variables whose scope has ended. The next call of their function finds them
    again.
    """

    def allocate(self, address: int, nbytes: int, origin: str, name: str = "") -> HostBlock:
        """Add an allocation to the arrays; arrays that were known at these addresses count as ended.

        origin: how it came to be, such as ``malloc`` (see `RecordedArray`). Returns the new array.
        """
        block = HostBlock(address, nbytes, origin, name)
        if nbytes:  # an empty array may lie inside another one
            for old in self.overlapping(address, nbytes):
                self._live.pop(old.address)
            for old in _overlapping(self._freed, address, nbytes):
                self._freed.pop(old.address)
            self._live[address] = block
        return block

    def free(self, address: int) -> HostBlock | None:
        """End the allocation that begins at an address, and return its array; None if none begins there."""
        block = self._live.get(address)
        if block is None or block.origin not in ("malloc", "scratch", "small"):
            return None
        self._live.pop(address)
        for old in _overlapping(self._freed, address, block.nbytes):
            self._freed.pop(old.address)
        self._freed[address] = block
        return block

    def end_mapped(self, address: int, nbytes: int) -> list[HostBlock]:
        """End all arrays in [address, address + nbytes) that are known from map items only, and return them."""
        ended = [
            block
            for block in self.overlapping(address, nbytes)
            if block.origin == "mapped"
            and address <= block.address
            and block.address + block.nbytes <= address + nbytes
        ]
        for block in ended:
            self._live.pop(block.address)
            self._ended[block.address, block.nbytes, block.name] = block
        return ended

    def gone_at(self, address: int, nbytes: int) -> HostBlock | None:
        """Return the freed allocation that held these bytes; None if there was none, or other memory lies there now."""
        near = self._freed.before(address)
        return near[1] if near is not None and near[1].holds(address, nbytes) else None

    def at(self, address: int) -> HostBlock | None:
        """Return the array at an address; None if none is known there."""
        found = self._live.before(address)
        return None if found is None or address >= found[0] + max(1, found[1].nbytes) else found[1]

    def spanned(self, address: int, nbytes: int, name: str) -> HostBlock:
        """Return the array that holds a map item's bytes; if none is known there, extend a neighbour or make one.

        address, nbytes: these bytes. name: the array's name.
        """
        block = self.at(address)
        if block is None or (block.origin == "mapped" and not block.holds(address, nbytes)):
            block = self._grown(address, max(1, nbytes), name)
        elif not block.holds(address, nbytes):
            self._lengthen(block, address + nbytes)
        return self.use(block, name)

    def _lengthen(self, block: HostBlock, end: int) -> None:
        """Let an array grow to `end`, because a map reaches that far, if no other array is known there."""
        after = block.address + block.nbytes
        if not self.overlapping(after, end - after):
            block.own, block.nbytes = block.own or block.nbytes, end - block.address

    def _grown(self, address: int, nbytes: int, name: str) -> HostBlock:
        mapped = [block for block in self.overlapping(address, nbytes) if block.origin == "mapped"]
        low = min([address, *(block.address for block in mapped)])
        high = max([address + nbytes, *(block.address + block.nbytes for block in mapped)])
        freed = self._freed.get(low)
        if not mapped and freed is not None and freed.nbytes == high - low:
            self._live[low] = freed  # a thread maps what another one has freed already
            return freed
        if not mapped:
            block = self._ended.pop((low, high - low, name), None) or HostBlock(low, high - low, "mapped", name)
            self._live[low] = block
            self.on_new(block)
            return block
        first, *others = mapped
        for block in mapped:
            self._live.pop(block.address)
        first.address, first.nbytes = low, high - low
        for block in others:
            if block.number == NONE:
                continue
            # References to it or to its parts now mean the array into which it was merged.
            first.parts += [block.number, *block.parts]
            for number in (block.number, *block.parts):
                self.used[number] = first
            if first.number == NONE:
                first.number = block.number
        self._live[low] = first
        self.on_new(first)
        return first

    def use(self, block: HostBlock, name: str = "") -> HostBlock:
        """Give array `block` a number at its first use by a directive or kernel, and maybe a name; return the array."""
        if block.number == NONE:
            block.number = len(self.used)
            self.used.append(block)
        block.name = block.name or name
        return block

    def overlapping(self, address: int, nbytes: int) -> list[HostBlock]:
        """Return the live arrays that overlap a range of addresses, lowest first."""
        return _overlapping(self._live, address, nbytes)

    def _separate(self) -> None:
        """Let small blocks at whose addresses other arrays were, too, exist only from when they become known."""
        end, last = 0, None
        for block in sorted(self.used, key=lambda one: one.address):
            if block.address < end and block is not last:
                for one in (block, last):
                    if one is not None and one.origin == "small":
                        one.origin = "malloc"
            if block.address + block.nbytes > end:
                end, last = block.address + block.nbytes, block

    def table(self) -> tuple[tuple[RecordedArray, ...], list[ArrayPlace]]:
        """Return the final arrays of the recording, and for each array's number where the array finally lies.

        It may lie in another array, into which it was merged.
        """
        self._separate()
        places: dict[int, int] = {}
        known: list[ArrayPlace] = []
        arrays: list[RecordedArray] = []
        for block in self.used:
            if id(block) not in places:
                places[id(block)] = len(arrays)
                arrays.append(
                    RecordedArray(block.title, block.address, block.nbytes, block.origin, block.pointer, block.own)
                )
            known.append(ArrayPlace(places[id(block)], block.address))
        return tuple(arrays), known


@attrs.frozen
class DeviceBlock:
    """A block of device memory while it exists.

    `device` is its address on the recording machine. `host` is the host address that it is a copy of; 0 for
    omp_target_alloc and for the block with a region's private values. `recorded` is its address in the recording. For
    omp_target_alloc that address is made unique: several blocks may have used the same memory one after the other, and
    a replay may allocate the later block before it frees the earlier one.
    """

    device: int
    host: int
    nbytes: int
    recorded: int
    task: TaskRow | None = None
    """The task whose directive maps it."""
    is_given: bool = False
    """Whether omp_target_alloc allocated it."""


@attrs.define(eq=False)
class DeviceBlocks:
    """The blocks of device memory, by their addresses on the recording machine."""

    _live: AddressMap[DeviceBlock] = attrs.field(factory=AddressMap)
    _copies: AddressMap[list[DeviceBlock]] = attrs.field(factory=AddressMap)
    """By host address: the blocks that are copies of it, of which several devices may have one."""
    _gone: AddressMap[DeviceBlock] = attrs.field(factory=AddressMap)
    """Blocks that were freed, until other blocks overlap their addresses."""
    _given: int = 0
    """How many blocks omp_target_alloc has allocated."""

    def add(self, device: int, host: int, nbytes: int, task: TaskRow | None = None, *, of_region: bool = False) -> None:
        """Add a block of device memory.

        device: its device address. host: the host address that it is a copy of; 0: none. task: the task whose call
        allocates it; None if it is not known. of_region: a target region allocates it; a block without `host` that no
        region allocates is omp_target_alloc's.
        """
        recorded, is_given = device, not host and not of_region
        if is_given:
            recorded += self._given % _SERIALS << _ADDRESS_BITS
            self._given += 1
        self.remove(device)
        while (old := self._gone.before(device + max(1, nbytes) - 1)) is not None and old[0] + old[1].nbytes > device:
            self._gone.pop(old[0])
        block = self._live[device] = DeviceBlock(device, host, nbytes, recorded, task, is_given)
        if host and (copies := self._copies.get(host)) is not None:
            copies.append(block)
        elif host:
            self._copies[host] = [block]

    def recorded(self, address: int) -> int:
        """Return the address that the recording uses in place of a device address of the real run.

        It differs only in blocks of omp_target_alloc, whose addresses are made unique.
        """
        block = self.at(address) or self.gone_at(address)
        return address if block is None else block.recorded + address - block.device

    def given(self, address: int) -> int:
        """Return the recording's address for a device address inside a block of omp_target_alloc; 0 for any other."""
        block = self.at(address) or self.gone_at(address)
        return self.recorded(address) if block is not None and block.is_given else 0

    def remove(self, device: int) -> None:
        block = self._live.pop(device)
        if block is not None and block.nbytes:
            self._gone.pop(device)
            self._gone[device] = block
        if block is not None and (copies := self._copies.get(block.host)) is not None:
            copies.remove(block)
            if not copies:
                self._copies.pop(block.host)

    def copy_of(self, host: int, nbytes: int) -> DeviceBlock | None:
        """Return a block that is a copy of some of these host bytes, the newest of several; None if there is none."""
        found = self._copies.before(host + nbytes - 1)
        copies = [] if found is None else found[1]
        return next((copy for copy in copies if host < copy.host + copy.nbytes), None)

    def at(self, address: int) -> DeviceBlock | None:
        """Return the block that holds a device address of the recording machine; None if there is none."""
        found = self._live.before(address)
        return None if found is None or address >= found[0] + found[1].nbytes else found[1]

    def gone_at(self, address: int) -> DeviceBlock | None:
        """Return the freed block that covered a device address; None without any, or if another lies there now."""
        found = self._gone.before(address)
        return None if found is None or address >= found[0] + found[1].nbytes else found[1]


STRETCH: Final = 64 << 10
_MOST_FINDINGS: Final = 20
"""The largest number of findings that are kept."""


@attrs.define(eq=False)
class SeparateCopies:
    """Finds out whether a program needs separate copies of its data on host and device.

    Such a program goes wrong with shared memory. For each stretch of 64 KiB, it tracks whether the host or the device
    wrote last. findings: sentences on where the program relies on separate copies. block, address, in its methods: the
    host array, and where these bytes begin in the host's memory.
    """

    findings: dict[str, None] = attrs.field(factory=dict)
    _mapped: dict[int, int] = attrs.field(factory=dict)
    """By stretch: how many blocks of device memory hold it now."""
    _host_newer: set[int] = attrs.field(factory=set)
    _device_newer: dict[int, str] = attrs.field(factory=dict)

    def _stretches(self, block: HostBlock, address: int, nbytes: int) -> Iterable[int]:
        low = max(address, block.address)
        high = min(address + nbytes, block.address + block.nbytes)
        first, last = -(-block.address // STRETCH), (block.address + block.nbytes) // STRETCH
        return range(max(first, low // STRETCH), min(last, -(-high // STRETCH)))

    def map(self, block: HostBlock, address: int, nbytes: int) -> None:
        """Record that the device has a copy of the bytes [address, address + nbytes) of a host array from now on."""
        for stretch in self._stretches(block, address, nbytes):
            self._mapped[stretch] = self._mapped.get(stretch, 0) + 1
            self._host_newer.discard(stretch)
            self._device_newer.pop(stretch, None)

    def unmap(self, block: HostBlock, address: int, nbytes: int) -> None:
        """Record that the device block of these bytes is freed; what a kernel wrote there and nobody copied is lost.

        block: the host array. address: the first of these bytes, in the host's memory.
        """
        for stretch in self._stretches(block, address, nbytes):
            self._mapped[stretch] = self._mapped.get(stretch, 1) - 1
            if not self._mapped[stretch]:
                self._mapped.pop(stretch)
                self._host_newer.discard(stretch)

    def copied(self, block: HostBlock, address: int, nbytes: int) -> None:
        """Record that host and device have equal values of these bytes now, because one was copied to the other.

        block: the host array. address: the first of these bytes, in the host's memory.
        """
        for stretch in self._stretches(block, address, nbytes):
            self._host_newer.discard(stretch)
            self._device_newer.pop(stretch, None)

    def host(self, block: HostBlock, address: int, nbytes: int, kind: int) -> None:
        """Record that the host loads (kind 1) or stores (kind 2) bytes of an array, from `address` on.

        A load of bytes whose newest values only the device has adds a sentence to `findings`. block: the array.
        """
        for stretch in self._stretches(block, address, nbytes):
            kernel = self._device_newer.pop(stretch, None)
            if kernel is not None and kind & LOADS:
                self._find(f"the host reads {block.name!r}, which {kernel} has written on the device only")
            if kind & STORES and stretch in self._mapped:
                self._host_newer.add(stretch)

    def on_device(self, block: HostBlock, address: int, nbytes: int, kind: int, who: str) -> None:
        """Record that `who` (in words) loads (kind 1) or stores (kind 2) the device's copy of bytes of an array.

        block: the host array. address: where these bytes begin in the host's memory.
        """
        for stretch in self._stretches(block, address, nbytes):
            if kind == LOADS and stretch in self._host_newer:
                self._host_newer.discard(stretch)
                self._find(f"{who} uses {block.name!r}, which the host has written since it was mapped")
            if kind == STORES:
                self._device_newer[stretch] = who

    def _find(self, text: str) -> None:
        if len(self.findings) < _MOST_FINDINGS:
            self.findings[text] = None


_LINK: Final = 1
"""The flag OMP_DECLARE_TARGET_LINK of an offload entry."""
Touch = tuple[HostBlock, int, int, int]
"""(array, address, bytes, kind). The kind is the sum of 1: loads; 2: stores; 4: every byte; 8: code that is not
instrumented may have stored; 16: atomically; 32: no directive names the array; 64: by a task that has asked which
thread runs it; 8 and 2: a new block, in which nobody has stored.
"""


_MOST_UNPLACED: Final = 4096
_MOST_FREES: Final = 64
_LARGE: Final = 1 << 10
"""The bytes from which on each allocation is recorded when it is made."""
_STRETCH: Final = 1 << 16
"""The bytes of a stretch of addresses; of an array's touches in one, only the extent is kept, but in a check."""


def _continues(touch: Touch, before: Touch) -> bool:
    """Tell whether a touch comes behind another one of its kind in the same stretch of an array."""
    (array, address, _, kind), (same, begin, _, other) = touch, before
    is_near = begin // _STRETCH == address // _STRETCH and begin <= address
    return array is same and kind == other and kind in (LOADS, STORES) and is_near


def _is_kept(block: HostBlock, address: int, nbytes: int, kind: int) -> bool:
    return block.number != NONE and not (block.is_unnamed and kind & MAYBE_STORED)


@attrs.frozen(eq=False)
class _UnplacedTouch:
    """A touch where no array is known yet; `placed` has its parts in arrays that became known later."""

    address: int
    nbytes: int
    kind: int
    serial: int
    placed: list[Touch] = attrs.field(factory=list)


_Touches = list[Touch | _UnplacedTouch]


def _placed(touches: _Touches) -> Iterator[Touch]:
    """Yield those touches that lie in known arrays."""
    for touch in touches:
        if isinstance(touch, tuple):
            yield touch
        else:
            yield from touch.placed


@attrs.define(eq=False)
class MemoryEvents:
    """Follows the memory of a process while a recording is made from its events: host arrays, device blocks, copies.

    The recording's tables of memory are made at the end, from the arrays that were used by then.
    """

    arrays: HostArrays = attrs.field(factory=HostArrays)
    device: DeviceBlocks = attrs.field(factory=DeviceBlocks)
    copies: SeparateCopies = attrs.field(factory=SeparateCopies)
    allocated: list[tuple[TaskRow, int, HostBlock]] = attrs.field(factory=list)
    """The records of allocations and frees: (task, index of the record in the task, array)."""
    free_count: int = 0
    """How many allocations have been freed."""
    has_host_touches: bool = False
    """Whether the memory accesses of the host are recorded."""
    early_count: int = 0
    """How many accesses of the host so far were to memory in which no array was known."""
    links: dict[int, str] = attrs.field(factory=dict)
    """Names of `declare target link` globals, by the address of the pointer through which the device finds each."""
    ends: dict[ArrayEnd, int] = attrs.field(factory=dict)
    device_uses: dict[tuple[HostBlock | None, str, int, bool], None] = attrs.field(factory=dict)
    """Uses of device memory by host code: the array of which it is a copy, the line before, the thread, a write?"""
    """The places where mapped arrays end, with their numbers."""
    _pending: dict[int, _Touches] = attrs.field(factory=dict)
    _taken: list[_Touches] = attrs.field(factory=list)
    _takers: list[int] = attrs.field(factory=list)
    """By list of touches: the number of the task that made them."""
    _regions: set[int] = attrs.field(factory=set)
    """The parallel regions that are running."""
    _made_target: set[int] = attrs.field(factory=set)
    """The threads that have made a deferred target task."""
    _early: dict[HostBlock, list[_UnplacedTouch]] = attrs.field(factory=dict)
    """By array that a map made known: its touches from before."""
    _unplaced: dict[int, deque[_UnplacedTouch]] = attrs.field(factory=dict)
    """By thread: touches where no array is known yet; a task of the thread, or a thread of its team, may map one later.
    """

    _frees: deque[tuple[int, int, HostBlock]] = attrs.field(factory=lambda: deque(maxlen=_MOST_FREES))
    """The last allocations that were freed: as the how-manyth, by which task."""
    _seen: dict[int, tuple[int, int]] = attrs.field(factory=dict)
    """By thread: how many frees came before its last record (step of a task) or the task that it runs; and that task.
    """
    _before_regions: int = 0
    """How many frees came before the parallel regions that are running."""

    def __attrs_post_init__(self) -> None:
        self.arrays.on_new = self._place

    def makes_task(self, thread: int, is_target: bool) -> None:
        """Record that a thread makes a task, which may map memory that is not known yet.

        Before a target task, the host's accesses to unknown memory are kept: if the task maps that memory, it becomes a
        known array. is_target: whether it is a target task, which runs a directive with ``nowait``.
        """
        if is_target:
            self._made_target.add(thread)

    def runs(self, thread: int, task: TaskRow) -> None:
        """Record that a thread begins a task, or goes on with it."""
        self._seen[thread] = self.free_count if task.count else task.frees, task.index
        if task.kind > TaskKind.IMPLICIT:
            task.thread, task.since = thread, task.since or self.early_count

    def parallel(self, region: int, begins: bool) -> None:
        """Note that a parallel region begins or ends. region: its number."""
        if begins:
            if not self._regions:
                self._before_regions = self.free_count
            self._regions.add(region)
            return
        self._regions.discard(region)
        if not self._regions:
            self._unplaced = {thread: kept for thread, kept in self._unplaced.items() if thread in self._made_target}

    def _place(self, block: HostBlock) -> None:
        """Give an array the touches that came before the map which made it known, or let it grow."""
        for unplaced in self._unplaced.values():
            for touch in unplaced:
                low = max(touch.address, block.address)
                high = min(touch.address + touch.nbytes, block.address + block.nbytes)
                if low < high:
                    part = block, low, high - low, touch.kind
                    touch.placed[:] = [*(one for one in touch.placed if one[0] is not block), part]
                    self._early.setdefault(block, []).append(touch)

    def add_global(self, address: int, nbytes: int, name: str, flags: int) -> None:
        """Add an offload entry of the program's image that is no kernel: a global variable.

        address: that of the variable. flags: the bits that the compiler gives the entry, such as that of a `declare
        target link`.
        """
        if flags & _LINK:
            self.links[address] = name.removesuffix("_decl_tgt_ref_ptr")
        else:
            self.arrays.use(self.arrays.allocate(address, nbytes, "global", name))

    def begins(self, row: Row, where: str) -> HostBlock:
        """Record an allocation that the program makes; return its array.

        row: the allocation's slot in the raw files. where: its source line, empty in code that `offloadrt cc` did not
        compile. A small block is reported only when a directive maps it; it then gets the host's accesses from before.
        """
        how = a_of(row)
        block = self.arrays.allocate(row[2], row[3], {SCRATCH: "scratch", LATE: "small"}.get(how, "malloc"))
        block.is_watched, block.where = bool(row[5]), where
        if how == LATE:
            self._place(block)
        return block

    def freed(self, address: int, nbytes: int, task: TaskRow) -> list[HostBlock]:
        """End the arrays in memory that a task frees, and return these arrays.

        That is the allocation at `address`; without one, all arrays in [address, address + nbytes) that only map items
        have made known. Accesses to such arrays from before an explicit task began are dropped: they were to other
        variables, at the same addresses of the stack.
        """
        block = self.arrays.free(address)
        if block is not None:
            self.free_count += 1
            self._frees.append((self.free_count, task.index, block))
            block.freed_by = task.index
            return [block]
        ended = self.arrays.end_mapped(address, nbytes)
        for block in ended:
            for touch in self._early.pop(block, ()):
                if touch.serial < task.since:
                    touch.placed[:] = [one for one in touch.placed if one[0] is not block]
        if ended:  # what lies there later has not been touched yet
            for thread, kept in self._unplaced.items():
                left = [touch for touch in kept if not address <= touch.address < address + nbytes]
                if len(left) < len(kept):
                    self._unplaced[thread] = deque(left, maxlen=_MOST_UNPLACED)
        return ended

    def thread_begins(self, thread: int, frees: int) -> None:
        """Record that a thread begins which the program, and not OpenMP, has made.

        frees: how many arrays had been freed when the thread was made.
        """
        self._seen[thread] = frees, NONE

    def end_of(self, end: ArrayEnd) -> int:
        """Return the number under which the recording lists a source line where a mapped array ends."""
        return self.ends.setdefault(end, len(self.ends))

    def touched(self, thread: int, row: Row, place: str) -> None:
        """Record a memory access of the host from the raw files; it happened since the thread's last record (step).

        row: the slot (fixed-size row of the raw files) with the kind of access, the address and the bytes. place: the
        line of the directive or routine before it.
        """
        self.has_host_touches = True
        kind, address, nbytes = a_of(row), row[2], row[3]
        copy = self.device.at(address) if kind & EXACT and self.arrays.at(address) is None else None
        if copy is not None and (
            copy.host or (copy.is_given and copy.task is not None)
        ):  # else a routine of LLVM's own
            if len(self.device_uses) < _MOST_FINDINGS:
                array = self.arrays.at(copy.host) if copy.host else None
                self.device_uses[array, place, thread, bool(kind & STORES)] = None
            return
        if kind == NEW_BLOCK and nbytes:  # a variable of the stack, which is mapped now
            new = self.arrays.spanned(address, nbytes, "")
            self._pending.setdefault(thread, []).append((new, address, nbytes, kind))
            return
        if kind & MAYBE_STORED and (given := self.arrays.at(address)) is not None:
            pending = self._pending.setdefault(thread, [])
            pending.append((given, address, given.address + given.nbytes - address, kind))
            given.is_watched = given.is_watched or kind == NEW_BLOCK
            return
        self.touch(thread, kind, address, nbytes)

    def touch(self, thread: int, kind: int, address: int, nbytes: int) -> None:
        """Record that the host accesses these bytes, as far as they lie in known arrays.

        thread: the number of the thread that does it. kind: bits that say whether it loads or stores. address: that of
        the first byte.
        """
        pending = self._pending.setdefault(thread, [])
        blocks = self.arrays.overlapping(address, nbytes) or self._freed_meanwhile(thread, address, nbytes)
        may_be_mapped = (self._regions or thread in self._made_target) and (kind & EXACT or not blocks)
        known = address
        for block in (*blocks, None):
            before = address + nbytes if block is None else block.address
            if may_be_mapped and known < before:
                unplaced = self._unplaced.setdefault(thread, deque(maxlen=_MOST_UNPLACED))
                unplaced.append(touch := _UnplacedTouch(known, before - known, kind, self.early_count))
                self.early_count += 1
                pending.append(touch)
            if block is None:
                break
            known = block.address + block.nbytes
            low, high = max(address, block.address), min(address + nbytes, known)
            if low < high:
                begin = low
                last = pending[-1] if pending else None
                if isinstance(last, tuple) and _continues((block, low, high - low, kind), last):
                    begin = last[1]
                    pending.pop()
                pending.append((block, begin, high - begin, kind))
                self.copies.host(block, low, high - low, kind & (LOADS | STORES))

    def _freed_meanwhile(self, thread: int, address: int, nbytes: int) -> list[HostBlock]:
        """Return the allocation that held these bytes, if another task has freed it since this thread's last record.

        So nothing orders the two: the access may have come before. Only large accesses are looked at, which cannot be
        to small blocks that have been allocated there since.
        """
        known, task = self._seen.get(thread, (0 if self._regions else self.free_count, NONE))
        gone = self.arrays.gone_at(address, nbytes) if nbytes >= _LARGE else None
        for count, by, block in self._frees if gone is not None else ():
            if block is gone and by != task and count > max(known, self._before_regions):
                return [block]
        return []

    def has_touches(self, thread: int) -> bool:
        """Tell whether the host has accessed known memory since a thread's last record (step of a task)."""
        return bool(self._pending.get(thread))

    def take_touches(self, thread: int, task: int) -> int:
        """Close the list of the host's memory accesses since a thread's last record (step of a task).

        Returns the list's number, -1 if it is empty. task: the number of the task that the thread runs.
        """
        self._seen[thread] = self.free_count, task
        touches = self._pending.pop(thread, None)
        if not touches:
            return NONE
        self._taken.append(touches)
        self._takers.append(task)
        return len(self._taken) - 1

    def use_shared(self) -> None:
        """Give numbers to arrays that no directive names and several tasks use, one of which stores there or frees it.

        Only accesses to such arrays can race. Memory that a library allocates is left out, as its uses are not all
        known.
        """
        users: dict[HostBlock, set[int]] = {}
        stored: set[HostBlock] = set()
        for taken, task in zip(self._taken, self._takers, strict=True):
            for block, _, _, kind in _placed(taken):
                if block.number == NONE and block.is_watched and not kind & MAYBE_STORED:
                    users.setdefault(block, set()).add(task)
                    if kind & STORES:
                        stored.add(block)
        for block, tasks in users.items():
            tasks |= {block.freed_by} - {NONE}
            if len(tasks) > 1 and (block in stored or block.freed_by != NONE):
                self.arrays.use(block).is_unnamed = True

    def operation(
        self, kind: int, source: int, destination: int, nbytes: int, task: TaskRow | None, *, of_region: bool = False
    ) -> None:
        """Follow an operation of the real runtime on device memory, such as an allocation or a copy.

        kind: an `OmptOperation`. task: the task that did it. of_region: whether a target region did it. source,
        destination: the addresses between which a copy goes; of an allocation, `source` is the host memory for which
        the block is, and `destination` the block.
        """
        if kind == OmptOperation.ALLOC:
            self.device.add(destination, source, nbytes, task, of_region=of_region)
            if source and (block := self.arrays.at(source)) is not None:
                self.copies.map(block, source, nbytes)
        elif kind == OmptOperation.DELETE:
            gone = self.device.at(source)
            self.device.remove(source)
            if gone is not None and gone.host and (block := self.arrays.at(gone.host)) is not None:
                self.copies.unmap(block, gone.host, gone.nbytes)
        elif kind in (OmptOperation.H2D, OmptOperation.D2H):
            device = destination if kind == OmptOperation.H2D else source
            copy = self.device.at(device)
            if copy is not None and copy.host:
                host = copy.host + device - copy.device
                if (block := self.arrays.at(host)) is not None:
                    self.copies.copied(block, host, nbytes)

    def columns(self, arrays: Sequence[ArrayPlace]) -> tuple[dict[str, Column], Column]:
        """Make the columns of the recording's table of host accesses.

        Returns them, and by old number the new number of each list of accesses. arrays: where each array finally lies.
        """
        table = ListTable("touches", "touch", ("array", "offset", "bytes", "kind"))
        places = [
            table.add(
                (place.number, address - place.address, nbytes, kind | UNNAMED * block.is_unnamed)
                for block, address, nbytes, kind in touches
                for place in (arrays[block.number],)
            )
            if (touches := [touch for touch in _placed(taken) if _is_kept(*touch)])
            else NONE
            for taken in self._taken
        ]
        return table.columns(), np.array([*places, NONE], "i4")  # index -1 finds the last entry
