"""LLVM's memory manager: small blocks are pooled in 13 buckets and handed out again for exactly the same size.

Follows `MemoryManagerTy` (offload/plugins-nextgen/common/include/MemoryManager.h): requests up to the threshold
(LIBOMPTARGET_MEMORY_MANAGER_THRESHOLD, 8 KiB by default, 0 disables) are searched in the bucket of their size under
that bucket's mutex; a miss asks the driver. Freed blocks stay. Only when the driver is out of memory is everything
pooled returned to it, and the request repeated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable
from typing import Final

import attrs

from offloadrt.driver import OutOfDeviceMemory
from offloadrt.runtime.allocators.base import AllocatorSite
from offloadrt.runtime.lock_wait import no_work, take
from offloadrt.sim import Lock, LockStatistics

BUCKETS: Final = 13


def bucket_of(nbytes: int) -> int:
    """Return the bucket of a size: 0 for less than 4 bytes, then one per power of two, the last from 8 KiB on.

    >>> [bucket_of(n) for n in (1, 4, 7, 8, 4096, 8191, 8192, 1 << 20)]
    [0, 1, 1, 2, 11, 11, 12, 12]
    """
    if nbytes < 4:
        return 0
    return min(nbytes.bit_length() - 2, BUCKETS - 1)


@attrs.frozen
class _Block:
    address: int
    nbytes: int
    phantom: bool


@attrs.define(eq=False)
class _Bucket:
    """Free blocks by size; among blocks of one size, the first freed is the first reused."""

    lock: Lock
    free: dict[tuple[int, bool], deque[_Block]] = attrs.field(factory=dict)


class LlvmMemoryManager:
    """Keeps small freed blocks by size for reuse, as LLVM's memory manager does; the default for OpenMP programs."""

    title = "memory manager"
    """Prefix of the names of its locks."""

    def __init__(self, site: AllocatorSite) -> None:
        self._site = site
        self.threshold = site.threshold
        self._buckets = [_Bucket(Lock(site.sim, site.named(f"{self.title} bucket {i}"))) for i in range(BUCKETS)]
        self._table_lock = Lock(site.sim, site.named(f"{self.title} map"))
        self._blocks: dict[int, _Block] = {}
        self.hits = 0
        self.misses = 0

    def allocate(self, nbytes: int, phantom: bool) -> Awaitable[int]:
        if nbytes > self.threshold:
            return self._allocate_or_flush(nbytes, phantom)
        return self._allocate_pooled(nbytes, phantom)

    async def _allocate_pooled(self, nbytes: int, phantom: bool) -> int:
        bucket = self._buckets[bucket_of(nbytes)]
        block: _Block | None = None
        await self._take(bucket.lock)
        try:
            await self._site.work(self._site.hand_out_s)
            waiting = bucket.free.get((nbytes, phantom))
            if waiting:
                block = waiting.popleft()
        finally:
            self._release(bucket.lock)
        if block is not None:
            self.hits += 1
            return block.address
        self.misses += 1
        address = await self._allocate_or_flush(nbytes, phantom)
        block = _Block(address, nbytes, phantom)
        try:
            await self._take(self._table_lock)
        except BaseException:
            self._pool(bucket, block)
            raise
        self._blocks[address] = block
        self._release(self._table_lock)
        return address

    async def free(self, address: int) -> None:
        await self._take(self._table_lock)
        block = self._blocks.get(address)
        self._release(self._table_lock)
        if block is None:
            await self._site.driver.free(address)
            return
        bucket = self._buckets[bucket_of(block.nbytes)]
        await self._take(bucket.lock)
        try:
            await self._site.work(self._site.hand_out_s)
            bucket.free.setdefault((block.nbytes, block.phantom), deque()).append(block)
        finally:
            self._release(bucket.lock)

    def _take(self, lock: Lock) -> Awaitable[None]:
        return no_work() if self._site.uncontended else take(lock, self._site.host_time)

    def _release(self, lock: Lock) -> None:
        if not self._site.uncontended:
            lock.release()

    async def _allocate_or_flush(self, nbytes: int, phantom: bool) -> int:
        driver = self._site.driver
        try:
            return await driver.alloc(nbytes, phantom=phantom)
        except OutOfDeviceMemory:
            await self.release_pooled()
        return await driver.alloc(nbytes, phantom=phantom)

    async def release_pooled(self) -> None:
        """Free each bucket's blocks under its mutex, as LLVM does.

        The records of the blocks are removed first. Once a block is freed, the driver may give its address to another
        thread, whose record must stay. After a cancellation or a failing free, the remaining blocks are pooled again.
        """
        for bucket in self._buckets:
            await self._take(bucket.lock)
            try:
                await self._empty(bucket)
            finally:
                self._release(bucket.lock)

    async def _empty(self, bucket: _Bucket) -> None:
        blocks = deque(block for waiting in bucket.free.values() for block in waiting)
        if not blocks:
            return
        bucket.free.clear()
        try:
            await self._take(self._table_lock)
            for block in blocks:
                del self._blocks[block.address]
            self._release(self._table_lock)
            while blocks:
                await self._site.driver.free(blocks[0].address)
                blocks.popleft()
        except BaseException:
            for block in blocks:
                if self._site.begins(block.address):
                    self._pool(bucket, block)
            raise

    def _pool(self, bucket: _Bucket, block: _Block) -> None:
        """Put a block back into the pool after a cancellation or an error, for the next request of its size."""
        self._blocks[block.address] = block
        bucket.free.setdefault((block.nbytes, block.phantom), deque()).append(block)

    def locks(self) -> dict[str, LockStatistics]:
        every = [bucket.lock for bucket in self._buckets] + [self._table_lock]
        return {lock.name: lock.statistics() for lock in every}
