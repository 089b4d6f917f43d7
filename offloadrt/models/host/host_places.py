"""Where the arrays of a thread lie: in its part of the heap, as in glibc's malloc, or on its stack.

Places matter to the runtime: a lookup in the present table also locks the neighbour by address. Small heap blocks come
from the arena of the thread that allocates (`HEAP_MAX_SIZE`, 64 MiB), large ones from `mmap` (`M_MMAP_THRESHOLD`, 128
KiB). A freed block is used again for the same size, last freed first. C arrays lie on the thread's own stack (8 MiB,
large ones apart).
"""

from __future__ import annotations

from typing import Final, Literal

import attrs

from offloadrt.machine import HostMemory

HEAP_MAX_SIZE: Final = 64 << 20
MMAP_THRESHOLD: Final = 128 << 10
CHUNK_HEADER: Final = 16
STACK_SIZE: Final = 8 << 20
STACK_ARRAY_LIMIT: Final = 1 << 20
PAGE: Final = 4096


@attrs.define(eq=False)
class Arena:
    """A stretch of addresses that one thread allocates from; a new one is taken when it is full.

    extent: its size; large: blocks from this size on lie apart; gap: bytes between blocks.
    """

    memory: HostMemory
    region: Literal["heap", "stack"]
    extent: int
    large: int
    gap: int
    _top: int = 0
    _end: int = 0
    _free: dict[tuple[int, int], list[int]] = attrs.field(factory=dict)
    _sizes: dict[int, tuple[int, int]] = attrs.field(factory=dict)

    @classmethod
    def heap(cls, memory: HostMemory) -> Arena:
        return cls(memory, "heap", HEAP_MAX_SIZE, MMAP_THRESHOLD, CHUNK_HEADER)

    @classmethod
    def stack(cls, memory: HostMemory) -> Arena:
        return cls(memory, "stack", STACK_SIZE, STACK_ARRAY_LIMIT, 0)

    def allocate(self, nbytes: int, align: int = 16) -> int:
        """Return an address for so many bytes.

        Raises ValueError for a negative size and for an alignment that is no power of two.
        """
        if nbytes < 0 or align < 1 or align & (align - 1):
            raise ValueError(f"{nbytes} bytes aligned to {align}")
        key = (nbytes, align)
        waiting = self._free.get(key)
        if waiting:
            address = waiting.pop()
        elif nbytes >= self.large:
            address = self.memory.allocate(nbytes, max(align, PAGE), self.region)
        else:
            address = self._place(align)
            if address + nbytes > self._end:
                self._top = self.memory.allocate(self.extent, PAGE, self.region)
                self._end = self._top + self.extent
                address = self._place(align)
            self._top = address + nbytes
        self._sizes[address] = key
        return address

    def _place(self, align: int) -> int:
        return -(-(self._top + self.gap) // align) * align

    def release(self, address: int) -> None:
        """Free a block of this arena. KeyError if there is none at this address."""
        # malloc joins free neighbours and cuts them for other sizes. Here a block serves its own size and alignment
        # only: a program that frees one size and allocates another spreads over more addresses than it would with
        # glibc.
        self._free.setdefault(self._sizes.pop(address), []).append(address)
