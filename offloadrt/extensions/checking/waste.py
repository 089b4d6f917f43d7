"""Which transfers and allocations of a run were for nothing.

Every range of bytes has a *content*: a number that changes with each write and that a copy carries along. A copy of
what is there already is waste: a round trip where its target had made the content, else a duplicate. What a device
held is remembered by host address after its block was freed, so a map that sends the same data again is seen too.
A transfer is read by kernels, and by copies that carry its bytes on to where they were not yet.

What the host does is not always seen. So the bytes of a copy count as well (`Brought`): the same range of the host that
has the same bytes as before has its content of then. Bytes of different ranges are never compared, nor are bytes that
a kernel has written since: that these are equal is a result, and no waste. Nothing is judged that is not certain: what
may have been written has a new content, and what may have been read has been.
"""

from __future__ import annotations

from typing import Final

import attrs

from offloadrt.extensions.checking.accesses import Cell, Intervals, Memories, Role, WatchedBlock
from offloadrt.extensions.checking.mistakes import Story, WasteKind
from offloadrt.runtime.events import HOST, MemoryUse
from offloadrt.runtime.mapping.present_table import Entry


@attrs.frozen
class Brought:
    """The bytes of a copy. value: equal for equal bytes of one range of the host. nothing: its place had the same.

    The value is that of the bytes that the copy brings; where nothing is None, of those that the host had before it.
    """

    value: object
    nothing: bool | None = None
    is_watched: bool = False
    """Whether all is told that the host does there."""


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
    host: int = 0
    """The address of the host's array, 0 where there is none."""
    source: int = 0
    """Of a copy: the address of its side on the host, of an array or not."""
    role: Role = ""
    made: DataOperation | None = None
    """Of a copy: the allocation of the block that it is from or to."""
    freed: DataOperation | None = None
    again: bool = False
    """Of an allocation: another one is made for the same, before or after it."""
    kind: WasteKind | None = None
    read: bool = False
    written: bool = False
    """Of an allocation: a kernel has written there."""
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

    def part(self, begin: int, end: int) -> _Content:
        return _Content(begin, end, self.number, self.shift, self.copied, self.carrier, self.valid)

    def lose(self) -> None:
        """Overwrite what a copy has brought."""
        carrier, self.carrier = self.carrier, None
        if carrier is not None:
            carrier.left -= self.end - self.begin
            if not carrier.left and not carrier.read and carrier.kind is None:
                carrier.kind = "unread transfer"

    def set_read(self) -> None:
        if self.carrier is not None:
            self.carrier.read = True

    def is_like(self, other: _Content) -> bool:
        """Tell whether all but the addresses is the same."""
        return (self.number, self.shift, self.copied, self.valid) == (
            other.number, other.shift, other.copied, other.valid,
        ) and self.carrier is other.carrier  # fmt: skip


_Cells = Intervals[_Content]
_UNSEEN: Final = (
    "not known of {count} copies: whether they bring what was there, and whether anybody reads what they bring to the "
    "host: a phantom has no bytes, and a recording without `--check` has no digests of them"
)


class Wastes:
    """The contents of all memories, and the operations of a run in their order."""

    def __init__(self) -> None:
        self.operations: list[DataOperation] = []
        self._last = 0
        self._host = Intervals(self._new)
        self._mapped: dict[int, _Cells] = {}
        """By device, what is mapped there, at its host addresses."""
        self._other: dict[int, _Cells] = {}
        """By device, blocks of no mapping, at their own addresses."""
        self._blocks: dict[WatchedBlock, DataOperation] = {}
        self._last_for: dict[object, DataOperation] = {}
        """By owner: its last allocation."""
        self._values: dict[tuple[int, int, object], list[tuple[int, int, int, int]]] = {}
        """By host address, bytes and value: the contents that it has in its parts (begin, end, number, shift)."""
        self._on_both: set[int] = set()
        """The contents that a copy has carried between host and device."""
        self._shown: list[tuple[int, int]] = []
        """Ranges of the host whose address code has that nobody watches."""
        self._unseen = 0

    def _new(self, begin: int, end: int) -> _Content:
        self._last += 1
        return _Content(begin, end, self._last)

    def _place(self, device: int, entry: Entry | None) -> tuple[_Cells, int]:
        """Return where contents of a device are kept, and what to add to device addresses."""
        spaces = self._other if entry is None else self._mapped
        cells = spaces.get(device)
        if cells is None:
            cells = spaces[device] = Intervals(self._new)
        return cells, 0 if entry is None else entry.host_begin - entry.device_begin

    @property
    def unknown(self) -> str:
        """Say of what nothing is known; empty where all is."""
        return _UNSEEN.format(count=self._unseen) if self._unseen else ""

    # memory comes and goes

    def array_made(self, begin: int, end: int) -> None:
        """Forget what lay at the addresses of a new array."""
        for cells in (self._host, *self._mapped.values()):
            cells.forget(begin, end)
        self._shown = [shown for shown in self._shown if shown[1] <= begin or end <= shown[0]]

    def block_made(self, block: WatchedBlock, owner: object, host: int) -> None:
        """Take an allocation."""
        made = DataOperation(
            "alloc", block.allocated, block.name, block.device, block.cause, block.begin, block.end - block.begin,
            owner, host,
        )  # fmt: skip
        self.operations.append(made)
        self._blocks[block] = made
        if owner is not None:
            if (before := self._last_for.get(owner)) is not None:
                before.again = made.again = True
            self._last_for[owner] = made
        cells, _ = self._place(block.device, None)
        cells.forget(block.begin, block.end)

    def block_freed(self, block: WatchedBlock, story: Story, cause: int) -> None:
        """Take a free: what lay in the block is lost."""
        made = self._blocks.pop(block)
        made.freed = attrs.evolve(made, op="free", story=story, cause=cause, made=made)
        self.operations.append(made.freed)
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

    def host_shown(self, begin: int, end: int) -> None:
        """Take a range that code may read from now on whenever it likes."""
        for cell in self._host.cut(begin, end):
            cell.set_read()
        if (begin, end) not in self._shown:
            self._shown.append((begin, end))

    def device_used(
        self, block: WatchedBlock | None, entry: Entry | None, memory: int, begin: int, end: int, *,
        reads: bool, writes: bool, exact: bool,
    ) -> None:  # fmt: skip
        """Take a use of device memory by a kernel or a copy between devices; exact: every byte of it."""
        if (made := self._blocks.get(block) if block is not None else None) is not None:
            made.read, made.written = True, made.written or writes
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

    def _used(self, cells: _Cells, begin: int, end: int, reads: bool, writes: bool, exact: bool) -> None:
        self._last += 1
        used = cells.cut(begin, end)
        for cell in used:
            if reads:
                cell.set_read()
            if writes:
                if exact:
                    cell.lose()
                cell.number, cell.shift, cell.copied, cell.valid = self._last, 0, False, True
        if writes and len(used) > 1:
            cells.join(used, _Content.is_like)

    # copies

    def attached(
        self, story: Story, name: str, entry: Entry | None, device: int, cause: int, begin: int, n: int, source: int
    ) -> None:
        """Take the transfer of a pointer that the runtime attaches, which is no waste."""
        self.operations.append(DataOperation("h2d", story, name, device, cause, begin, n, source=source, read=True))
        self.device_used(None, entry, device, begin, begin + n, reads=True, writes=True, exact=False)

    def copied(
        self, copy: DataOperation, entry: Entry | None, block: WatchedBlock | None, brought: Brought | None,
        host_known: bool,
    ) -> None:  # fmt: skip
        """Take a copy between the host and a device.

        copy.host: 0 where the host's side is no array. host_known: the program tells all that the host does there.
        """
        self.operations.append(copy)
        copy.made = self._blocks.get(block) if block is not None else None
        cells, shift = self._place(copy.device, entry)
        begin, host, nbytes = copy.address + shift, copy.host, copy.nbytes
        copy.left = nbytes
        copy.read = block is None  # a global, which kernels may use without a map
        if not host:
            self._used(cells, begin, begin + nbytes, copy.op == "d2h", copy.op == "h2d", True)
            copy.read = True
            return
        if copy.op == "d2h":
            is_seen = host_known or (brought is not None and brought.is_watched)
            copy.read = not is_seen or any(shown[0] < host + nbytes and host < shown[1] for shown in self._shown)
        if brought is None and not host_known:
            self._unseen += 1
            if copy.op == "h2d":
                self._used(self._host, host, host + nbytes, True, True, False)
        elif brought is not None:
            self._recognise(copy, cells, begin, brought, host_known)
        if copy.op == "h2d":
            self._carry(copy, self._host, host, cells, begin)
        else:
            self._carry(copy, cells, begin, self._host, host)
            if brought is not None and brought.nothing is not None:
                self._values[host, nbytes, brought.value] = self._contents_of(host, nbytes)

    def _recognise(self, copy: DataOperation, cells: _Cells, begin: int, brought: Brought, host_known: bool) -> None:
        """Let the host have the contents that its bytes show before a copy, whoever has written them."""
        host, nbytes = copy.host, copy.nbytes
        there = cells.cut(begin, begin + nbytes)
        move = host - begin
        contents = [(cell.begin + move, cell.end + move, cell.number, cell.shift - move) for cell in there]
        is_kept = all(cell.valid and cell.number in self._on_both for cell in there)
        if brought.nothing and is_kept:
            self._set(contents)
        elif host_known and contents == self._contents_of(host, nbytes):
            pass
        elif brought.nothing is False and is_kept:  # somebody has written whom nobody saw
            self._used(self._host, host, host + nbytes, False, True, False)
            if copy.op == "h2d":
                self._values[host, nbytes, brought.value] = self._contents_of(host, nbytes)
        elif copy.op == "d2h" and not host_known:
            pass
        elif (known := self._values.get((host, nbytes, brought.value))) is not None:
            self._set(known)
        else:
            if not host_known:
                self._used(self._host, host, host + nbytes, False, True, False)
            self._values[host, nbytes, brought.value] = self._contents_of(host, nbytes)

    def _contents_of(self, begin: int, nbytes: int) -> list[tuple[int, int, int, int]]:
        return [(cell.begin, cell.end, cell.number, cell.shift) for cell in self._host.cut(begin, begin + nbytes)]

    def _set(self, contents: list[tuple[int, int, int, int]]) -> None:
        """Give ranges of the host these contents."""
        for begin, end, number, shift in contents:
            for cell in self._host.cut(begin, end):
                if (cell.number, cell.shift) != (number, shift):
                    cell.number, cell.shift = number, shift

    def _carry(self, copy: DataOperation, source: _Cells, begin: int, into: _Cells, into_begin: int) -> None:
        move = into_begin - begin
        pairs = [
            (cell, mine)
            for cell in source.cut(begin, begin + copy.nbytes)
            for mine in into.cut(cell.begin + move, cell.end + move)
        ]
        self._on_both.update(cell.number for cell, _ in pairs)
        if all(cell.valid and (mine.number, mine.shift) == (cell.number, cell.shift - move) for cell, mine in pairs):
            copy.kind = "duplicate transfer" if any(mine.copied for _, mine in pairs) else "round trip"
            for _, mine in pairs:
                mine.valid = True
                if mine.carrier is None:
                    mine.carrier = copy
                else:
                    copy.left -= mine.end - mine.begin
            into.join([mine for _, mine in pairs], _Content.is_like)
            return
        for cell, mine in pairs:
            cell.set_read()
            mine.lose()
            mine.number, mine.shift = cell.number, cell.shift - move
            if not cell.valid:
                self._last += 1
                mine.number = self._last
            mine.copied, mine.valid, mine.carrier = True, True, copy
        into.join([mine for _, mine in pairs], _Content.is_like)
