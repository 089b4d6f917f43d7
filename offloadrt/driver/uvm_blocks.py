"""Blocks of managed memory on the move: one at a time works on each, fetches it, evicts it, takes its translations.

A migration to the GPU needs device memory for the whole block.  When there is none, a fault evicts the block whose last
fault is the longest ago: all its pages go to the host, whether they were written or not.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal

from offloadrt.driver.queue_eviction import QueueEviction
from offloadrt.driver.uvm_costs import UvmCosts
from offloadrt.driver.uvm_counters import UvmCounters
from offloadrt.machine import Device, Machine
from offloadrt.machine.managed_block import ManagedBlock
from offloadrt.machine.managed_kernels import ManagedKernels
from offloadrt.machine.managed_pages import LOCAL, REMOTE, UNMAPPED
from offloadrt.machine.messages import CopyPacket, Unmapped
from offloadrt.machine.stream import internal_channel
from offloadrt.sim import PASSED, RWLock, Signal


class UvmBlocks:
    """The blocks of one device, and the space lock, which everybody holds for reading who works on one.

    ``kernels`` is what the device's compute units know of them.
    """

    def __init__(self, machine: Machine, device: Device, kernels: ManagedKernels) -> None:
        self.machine = machine
        self.sim = machine.sim
        self.device = device
        self.kernels = kernels
        self.pages = kernels.pages
        self.costs = machine.spec.read(UvmCosts)
        self.counters = UvmCounters()
        suffix = f" {device.index}" if device.index else ""
        self.lock = RWLock(machine.sim, f"uvm space lock{suffix}")
        self.contends = not machine.spec.flag("uvm_lock.uncontended")
        self.queues = QueueEviction(machine.sim, device, self.costs.restore)
        self._channel = internal_channel()
        self.h2d, self.d2h = device.engines["h2d"], device.engines["d2h"]
        self.draws = bool(machine.spec.value("jitter"))
        """Whether each unit cost is drawn."""
        self._number = 0
        """Of the last migration."""
        self.busy: dict[int, Signal | None] = {}
        self.without_room: dict[int, int] = {}
        """Pages, by block, that are mapped over the link because there was no device memory for them."""

    # The lock, and one worker a block

    def take(self, block: ManagedBlock) -> Awaitable[None]:
        """Be the one who works on a block; ``give`` ends it.  Await it at once."""
        if block.index in self.busy:
            return self._take(block)
        self.busy[block.index] = None
        return PASSED

    async def _take(self, block: ManagedBlock) -> None:
        while block.index in self.busy:
            signal = self.busy[block.index]
            if signal is None:
                signal = self.busy[block.index] = Signal(self.sim, f"block {block.index:#x}")
            await signal.wait()
        self.busy[block.index] = None

    def give(self, block: ManagedBlock) -> None:
        """Somebody else may work on it."""
        if (signal := self.busy.pop(block.index)) is not None:
            signal.set()

    def lock_for_reading(self) -> Awaitable[None]:
        """Take the space lock for reading, unless it excludes nobody; ``unlock`` gives it back.  Await it at once."""
        return self.lock.acquire_read() if self.contends else PASSED

    def unlock(self) -> None:
        """Give the space lock back."""
        if self.contends:
            self.lock.release()

    def had_lock(self, dt: float) -> None:
        """The space lock was taken for reading and given back after ``dt``, and nobody else wanted it."""
        if self.contends:
            self.lock.was_read(dt)

    def is_busy(self, block: ManagedBlock) -> bool:
        """Whether somebody works on a block."""
        return block.index in self.busy

    def lock_is_free(self) -> bool:
        """Whether nobody has the space lock, or waits for it."""
        lock = self.lock
        return not (lock.readers or lock.writer or lock.waiters)

    # Migrations

    async def fetch(self, block: ManagedBlock, brought: int, cost: float, cause: int, *, evicts: bool) -> bool:
        """Migrate pages to the device; False, and nothing is done, when there is no room and none may be made."""
        if block.index not in self.pages.lru:
            if not self.device.memory.take_managed(self.pages.block_size) and not await self._room(cause, evicts):
                return False
            self.pages.lru[block.index] = block
        await self.pay(cost)
        if moved := brought & block.populated:
            await self.move("h2d", block, moved, cause)
        self.arrive(block, brought, moved)
        return True

    def arrive(self, block: ManagedBlock, brought: int, moved: int) -> None:
        """Pages of a block are on the device, of which some were moved there."""
        block.host_mapped &= ~moved
        brought &= block.valid  # what was freed meanwhile stays away
        if moved != brought:
            self.counters.first_on_gpu += (brought & ~block.populated).bit_count()
        self.pages.set_state(block, brought, LOCAL)
        if not brought:
            self.release(block)

    async def _room(self, cause: int, evicts: bool) -> bool:
        """Get device memory for one block; by evictions if need be and allowed."""
        memory, size = self.device.memory, self.pages.block_size
        while evicts and await self.evict_one(cause):
            if memory.take_managed(size):
                return True
        return False

    def pay(self, dt: float) -> Awaitable[None]:
        """Work of one of the driver's own threads."""
        return self.sim.sleep(self.machine.jitter(dt))

    def move(self, direction: Literal["h2d", "d2h"], block: ManagedBlock, pages: int, cause: int) -> Awaitable[None]:
        """The bytes of pages of a block go over the link, on a copy engine.  Await it at once."""
        nbytes, engines = self.count_move(direction, block, pages), self.h2d if direction == "h2d" else self.d2h
        if engines.serve_alone(nbytes):
            return PASSED
        done = Signal(self.sim, f"migration {self._number} ({direction})")
        engines.submit(CopyPacket(self._number, self._channel, cause, direction, nbytes, "managed", None, done))
        return done.wait()

    def count_move(self, direction: Literal["h2d", "d2h"], block: ManagedBlock, pages: int) -> int:
        """Pages of a block migrate, which has a number; returns how many bytes they are."""
        size, counters, own, usage = self.pages.page_size, self.counters, *block.sole
        nbytes = pages.bit_count() * size
        self._number = self.machine.next_number()
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

    # Evictions

    async def evict_one(self, cause: int) -> bool:
        """Evict the block whose last fault is the longest ago; False when no block can be evicted.

        A block that somebody works on is passed over; when all are, this waits for the first.
        """
        lru = self.pages.lru
        for block in lru.values():
            if block.index not in self.busy:
                break
        else:
            if (first := next(iter(lru.values()), None)) is None:
                return False
            await self.take(first)
            self.give(first)
            return True
        await self.take(block)
        try:
            await self.stop_queues(block, block.resident, cause)
            gone = self.begin_eviction(block)
            await self.pay(self.costs.evict)
            if gone:
                await self.move("d2h", block, gone, cause)
            self.map_remote_again(block)
        finally:
            self.release(block)
            self.give(block)
        return True

    def begin_eviction(self, block: ManagedBlock) -> int:
        """A block goes to the host: returns its pages, of which the GPU has no translation any more."""
        gone = block.resident
        self.unmap(block, gone)
        self.counters.evictions += 1
        return gone

    async def make_room(self, nbytes: int, cause: int) -> None:
        """Evict until there is room for a block of so many bytes of the program, or nothing is left to evict."""
        memory = self.device.memory
        await self.lock_for_reading()
        try:
            while not memory.has_room(memory.needs(nbytes)) and await self.evict_one(cause):
                pass
        finally:
            self.unlock()

    # Translations

    async def stop_queues(self, block: ManagedBlock, pages: int, cause: int) -> None:
        """Before the device loses pages that its kernels cannot fault for."""
        if block.accessed_by & pages:
            await self.queues.begin(cause)

    def unmap(self, block: ManagedBlock, pages: int) -> None:
        """The GPU loses its translations of these pages; kernels that have them ahead are told."""
        if pages:
            self.pages.set_state(block, pages, UNMAPPED)
            if self.without_room:
                self.without_room[block.index] = self.without_room.get(block.index, 0) & ~pages
            if self.kernels.running:
                low = block.index * self.pages.per_block
                self.device.compute.mailbox.put(Unmapped(low, low + self.pages.per_block))

    async def map_without_room(self, block: ManagedBlock, pages: int) -> None:
        """There is no device memory to be had: the GPU reaches these pages over the link until ``try_again``."""
        await self.pay(self.costs.block)
        self.counters.remote_maps += 1
        pages &= block.valid
        self.pages.set_state(block, pages, REMOTE)
        self.without_room[block.index] = self.without_room.get(block.index, 0) | pages

    def try_again(self) -> None:
        """The program has freed device memory: what is mapped over the link for want of it is to fault, and migrate."""
        if self.without_room and self.device.memory.has_room(self.pages.block_size):
            without, self.without_room = self.without_room, {}
            for index, pages in without.items():
                block = self.pages.block(index)
                self.unmap(block, pages & ~(block.prefers_host | block.accessed_by))

    def release(self, block: ManagedBlock) -> None:
        """A block without resident pages gives its device memory back."""
        if not block.resident and self.pages.lru.pop(block.index, None) is not None:
            self.device.memory.give_managed(self.pages.block_size)

    def map_remote_again(self, block: ManagedBlock) -> None:
        """The GPU keeps its translations of what it is advised to access, also while the host owns it."""
        if (pages := block.accessed_by & block.on_host & ~block.remote) != 0:
            self.counters.remote_maps += 1
            self.pages.set_state(block, pages, REMOTE)
