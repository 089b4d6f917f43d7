"""Faults of the CPU on managed memory (``uvm_va_block_cpu_fault``): the host thread that has them serves them.

There is no batching here.  A thread comes to one page after the other, and each fault brings the page and what the
prefetch policy adds.
"""

from __future__ import annotations

from offloadrt.driver.uvm.thrashing import Hint
from offloadrt.driver.uvm.va_block import VaBlocks
from offloadrt.machine.managed.block import ManagedBlock


class HostFaults:
    """Brings back to the host what host threads touch and the GPU owns."""

    def __init__(self, blocks: VaBlocks) -> None:
        self._blocks = blocks

    async def access(self, begin: int, nbytes: int, writes: bool) -> int:
        """Let the calling thread touch managed memory in order, and have what GPUs own migrated back.

        ``writes`` says whether it stores to the memory; a load reads a page in place of which the host has a valid
        copy.

        Returns the number of faults that the thread had.
        """
        blocks = self._blocks
        members, count, cause = blocks.space.members, 0, blocks.sim.current.cause
        for block, pages in blocks.pages.parts(begin, nbytes):
            for member in members:
                count += await self._reclaim(member, block.index, pages, writes, cause)
            for member in members:
                member.touched_by_host(block.index, pages)
        return count

    async def _reclaim(self, member: VaBlocks, index: int, pages: int, writes: bool, cause: int) -> int:
        """Bring back what a device owns of some pages of a block; return how many faults that took."""
        block, count = member.pages.block(index), 0
        # A fault brings one page and its neighbours in the tree, so a block may need several. Whoever has the block
        # taken may be about to move a page of it either way, so the thread has to look again after that.
        while self._missing(block, pages, writes) or member.locks.is_taken(block):
            count += await self._fault(member, block, pages, writes, cause)
        member.counters.host_faults += count
        return count

    def _missing(self, block: ManagedBlock, pages: int, writes: bool) -> int:
        """Return the pages of a device that an access of the host faults on.

        The host reaches system-allocated memory on the device over the coherent link, so that it does not fault there.
        """
        return block.resident & pages & ~(block.system if writes else block.host_copy | block.system)

    async def _fault(self, member: VaBlocks, block: ManagedBlock, pages: int, writes: bool, cause: int) -> int:
        """Bring back the first of some pages that the GPU owns, with what the prefetch policy brings along.

        Returns 1, or 0 when there was no fault after all: the page came meanwhile, or it is throttled and the thread
        has taken a nap.
        """
        sim, locks, host_time = member.sim, member.locks, member.machine.host_time
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
                hint = member.thrashing.hint(block.index, place, "host", sim.now)
                if hint is Hint.THROTTLE:
                    until = member.thrashing.throttled_until(block.index, place)
                else:
                    await self._bring_back(member, block, page, hint, writes, cause)
                    for count, usage in member.pages.shares(block, page):
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

    async def _bring_back(
        self, member: VaBlocks, block: ManagedBlock, page: int, hint: Hint, writes: bool, cause: int
    ) -> None:
        """Move a page to the host; if it is pinned there, the GPU reaches it over the link."""
        machine, space, sim, thrashing = member.machine, member.space, member.sim, member.thrashing
        thrashes = thrashing.thrashing(block.index)
        brought = member.prefetch.brings(block.on_host, page, block.valid, thrashes, member.prefetch_rules)
        wanted = (brought & block.valid | page) & block.resident
        await machine.work(member.costs.host_fault, "driver")
        await member.stop_queues(block, wanted, cause)
        since = sim.now
        kept = 0 if writes else wanted & block.read_mostly
        for other, record in [*space.others(member.device.index, block.index)]:
            if gone := record.resident & wanted & ~kept:
                await machine.work(space.costs.unmap, "driver")
                since = sim.now
                other.unmap(record, gone)
                other.release_memory(record)
        await member.copy_home(block, wanted, kept, cause)
        machine.host_time.add("copies", sim.now - since)
        if hint is Hint.PIN:
            member.map_remote(block, page)
        thrashing.migrated(block.index, wanted, "host", sim.now)
        block.map_on_host(wanted)
        member.release_memory(block)
