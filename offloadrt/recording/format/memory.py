"""What a recording says of memory while its events come in: arrays, device blocks, touches of the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np

from offloadrt.recording.format.blocks import ArrayPlace, DeviceBlocks, HostArrays, HostBlock
from offloadrt.recording.format.recording import NONE, ArrayEnd, Column, OmptOperation
from offloadrt.recording.format.separate_copies import SeparateCopies
from offloadrt.recording.format.slots import LOADS, MAYBE_STORED, STORES, Row, a_of
from offloadrt.recording.format.tables import ListTable, TaskRow

_LINK: Final = 1
"""OMP_DECLARE_TARGET_LINK among the flags of an entry."""
Touch = tuple[HostBlock, int, int, int]
"""Array, address, bytes, loads (1) or stores (2); plus 4: each byte; 8: code that nobody watched may have stored;
16: atomically."""


@attrs.define(eq=False)
class MemoryEvents:
    """Follows the memory of a process. Tables are made at the end, of the arrays that are used by then."""

    arrays: HostArrays = attrs.field(factory=HostArrays)
    device: DeviceBlocks = attrs.field(factory=DeviceBlocks)
    copies: SeparateCopies = attrs.field(factory=SeparateCopies)
    allocated: list[tuple[TaskRow, int, HostBlock]] = attrs.field(factory=list)
    """The records of allocations and frees."""
    has_host_touches: bool = False
    links: dict[int, str] = attrs.field(factory=dict)
    """Names of `declare target link` globals by the address of the pointer through which the device finds each."""
    ends: dict[ArrayEnd, int] = attrs.field(factory=dict)
    """Where arrays end that are mapped, in order of their numbers."""
    _pending: dict[int, list[Touch]] = attrs.field(factory=dict)
    _taken: list[list[Touch]] = attrs.field(factory=list)

    def add_global(self, address: int, nbytes: int, name: str, flags: int) -> None:
        """Add an entry of the program's image that is no kernel."""
        if flags & _LINK:
            self.links[address] = name.removesuffix("_decl_tgt_ref_ptr")
        else:
            self.arrays.use(self.arrays.allocate(address, nbytes, "global", name))

    def freed(self, address: int, nbytes: int) -> list[HostBlock]:
        """End what lies in memory that the program gives back: an allocation, or all that is known of it besides."""
        block = self.arrays.free(address)
        return self.arrays.end_mapped(address, nbytes) if block is None else [block]

    def end_of(self, end: ArrayEnd) -> int:
        """Return the number of a place where an array ends that is mapped."""
        return self.ends.setdefault(end, len(self.ends))

    def touched(self, thread: int, row: Row) -> None:
        """Note that the host has touched some stretches since the thread's last record."""
        self.has_host_touches = True
        kind, address, nbytes = a_of(row), row[2], row[3]
        pending = self._pending.setdefault(thread, [])
        if kind == MAYBE_STORED and (given := self.arrays.at(address)) is not None:
            pending.append((given, address, given.address + given.nbytes - address, kind))
            return
        for block in self.arrays.overlapping(address, nbytes):
            low, high = max(address, block.address), min(address + nbytes, block.address + block.nbytes)
            if low < high:
                pending.append((block, low, high - low, kind))
                self.copies.host(block, low, high - low, kind & (LOADS | STORES))

    def has_touches(self, thread: int) -> bool:
        return bool(self._pending.get(thread))

    def take_touches(self, thread: int) -> int:
        """Return the number of a thread's touches up to now, for its record; -1 without any."""
        touches = self._pending.pop(thread, None)
        if not touches:
            return NONE
        self._taken.append(touches)
        return len(self._taken) - 1

    def operation(
        self, kind: int, source: int, destination: int, nbytes: int, task: TaskRow | None, *, of_region: bool = False
    ) -> None:
        """Follow what the real runtime did with device memory, for a directive of `task`, which may be a region."""
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
        """Make the columns of touches, and the new number of each list; `arrays`: what each became at last."""
        table = ListTable("touches", "touch", ("array", "offset", "bytes", "kind"))
        places = [
            table.add(
                (place.number, address - place.address, nbytes, kind)
                for block, address, nbytes, kind in touches
                for place in (arrays[block.number],)
            )
            if (touches := [touch for touch in taken if touch[0].number != NONE])
            else NONE
            for taken in self._taken
        ]
        return table.columns(), np.array([*places, NONE], "i4")  # the last is what -1 finds
