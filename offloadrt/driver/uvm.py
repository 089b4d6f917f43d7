"""The unified-memory driver of a discrete device (NVIDIA's ``nvidia-uvm``): migrations of managed memory.

Its *space lock* is held for reading by everybody who migrates and for writing by who changes the rules (advice), and
each block is worked on by one at a time.  GPU faults are served by the page-fault handler, an actor; prefetches by the
migration worker, another one; faults of the CPU by the host thread that has them.  Bytes move on the copy engines.

A migration to the GPU needs device memory for the whole block.  When there is none, a fault evicts the block whose last
fault is the longest ago: all its pages go to the host, whether they were written or not.
"""

from __future__ import annotations

from typing import Final, Literal

import attrs

from offloadrt.driver.migration_worker import MigrationWorker
from offloadrt.driver.uvm_costs import UvmCosts
from offloadrt.driver.uvm_fault_handler import UvmFaultHandler
from offloadrt.machine import Device, Machine, ProfileError, Stream
from offloadrt.machine.managed_pages import LOCAL, REMOTE, UNMAPPED, ManagedBlock
from offloadrt.machine.messages import CopyPacket, Packet, Unmapped
from offloadrt.machine.tree_prefetch import with_prefetched
from offloadrt.sim import LockStatistics, RWLock, Signal

Advice = Literal["prefer_host", "prefer_nothing", "accessed_by", "not_accessed_by"]
ADVICE: Final[tuple[Advice, ...]] = ("prefer_host", "prefer_nothing", "accessed_by", "not_accessed_by")
"""CU_MEM_ADVISE_SET_PREFERRED_LOCATION with the CPU as location, UNSET_PREFERRED_LOCATION, SET_ACCESSED_BY with the
device, UNSET_ACCESSED_BY.
"""


@attrs.define
class UvmCounters:
    """What the driver did; bytes and counts."""

    bytes_htod: int = 0
    """Migrated to the device (CUPTI: BYTES_TRANSFER_HTOD)."""
    bytes_dtoh: int = 0
    """Migrated to the host, evictions included (BYTES_TRANSFER_DTOH)."""
    gpu_fault_groups: int = 0
    """Blocks with GPU faults that were served, batch by batch (GPU_PAGE_FAULT)."""
    host_faults: int = 0
    """Faults of the CPU (CPU_PAGE_FAULT_COUNT)."""
    thrashing: int = 0
    """Times that a block was found thrashing (THRASHING)."""
    remote_maps: int = 0
    """Blocks of which pages were mapped over the link, time by time (REMOTE_MAP)."""
    batches: int = 0
    faults: int = 0
    """Of the GPU, that were served."""
    duplicates: int = 0
    """Faults for pages that had a translation when it was their turn."""
    evictions: int = 0
    """Blocks that were evicted."""
    first_on_gpu: int = 0
    """Pages that nobody had touched before the GPU did: nothing to migrate."""


class _Channel:
    """The driver's own channel of the copy engines."""

    number = -1

    def submit(self, packet: Packet) -> None:
        raise NotImplementedError("the driver gives its copies to the engines itself")


class Uvm:
    """Managed memory of one device.  Make it before the first stream; ``start`` it within a run.

    Raises ProfileError on an APU, which has nothing to migrate, or when the profile lacks an entry.
    """

    def __init__(self, machine: Machine, device: Device) -> None:
        spec = machine.spec
        if device.apu:
            raise ProfileError(spec.path, "machine.apu", "is true, so that there is nothing to migrate")
        self.machine = machine
        self.sim = machine.sim
        self.device = device
        self.costs = spec.read(UvmCosts)
        self.counters = UvmCounters()
        suffix = f" {device.index}" if device.index else ""
        self.lock = RWLock(machine.sim, f"uvm space lock{suffix}")
        self.worker = MigrationWorker(self, device.index)
        self.kernels = device.manage(self.worker.mailbox)
        self.pages = self.kernels.pages
        self.handler = UvmFaultHandler(self, self.kernels.handler, uncontended=spec.flag("fault_handler.uncontended"))
        self._contends = not spec.flag("uvm_lock.uncontended")
        self._channel = Stream(-1, _Channel())
        self._busy: dict[int, Signal | None] = {}
        self._pinned: list[ManagedBlock] = []
        self._started = False

    def start(self) -> None:
        """Spawn the actors of the device, the page-fault handler and the migration worker, once."""
        if not self._started:
            self._started = True
            self.device.start()
            self.handler.start()
            self.worker.start()

    # Allocations

    def add(self, begin: int, nbytes: int, populated: bool) -> None:
        """A new allocation; ``populated``: the host has written it at some time before."""
        self.pages.add(begin, nbytes, populated)

    def remove(self, begin: int, nbytes: int) -> None:
        """An allocation is no more; pages that it shares with others stay as they are."""
        size = self.pages.page_size
        low = -(-begin // size) * size
        for block, pages in self.pages.parts(low, (begin + nbytes) // size * size - low):
            block.valid &= ~pages
            block.populated &= ~pages
            self.unmap(block, pages & (block.resident | block.remote))
            block.prefers_host &= ~pages
            block.accessed_by &= ~pages
            if block.index not in self._busy:
                self.release(block)

    # Faults of the GPU, in the page-fault handler

    async def serve(self, index: int, faulted: int, cause: int) -> float:
        """Serve the faults on a block in one batch; returns the seconds that its own work and bytes took."""
        pages, costs, counters = self.pages, self.costs, self.counters
        block = pages.block(index)
        await self.take(block)
        begin = self.sim.now
        try:
            wanted = faulted & ~(block.resident | block.remote)
            counters.faults += wanted.bit_count()
            counters.duplicates += (faulted & ~wanted).bit_count()
            if not wanted:
                return 0.0
            counters.gpu_fault_groups += 1
            block.valid |= wanted
            stays = wanted if block.pinned_until > self.sim.now else wanted & block.prefers_host
            if stays:
                counters.remote_maps += 1
                pages.set_state(block, stays, REMOTE)
            wanted &= ~stays
            if not wanted:
                await self._pay(costs.block)
                return self.sim.now - begin
            brought = self._with_prefetched(block, wanted)
            mapped_by_host = block.host_mapped and brought & block.populated
            cost = costs.block + (costs.first_touch if mapped_by_host else 0.0)
            if not await self._fetch(block, brought, cost, cause, evicts=True):
                counters.remote_maps += 1  # not a block of memory to be had: as if the host were preferred
                pages.set_state(block, wanted, REMOTE)
                return self.sim.now - begin
            self._count_migration(block, to_host=False)
            if pages.lru.pop(index, None) is not None:
                pages.lru[index] = block  # its last fault is now
            return self.sim.now - begin
        finally:
            self.give(block)

    def _with_prefetched(self, block: ManagedBlock, wanted: int) -> int:
        """What is migrated for faults on these pages of a block."""
        if not self.costs.prefetch_tree:
            return wanted
        brought = with_prefetched(block.resident, wanted, block.valid, self.pages.per_block, self.costs.threshold)
        return brought & ~(block.resident | block.remote | (block.prefers_host & ~wanted))

    async def _fetch(self, block: ManagedBlock, brought: int, cost: float, cause: int, *, evicts: bool) -> bool:
        """Migrate pages to the device; False, and nothing is done, when there is no room and none may be made."""
        if block.index not in self.pages.lru:
            if not await self._room(cause, evicts):
                return False
            self.pages.lru[block.index] = block
        await self._pay(cost)
        if moved := brought & block.populated:
            await self._move("h2d", moved, cause)
            block.host_mapped = False
        brought &= block.valid  # what was freed meanwhile stays away
        self.counters.first_on_gpu += (brought & ~block.populated).bit_count()
        self.pages.set_state(block, brought, LOCAL)
        self.release(block)
        return True

    async def _room(self, cause: int, evicts: bool) -> bool:
        """Get device memory for one block; by evictions if need be and allowed."""
        memory, size = self.device.memory, self.pages.block_size
        while not memory.take_managed(size):
            if not evicts or not await self.evict_one(cause):
                return False
        return True

    # Evictions

    async def evict_one(self, cause: int) -> bool:
        """Evict the block whose last fault is the longest ago; False when no block can be evicted.

        A block that somebody works on is passed over; when all are, this waits for the first.
        """
        lru = self.pages.lru
        block = next((one for one in lru.values() if one.index not in self._busy), None)
        if block is None:
            if (first := next(iter(lru.values()), None)) is None:
                return False
            await self.take(first)
            self.give(first)
            return True
        await self.take(block)
        try:
            gone = block.resident
            self.unmap(block, gone)
            self.counters.evictions += 1
            await self._pay(self.costs.evict)
            if gone:
                await self._move("d2h", gone, cause)
            self._map_remote_again(block)
        finally:
            self.release(block)
            self.give(block)
        return True

    async def make_room(self, nbytes: int, cause: int) -> None:
        """Evict until so many bytes are free, for an allocation of the program, or nothing is left to evict."""
        await self.lock_for_reading()
        try:
            while self.device.memory.free_bytes < nbytes and await self.evict_one(cause):
                pass
        finally:
            self.unlock()

    # Faults of the CPU

    async def host_access(self, begin: int, nbytes: int) -> int:
        """The calling thread touches managed memory in order, and has what the GPU owns migrated back.

        Returns the faults that it had.
        """
        count, cause = 0, self.sim.current.cause
        for block, pages in self.pages.parts(begin, nbytes):
            while block.resident & pages or block.index in self._busy:
                count += await self._host_fault(block, pages, cause)
            block.populated |= pages
            block.host_mapped = True
        self.counters.host_faults += count
        return count

    async def _host_fault(self, block: ManagedBlock, pages: int, cause: int) -> int:
        """One fault: the first page of these that the GPU owns comes back, with what the tree brings along."""
        since = self.sim.now
        await self.lock_for_reading()
        try:
            await self.take(block)
            self.machine.host_time.add("driver lock", self.sim.now - since)
            try:
                if not (left := block.resident & pages):
                    return 0
                wanted, per_block = left & -left, self.pages.per_block
                if self.costs.prefetch_tree:
                    wanted = with_prefetched(block.on_host, wanted, block.valid, per_block, self.costs.threshold)
                wanted &= block.resident
                await self.machine.work(self.costs.host_fault, "driver")
                self.unmap(block, wanted)
                since = self.sim.now
                await self._move("d2h", wanted, cause)
                self.machine.host_time.add("copies", self.sim.now - since)
                self._map_remote_again(block)
                self._count_migration(block, to_host=True)
                block.host_mapped = True
                self.release(block)
                return 1
            finally:
                self.give(block)
        finally:
            self.unlock()

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
                        if not await self._fetch(block, wanted, cost, cause, evicts=evicts):
                            return
                finally:
                    self.give(block)
            finally:
                self.unlock()

    async def _send_back(self, block: ManagedBlock, pages: int, cause: int) -> None:
        if pages:
            self.unmap(block, pages)
            await self._pay(self.costs.prefetch_block)
            await self._move("d2h", pages, cause)
            self._map_remote_again(block)
            self.release(block)

    async def advise(self, begin: int, nbytes: int, advice: Advice) -> None:
        """Change the rules for a range; nothing migrates by this.  Raises ValueError for an advice there is not."""
        if advice not in ADVICE:
            raise ValueError(f"no advice {advice!r}; there are {', '.join(ADVICE)}")
        if self._contends:
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
                    self._map_remote_again(block)
                else:
                    block.accessed_by &= ~pages
                    self.unmap(block, pages & block.remote & ~block.prefers_host)
        finally:
            self.unlock()

    def _map_remote_again(self, block: ManagedBlock) -> None:
        """The GPU keeps its translations of what it is advised to access, also while the host owns it."""
        if (pages := block.accessed_by & block.on_host & ~block.remote) != 0:
            self.counters.remote_maps += 1
            self.pages.set_state(block, pages, REMOTE)

    # Thrashing

    def _count_migration(self, block: ManagedBlock, to_host: bool) -> None:
        """A fault has migrated pages of a block; it counts when the fault before went the other way."""
        costs, now = self.costs, self.sim.now
        if block.to_host is to_host:
            return
        block.to_host = to_host
        block.events = block.events + 1 if now - block.last_event <= costs.thrash_lapse else 1
        block.last_event = now
        if costs.detects_thrashing and block.events >= costs.thrash_threshold:
            self.counters.thrashing += 1
            block.events = 0
            block.pinned_until = now + costs.thrash_pin
            self._pinned.append(block)

    def unpin(self) -> None:
        """Blocks whose pin is over are migrated by the next fault again."""
        while self._pinned and self._pinned[0].pinned_until <= self.sim.now:
            block = self._pinned.pop(0)
            self.unmap(block, block.remote & ~(block.prefers_host | block.accessed_by))

    # What all of them use

    def unmap(self, block: ManagedBlock, pages: int) -> None:
        """The GPU loses its translations of these pages; kernels that have them ahead are told."""
        if pages:
            self.pages.set_state(block, pages, UNMAPPED)
            if self.kernels.running:
                low = block.index * self.pages.per_block
                self.device.compute.mailbox.put(Unmapped(low, low + self.pages.per_block))

    def release(self, block: ManagedBlock) -> None:
        """A block without resident pages gives its device memory back."""
        if not block.resident and self.pages.lru.pop(block.index, None) is not None:
            self.device.memory.give_managed(self.pages.block_size)

    async def take(self, block: ManagedBlock) -> None:
        """Be the one who works on a block; ``give`` ends it."""
        while block.index in self._busy:
            signal = self._busy[block.index]
            if signal is None:
                signal = self._busy[block.index] = Signal(self.sim, f"block {block.index:#x}")
            await signal.wait()
        self._busy[block.index] = None

    def give(self, block: ManagedBlock) -> None:
        """Somebody else may work on it."""
        if (signal := self._busy.pop(block.index)) is not None:
            signal.set()

    async def lock_for_reading(self) -> None:
        """Take the space lock for reading, unless it excludes nobody; ``unlock`` gives it back."""
        if self._contends:
            await self.lock.acquire_read()

    def unlock(self) -> None:
        """Give the space lock back."""
        if self._contends:
            self.lock.release()

    async def _pay(self, dt: float) -> None:
        """Work of one of the driver's own threads."""
        await self.sim.sleep(self.machine.jitter(dt))

    async def _move(self, direction: Literal["h2d", "d2h"], pages: int, cause: int) -> None:
        """The pages' bytes go over the link, on a copy engine."""
        nbytes = pages.bit_count() * self.pages.page_size
        number = self.machine.next_number()
        done = Signal(self.sim, f"migration {number} ({direction})")
        packet = CopyPacket(number, self._channel, cause, direction, nbytes, "managed", None, done)
        self.device.engines[direction].submit(packet)
        await done.wait()
        if direction == "h2d":
            self.counters.bytes_htod += nbytes
        else:
            self.counters.bytes_dtoh += nbytes

    def lock_statistics(self) -> LockStatistics:
        """Of the space lock, readers and writers together."""
        lock = self.lock.statistics()
        return LockStatistics(
            acquired=lock.read_acquired + lock.write_acquired,
            contended=lock.contended,
            wait_s=lock.wait_s,
            hold_s=lock.read_hold_s + lock.write_hold_s,
            tasks_waiting=lock.tasks_waiting,
            owner=None,
        )

    def faults(self) -> dict[str, int]:
        """The counters, under CUPTI's names (``CUpti_ActivityUnifiedMemoryCounterKind``) and ours."""
        counters = self.counters
        return {
            "bytes_transfer_htod": counters.bytes_htod,
            "bytes_transfer_dtoh": counters.bytes_dtoh,
            "gpu_page_fault": counters.gpu_fault_groups,
            "cpu_page_fault_count": counters.host_faults,
            "thrashing": counters.thrashing,
            "remote_map": counters.remote_maps,
            "fault_batches": counters.batches,
            "faults": counters.faults,
            "duplicates": counters.duplicates,
            "evicted_blocks": counters.evictions,
            "first_on_gpu": counters.first_on_gpu,
        }
