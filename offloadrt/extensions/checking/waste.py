"""Which transfers and allocations of a run were needless.

Every range of bytes has a *content*: a number that changes with each write and that a copy carries along. A copy of a
content that its target already has is waste: a round trip if the target made the content, else a duplicate. What a
device held is remembered by host address after its block was freed, so a map that sends the same data again is found
too, also where the array is a variable that is made anew with each call of its function. A transfer is used if kernels
read it, or if other copies carry its bytes on to where they were not yet.

Not all that the host does is visible. So the bytes of a copy count as well (`Brought`): if a range of the host has the
same bytes as at an earlier time, it has the content of that time. Bytes of different ranges are never compared, nor are
bytes that a kernel has written since: that these are equal is a result, and no waste. Only certain waste is reported:
what may have been written has a new content, and what may have been read counts as read.
"""

from __future__ import annotations

from typing import Final

import attrs

from offloadrt.extensions.checking.accesses import Cell, Intervals, Role, WatchedBlock
from offloadrt.extensions.checking.mistakes import Story, WasteKind
from offloadrt.runtime.events import HOST, MemoryUse
from offloadrt.runtime.host_array import HostArray
from offloadrt.runtime.mapping.present_table import Entry
from offloadrt.study.reporting.words import counted


@attrs.frozen
class Brought:
    """Describes the bytes that a copy moves, so that copies which bring nothing new can be found.

    nothing: True if the target had the same bytes before, False if not, None if that is not known. value: a number or
    hash that is equal for equal bytes of one host range. It stands for the bytes that the copy moves; where `nothing`
    is None, for those that the host had before the copy.
    """

    value: object
    nothing: bool | None = None
    is_watched: bool = False
    """Whether every access of the host to this range is reported."""


@attrs.define(eq=False)
class DataOperation:
    """A copy, an allocation or a free of the run, as the search for needless operations needs it.

    op: alloc, free, h2d or d2h. story: its report line. cause: the number of its directive. address: the device
    address. read: whether the copied or allocated data was used afterwards. left: how many of its bytes nothing has
    overwritten yet. role: what a copy does for its mapping, such as making it (`Role`). kind: what makes it needless,
    such as ``round trip``; None if it is not needless as far as is known.
    """

    op: str
    story: Story
    name: str
    device: int
    cause: int
    address: int
    nbytes: int
    owner: object = None
    """For an allocation: what it is for, such as an array; equal objects mean that an allocation repeats an earlier
    one.
    """
    host: int = 0
    """The address of the host's array; 0 if there is none."""
    source: int = 0
    """For a copy: the address on its host side, whether an array lies there or not."""
    role: Role = ""
    made: DataOperation | None = None
    """For a copy: the operation that allocated the device block which the copy reads or writes."""
    anew: bool = False
    """For an allocation: whether its array is a new one each time."""
    is_private: bool = False
    """For an allocation: whether it was for the private copy of one launch."""
    describes: DataOperation | None = None
    """For an allocation of an array's descriptor, which Fortran's compiler maps as well: the array's allocation."""
    freed: DataOperation | None = None
    """For an allocation: the free of its block; None while the block exists."""
    again: bool = False
    """For an allocation: whether another one is made for the same owner, before or after it."""
    kind: WasteKind | None = None
    read: bool = False
    written: bool = False
    """For an allocation: whether a kernel has written to the block."""
    left: int = 0


@attrs.define(eq=False)
class _Content(Cell):
    """The content of addresses [begin, end): the byte at address `at` is byte `at + shift` of content `number`.

    copied: a copy brought it here. carrier: the last copy that wrote here, until its bytes are overwritten. valid: the
    block still exists.
    """

    number: int
    shift: int = 0
    copied: bool = False
    carrier: DataOperation | None = None
    valid: bool = True

    def part(self, begin: int, end: int) -> _Content:
        return _Content(begin, end, self.number, self.shift, self.copied, self.carrier, self.valid)

    def lose(self) -> None:
        """Note that these bytes are overwritten: a copy that loses its last bytes unread is an unread transfer."""
        carrier, self.carrier = self.carrier, None
        if carrier is not None:
            carrier.left -= self.end - self.begin
            if not carrier.left and not carrier.read and carrier.kind is None:
                carrier.kind = "unread transfer"

    def set_read(self) -> None:
        if self.carrier is not None:
            self.carrier.read = True

    def is_like(self, other: _Content) -> bool:
        """Tell whether another cell is equal in everything but its addresses, so that both can be joined."""
        return (self.number, self.shift, self.copied, self.valid) == (
            other.number, other.shift, other.copied, other.valid,
        ) and self.carrier is other.carrier  # fmt: skip


_Cells = Intervals[_Content]
_UNSEEN: Final = (
    "not known of {copies}: whether they bring what was there, and whether anybody reads what they bring to the "
    "host: a phantom has no bytes, a recording without `--check` has no digests of them, and one with it none of a "
    "copy that another thread made then, that is cut at the end of its array, or in which the program died"
)


class Wastes:
    """Finds needless copies and allocations, by following which contents each memory has and who reads them."""

    def __init__(self) -> None:
        self.operations: list[DataOperation] = []
        self._last = 0
        self._host = Intervals(self._new)
        self._mapped: dict[int, _Cells] = {}
        """By device: contents of mapped memory, by host addresses."""
        self._other: dict[int, _Cells] = {}
        """By device: contents of blocks that belong to no array, by device addresses."""
        self._private: dict[int, _Cells] = {}
        """By device: contents of private copies of arrays, by host addresses."""
        self._ended: dict[tuple[int, int, int], list[_Content]] = {}
        """By (device, begin, end) of an array that has ended: what the device had of it."""
        self._blocks: dict[WatchedBlock, DataOperation] = {}
        self._variables: dict[HostArray, HostArray] = {}
        self._mapped_at: dict[tuple[int, int, str, str], HostArray] = {}
        """By (begin, end, name, line of the map): the first array that was mapped so."""
        self._last_for: dict[object, DataOperation] = {}
        """By owner: the last allocation for it."""
        self._values: dict[tuple[int, int, object], list[tuple[int, int, int, int]]] = {}
        """By (host address, bytes, digest): the contents of the range when it had these bytes, as (begin, end, number,
        shift) of each part.
        """
        self._on_both: set[int] = set()
        """The contents that a copy has carried between host and device."""
        self._shown: list[tuple[int, int]] = []
        """Ranges of the host that unwatched code may read at any time, because it knows their address."""
        self._unseen = 0

    def _new(self, begin: int, end: int) -> _Content:
        self._last += 1
        return _Content(begin, end, self._last)

    def _place(self, device: int, entry: Entry | None, block: WatchedBlock | None) -> tuple[_Cells, int]:
        """Return the cells of a device's memory, and what to add to a device address to find it there."""
        spaces, shift = self._other, 0
        if entry is not None:
            spaces, shift = self._mapped, entry.host_begin - entry.device_begin
        elif block is not None and (made := self._blocks.get(block)) is not None and made.host:
            spaces, shift = self._private, made.host - made.address
        return self._of(spaces, device), shift

    def _of(self, spaces: dict[int, _Cells], device: int) -> _Cells:
        cells = spaces.get(device)
        if cells is None:
            cells = spaces[device] = Intervals(self._new)
        return cells

    @property
    def unknown(self) -> str:
        """Return a sentence on copies that the check could not examine; an empty text if there are none."""
        return _UNSEEN.format(copies=counted(self._unseen, "copy")) if self._unseen else ""

    # memory comes and goes

    def array_made(self, begin: int, end: int) -> None:
        """Forget the contents at the host addresses of a new array.

        begin, end: these addresses [begin, end).
        """
        for device, cells in self._mapped.items():
            if cells.holds(begin, end):
                self._ended[device, begin, end] = cells.cut(begin, end)
        for cells in (self._host, *self._mapped.values(), *self._private.values()):
            cells.forget(begin, end)
        self._shown = [shown for shown in self._shown if shown[1] <= begin or end <= shown[0]]

    def block_made(self, block: WatchedBlock, array: HostArray | None, host: int, used: bool) -> None:
        """Record the allocation of a block of device memory.

        array: the array that it is for, if any. host: the host address that it is for. used: kernels certainly use the
        block, though no event may say so.
        """
        where, nbytes = block.allocated.where, block.end - block.begin
        variable = self._variable(array, where) if array is not None else where
        owner = (block.device, variable, nbytes) if block.by_routine or array is not None else None
        made = DataOperation(
            "alloc", block.allocated, block.name, block.device, block.cause, block.begin, nbytes,
            owner, host, anew=array is not None and variable is not array, read=used,
        )  # fmt: skip
        self.operations.append(made)
        self._blocks[block] = made
        if owner is not None:
            if (before := self._last_for.get(owner)) is not None:
                before.again = made.again = True
            self._last_for[owner] = made
        self._of(self._other, block.device).forget(block.begin, block.end)

    def _variable(self, array: HostArray, where: str) -> HostArray:
        """Return the first of the arrays that are one variable of the program, made anew with each call of a function.

        They have one name and place, and are mapped at one line. What devices had of the last one counts again.
        """
        known = self._variables.get(array)
        if known is None:
            begin, end = array.address, array.address + array.nbytes
            known = self._variables[array] = self._mapped_at.setdefault((begin, end, array.name, where), array)
            for device, cells in self._mapped.items() if known is not array else ():
                for old in self._ended.pop((device, begin, end), ()):
                    for cell in cells.cut(old.begin, old.end):
                        cell.number, cell.shift, cell.copied, cell.valid = old.number, old.shift, old.copied, old.valid
        return known

    def block_freed(self, block: WatchedBlock, story: Story, cause: int) -> None:
        """Record that a block of device memory is freed, and with it the contents that it holds.

        story: a report line on who freed it. cause: the number of the directive that did.
        """
        entry, made = block.entry, self._blocks[block]
        made.is_private = entry is None and made.host != 0
        cells, shift = self._place(block.device, entry, block)
        del self._blocks[block]
        made.freed = DataOperation(
            "free", story, made.name, made.device, cause, made.address, made.nbytes, made.owner, made.host, made=made
        )
        self.operations.append(made.freed)
        begin, end = block.begin + shift, block.end + shift
        if entry is not None:
            begin, end = entry.host_begin, entry.host_end
        for cell in cells.cut(begin, end):
            cell.lose()
            cell.valid = False

    # uses

    def host_used(self, begin: int, end: int, writes: bool | None, exact: bool) -> None:
        """Record an access by the host to the addresses [begin, end).

        writes: None if it may be a read or a write. exact: whether it touches every byte.
        """
        self._used(self._host, begin, end, writes is not True, writes is not False, exact and writes is True)

    def host_shown(self, begin: int, end: int) -> None:
        """Record that code whose accesses are not reported may read this host memory at any time from now.

        Copies that bring something there then count as needed. begin, end: the addresses [begin, end).
        """
        for cell in self._host.cut(begin, end):
            cell.set_read()
        if (begin, end) not in self._shown:
            self._shown.append((begin, end))

    def device_used(
        self, block: WatchedBlock | None, entry: Entry | None, memory: int, begin: int, end: int, *,
        reads: bool, writes: bool, exact: bool,
    ) -> None:  # fmt: skip
        """Record an access to device memory by a kernel, or by a copy between devices.

        block, entry: the block and the mapping that hold the addresses, if any. memory: the device's number. exact:
        whether it touches every byte. begin, end: the device addresses [begin, end). reads, writes: which of the two
        the access may do.
        """
        if (made := self._blocks.get(block) if block is not None else None) is not None:
            made.read, made.written = True, made.written or writes
        cells, shift = self._place(memory, entry, block)
        self._used(cells, begin + shift, end + shift, reads, writes, exact)

    def kernel_used(self, use: MemoryUse, block: WatchedBlock | None, entry: Entry | None) -> None:
        """Record which memory a kernel reads or writes.

        use: one such access. block, entry: the block and the mapping that hold it in device memory, if any.
        """
        begin, end = use.begin, use.begin + use.nbytes
        if use.memory == HOST:
            self.host_used(begin, end, None if use.maybe else use.writes, use.exact)
            return
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
        self, story: Story, name: str, entry: Entry | None, device: int, cause: int, begin: int, n: int, source: int,
        block: WatchedBlock | None, pointee: WatchedBlock | None,
    ) -> None:  # fmt: skip
        """Record that the runtime copies a pointer to the device to attach it there; such a copy is never needless.

        begin, n: the pointer's device address and size in bytes. source: its host address. block, pointee: the device
        blocks in which the pointer and its target lie. If both have the same name, the pointer is a part of an array
        descriptor. story: a report line on who does it. entry: the mapping that holds the pointer. cause: the number of
        the directive.
        """
        if block is not None and pointee is not None and block is not pointee and block.name == pointee.name:
            self._blocks[block].describes = self._blocks.get(pointee)
        self.operations.append(DataOperation("h2d", story, name, device, cause, begin, n, source=source, read=True))
        self.device_used(None, entry, device, begin, begin + n, reads=True, writes=True, exact=False)

    def copied(
        self, copy: DataOperation, entry: Entry | None, block: WatchedBlock | None, brought: Brought | None,
        host_known: bool,
    ) -> None:  # fmt: skip
        """Record a copy between the host and a device, and find out whether it was needless.

        copy: its field `host` is 0 if the host side is no array. entry, block: the mapping and the block on the device,
        if any. brought: a hash of the copied bytes, and whether the target had the same bytes before; None if neither
        is known. host_known: whether every access of the host to this range is reported.
        """
        self.operations.append(copy)
        copy.made = self._blocks.get(block) if block is not None else None
        cells, shift = self._place(copy.device, entry, block)
        begin, host, nbytes = copy.address + shift, copy.host, copy.nbytes
        copy.left = nbytes
        copy.read = block is None or copy.role == "repeats"  # a global, which kernels may use without a map
        if not host:
            self._used(cells, begin, begin + nbytes, copy.op == "d2h", copy.op == "h2d", True)
            copy.read = True
            return
        if copy.op == "d2h":
            is_seen = host_known or (brought is not None and brought.is_watched)
            copy.read = (
                copy.role == "repeats"
                or not is_seen
                or any(shown[0] < host + nbytes and host < shown[1] for shown in self._shown)
            )
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
        """Before a copy, give the host range the content that its bytes show, even if its writer was not seen."""
        host, nbytes = copy.host, copy.nbytes
        there = cells.cut(begin, begin + nbytes)
        move = host - begin
        contents = [(cell.begin + move, cell.end + move, cell.number, cell.shift - move) for cell in there]
        is_kept = all(cell.valid and cell.number in self._on_both for cell in there)
        if brought.nothing and is_kept:
            self._set(contents)
        elif host_known and contents == self._contents_of(host, nbytes):
            pass
        elif brought.nothing is False and is_kept:  # unseen code has written
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
        """Give ranges of the host these contents: (begin, end, number, shift) each."""
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
        is_there = all(
            cell.valid and (mine.number, mine.shift) == (cell.number, cell.shift - move) for cell, mine in pairs
        )
        if is_there and copy.role == "repeats":
            return
        # A copy that OpenMP asks for is needed where only the runtime has made one that it does not ask for.
        if is_there and not any(mine.carrier is not None and mine.carrier.role == "repeats" for _, mine in pairs):
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
            if copy.op == "d2h" and cell.carrier is not None and copy.made is not None:
                copy.made.read = True  # the program stores its bytes there
            cell.set_read()
            mine.lose()
            mine.number, mine.shift = cell.number, cell.shift - move
            if not cell.valid:
                self._last += 1
                mine.number = self._last
            mine.copied, mine.valid, mine.carrier = True, True, copy
        into.join([mine for _, mine in pairs], _Content.is_like)
