"""Blocks of managed memory on the move: how one is fetched to the device and evicted, and what the GPU can translate.

A migration to the GPU needs device memory for the whole block.  When there is none, the block whose last fault is the
longest ago is evicted: all its pages go to the host, whether they were written or not.  Everybody who migrates takes
these steps: the page-fault handler, the migration worker, host threads that fault, and allocations that need room.

The driver submits copies and goes on.  A copy to the device waits for the write-back of what was there before, and the
GPU can translate a page when its copy has ended (nvidia-uvm has a tracker for each block, which the next copy and the
update of the page table acquire).  A block of which a copy is under way stays locked, so that whoever wants it waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Literal

from offloadrt.driver.uvm.costs import UvmCosts
from offloadrt.driver.uvm.counters import UvmCounters
from offloadrt.driver.uvm.locks import UvmLocks
from offloadrt.driver.uvm.queue_eviction import QueueEviction
from offloadrt.machine import Device, Machine
from offloadrt.machine.managed.block import ManagedBlock
from offloadrt.machine.managed.kernels import ManagedKernels
from offloadrt.machine.managed.translations import LOCAL, REMOTE, UNMAPPED
from offloadrt.machine.messages import Unmapped
from offloadrt.sim import Signal


class UvmBlocks:
    """The blocks of one device and what may be done to one; the caller holds its lock (``UvmLocks``).

    ``kernels`` is what the device's compute units know of managed memory.

    Wide because it has one method for each thing that NVIDIA's driver does to a block, and they share
    locks and counters.
    """

    def __init__(self, machine: Machine, device: Device, kernels: ManagedKernels) -> None:
        self.machine = machine
        self.sim = machine.sim
        self.device = device
        self.pages = kernels.pages
        self.costs = machine.spec.read(UvmCosts)
        self.counters = UvmCounters()
        suffix = f" {device.index}" if device.index else ""
        contends = not machine.spec.flag("uvm_lock.uncontended")
        self.locks = UvmLocks(machine.sim, f"uvm space lock{suffix}", contends=contends)
        self._kernels = kernels
        self._queues = QueueEviction(machine.sim, device, self.costs.restore)
        # On no core of the host, though a real kernel thread runs on one: a program that keeps all cores busy is
        # predicted too fast, by at most the time of these steps.
        self.pay: Callable[[float], Awaitable[None]] = self.sim.sleep if machine.exact else self._pay_roughly
        """``await pay(dt)``: one of the driver's own threads works for ``dt`` seconds."""
        self._without_room: dict[int, int] = {}
        """Pages, by block, that are mapped over the link because there was no device memory for them."""

    # Migrations

    async def fetch(self, block: ManagedBlock, brought: int, cost: float, cause: int, *, evicts: bool) -> Signal | bool:
        """Migrate pages of a block to the device (``uvm_va_block_make_resident``), for ``cost`` seconds of work.

        Returns what is set when the pages have arrived, which also gives the block's lock; True when nothing has to
        move, so that they are there; False, having done nothing, when there is no device memory for the block and none
        may be had by evictions.
        """
        pages, written = self.pages, None
        if block.index not in pages.lru:
            take = self.device.memory.take_managed
            while not take(pages.block_size):
                evicted = await self.evict_one(cause) if evicts else False
                if not evicted:
                    return False
                if isinstance(evicted, Signal):
                    written = evicted
            # It can be evicted from now on, but nobody does so while its lock is held.
            pages.lru[block.index] = block
        await self.pay(cost)
        moved = brought & block.populated
        nbytes = self._count("h2d", block, moved) if moved else 0
        block.host_mapped &= ~moved
        if not moved and written is None:
            self._arrived(block, brought)
            return True

        if written is None:
            return self._send("h2d", nbytes, cause, partial(self._arrived_and_give, block, brought))
        return self._fetch_behind(written, block, brought, nbytes, cause)

    def _fetch_behind(self, written: Signal, block: ManagedBlock, brought: int, nbytes: int, cause: int) -> Signal:
        """Fetch pages when the write-back of what was there before has ended; ``nbytes`` is 0 if nothing moves."""
        arrival = Signal(self.sim, f"pages of block {block.index:#x}")

        def start() -> None:
            if nbytes:
                arrived = partial(self._arrived_and_give, block, brought)
                self._send("h2d", nbytes, cause, arrived).set_callback(arrival.set)
            else:
                self._arrived_and_give(block, brought)
                arrival.set()

        written.set_callback(start)
        return arrival

    def _arrived_and_give(self, block: ManagedBlock, brought: int) -> None:
        self._arrived(block, brought)
        self.locks.give(block)

    def _arrived(self, block: ManagedBlock, brought: int) -> None:
        """Let the GPU translate pages that are on the device now; what was freed meanwhile stays away."""
        brought &= block.valid
        # Pages that nobody has touched have no bytes to move: they appear in device memory.
        self.counters.first_on_gpu += (brought & ~block.populated).bit_count()
        self.pages.set_state(block, brought, LOCAL)
        if not brought:
            self.release(block)

    def _send(self, direction: Literal["h2d", "d2h"], nbytes: int, cause: int, done: Callable[[], None]) -> Signal:
        """Have a copy engine move bytes over the link, and go on; ``done`` runs when it has."""
        number, pauses_s = self.machine.next_number(), self._pauses(nbytes)
        return self.device.engines[direction].send(number, cause, nbytes, "managed", done, pauses_s)

    def move(self, direction: Literal["h2d", "d2h"], block: ManagedBlock, pages: int, cause: int) -> Awaitable[object]:
        """Move the bytes of pages of a block over the link, on a copy engine.  Await it at once."""
        nbytes = self._count(direction, block, pages)
        number, pauses_s = self.machine.next_number(), self._pauses(nbytes)
        return self.device.engines[direction].carry(number, cause, nbytes, "managed", pauses_s)

    def _pauses(self, nbytes: int) -> float:
        """Return the seconds that a copy engine spends between the pages of a migration.

        Older drivers push one copy for each page unless both ends of the whole block are contiguous, which host memory
        never is; later ones join pages whose chunks are contiguous (``block_copy_resident_pages_between``).
        """
        return nbytes / self.pages.page_size * self.costs.page_copy

    def _count(self, direction: Literal["h2d", "d2h"], block: ManagedBlock, pages: int) -> int:
        """Count the bytes of pages of a block that migrate, and return them."""
        size, counters, (own, usage) = self.pages.page_size, self.counters, block.sole
        nbytes = pages.bit_count() * size
        if direction == "h2d":
            counters.bytes_htod += nbytes
        else:
            counters.bytes_dtoh += nbytes
        if usage is not None and not pages & ~own:
            usage.moved(direction, nbytes)
        else:
            for count, usage in self.pages.shares(block, pages):
                usage.moved(direction, count * size)
        return nbytes

    def _pay_roughly(self, dt: float) -> Awaitable[None]:
        return self.sim.sleep(self.machine.jitter(dt))

    def map_for_copies(self, block: ManagedBlock, pages: int) -> float:
        """Return the work in seconds that lets copy engines reach pages of a block on the host, the first time.

        The driver maps a chunk of host memory for DMA when it has allocated it, and keeps both while the pages are on
        the device (``uvm_va_block_map_cpu_chunk_on_gpus``, ``block_gpu_map_phys_all_cpu_pages``).
        """
        if fresh := pages & ~block.dma_mapped:
            block.dma_mapped |= fresh
            return self.costs.dma_map * (fresh.bit_count() / self.pages.per_block)
        return 0.0

    # Evictions

    async def evict_one(self, cause: int) -> Signal | bool:
        """Evict the block whose last fault is the longest ago; returns False when no block can be evicted.

        Returns what is set when its pages are on the host, which also gives its lock; its memory is free before, for
        whoever waits for that.  Follows ``pick_and_evict_root_chunk`` of nvidia-uvm.  A block that somebody works on is
        passed over; when all are, this waits for the first, and returns True.
        """
        lru, locks = self.pages.lru, self.locks
        for block in lru.values():  # the block that is being fetched is not among them yet, or is taken
            if not locks.is_taken(block):
                break
        else:
            if (first := next(iter(lru.values()), None)) is None:
                return False
            # All are worked on. The first that is given up may have made room itself, so the caller looks again.
            await locks.take(first)
            locks.give(first)
            return True
        await locks.take(block)
        written = None
        try:
            if block.accessed_by:
                await self.stop_queues(block, block.resident, cause)
            # The translations go before the bytes, so that no kernel writes to a page that is on its way.
            gone = block.resident
            self.unmap(block, gone)
            self.counters.evictions += 1
            await self.pay(self.costs.evict + self.map_for_copies(block, gone))

            def back() -> None:
                self.map_remote_again(block)
                locks.give(block)

            written = self._send("d2h", self._count("d2h", block, gone), cause, back)
        finally:
            self.release(block)
            if written is None:
                locks.give(block)
        return written

    async def make_room(self, nbytes: int, cause: int) -> None:
        """Evict until there is room for a block of so many bytes of the program, or nothing is left to evict."""
        memory = self.device.memory
        await self.locks.read()
        try:
            while not memory.has_room(memory.needs(nbytes)) and (evicted := await self.evict_one(cause)):
                if isinstance(evicted, Signal):
                    await evicted.wait()
        finally:
            self.locks.release()

    def release(self, block: ManagedBlock) -> None:
        """Give the device memory of a block back, if it has no resident pages."""
        if not block.resident and self.pages.lru.pop(block.index, None) is not None:
            self.device.memory.give_managed(self.pages.block_size)

    # Translations

    async def stop_queues(self, block: ManagedBlock, pages: int, cause: int) -> None:
        """Stop the device's queues, if it is about to lose pages that its kernels cannot fault for."""
        if block.accessed_by & pages:
            await self._queues.begin(cause)

    def unmap(self, block: ManagedBlock, pages: int) -> None:
        """Take the GPU's translations of these pages away, and tell the kernels that have them ahead."""
        if pages:
            self.pages.set_state(block, pages, UNMAPPED)
            if self._without_room:
                self._without_room[block.index] = self._without_room.get(block.index, 0) & ~pages
            if self._kernels.running:
                low = block.index * self.pages.per_block
                self.device.compute.mailbox.put(Unmapped(low, low + self.pages.per_block))

    def map_remote(self, block: ManagedBlock, pages: int) -> None:
        """Let the GPU reach these pages over the link."""
        self.counters.remote_maps += 1
        self.pages.set_state(block, pages, REMOTE)

    def map_remote_again(self, block: ManagedBlock) -> None:
        """Restore the translations of what the GPU is advised to access, also while the host owns it."""
        if block.accessed_by and (pages := block.accessed_by & block.on_host & ~block.remote):
            self.map_remote(block, pages)

    async def map_without_room(self, block: ManagedBlock, pages: int) -> None:
        """Map pages over the link until ``try_again``: there is no device memory to be had."""
        await self.pay(self.costs.block)
        pages &= block.valid
        self.map_remote(block, pages)
        self._without_room[block.index] = self._without_room.get(block.index, 0) | pages

    def try_again(self) -> None:
        """Unmap what is mapped over the link for want of device memory, if there is some now: it faults, and migrates.

        Called when the program has freed device memory.
        """
        if self._without_room and self.device.memory.has_room(self.pages.block_size):
            without, self._without_room = self._without_room, {}
            for index, pages in without.items():
                block = self.pages.block(index)
                self.unmap(block, pages & ~(block.prefers_host | block.accessed_by))
