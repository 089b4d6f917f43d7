"""Faults of the GPU on one block of managed memory: which pages come to the device, which stay, and which have to wait.

Follows ``service_fault_batch_block_locked`` and ``uvm_va_block_service_locked`` of nvidia-uvm.
"""

from __future__ import annotations

from offloadrt.driver.uvm.block_mover import BlockMover
from offloadrt.driver.uvm.block_records import BlockRecords
from offloadrt.driver.uvm.thrashing import Hint
from offloadrt.machine.managed.block import ManagedBlock
from offloadrt.machine.managed.tree_prefetch import with_prefetched
from offloadrt.sim import Signal


class GpuFaults:
    """Serves the faults of a device's kernels, block by block; the caller holds the space lock for reading."""

    def __init__(self, records: BlockRecords, mover: BlockMover) -> None:
        self._records = records
        self._mover = mover

    async def serve(
        self, index: int, faulted: int, entries: int, cause: int, copies: list[Signal], stored: int = 0
    ) -> tuple[float, int]:
        """Serve the faults on a block in one batch, so many entries; copies that it submits are added to ``copies``.

        ``stored``: the pages of them that stores have met.

        Returns the seconds that its own work took, and the pages that are not to be had now (thrashing).
        """
        records, pages, thrashing = self._records, self._records.pages, self._records.thrashing
        sim, locks, block = records.sim, records.locks, pages.block(index)
        await locks.take(block)  # a prefetch or a host thread may work on it
        begin, arrival = sim.now, None
        try:
            # Others may have brought a page while the batch waited for this block.
            wanted = faulted & ~(block.resident | block.remote)
            if stored:
                wanted |= faulted & block.read_only & stored
            self._count(block, faulted, wanted)
            if not wanted:
                return 0.0, 0
            if records.space.shared or block.read_mostly or block.read_only:
                wanted = await self._map_in_place(block, wanted, cause)
                if not wanted:
                    await records.pay(records.costs.block + records.costs.service_entry * entries)
                    return sim.now - begin, 0
            thrashes, throttled = thrashing.thrashing(index), 0
            if thrashes or block.prefers_host:
                kept = block.prefers_host & ~block.read_mostly
                throttled, pinned = self._hints(block, wanted & thrashes & ~kept)
                stays = wanted & kept | pinned
                if stays:
                    records.map_remote(block, stays)
                wanted &= ~(stays | throttled)
                if not wanted:
                    await records.pay(records.costs.block if stays else 0.0)
                    return sim.now - begin, throttled
            brought = self._brought_by(block, wanted, thrashes)
            moved = brought & block.populated
            cost = self._cost_of(block, entries, brought)
            evicts = not wanted & block.system  # what the host makes for the GPU is on the host when there is no room
            arrival = await self._mover.fetch(block, brought, cost, cause, evicts=evicts, stored=stored)
            if arrival:
                if isinstance(arrival, Signal):
                    copies.append(arrival)
                if moved:
                    thrashing.migrated(index, moved, "device", sim.now)
                if index in pages.lru:
                    pages.lru.move_to_end(index)  # its last fault is the latest (uvm_pmm_gpu_mark_root_chunk_used)
            else:
                await records.map_without_room(block, wanted)
            return sim.now - begin, throttled
        finally:
            if not isinstance(arrival, Signal):
                locks.give(block)

    async def _map_in_place(self, block: ManagedBlock, wanted: int, cause: int) -> int:
        """Serve what needs no migration to the device; return the pages that are left.

        A store to a page of which it has a copy takes the other copies away.  A page that is to stay on a device which
        this one reaches goes there, if it is not there yet, and is mapped; so is one that this device is advised to
        access (``block_select_processor_residency``).
        """
        records, space, here = self._records, self._records.space, self._records.device.index
        if alone := wanted & block.resident:
            await records.invalidate_copies(block, alone)
            wanted &= ~alone
        for member, record in [*space.others(here, block.index)]:
            there = member.device.index
            if not space.reaches(here, there):
                continue
            prefers = wanted & record.prefers_here & ~block.read_mostly
            if absent := prefers & ~record.resident:
                # The driver goes on meanwhile and maps behind the copy; here the handler waits for it, once for a page.
                fetch = space.movers[there].fetch
                arrival = await fetch(record, absent, records.costs.block, cause, evicts=True, stored=absent)
                if isinstance(arrival, Signal):
                    await arrival.wait()
                    await records.locks.take(block)
            if mapped := wanted & record.resident & (record.prefers_here | block.accessed_by) & ~block.read_mostly:
                await records.pay(space.costs.map)
                records.map_at_peer(block, mapped, member)
            wanted &= ~(block.resident | block.remote)
        return wanted

    def unpin(self) -> None:
        """Unmap the pages whose pin is over: the next fault migrates them again."""
        for index, place in self._records.thrashing.unpinned(self._records.sim.now):
            block = self._records.pages.block(index)
            self._records.unmap(block, 1 << place & block.remote & ~(block.prefers_host | block.accessed_by))

    def _count(self, block: ManagedBlock, faulted: int, wanted: int) -> None:
        """Count faults on pages of a block; those that are not wanted have a translation already."""
        counters = self._records.counters
        if faulted != wanted:
            counters.duplicates += (faulted ^ wanted).bit_count()
        if not wanted:
            return
        block.valid |= wanted
        faults = wanted.bit_count()
        own, usage = block.sole
        counters.gpu_fault_groups += 1
        counters.faults += faults
        if usage is not None and not wanted & ~own:
            usage.faults += faults
        else:
            for count, usage in self._records.pages.shares(block, wanted):
                usage.faults += count

    def _hints(self, block: ManagedBlock, wanted: int) -> tuple[int, int]:
        """Tell which of some thrashing pages the GPU may not have now, and which stay on the host."""
        throttled = pinned = 0
        while wanted:
            page = wanted & -wanted
            wanted &= ~page
            hint = self._records.thrashing.hint(block.index, page.bit_length() - 1, "device", self._records.sim.now)
            throttled |= page if hint is Hint.THROTTLE else 0
            pinned |= page if hint is Hint.PIN else 0
        return throttled, pinned

    def _brought_by(self, block: ManagedBlock, wanted: int, thrashes: int) -> int:
        """Return what migrates for faults on these pages of a block."""
        costs, resident = self._records.costs, block.resident
        if not costs.prefetch_tree:
            return wanted
        per_block, big, threshold = self._records.pages.per_block, self._records.big_pages, costs.threshold
        brought = with_prefetched(resident, wanted, block.valid, per_block, big, threshold, thrashes)
        stays = resident | block.remote
        # A page that is to stay on the host comes only for a fault of its own.
        if block.prefers_host:
            stays |= block.prefers_host & ~(block.read_mostly | wanted)
        if self._records.space.shared:
            stays |= self._records.space.preferred_by_others(self._records.device.index, block.index) & ~wanted
        return brought & ~stays

    def _cost_of(self, block: ManagedBlock, entries: int, brought: int) -> float:
        """Return the seconds of the driver's work for so many faults on a block, and for the pages that they bring."""
        costs, in_place = self._records.costs, self._records.system_costs
        cost = costs.block + costs.service_entry * entries + self._records.map_for_copies(block, block.on_host)
        if host_mapped := block.host_mapped & brought:
            stretches = (host_mapped & ~(host_mapped << 1)).bit_count()
            cost += costs.unmap * (host_mapped.bit_count() / self._records.pages.per_block)
            cost += costs.unmap_range * (stretches - 1)
        if block.system and in_place is not None:
            cost += in_place.first_touch * (brought & block.system & ~block.populated).bit_count()
        return cost
