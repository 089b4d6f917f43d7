"""Which transfers and allocations of a run were for nothing.

Every range of bytes has a *content*: a number that changes with each write and that a copy carries along. A copy of
what is there already is waste: a round trip where its target had made the content, else a duplicate. What a device
held is remembered by host address after its block was freed, so a map that sends the same data again is seen too.
A transfer is read by kernels, and by copies that carry its bytes on to where they were not yet. Nothing is judged that
is not certain: what may have been written has a new content, and what may have been read has been.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import attrs

from offloadrt.extensions.checking.accesses import Cell, Intervals, Memories, WatchedBlock
from offloadrt.extensions.checking.mistakes import Story, Waste, WasteKind
from offloadrt.runtime.events import HOST, MemoryUse
from offloadrt.runtime.mapping.present_table import Entry
from offloadrt.trace.events import COMMON, PS_PER_S, Row

_CALLS: Final = {"Allocate": "alloc", "Free": "free"}


class Costs:
    """A sink of a trace; `take` gives the durations of operations, asked for in the order in which they were begun.

    A copy lasts from where a copy engine begins its first piece to the end of its last; an allocation and a free as
    long as the call of the driver. What was served without the driver, from a pool of the runtime, has taken no time.
    """

    def __init__(self) -> None:
        self._calls: dict[int, list[int]] = {}
        self._blocks: dict[int, tuple[str, int, int, int]] = {}
        self._begun: dict[tuple[int, int], int] = {}
        self._copies: dict[tuple[str, int, int], dict[int, tuple[int, int, int]]] = {}
        self._queues: dict[tuple[str, int, int], deque[tuple[int, int, int]]] = {}
        self._lasted: dict[tuple[str, int, int, int], deque[int]] = {}

    def write(self, rows: Sequence[Row]) -> None:
        """Take the rows of a trace."""
        for row in rows:
            label, time, actor, device, _, cause = row[:COMMON]
            if label == "CopyBegin":
                self._begun[device, row[COMMON]] = time
            elif label == "CopyEnd":
                number, direction, _, nbytes = row[COMMON : COMMON + 4]
                copies = self._copies.setdefault((direction, device, cause), {})
                copies[number] = self._begun.pop((device, number)), time, nbytes
            elif label == "CallBegin":
                self._calls.setdefault(actor, []).append(time)
            elif label in _CALLS:
                self._blocks[actor] = _CALLS[label], device, cause, row[COMMON]
            elif label == "CallEnd" and self._calls.get(actor):
                began = self._calls[actor].pop()
                block = self._blocks.pop(actor, None)
                if block is not None:
                    self._lasted.setdefault(block, deque()).append(time - began)

    def close(self) -> None:
        """Put the copies in the order of their numbers."""
        for key, copies in self._copies.items():
            self._queues[key] = deque(copies[number] for number in sorted(copies))

    def take(self, op: str, device: int, cause: int, address: int, nbytes: int) -> float:
        """Return the seconds that the next such operation took: alloc, free, h2d or d2h."""
        if op in ("alloc", "free"):
            lasted = self._lasted.get((op, device, cause, address))
            return lasted.popleft() / PS_PER_S if lasted else 0.0
        pieces = self._queues.get((op, device, cause))
        if not pieces or pieces[0][2] > nbytes:
            return 0.0
        begin, end, left = pieces[0][0], pieces[0][1], nbytes
        while pieces and 0 < pieces[0][2] <= left:
            piece = pieces.popleft()
            end, left = max(end, piece[1]), left - piece[2]
        return (end - begin) / PS_PER_S


@attrs.define(eq=False)
class DataOperation:
    """A copy, an allocation or a free. read: somebody has used what it brought; left: bytes not yet overwritten."""

    op: str
    story: Story
    name: str
    device: int
    cause: int
    address: int
    nbytes: int
    owner: object = None
    """Of an allocation: what it is for, the same when it is made again."""
    freed: DataOperation | None = None
    kind: WasteKind | None = None
    read: bool = False
    left: int = 0


@attrs.define(eq=False)
class _Content(Cell):
    """What is in the addresses [begin, end): byte `at` is number `at + shift` of a content.

    copied: a copy brought it here. carrier: the last copy to here, while it is not overwritten. valid: it is there now.
    """

    number: int
    shift: int = 0
    copied: bool = False
    carrier: DataOperation | None = None
    valid: bool = True

    def lose(self) -> None:
        """Overwrite what a copy has brought."""
        carrier, self.carrier = self.carrier, None
        if carrier is not None:
            carrier.left -= self.end - self.begin
            if not carrier.left and not carrier.read:
                carrier.kind = "unread transfer"

    def set_read(self) -> None:
        if self.carrier is not None:
            self.carrier.read = True


class Wastes:
    """The contents of all memories, and the operations of a run in their order."""

    def __init__(self) -> None:
        self._last = 0
        self._host = Intervals(self._new)
        self._mapped: dict[int, Intervals[_Content]] = {}
        """By device, what is mapped there, at its host addresses."""
        self._other: dict[int, Intervals[_Content]] = {}
        """By device, blocks of no mapping, at their own addresses."""
        self._operations: list[DataOperation] = []
        self._blocks: dict[WatchedBlock, DataOperation] = {}

    def _new(self, begin: int, end: int) -> _Content:
        self._last += 1
        return _Content(begin, end, self._last)

    def _place(self, device: int, entry: Entry | None) -> tuple[Intervals[_Content], int]:
        """Return where contents of a device are kept, and what to add to device addresses."""
        spaces = self._other if entry is None else self._mapped
        cells = spaces.get(device)
        if cells is None:
            cells = spaces[device] = Intervals(self._new)
        return cells, 0 if entry is None else entry.host_begin - entry.device_begin

    # memory comes and goes

    def array_made(self, begin: int, end: int) -> None:
        """Forget what lay at the addresses of a new array."""
        for cells in (self._host, *self._mapped.values()):
            cells.forget(begin, end)

    def block_made(self, block: WatchedBlock, owner: object) -> None:
        """Take an allocation."""
        made = DataOperation(
            "alloc", block.allocated, block.name, block.device, block.cause, block.begin, block.end - block.begin, owner
        )
        self._operations.append(made)
        self._blocks[block] = made
        cells, _ = self._place(block.device, None)
        cells.forget(block.begin, block.end)

    def block_freed(self, block: WatchedBlock, story: Story, cause: int) -> None:
        """Take a free: what lay in the block is lost."""
        made = self._blocks.pop(block)
        made.freed = attrs.evolve(made, op="free", story=story, cause=cause)
        self._operations.append(made.freed)
        entry = block.entry
        cells, _ = self._place(block.device, entry)
        begin, end = (block.begin, block.end) if entry is None else (entry.host_begin, entry.host_end)
        for cell in cells.cut(begin, end):
            cell.lose()
            cell.valid = False

    # uses

    def host_used(self, begin: int, end: int, writes: bool | None, exact: bool) -> None:
        """Take a use by the host; writes: None where it is one of both."""
        self._used(self._host, begin, end, writes is not True, writes is not False, exact and writes is True)

    def device_used(
        self, block: WatchedBlock | None, entry: Entry | None, memory: int, begin: int, end: int, *,
        reads: bool, writes: bool, exact: bool,
    ) -> None:  # fmt: skip
        """Take a use of device memory by a kernel or a copy between devices; exact: every byte of it."""
        if (made := self._blocks.get(block) if block is not None else None) is not None:
            made.read = True
        cells, shift = self._place(memory, entry)
        self._used(cells, begin + shift, end + shift, reads, writes, exact)

    def kernel_used(self, use: MemoryUse, memories: Memories) -> None:
        """Take a use by a kernel."""
        begin, end = use.begin, use.begin + use.nbytes
        if use.memory == HOST:
            self.host_used(begin, end, None if use.maybe else use.writes, use.exact)
            return
        block, entry = memories.block_at(use.memory, begin), memories.entry_at(use.memory, begin)
        reads, writes = use.maybe or not use.writes, use.maybe or use.writes
        self.device_used(block, entry, use.memory, begin, end, reads=reads, writes=writes, exact=use.exact)

    def _used(self, cells: Intervals[_Content], begin: int, end: int, reads: bool, writes: bool, exact: bool) -> None:
        self._last += 1
        for cell in cells.cut(begin, end):
            if reads:
                cell.set_read()
            if writes:
                if exact:
                    cell.lose()
                cell.number, cell.shift, cell.copied, cell.valid = self._last, 0, False, True

    # copies

    def attached(
        self, story: Story, name: str, entry: Entry | None, device: int, cause: int, begin: int, n: int
    ) -> None:
        """Take the transfer of a pointer that the runtime attaches, which is no waste."""
        self._operations.append(DataOperation("h2d", story, name, device, cause, begin, n, read=True))
        self.device_used(None, entry, device, begin, begin + n, reads=True, writes=True, exact=False)

    def copied(self, copy: DataOperation, entry: Entry | None, host_begin: int | None, host_known: bool) -> None:
        """Take a copy between the host and a device.

        host_begin: None where the host's side is no array. host_known: the program tells all that the host does there.
        """
        self._operations.append(copy)
        cells, shift = self._place(copy.device, entry)
        begin, end = copy.address + shift, copy.address + shift + copy.nbytes
        copy.left = copy.nbytes
        if host_begin is None:
            self._used(cells, begin, end, copy.op == "d2h", copy.op == "h2d", True)
            copy.read = True
        elif copy.op == "h2d":
            if not host_known:
                self._used(self._host, host_begin, host_begin + copy.nbytes, True, True, False)
            self._carry(copy, self._host, host_begin, cells, begin)
        else:
            copy.read = not host_known
            self._carry(copy, cells, begin, self._host, host_begin)

    def _carry(
        self, copy: DataOperation, source: Intervals[_Content], begin: int, into: Intervals[_Content], into_begin: int
    ) -> None:
        move = into_begin - begin
        pairs = [
            (cell, mine)
            for cell in source.cut(begin, begin + copy.nbytes)
            for mine in into.cut(cell.begin + move, cell.end + move)
        ]
        if all(cell.valid and (mine.number, mine.shift) == (cell.number, cell.shift - move) for cell, mine in pairs):
            copy.kind = "duplicate transfer" if any(mine.copied for _, mine in pairs) else "round trip"
            for _, mine in pairs:
                mine.valid = True
                if mine.carrier is None:
                    mine.carrier = copy
                else:
                    copy.left -= mine.end - mine.begin
            return
        for cell, mine in pairs:
            cell.set_read()
            mine.lose()
            mine.number, mine.shift = cell.number, cell.shift - move
            if not cell.valid:
                self._last += 1
                mine.number = self._last
            mine.copied, mine.valid, mine.carrier = True, True, copy

    # the end

    def finish(self, costs: Costs, ended: bool) -> list[Waste]:
        """Return what was wasted, the most time first. ended: the program came to its end."""
        spare: dict[object, list[float]] = {}
        wastes: dict[tuple[object, ...], Waste] = {}

        def add(kind: WasteKind, operation: DataOperation, seconds: float) -> None:
            key = kind, operation.name, operation.device, operation.story.did, operation.story.where
            known = wastes.get(key)
            if known is None:
                wastes[key] = Waste(kind, operation.name, operation.device, operation.story, operation.nbytes, seconds)
            else:
                nbytes, total = known.nbytes + operation.nbytes, known.time_s + seconds
                wastes[key] = attrs.evolve(known, times=known.times + 1, nbytes=nbytes, time_s=total)

        lasted = {one: costs.take(one.op, one.device, one.cause, one.address, one.nbytes) for one in self._operations}
        for operation, seconds in lasted.items():
            if operation.op == "free":
                if operation.owner is not None and operation.read:
                    spare.setdefault(operation.owner, []).append(seconds)
            elif operation.kind is not None:
                add(operation.kind, operation, seconds)
            elif operation.op == "h2d" and not operation.read and ended:
                add("unread transfer", operation, seconds)
            elif operation.op == "alloc" and not operation.read and (ended or operation.freed is not None):
                add("unused allocation", operation, seconds + (lasted[operation.freed] if operation.freed else 0.0))
            elif operation.op == "alloc" and spare.get(operation.owner):
                add("repeated allocation", operation, seconds + spare[operation.owner].pop())
        return sorted(wastes.values(), key=lambda waste: -waste.time_s)
