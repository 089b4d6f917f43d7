"""What the GPU can translate of managed memory, whose the device memory is, and what moved: the records of one device.

No byte moves here (``block_mover.py`` does that).  Whoever serves a fault, a prefetch or an advice changes the records
by these methods, so that kernels which have translations ahead are told, and the records of other devices agree
(``va_space.py``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from offloadrt.driver.uvm.costs import SystemMemoryCosts, UvmCosts
from offloadrt.driver.uvm.counters import UvmCounters
from offloadrt.driver.uvm.thrashing import Thrashing, ThrashingRules
from offloadrt.driver.uvm.va_space import SpaceMember, VaSpace
from offloadrt.machine import DiscreteGpu, Machine
from offloadrt.machine.managed.block import ManagedBlock
from offloadrt.machine.managed.kernels import ManagedKernels
from offloadrt.machine.managed.translations import LOCAL, REMOTE, UNMAPPED
from offloadrt.machine.messages import Unmapped


class BlockRecords:
    """Keeps the records of one device's blocks; the caller holds the lock of the block that it changes (``UvmLocks``).

    ``kernels`` is what the device's compute units know of managed memory.

    Wide because it has one method for each thing that changes in a block besides its bytes.
    """

    def __init__(self, machine: Machine, device: DiscreteGpu, kernels: ManagedKernels, space: VaSpace) -> None:
        self.machine = machine
        self.sim = machine.sim
        self.device = device
        self.pages = kernels.pages
        self.costs = machine.spec.read(UvmCosts)
        self.system_costs: SystemMemoryCosts | None = None
        """What system-allocated memory costs; None unless the device uses it in place."""
        self.big_pages = max(self.costs.big_page // self.pages.page_size, 1)
        """Pages that a fault brings at least, where the driver prefetches."""
        self.counters = UvmCounters()
        self.space = space
        self.locks = space.locks
        self.thrashing = Thrashing(machine.spec.read(ThrashingRules), self.pages.per_block, self.counters)
        """Decides what becomes of pages that go to and fro."""
        self._kernels = kernels
        # On no core of the host, though a real kernel thread runs on one: a program that keeps all cores busy is
        # predicted too fast, by at most the time of these steps.
        self.pay: Callable[[float], Awaitable[None]] = self.sim.sleep if machine.exact else self._pay_roughly
        """``await pay(dt)``: one of the driver's own threads works for ``dt`` seconds."""
        self._without_room: dict[int, int] = {}
        """Pages, by block, that are mapped over the link because there was no device memory for them."""

    def map_for_copies(self, block: ManagedBlock, pages: int) -> float:
        """Return the work in seconds that lets copy engines reach pages of a block on the host, the first time.

        The driver maps a chunk of host memory for DMA when it has allocated it, and keeps both while the pages are on
        the device (``uvm_va_block_map_cpu_chunk_on_gpus``, ``block_gpu_map_phys_all_cpu_pages``).
        """
        if fresh := pages & ~block.dma_mapped:
            block.dma_mapped |= fresh
            return self.costs.dma_map * (fresh.bit_count() / self.pages.per_block)
        return 0.0

    def note_moved(self, direction: Literal["h2d", "d2h", "p2p"], block: ManagedBlock, pages: int) -> int:
        """Count the bytes of pages of a block that migrate, and return them."""
        size, counters, (own, usage) = self.pages.page_size, self.counters, block.sole
        nbytes = pages.bit_count() * size
        if direction == "h2d":
            counters.bytes_htod += nbytes
        elif direction == "d2h":
            counters.bytes_dtoh += nbytes
        else:
            counters.bytes_dtod += nbytes
        if usage is not None and not pages & ~own:
            usage.moved(direction, nbytes)
        else:
            for count, usage in self.pages.shares(block, pages):
                usage.moved(direction, count * size)
        return nbytes

    def remove(self, begin: int, nbytes: int) -> None:
        """Remove an allocation; pages that it shares with others stay as they are until the last one goes."""
        for block, pages in self.pages.remove(begin, nbytes):
            self.unmap(block, pages & (block.resident | block.remote))
            block.prefers_host &= ~pages
            block.prefers_here &= ~pages
            block.accessed_by &= ~pages
            block.read_mostly &= ~pages
            self.thrashing.forget(block.index, pages)
            if not self.locks.is_taken(block):
                self.release_memory(block)

    def take_memory(self, block: ManagedBlock) -> bool:
        """Take device memory for a block, unless it has some; return False when there is none to be had."""
        lru, size = self.pages.lru, self.pages.block_size
        if block.index not in lru:
            if not self.device.memory.take_managed(size):
                return False
            # It can be evicted from now on, but nobody does so while its lock is held.
            lru[block.index] = block
        return True

    def release_memory(self, block: ManagedBlock) -> None:
        """Give the device memory of a block back, if it has no resident pages."""
        if not block.resident and self.pages.lru.pop(block.index, None) is not None:
            self.device.memory.give_managed(self.pages.block_size)

    def map_local(self, block: ManagedBlock, pages: int) -> None:
        """Let the GPU translate pages that are on the device now; what was freed meanwhile stays away."""
        pages &= block.valid
        # Pages that nobody has touched have no bytes to move: they appear in device memory.
        if fresh := pages & ~block.populated:
            self.counters.first_on_gpu += fresh.bit_count()
        self.pages.set_state(block, pages, LOCAL)
        if not pages:
            self.release_memory(block)
        elif self.space.shared:
            self.space.arrived(self.device.index, block.index, pages)

    def unmap(self, block: ManagedBlock, pages: int) -> None:
        """Take the GPU's translations of these pages away, and tell the kernels that have them ahead."""
        if pages:
            lost = block.resident & pages
            self.pages.set_state(block, pages, UNMAPPED)
            if self._without_room:
                self._without_room[block.index] = self._without_room.get(block.index, 0) & ~pages
            self._tell(block)
            if lost and self.space.shared:
                self.space.left(self.device.index, block.index, lost)
            if block.host_copy & lost:
                self.space.has_host_copy(block.index, lost & ~block.elsewhere, valid=False)

    def _tell(self, block: ManagedBlock) -> None:
        """Tell the kernels that run that the GPU has lost translations of a block."""
        if self._kernels.running:
            low = block.index * self.pages.per_block
            self.device.compute.mailbox.put(Unmapped(low, low + self.pages.per_block))

    def protect(self, block: ManagedBlock, pages: int) -> None:
        """Make resident pages of a block read-only, and tell the kernels that may have stores to them ahead."""
        if pages:
            self.pages.protect(block, pages, read_only=True)
            self._tell(block)

    async def invalidate_copies(self, block: ManagedBlock, pages: int) -> None:
        """Invalidate the other copies of read-only pages, because a store has met them; nothing moves."""
        space, index = self.space, block.index
        for member, record in [*space.others(self.device.index, index)]:
            if gone := (record.resident | record.remote) & pages:
                await self.pay(space.costs.unmap)
                member.unmap(record, gone)
                member.release_memory(record)
        if on_host := block.host_copy & pages:
            await self.pay(self.costs.unmap * (on_host.bit_count() / self.pages.per_block))
        space.has_host_copy(index, pages, valid=False)
        self.pages.protect(block, pages, read_only=False)
        self.counters.invalidations += pages.bit_count()

    def map_remote(self, block: ManagedBlock, pages: int) -> None:
        """Let the GPU reach these pages over the link."""
        self.counters.remote_maps += 1
        self.pages.set_state(block, pages, REMOTE)

    def map_remote_again(self, block: ManagedBlock) -> None:
        """Restore the translations of what the GPU is advised to access, also while the host owns it.

        Of system-allocated memory it has those of the host's page table, which nobody has to make.
        """
        if block.system and (there := block.system & block.on_host & ~(block.resident | block.remote)):
            self.pages.set_state(block, there, REMOTE)
        if block.accessed_by and (pages := block.accessed_by & block.on_host & ~(block.resident | block.remote)):
            self.map_remote(block, pages)
        if block.accessed_by and self.space.shared:
            for member, record in self.space.others(self.device.index, block.index):
                self.map_at_peer(block, block.accessed_by & record.resident, member)

    def map_at_peer(self, block: ManagedBlock, pages: int, member: SpaceMember) -> None:
        """Let the GPU translate pages that lie on another device, if it reaches that and has no translation yet."""
        pages &= ~(block.resident | block.remote)
        if pages and self.space.reaches(self.device.index, member.device.index):
            self.counters.remote_maps += 1
            self.pages.set_at_peer(block, pages, member.device.index)

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
                self.unmap(block, pages & ~(block.prefers_host | block.accessed_by | block.system))

    def _pay_roughly(self, dt: float) -> Awaitable[None]:
        return self.sim.sleep(self.machine.jitter(dt))
