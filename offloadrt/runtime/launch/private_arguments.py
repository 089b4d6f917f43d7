"""Private and firstprivate arguments of a target region (LLVM's `PrivateArgumentManagerTy`).

Firstprivate values up to 1024 bytes each are packed into one device block and one copy; larger ones get a block and a
copy of their own, private ones a block and no copy. All blocks are freed after the region's queue has drained.
"""

from __future__ import annotations

from typing import Final

import attrs
import numpy as np

from offloadrt.runtime.device import OffloadDevice
from offloadrt.runtime.directive_queue import DirectiveQueue
from offloadrt.runtime.host_array import HostArray, HostSpan
from offloadrt.runtime.mapping.binding import Binding
from offloadrt.runtime.mapping.map_item import MapItem
from offloadrt.runtime.mapping.map_type import TO

PACKING_THRESHOLD: Final = 1024
MAX_ALIGNMENT: Final = 16


@attrs.frozen
class _Packed:
    item: MapItem
    array: HostArray
    padding: int
    alignment: int


def required_alignment(address: int) -> int:
    """Return the alignment that an address has, at most 16."""
    return min(MAX_ALIGNMENT, address & -address) if address else MAX_ALIGNMENT


@attrs.define(eq=False)
class PrivateArguments:
    """The private arguments of one target region.

    `add` each item, then `transfer` those that are `packed`; `placed` says where each ended up, and `blocks` what
    `free` frees.
    """

    device: OffloadDevice
    queue: DirectiveQueue
    placed: list[tuple[MapItem, Binding]] = attrs.field(factory=list)
    packed: list[_Packed] = attrs.field(factory=list)
    blocks: list[int] = attrs.field(factory=list)

    async def add(self, item: MapItem, at_once: bool = False) -> None:
        """Add an item; at_once: it gets a block of its own now, because the next item is a member of it."""
        array = item.array
        if array is None:
            return
        firstprivate = bool(item.type & TO)
        if firstprivate and item.size <= PACKING_THRESHOLD and not at_once:
            self._pack(item, array)
            return
        address = await self.device.allocate(item.size, array, item.begin, array.phantom)
        self.blocks.append(address)
        self._place(item, address)
        if firstprivate:
            await self.device.submit(self.queue, address, array.span(item.begin, item.size), array)

    def _place(self, item: MapItem, address: int) -> None:
        self.placed.append((item, Binding(address, item.begin, item.begin + item.size)))

    def _pack(self, item: MapItem, array: HostArray) -> None:
        padding = 0
        alignment = MAX_ALIGNMENT
        if self.packed:
            last = self.packed[-1]
            alignment = last.item.size % last.alignment or last.alignment
            needed = required_alignment(item.begin)
            if needed > alignment:
                padding = needed - alignment
                alignment = needed
        self.packed.append(_Packed(item, array, padding, alignment))

    async def transfer(self) -> None:
        """Copy the packed values together on the host, then in one transfer to one block."""
        total = sum(one.padding + one.item.size for one in self.packed)
        await self.device.machine.host_memory.copy(total, "runtime")
        phantom = any(one.array.phantom for one in self.packed)
        address = await self.device.allocate(total, None, 0, phantom)
        self.blocks.append(address)
        buffer = np.zeros(total, np.uint8)
        offset = 0
        for one in self.packed:
            offset += one.padding
            size = one.item.size
            if (values := one.array.span(one.item.begin, size).bytes) is not None:
                buffer[offset : offset + size] = values
            self._place(one.item, address + offset)
            offset += size
        await self.device.submit(self.queue, address, HostSpan(0, total, None if phantom else buffer), None)

    async def free(self) -> None:
        """Free the blocks; when it is left early it can be done again."""
        while self.blocks:
            address = self.blocks[0]
            if self.device.block_size(address) is not None:
                await self.device.free(address, None, 0)
            del self.blocks[0]
