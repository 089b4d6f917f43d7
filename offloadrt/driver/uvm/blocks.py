"""Blocks of managed memory on the move: how one is fetched to the device and evicted, and what the GPU can translate.

A migration to the GPU needs device memory for the whole block.  When there is none, the block whose last fault is the
longest ago is evicted: all its pages go to the host, whether they were written or not.  Everybody who migrates takes
these steps: the page-fault handler, the migration worker, host threads that fault, and allocations that need room.
"""

from __future__ import annotations

from collections.abc import Awaitable
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
        self._without_room: dict[int, int] = {}
        """Pages, by block, that are mapped over the link because there was no device memory for them."""

    # Migrations

    async def fetch(self, block: ManagedBlock, brought: int, cost: float, cause: int, *, evicts: bool) -> bool:
        """Migrate pages of a block to the device (``uvm_va_block_make_resident``), for ``cost`` seconds of work.

        Returns False, and does nothing, when there is no device memory for the block and none may be had by evictions.
        """
        pages = self.pages
        if block.index not in pages.lru:
            take = self.device.memory.take_managed
            while not take(pages.block_size):
                if not (evicts and await self.evict_one(cause)):
                    return False
            # It can be evicted from now on, but nobody does so while its lock is held.
            pages.lru[block.index] = block
        await self.pay(cost)
        if moved := brought & block.populated:
            await self.move("h2d", block, moved, cause)
            block.host_mapped &= ~moved
        brought &= block.valid  # what was freed meanwhile stays away
        # Pages that nobody has touched have no bytes to move: they appear in device memory.
        if moved != brought:
            self.counters.first_on_gpu += (brought & ~block.populated).bit_count()
        # The translations come last: until the bytes are there, a kernel that meets these pages faults.
        pages.set_state(block, brought, LOCAL)
        if not brought:
            self.release(block)
        return True

    def move(self, direction: Literal["h2d", "d2h"], block: ManagedBlock, pages: int, cause: int) -> Awaitable[object]:
        """Move the bytes of pages of a block over the link, on a copy engine.  Await it at once."""
        size, counters, (own, usage) = self.pages.page_size, self.counters, block.sole
        number = self.machine.next_number()
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
        return self.device.engines[direction].carry(number, cause, nbytes, "managed")

    def pay(self, dt: float) -> Awaitable[None]:
        """Let one of the driver's own threads work for ``dt`` seconds."""
        # On no core of the host, though a real kernel thread runs on one: a program that keeps all cores busy is
        # predicted too fast, by at most the time of these steps.
        return self.sim.sleep(self.machine.jitter(dt))

    # Evictions

    async def evict_one(self, cause: int) -> bool:
        """Evict the block whose last fault is the longest ago; returns False when no block can be evicted.

        Follows ``pick_and_evict_root_chunk`` of nvidia-uvm.  A block that somebody works on is passed over; when all
        are, this waits for the first.
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
        try:
            if block.accessed_by:
                await self.stop_queues(block, block.resident, cause)
            # The translations go before the bytes, so that no kernel writes to a page that is on its way.
            gone = block.resident
            self.unmap(block, gone)
            self.counters.evictions += 1
            await self.pay(self.costs.evict)
            if gone:
                await self.move("d2h", block, gone, cause)
            self.map_remote_again(block)
        finally:
            self.release(block)
            locks.give(block)
        return True

    async def make_room(self, nbytes: int, cause: int) -> None:
        """Evict until there is room for a block of so many bytes of the program, or nothing is left to evict."""
        memory = self.device.memory
        await self.locks.read()
        try:
            while not memory.has_room(memory.needs(nbytes)) and await self.evict_one(cause):
                pass
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
