"""The unified-memory driver of a discrete device (NVIDIA's ``nvidia-uvm``): migrations of managed memory.

Its *space lock* is held for reading by everybody who migrates and for writing by who changes the rules (advice), and
each block is worked on by one at a time.  GPU faults are served by the page-fault handler, an actor; prefetches by the
migration worker, another one; faults of the CPU by the host thread that has them.  How a block is fetched and evicted
is in ``uvm_blocks.py``.
"""

from __future__ import annotations

from typing import Final, Literal

from offloadrt.driver.migration_worker import MigrationWorker
from offloadrt.driver.uvm_blocks import UvmBlocks
from offloadrt.driver.uvm_fault_handler import UvmFaultHandler
from offloadrt.driver.uvm_thrashing import Hint, Thrashing, ThrashingRules
from offloadrt.machine import Device, Machine, ProfileError
from offloadrt.machine.managed_block import ManagedBlock
from offloadrt.machine.managed_pages import REMOTE
from offloadrt.machine.tree_prefetch import with_prefetched

Advice = Literal["prefer_host", "prefer_nothing", "accessed_by", "not_accessed_by"]
ADVICE: Final[tuple[Advice, ...]] = ("prefer_host", "prefer_nothing", "accessed_by", "not_accessed_by")
"""CU_MEM_ADVISE_SET_PREFERRED_LOCATION with the CPU as location, UNSET_PREFERRED_LOCATION, SET_ACCESSED_BY with the
device, UNSET_ACCESSED_BY.
"""


class Uvm(UvmBlocks):
    """Managed memory of one device.  Make it before the first stream; ``start`` it within a run.

    Raises ProfileError on an APU, which has nothing to migrate, or when the profile lacks an entry.
    """

    def __init__(self, machine: Machine, device: Device) -> None:
        spec = machine.spec
        if device.apu:
            raise ProfileError(spec.path, "machine.apu", "is true, so that there is nothing to migrate")
        self.worker = MigrationWorker(machine.sim, device.index, self)
        super().__init__(machine, device, device.manage(self.worker.mailbox))
        self.handler = UvmFaultHandler(self, self.kernels.handler, uncontended=spec.flag("fault_handler.uncontended"))
        self.thrashing = Thrashing(machine.spec.read(ThrashingRules), self.pages.per_block, self.counters)
        self._started = False

    def start(self) -> None:
        """Spawn the actors of the device, the page-fault handler and the migration worker, once."""
        if not self._started:
            self._started = True
            self.device.start()
            self.handler.start()
            self.worker.start()

    # Allocations

    def add(self, begin: int, nbytes: int, populated: bool, name: str = "") -> None:
        """A new allocation, of the object of this name; ``populated``: the host has written it at some time before."""
        self.pages.add(begin, nbytes, populated, name)

    def remove(self, begin: int, nbytes: int) -> None:
        """An allocation is no more; pages that it shares with others stay as they are until the last one goes."""
        for block, pages in self.pages.remove(begin, nbytes):
            self.unmap(block, pages & (block.resident | block.remote))
            block.prefers_host &= ~pages
            block.accessed_by &= ~pages
            self.thrashing.forget(block.index, pages)
            if not self.is_busy(block):
                self.release(block)

    def keep_on_host(self, begin: int, nbytes: int) -> None:
        """An allocation lies on the host, and the device translates it from the start: as on devices without faults."""
        for block, pages in self.pages.parts(begin, nbytes):
            block.prefers_host |= pages
            block.accessed_by |= pages
            self.pages.set_state(block, pages, REMOTE)

    # Faults of the GPU, in the page-fault handler

    async def serve(self, index: int, faulted: int, cause: int) -> tuple[float, int]:
        """Serve the faults on a block in one batch.

        Returns the seconds that its own work and bytes took, and the pages that are not to be had now (thrashing).
        """
        pages, costs, counters = self.pages, self.costs, self.counters
        block = pages.block(index)
        await self.take(block)
        begin = self.sim.now
        try:
            wanted = faulted & ~(block.resident | block.remote)
            self.count_faults(block, faulted, wanted)
            if not wanted:
                return 0.0, 0
            thrashing, throttled = self.thrashing.thrashing(index), 0
            if thrashing or block.prefers_host:
                throttled, pinned = self._hints(block, wanted & thrashing & ~block.prefers_host)
                stays = wanted & block.prefers_host | pinned
                if stays:
                    counters.remote_maps += 1
                    pages.set_state(block, stays, REMOTE)
                wanted &= ~(stays | throttled)
                if not wanted:
                    await self.pay(costs.block if stays else 0.0)
                    return self.sim.now - begin, throttled
            brought = self.brought_by(block, wanted, thrashing)
            moved = brought & block.populated
            if await self.fetch(block, brought, self.cost_of(block, brought), cause, evicts=True):
                self.has_served(block, moved, self.sim.now)
            else:
                await self.map_without_room(block, wanted)
            return self.sim.now - begin, throttled
        finally:
            self.give(block)

    def count_faults(self, block: ManagedBlock, faulted: int, wanted: int) -> None:
        """Faults on pages of a block are served; those that are not wanted have a translation already."""
        block.valid |= wanted
        counters, own, usage = self.counters, *block.sole
        if faulted != wanted:
            counters.duplicates += (faulted ^ wanted).bit_count()
        if not wanted:
            return
        faults = wanted.bit_count()
        counters.gpu_fault_groups += 1
        counters.faults += faults
        if usage is not None and not wanted & ~own:
            usage.faults += faults
        else:
            for count, usage in self.pages.shares(block, wanted):
                usage.faults += count

    def _hints(self, block: ManagedBlock, wanted: int) -> tuple[int, int]:
        """Of thrashing pages that the GPU faults on: those it may not have now, and those that stay on the host."""
        throttled = pinned = 0
        while wanted:
            page = wanted & -wanted
            wanted &= ~page
            hint = self.thrashing.hint(block.index, page.bit_length() - 1, "device", self.sim.now)
            throttled |= page if hint is Hint.THROTTLE else 0
            pinned |= page if hint is Hint.PIN else 0
        return throttled, pinned

    def brought_by(self, block: ManagedBlock, wanted: int, thrashing: int = 0) -> int:
        """What is migrated for faults on these pages of a block."""
        costs, resident = self.costs, block.resident
        if not costs.prefetch_tree:
            return wanted
        brought = with_prefetched(resident, wanted, block.valid, self.pages.per_block, costs.threshold)
        stays = resident | block.remote
        if kept := block.prefers_host | thrashing:
            stays |= kept & ~wanted
        return brought & ~stays

    def cost_of(self, block: ManagedBlock, brought: int) -> float:
        """Seconds of the driver's work for the migration of these pages of a block."""
        if host_mapped := block.host_mapped & brought:
            return self.costs.block + self.costs.first_touch * (host_mapped.bit_count() / self.pages.per_block)
        return self.costs.block

    def has_served(self, block: ManagedBlock, moved: int, now: float) -> None:
        """Faults on a block had these pages moved to the device; they are its last ones."""
        if moved:
            self.thrashing.migrated(block.index, moved, "device", now)
        if block.index in self.pages.lru:
            self.pages.lru.move_to_end(block.index)

    # Faults of the CPU

    async def host_access(self, begin: int, nbytes: int) -> int:
        """The calling thread touches managed memory in order, and has what the GPU owns migrated back.

        Returns the faults that it had.
        """
        count, cause = 0, self.sim.current.cause
        for block, pages in self.pages.parts(begin, nbytes):
            while block.resident & pages or self.is_busy(block):
                count += await self._host_fault(block, pages, cause)
            block.populated |= pages
            block.host_mapped |= pages
        self.counters.host_faults += count
        return count

    async def _host_fault(self, block: ManagedBlock, pages: int, cause: int) -> int:
        """One fault: the first page of these that the GPU owns comes back, with what the tree brings along.

        Returns 0, after a nap, when the page is throttled.
        """
        since, until = self.sim.now, -1.0
        await self.lock_for_reading()
        try:
            await self.take(block)
            self.machine.host_time.add("driver lock", self.sim.now - since)
            try:
                if not (left := block.resident & pages):
                    return 0
                page = left & -left
                place = page.bit_length() - 1
                hint = self.thrashing.hint(block.index, place, "host", self.sim.now)
                if hint is Hint.THROTTLE:
                    until = self.thrashing.throttled_until(block.index, place)
                else:
                    await self._bring_back(block, page, hint, cause)
                    for count, usage in self.pages.shares(block, page):
                        usage.host_faults += count
            finally:
                self.give(block)
        finally:
            self.unlock()
        if until < 0.0:
            return 1
        nap = max(until - self.sim.now, 0.0)
        await self.sim.sleep(nap)
        self.machine.host_time.add("driver", nap)
        return 0

    async def _bring_back(self, block: ManagedBlock, page: int, hint: Hint, cause: int) -> None:
        """A page comes to the host; pinned there, the GPU reaches it over the link."""
        wanted, per_block, index = page, self.pages.per_block, block.index
        if self.costs.prefetch_tree:
            wanted = with_prefetched(block.on_host, page, block.valid, per_block, self.costs.threshold)
            wanted &= page | ~self.thrashing.thrashing(index)
        wanted &= block.resident
        await self.machine.work(self.costs.host_fault, "driver")
        await self.stop_queues(block, wanted, cause)
        self.unmap(block, wanted)
        since = self.sim.now
        await self.move("d2h", block, wanted, cause)
        self.machine.host_time.add("copies", self.sim.now - since)
        self.map_remote_again(block)
        if hint is Hint.PIN:
            self.counters.remote_maps += 1
            self.pages.set_state(block, page, REMOTE)
        self.thrashing.migrated(index, wanted, "host", self.sim.now)
        block.host_mapped |= wanted
        self.release(block)

    # Prefetches, in the migration worker, and advice

    async def prefetch(self, begin: int, nbytes: int, to_host: bool, cause: int) -> None:
        """Migrate a range, block by block; to the device only as far as there is room, or room may be made."""
        for block, pages in self.pages.parts(begin, nbytes):
            await self.lock_for_reading()
            try:
                await self.take(block)
                try:
                    if to_host:
                        await self._send_back(block, block.resident & pages, cause)
                    elif wanted := pages & block.valid & ~block.resident:
                        cost, evicts = self.costs.prefetch_block, self.costs.prefetch_evicts
                        self.thrashing.forget(block.index, wanted)
                        if not await self.fetch(block, wanted, cost, cause, evicts=evicts):
                            return
                finally:
                    self.give(block)
            finally:
                self.unlock()

    async def _send_back(self, block: ManagedBlock, pages: int, cause: int) -> None:
        if pages:
            self.thrashing.forget(block.index, pages)
            await self.stop_queues(block, pages, cause)
            self.unmap(block, pages)
            await self.pay(self.costs.prefetch_block)
            await self.move("d2h", block, pages, cause)
            self.map_remote_again(block)
            self.release(block)

    async def advise(self, begin: int, nbytes: int, advice: Advice) -> None:
        """Change the rules for a range; nothing migrates by this.  Raises ValueError for an advice there is not."""
        if advice not in ADVICE:
            raise ValueError(f"no advice {advice!r}; there are {', '.join(ADVICE)}")
        if self.contends:
            since = self.sim.now
            await self.lock.acquire_write()
            self.machine.host_time.add("driver lock", self.sim.now - since)
        try:
            await self.machine.work(self.costs.advise, "driver")
            for block, pages in self.pages.parts(begin, nbytes):
                if advice == "prefer_host":
                    block.prefers_host |= pages
                elif advice == "prefer_nothing":
                    block.prefers_host &= ~pages
                    self.unmap(block, pages & block.remote & ~block.accessed_by)
                elif advice == "accessed_by":
                    block.accessed_by |= pages
                    self.map_remote_again(block)
                else:
                    block.accessed_by &= ~pages
                    self.unmap(block, pages & block.remote & ~block.prefers_host)
        finally:
            self.unlock()

    # Thrashing

    def unpin(self) -> None:
        """Pages whose pin is over are migrated by the next fault again."""
        for index, place in self.thrashing.unpinned(self.sim.now):
            block = self.pages.block(index)
            self.unmap(block, 1 << place & block.remote & ~(block.prefers_host | block.accessed_by))
