"""Faults of the CPU on managed memory: the host thread that has them serves them (``uvm_va_block_cpu_fault``)."""

from __future__ import annotations

from offloadrt.driver.uvm.thrashing import Hint
from offloadrt.driver.uvm.va_block import BlockMover, BlockRecords
from offloadrt.machine.managed.block import ManagedBlock
from offloadrt.driver.uvm.prefetch.tree import with_prefetched


class HostFaults:
    """Brings back to the host what host threads touch and the GPU owns."""

    def __init__(self, records: BlockRecords, mover: BlockMover) -> None:
        self._records = records
        self._mover = mover

    async def access(self, begin: int, nbytes: int, writes: bool = True) -> int:
        """Let the calling thread touch managed memory in order, and have what GPUs own migrated back.

        ``writes``: it stores to it; a page of which the host has a valid copy is otherwise read in place.

        Returns the faults that it had.
        """
        sides, count, cause = self._records.space.host_sides, 0, self._records.sim.current.cause
        for block, pages in self._records.pages.parts(begin, nbytes):
            for side in sides:
                count += await side.reclaim(block.index, pages, writes, cause)
            for side in sides:
                side.touched(block.index, pages)
        return count

    async def reclaim(self, index: int, pages: int, writes: bool, cause: int) -> int:
        """Bring back what the device owns of some pages of a block; return how many faults that took."""
        block, count = self._records.pages.block(index), 0
        # A fault brings one page and its neighbours in the tree, so a block may need several. Whoever has the block
        # taken may be about to move a page of it either way, so the thread has to look again after that.
        while self._missing(block, pages, writes) or self._records.locks.is_taken(block):
            count += await self._fault(block, pages, writes, cause)
        self._records.counters.host_faults += count
        return count

    def touched(self, index: int, pages: int) -> None:
        """Note that the host has translations of some pages of a block."""
        block = self._records.pages.block(index)
        block.populated |= pages
        block.host_mapped |= pages
        if block.system & pages:
            self._records.map_remote_again(block)

    def _missing(self, block: ManagedBlock, pages: int, writes: bool) -> int:
        """Return the pages of the device's that an access of the host faults on.

        System-allocated memory on the device it reaches over the coherent link.
        """
        return block.resident & pages & ~(block.system if writes else block.host_copy | block.system)

    async def _fault(self, block: ManagedBlock, pages: int, writes: bool, cause: int) -> int:
        """Bring back the first page of these that the GPU owns, with what the tree brings along.

        Returns how many faults that was: 0, after a nap, when the page is throttled, and when it has come meanwhile.
        """
        sim, locks, host_time = self._records.sim, self._records.locks, self._records.machine.host_time
        since, until = sim.now, -1.0
        await locks.read()
        try:
            await locks.take(block)
            host_time.add("driver lock", sim.now - since)
            try:
                if not (left := self._missing(block, pages, writes)):
                    return 0
                page = left & -left
                place = page.bit_length() - 1
                hint = self._records.thrashing.hint(block.index, place, "host", sim.now)
                if hint is Hint.THROTTLE:
                    until = self._records.thrashing.throttled_until(block.index, place)
                else:
                    await self._bring_back(block, page, hint, writes, cause)
                    for count, usage in self._records.pages.shares(block, page):
                        usage.host_faults += count
            finally:
                locks.give(block)
        finally:
            locks.release()
        if until < 0.0:
            return 1
        # The thread sleeps without the locks, as nvidia-uvm does: it naps after it has left the block.
        nap = max(until - sim.now, 0.0)
        await sim.sleep(nap)
        host_time.add("driver", nap)
        return 0

    async def _bring_back(self, block: ManagedBlock, page: int, hint: Hint, writes: bool, cause: int) -> None:
        """Move a page to the host; pinned there, the GPU reaches it over the link."""
        records, machine, space, sim = self._records, self._records.machine, self._records.space, self._records.sim
        costs, thrashing, wanted = records.costs, records.thrashing, page
        if costs.prefetch_tree:
            per_block, big, threshold = records.pages.per_block, records.big_pages, costs.threshold
            thrashes = thrashing.thrashing(block.index)
            wanted = with_prefetched(block.on_host, page, block.valid, per_block, big, threshold, thrashes)
        wanted &= block.resident
        await machine.work(costs.host_fault, "driver")
        await self._mover.stop_queues(block, wanted, cause)
        since = sim.now
        kept = 0 if writes else wanted & block.read_mostly
        for member, record in [*space.others(records.device.index, block.index)]:
            if gone := record.resident & wanted & ~kept:
                await machine.work(space.costs.unmap, "driver")
                since = sim.now
                member.unmap(record, gone)
                member.release_memory(record)
        await self._copy_home(block, wanted, kept, cause)
        machine.host_time.add("copies", sim.now - since)
        if hint is Hint.PIN:
            records.map_remote(block, page)
        thrashing.migrated(block.index, wanted, "host", sim.now)
        block.host_mapped |= wanted
        records.release_memory(block)

    async def send_back(self, index: int, pages: int, cause: int) -> None:
        """Migrate what the device owns of some pages of a block to the host, as a prefetch asks for."""
        block = self._records.pages.block(index)
        if pages := pages & block.resident:
            self._records.thrashing.forget(index, pages)
            await self._mover.stop_queues(block, pages, cause)
            await self._copy_home(block, pages, pages & block.read_mostly, cause, self._records.costs.prefetch_block)
            self._records.release_memory(block)

    async def _copy_home(self, block: ManagedBlock, pages: int, kept: int, cause: int, work: float = 0.0) -> None:
        """Copy pages to the host, but for those of which it has a copy; the device keeps copies of some."""
        records, moved = self._records, pages & ~block.host_copy
        records.unmap(block, pages & ~kept)
        records.protect(block, kept)
        if work:
            await records.pay(work)
        if moved:
            await self._mover.carry_home(block, moved, cause)
        if copies := pages & (block.resident | block.elsewhere):
            records.space.has_host_copy(block.index, copies, valid=True)
        records.space.came_home(block.index)
