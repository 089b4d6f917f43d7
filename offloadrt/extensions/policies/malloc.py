"""Device memory as LLVM's host plugin (device type generic-64bit) allocates it: by the C library's malloc.

The recordings of real programs were made on that device, and contain the addresses of new blocks. glibc reuses a freed
block for a later request of the same size class only. Here the block that was freed first is reused first, which agrees
with every recorded case.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from offloadrt.runtime.allocators.base import AllocatorSite
from offloadrt.sim import LockStatistics

MINIMUM_CHUNK: Final = 32
CHUNK_ALIGNMENT: Final = 16
CHUNK_OVERHEAD: Final = 8


def chunk_size(nbytes: int) -> int:
    """Return the chunk size, in bytes, by which malloc serves a request for `nbytes`.

    >>> [chunk_size(n) for n in (1, 24, 25, 32, 40, 41)]
    [32, 32, 48, 48, 48, 64]
    """
    rounded = -(-(nbytes + CHUNK_OVERHEAD) // CHUNK_ALIGNMENT) * CHUNK_ALIGNMENT
    return max(MINIMUM_CHUNK, rounded)


class Malloc:
    """Allocates device memory as a C library's malloc does: a freed block serves the next request of its size class.

    If several blocks of a size class are free, the one that was freed first is reused first.
    """

    def __init__(self, site: AllocatorSite) -> None:
        self._driver = site.driver
        self._free: dict[tuple[int, bool], deque[int]] = {}
        self._classes: dict[int, tuple[int, bool]] = {}

    async def allocate(self, nbytes: int, phantom: bool) -> int:
        key = (chunk_size(nbytes), phantom)
        waiting = self._free.get(key)
        address = waiting.popleft() if waiting else await self._driver.alloc(key[0], phantom=phantom)
        self._classes[address] = key
        return address

    async def free(self, address: int) -> None:
        self._free.setdefault(self._classes.pop(address), deque()).append(address)

    async def release_pooled(self) -> None:
        for addresses in self._free.values():
            for address in addresses:
                await self._driver.free(address)
        self._free.clear()

    def locks(self) -> dict[str, LockStatistics]:
        return {}
