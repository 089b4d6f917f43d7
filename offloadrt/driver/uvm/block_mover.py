"""How a block of managed memory is fetched to the device, from the host or from another device, and evicted.

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

from offloadrt.driver.uvm.block_records import BlockRecords
from offloadrt.driver.uvm.queue_eviction import QueueEviction
from offloadrt.driver.uvm.va_space import SpaceMember
from offloadrt.machine.managed.block import ManagedBlock
from offloadrt.sim import Signal


class BlockMover:
    """Moves the bytes of blocks to and from one device; the caller holds the block's lock (``UvmLocks``).

    ``records`` are the device's: each step changes them as it goes.
    """

    def __init__(self, records: BlockRecords) -> None:
        self._records = records
        self._queues = QueueEviction(records.sim, records.device, records.costs.restore)

    # Migrations

    async def fetch(
        self, block: ManagedBlock, brought: int, cost: float, cause: int, *, evicts: bool, stored: int = 0
    ) -> Signal | bool:
        """Migrate pages of a block to the device (``uvm_va_block_make_resident``), for ``cost`` seconds of work.

        Of pages that are read mostly it makes copies, but for those that stores have met.

        Returns what is set when the pages have arrived, which also gives the block's lock; True when nothing has to
        move, so that they are there; False, having done nothing, when there is no device memory for the block and none
        may be had by evictions.
        """
        records, written = self._records, None
        while not records.take_memory(block):  # others may bring it in while its lock is given up for room
            evicted = await self.evict_one(cause, held=block) if evicts else False
            if not evicted:
                return False
            if isinstance(evicted, Signal):
                written = evicted
        await records.pay(cost)
        if records.space.shared or block.read_mostly:
            return await self._fetch_from_all(block, brought, stored, written, cause)
        moved = brought & block.populated
        nbytes = records.note_moved("h2d", block, moved) if moved else 0
        block.host_mapped &= ~moved
        if not moved and written is None:
            records.map_local(block, brought)
            return True
        if written is None:
            return self._send("h2d", nbytes, cause, partial(self._map_and_give, block, brought))
        return self._fetch_behind(written, block, brought, nbytes, cause)

    async def _fetch_from_all(
        self, block: ManagedBlock, brought: int, stored: int, written: Signal | None, cause: int
    ) -> Signal | bool:
        """Fetch pages from wherever they are; see ``fetch``.

        Who had them loses them, but for pages that are read mostly: of those it keeps a copy, which is read-only.
        """
        space, index = self._records.space, block.index
        brought &= ~block.resident  # the lock may have been given up for room
        sources = self._sources(block, brought & block.populated)
        copied, from_host = brought & block.populated & block.read_mostly & ~stored, brought & block.on_host
        taken = brought & ~copied
        for member, record in [*space.others(self._records.device.index, index)]:
            if gone := (record.resident | record.remote) & taken:
                await self._records.pay(space.costs.unmap)
                member.unmap(record, gone)
            if kept := record.resident & copied:
                member.protect(record, kept)
        for record in space.records(index):
            record.host_mapped &= ~from_host
        space.has_host_copy(index, taken, valid=False)
        space.has_host_copy(index, copied & from_host, valid=True)
        if not sources and written is None:
            self._records.map_local(block, brought)
            return True

        arrival = Signal(self._records.sim, f"pages of block {index:#x}")
        left = len(sources)

        def ended() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                for member, record in space.others(self._records.device.index, index):
                    member.release_memory(record)
                self._records.map_local(block, brought)
                self._records.protect(block, copied & block.resident)
                self._records.locks.give(block)
                arrival.set()

        def start() -> None:
            for member, pages in sources:
                self._bring_from(member, block, pages, cause, ended)
            if not sources:
                ended()

        if written is None:
            start()
        else:
            written.set_callback(start)
        self._records.counters.duplications += copied.bit_count()
        return arrival

    def _sources(self, block: ManagedBlock, pages: int) -> list[tuple[SpaceMember | None, int]]:
        """Return (who has them, pages): a device over a link, else the host (None), else a device without a link."""
        sources: list[tuple[SpaceMember | None, int]] = []
        others = [*self._records.space.others(self._records.device.index, block.index)]
        for linked in (True, False):
            for member, record in others:
                link = self._records.space.link(member.device.index, self._records.device.index)
                if (link is not None) == linked and (part := record.resident & pages):
                    sources.append((member, part))
                    pages &= ~part
            if linked and (part := block.on_host & pages):
                sources.append((None, part))
                pages &= ~part
        return sources

    def _bring_from(
        self, member: SpaceMember | None, block: ManagedBlock, pages: int, cause: int, ended: Callable[[], None]
    ) -> None:
        """Copy pages from the host or from another device, whose engine pushes them; without a link over the host."""
        if member is None:
            self._send("h2d", self._records.note_moved("h2d", block, pages), cause, ended)
            return
        if (link := self._records.space.link(member.device.index, self._records.device.index)) is None:

            def on_host() -> None:
                self._send("h2d", self._records.note_moved("h2d", block, pages), cause, ended)

            record = member.pages.block(block.index)
            nbytes = member.note_moved("d2h", record, pages)
            number = self._records.machine.next_number()
            member.device.engines["d2h"].send(number, cause, nbytes, "managed", on_host)
            return
        nbytes = self._records.note_moved("p2p", block, pages)
        number = self._records.machine.next_number()
        member.device.engines["p2p"].send(number, cause, nbytes, "managed", ended, over=link)

    def _fetch_behind(self, written: Signal, block: ManagedBlock, brought: int, nbytes: int, cause: int) -> Signal:
        """Fetch pages when the write-back of what was there before has ended; ``nbytes`` is 0 if nothing moves."""
        arrival = Signal(self._records.sim, "pages of managed memory")

        def start() -> None:
            if nbytes:
                self._send("h2d", nbytes, cause, partial(self._map_and_give, block, brought), arrival)
            else:
                self._map_and_give(block, brought)
                arrival.set()

        written.set_callback(start)
        return arrival

    def _map_and_give(self, block: ManagedBlock, brought: int) -> None:
        self._records.map_local(block, brought)
        self._records.locks.give(block)

    def _send(
        self,
        direction: Literal["h2d", "d2h"],
        nbytes: int,
        cause: int,
        ended: Callable[[], None],
        done: Signal | None = None,
    ) -> Signal:
        """Have a copy engine move bytes over the link, and go on; ``ended`` runs when it has, then ``done`` is set."""
        number, pauses_s = self._records.machine.next_number(), self._pauses(nbytes)
        return self._records.device.engines[direction].send(
            number, cause, nbytes, "managed", ended, pauses_s, done=done
        )

    def carry_home(self, block: ManagedBlock, pages: int, cause: int) -> Awaitable[object]:
        """Copy pages of a block from the device to the host, on a copy engine.  Await it at once."""
        nbytes = self._records.note_moved("d2h", block, pages)
        number, pauses_s = self._records.machine.next_number(), self._pauses(nbytes)
        return self._records.device.engines["d2h"].carry(number, cause, nbytes, "managed", pauses_s)

    def _pauses(self, nbytes: int) -> float:
        """Return the seconds that a copy engine spends between the pages of a migration.

        Older drivers push one copy for each page unless both ends of the whole block are contiguous, which host memory
        never is; later ones join pages whose chunks are contiguous (``block_copy_resident_pages_between``).
        """
        return nbytes / self._records.pages.page_size * self._records.costs.page_copy

    # Evictions

    async def evict_one(self, cause: int, held: ManagedBlock | None = None) -> Signal | bool:
        """Evict the block whose last fault is the longest ago; returns False when no block can be evicted.

        ``held``: the block that room is needed for.  Its lock is given up while it waits on a device among several.

        Returns what is set when its pages are on the host, which also gives its lock; its memory is free before, for
        whoever waits for that.  Follows ``pick_and_evict_root_chunk`` of nvidia-uvm.  A block that somebody works on is
        passed over; when all are, this waits for the first, and returns True.
        """
        lru, locks = self._records.pages.lru, self._records.locks
        for block in lru.values():  # the block that is being fetched is not among them yet, or is taken
            if not locks.is_taken(block):
                break
        else:
            if (first := next(iter(lru.values()), None)) is None:
                return False
            # All are worked on. The first that is given up may have made room itself, so the caller looks again.
            # Two devices that fetch from one another would wait for each other's block for ever if they kept theirs.
            gives_up = held is not None and self._records.space.shared
            if held is not None and gives_up:
                locks.give(held)
            await locks.take(first)
            locks.give(first)
            if held is not None and gives_up:
                await locks.take(held)
            return True
        await locks.take(block)
        written = None
        try:
            if block.accessed_by:
                await self.stop_queues(block, block.resident, cause)
            # The translations go before the bytes, so that no kernel writes to a page that is on its way.
            gone = block.resident
            sent, elsewhere = gone & ~block.host_copy, gone & block.elsewhere
            self._records.unmap(block, gone)
            self._records.counters.evictions += 1
            await self._records.pay(self._records.costs.evict + self._records.map_for_copies(block, gone))
            if not sent:  # the host has copies of all
                return True

            def back() -> None:
                if elsewhere:
                    self._records.space.has_host_copy(block.index, elsewhere, valid=True)
                self._records.space.came_home(block.index)
                locks.give(block)

            written = self._send("d2h", self._records.note_moved("d2h", block, sent), cause, back)
        finally:
            self._records.release_memory(block)
            if written is None:
                locks.give(block)
        return written

    async def stop_queues(self, block: ManagedBlock, pages: int, cause: int) -> None:
        """Stop the device's queues, if it is about to lose pages that its kernels cannot fault for."""
        if block.accessed_by & pages:
            await self._queues.begin(cause)

    async def make_room(self, nbytes: int, cause: int) -> None:
        """Evict until there is room for a block of so many bytes of the program, or nothing is left to evict."""
        memory = self._records.device.memory
        await self._records.locks.read()
        try:
            while not memory.has_room(memory.needs(nbytes)) and (evicted := await self.evict_one(cause)):
                if isinstance(evicted, Signal):
                    await evicted.wait()
        finally:
            self._records.locks.release()
