"""The memory pool: one block of shared USM that serves the program's allocations without the driver.

A buddy system, as in AdaptiveCpp's ``free_space_map``: blocks are powers of two, of a page at least, so that the
pages of two allocations are never the same. A request takes the free block of its size with the highest address;
without any, the lowest free block of the next larger size is halved. A freed block merges with its other half. Offsets
only: what the pages of the pool cost, and where they are, is the driver's.

Not followed, since they are oversights of the source: it frees a request of less than a page as a block of its own
size, which loses the rest of the page; it gives up where the blocks of the very size all reach over the end of the
pool; and it never gives the pool's last byte.
"""

from __future__ import annotations

from sortedcontainers import SortedList

PAGE = 4096
"""Bytes; the smallest block."""
FRACTION = 0.4
"""The share of the device's memory, or of the largest allocation that it allows where that is less."""
GB = 1 << 30
"""The unit of ``ACPP_STDPAR_MEM_POOL_SIZE``."""


def pool_size(
    max_allocation: int, global_memory: int, system_usm: bool = False, requested_gb: float | None = None
) -> int:
    """Return the bytes of the pool on a device; 0 for none, as with system USM, which can use every allocation.

    requested_gb: ``ACPP_STDPAR_MEM_POOL_SIZE``, which goes before everything else. ValueError for a negative one.
    """
    if requested_gb is not None:
        if requested_gb < 0:
            raise ValueError(f"the memory pool's size is {requested_gb} GB, but must not be negative")
        return int(requested_gb * GB)
    return 0 if system_usm else int(FRACTION * min(max_allocation, global_memory))


class MemoryPool:
    """Offsets into one block of `size` bytes; 0 for a pool that serves nothing. ValueError for a negative size."""

    def __init__(self, size: int, page: int = PAGE) -> None:
        if size < 0:
            raise ValueError(f"the memory pool has {size} bytes, but must not have less than none")
        self.size = size
        self.page = page
        self._top = _block(max(size, page), page)
        self._free: dict[int, SortedList[int]] = {}
        """Offsets of free blocks by their size, also of those beyond the end of the pool."""
        block = page
        while block <= self._top:
            self._free[block] = SortedList()
            block *= 2
        self._free[self._top].add(0)
        self._claimed: dict[int, int] = {}
        """Size of the block at each offset that is in use."""

    @property
    def in_use(self) -> int:
        """Return the bytes of the blocks in use."""
        return sum(self._claimed.values())

    def __len__(self) -> int:
        """Count the blocks in use."""
        return len(self._claimed)

    def __contains__(self, offset: int) -> bool:
        """Tell whether a block in use begins there."""
        return offset in self._claimed

    def claim(self, nbytes: int, alignment: int = 0) -> int | None:
        """Claim a block for `nbytes` and return its offset; None for what the pool leaves to the driver.

        That is half of its size and more, an alignment of its own (0: none), and what does not fit. Nothing counts as
        one byte.
        """
        if alignment or nbytes * 2 >= self.size:
            return None
        needed = max(nbytes, self.page)
        wanted = block = _block(needed, self.page)
        while not self._fits(block, needed):
            block *= 2
            if block > self._top:
                return None
        while block > wanted:
            offset = self._free[block].pop(0)
            block //= 2
            self._free[block].update((offset, offset + block))
        free = self._free[wanted]
        offset = free.pop(free.bisect_right(self.size - needed) - 1)
        self._claimed[offset] = wanted
        return offset

    def release(self, offset: int) -> int:
        """Free the block at `offset`; its bytes. ValueError where none in use begins."""
        if offset not in self._claimed:
            raise ValueError(f"no block of the memory pool in use begins at offset {offset}")
        size = block = self._claimed.pop(offset)
        while block < self._top and (buddy := offset ^ block) in self._free[block]:
            self._free[block].remove(buddy)
            offset = min(offset, buddy)
            block *= 2
        self._free[block].add(offset)
        return size

    def _fits(self, block: int, nbytes: int) -> bool:
        """Tell whether a block of this size is free of which the first `nbytes` are within the pool."""
        free = self._free[block]
        return bool(free) and free[0] + nbytes <= self.size


def _block(nbytes: int, page: int) -> int:
    """Round up to a power of two pages."""
    return page << (-(-nbytes // page) - 1).bit_length()
