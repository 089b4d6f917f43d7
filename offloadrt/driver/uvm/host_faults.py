"""Faults of the CPU on managed memory: the host thread that has them serves them (``uvm_va_block_cpu_fault``)."""

from __future__ import annotations

from offloadrt.driver.uvm.blocks import UvmBlocks
from offloadrt.driver.uvm.thrashing import Hint, Thrashing
from offloadrt.machine.managed.block import ManagedBlock
from offloadrt.machine.managed.tree_prefetch import with_prefetched


class HostFaults:
    """Brings back to the host what host threads touch and the GPU owns."""

    def __init__(self, blocks: UvmBlocks, thrashing: Thrashing) -> None:
        self._blocks = blocks
        self._thrashing = thrashing

    async def access(self, begin: int, nbytes: int) -> int:
        """Let the calling thread touch managed memory in order, and have what the GPU owns migrated back.

        Returns the faults that it had.
        """
        blocks = self._blocks
        count, cause = 0, blocks.sim.current.cause
        for block, pages in blocks.pages.parts(begin, nbytes):
            # A fault brings one page and its neighbours in the tree, so a block may need several. Whoever has the block
            # taken may be about to move a page of it either way, so the thread has to look again after that.
            while block.resident & pages or blocks.locks.is_taken(block):
                count += await self._fault(block, pages, cause)
            block.populated |= pages
            block.host_mapped |= pages
        blocks.counters.host_faults += count
        return count

    async def _fault(self, block: ManagedBlock, pages: int, cause: int) -> int:
        """Bring back the first page of these that the GPU owns, with what the tree brings along.

        Returns how many faults that was: 0, after a nap, when the page is throttled, and when it has come meanwhile.
        """
        blocks = self._blocks
        sim, locks, host_time = blocks.sim, blocks.locks, blocks.machine.host_time
        since, until = sim.now, -1.0
        await locks.read()
        try:
            await locks.take(block)
            host_time.add("driver lock", sim.now - since)
            try:
                if not (left := block.resident & pages):
                    return 0
                page = left & -left
                place = page.bit_length() - 1
                hint = self._thrashing.hint(block.index, place, "host", sim.now)
                if hint is Hint.THROTTLE:
                    until = self._thrashing.throttled_until(block.index, place)
                else:
                    await self._bring_back(block, page, hint, cause)
                    for count, usage in blocks.pages.shares(block, page):
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

    async def _bring_back(self, block: ManagedBlock, page: int, hint: Hint, cause: int) -> None:
        """Move a page to the host; pinned there, the GPU reaches it over the link."""
        blocks, thrashing = self._blocks, self._thrashing
        costs, sim, wanted = blocks.costs, blocks.sim, page
        if costs.prefetch_tree:
            per_block, big = blocks.pages.per_block, max(costs.big_page // blocks.pages.page_size, 1)
            thrashes = thrashing.thrashing(block.index)
            wanted = with_prefetched(block.on_host, page, block.valid, per_block, big, costs.threshold, thrashes)
        wanted &= block.resident
        await blocks.machine.work(costs.host_fault, "driver")
        await blocks.stop_queues(block, wanted, cause)
        blocks.unmap(block, wanted)
        since = sim.now
        await blocks.move("d2h", block, wanted, cause)
        blocks.machine.host_time.add("copies", sim.now - since)
        blocks.map_remote_again(block)
        if hint is Hint.PIN:
            blocks.map_remote(block, page)
        thrashing.migrated(block.index, wanted, "host", sim.now)
        block.host_mapped |= wanted
        blocks.release(block)
