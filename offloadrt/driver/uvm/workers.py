"""The workers of the unified-memory driver that no fault wakes: prefetches, and the GPU's access counters.

``MigrationWorker`` carries out cuMemPrefetchAsync in the order of the streams (``uvm_migrate``).

``AccessCounterWorker`` migrates what kernels often reach on the host.  It follows nvidia-uvm's
``uvm_parent_gpu_service_access_counters``.  The first notification in an empty buffer interrupts the host.  The worker
takes at most ``access_counter.batch`` of them at a time, sorts them by address, and serves one region after the other,
as ``service_notification_ats`` does: the translations go, the bytes move, and the worker waits for the copy.  It clears
the counter of a region of which something has migrated.  When there is no device memory to be had, nothing migrates;
no other memory is evicted for it.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated

import attrs

from offloadrt.driver.uvm.va_block import Arriving, Fetched, FetchResult, VaBlocks
from offloadrt.machine.managed.kernels import AccessCounters
from offloadrt.machine.messages import AccessNotification, PrefetchPacket
from offloadrt.machine.servers import Servers, numbered_from_the_second
from offloadrt.sim import Mailbox, Signal


@attrs.frozen
class CounterCosts:
    """What the driver's work for notifications of the access counters takes; seconds."""

    batch_max: Annotated[int, "access_counter.batch"]
    """Notifications that the worker takes from the buffer at a time."""
    interrupt: Annotated[float, "access_counter.interrupt"]
    """From the first notification in an empty buffer until the worker looks."""
    service: Annotated[float, "access_counter.service"]
    """Work for the migration of a region, without its bytes."""
    uncontended: Annotated[bool, "access_counter.uncontended"]
    """Whether each notification finds a worker of its own."""


class MigrationWorker:
    """Takes prefetches in the order in which hardware queues dispatch them; ``start`` spawns its actor."""

    def __init__(self, mailbox: Mailbox, blocks: VaBlocks) -> None:
        self.mailbox = mailbox
        self._blocks = blocks

    def start(self) -> None:
        """Spawn the actor."""
        self._blocks.sim.spawn(self._run, name=self.mailbox.name, daemon=True)

    async def _run(self) -> None:
        """Carry out one prefetch after the other, for ever."""
        sim = self._blocks.sim
        while True:
            packet = await self.mailbox.get()
            if not isinstance(packet, PrefetchPacket):
                raise TypeError(f"the migration worker does not understand {packet!r}")
            begin = sim.now
            await self._prefetch(packet)
            packet.done.set(("copies", begin, sim.now))

    async def _prefetch(self, packet: PrefetchPacket) -> None:
        """Migrate a range, block by block, and wait for the copies at the end.

        A prefetch to the device ends at the first block for which there is no room.  ``prefetch_async.evicts`` says
        whether it may make room by evictions.
        """
        copies: list[Signal] = []
        await self._submit(packet, copies)
        for copy in copies:
            await copy.wait()

    async def _submit(self, packet: PrefetchPacket, copies: list[Signal]) -> None:
        """Work on one block after the other; add the copies to the device that are under way to ``copies``."""
        blocks, cause = self._blocks, packet.cause
        costs, locks = blocks.costs, blocks.locks
        for block, pages in blocks.pages.parts(packet.begin, packet.nbytes):
            await locks.read()
            try:
                await locks.take(block)
                fetched: FetchResult | None = None
                try:
                    if packet.to_host:
                        for member in blocks.space.members:
                            await member.send_back(block.index, pages, cause)
                    elif wanted := pages & block.valid & ~block.resident:
                        blocks.thrashing.forget(block.index, wanted)
                        evicts = costs.prefetch_evicts
                        work = costs.prefetch_block + blocks.map_for_copies(block, block.on_host)
                        fetched = await blocks.fetch(block, wanted, work, cause, evicts=evicts)
                        if fetched is Fetched.NO_ROOM:
                            return
                        if isinstance(fetched, Arriving):
                            copies.append(fetched.signal)
                finally:
                    if not isinstance(fetched, Arriving):
                        locks.give(block)
            finally:
                locks.release()


@attrs.frozen
class AccessCounterStatistics:
    """What the worker did; virtual seconds."""

    notifications: int
    """How many it has served."""
    service_s: float
    """Its own work for them, without the copies."""
    wait_s: float
    """Time from each notification until the worker began with its region."""


class AccessCounterWorker:
    """Serves the notifications of one device; ``start`` spawns its actor."""

    def __init__(self, blocks: VaBlocks, counters: AccessCounters) -> None:
        self.costs = blocks.machine.spec.read(CounterCosts)
        self._blocks = blocks
        self._counters = counters
        self.mailbox = counters.mailbox
        names = numbered_from_the_second(self.mailbox.name, "worker")
        self._workers: Servers[AccessNotification] = Servers(
            blocks.sim, self.mailbox, self._run, names, grow=self.costs.uncontended
        )
        self._served = 0
        self._service_s = self._wait_s = 0.0

    def start(self) -> None:
        """Spawn the actor."""
        self._workers.start()

    async def _run(self) -> None:
        """Serve one interrupt after the other, for ever."""
        items, costs = self.mailbox.items, self.costs
        while True:
            batch = [self._checked(await self.mailbox.get())]
            self._workers.took_from_mailbox()
            await self._blocks.pay(costs.interrupt)
            while batch:
                while items and len(batch) < costs.batch_max and not costs.uncontended:
                    batch.append(self._checked(items.popleft()))
                for notification in sorted(batch, key=attrgetter("block")):
                    await self._serve(notification)
                batch = [self._checked(items.popleft())] if items and not costs.uncontended else []
            self._workers.done()

    def _checked(self, message: object) -> AccessNotification:
        if not isinstance(message, AccessNotification):
            raise TypeError(f"the access-counter worker does not understand {message!r}")
        return message

    async def _serve(self, notification: AccessNotification) -> None:
        """Migrate what the host has of the region, and wait for its bytes."""
        blocks, locks, sim = self._blocks, self._blocks.locks, self._blocks.sim
        self._wait_s += sim.now - notification.time
        await locks.read()
        try:
            block = blocks.pages.block(notification.block)
            await locks.take(block)
            begin = sim.now
            fetched: FetchResult | None = None
            try:
                wanted = notification.pages & block.system & block.on_host & block.remote
                cost = self.costs.service
                if mapped := block.host_mapped & wanted:
                    cost += blocks.costs.unmap * (mapped.bit_count() / blocks.pages.per_block)
                if wanted:
                    # The translations go before the bytes: kernels that come to the pages meanwhile fault, and wait.
                    blocks.unmap(block, wanted)
                    fetched = await blocks.fetch(block, wanted, cost, notification.cause, evicts=False)
                if fetched is None or fetched is Fetched.NO_ROOM:
                    blocks.map_remote_again(block)
                    await blocks.pay(cost)
                self._served += 1
                self._service_s += sim.now - begin
                blocks.counters.notifications += 1
            finally:
                if not isinstance(fetched, Arriving):
                    locks.give(block)
            if isinstance(fetched, Arriving):
                blocks.counters.counted_htod += wanted.bit_count() * blocks.pages.page_size
                await fetched.signal.wait()
            if fetched is not Fetched.NO_ROOM:
                self._counters.clear(notification.block)
        finally:
            locks.release()

    def statistics(self) -> AccessCounterStatistics:
        """Return what it did so far."""
        return AccessCounterStatistics(self._served, self._service_s, self._wait_s)
