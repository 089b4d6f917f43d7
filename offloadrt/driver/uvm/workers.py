"""The worker that carries out prefetches of managed memory (cuMemPrefetchAsync), in the order of their streams."""

from __future__ import annotations

from operator import attrgetter

import attrs

from offloadrt.driver.uvm.costs import CounterCosts
from offloadrt.driver.uvm.va_block import BlockMover, BlockRecords
from offloadrt.machine.managed.kernels import AccessCounters
from offloadrt.machine.messages import AccessNotification, PrefetchPacket
from offloadrt.machine.servers import Servers, numbered_from_the_second
from offloadrt.sim import Mailbox, Signal


class MigrationWorker:
    """Takes prefetches in the order in which hardware queues dispatch them; ``start`` spawns its actor."""

    def __init__(self, mailbox: Mailbox, records: BlockRecords, mover: BlockMover) -> None:
        self.mailbox = mailbox
        self._records = records
        self._mover = mover

    def start(self) -> None:
        """Spawn the actor."""
        self._records.sim.spawn(self._run, name=self.mailbox.name, daemon=True)

    async def _run(self) -> None:
        """Carry out one prefetch after the other, for ever."""
        sim = self._records.sim
        while True:
            packet = await self.mailbox.get()
            if not isinstance(packet, PrefetchPacket):
                raise TypeError(f"the migration worker does not understand {packet!r}")
            begin = sim.now
            await self._prefetch(packet)
            packet.done.set(("copies", begin, sim.now))

    async def _prefetch(self, packet: PrefetchPacket) -> None:
        """Migrate a range, block by block (``uvm_migrate``), and wait for the copies at the end.

        To the device pages migrate only as far as there is room, or as room may be made.
        """
        copies: list[Signal] = []
        await self._submit(packet, copies)
        for copy in copies:
            await copy.wait()

    async def _submit(self, packet: PrefetchPacket, copies: list[Signal]) -> None:
        """Work on one block after the other; copies to the device that are under way are added to ``copies``."""
        records, cause = self._records, packet.cause
        costs, locks = records.costs, records.locks
        for block, pages in records.pages.parts(packet.begin, packet.nbytes):
            await locks.read()
            try:
                await locks.take(block)
                arrival: Signal | bool = False
                try:
                    if packet.to_host:
                        for side in records.space.host_sides:
                            await side.send_back(block.index, pages, cause)
                    elif wanted := pages & block.valid & ~block.resident:
                        records.thrashing.forget(block.index, wanted)
                        evicts = costs.prefetch_evicts
                        work = costs.prefetch_block + records.map_for_copies(block, block.on_host)
                        arrival = await self._mover.fetch(block, wanted, work, cause, evicts=evicts)
                        if not arrival:
                            return
                        if isinstance(arrival, Signal):
                            copies.append(arrival)
                finally:
                    if not isinstance(arrival, Signal):
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

    def __init__(self, records: BlockRecords, mover: BlockMover, counters: AccessCounters) -> None:
        self.costs = records.machine.spec.read(CounterCosts)
        self._records = records
        self._mover = mover
        self._counters = counters
        self.mailbox = counters.mailbox
        names = numbered_from_the_second(self.mailbox.name, "worker")
        self._workers: Servers[AccessNotification] = Servers(
            records.sim, self.mailbox, self._run, names, grow=self.costs.uncontended
        )
        self.start = self._workers.start
        """Spawn the actor."""
        self._served = 0
        self._service_s = self._wait_s = 0.0

    async def _run(self) -> None:
        """Serve one interrupt after the other, for ever."""
        items, costs = self.mailbox.items, self.costs
        while True:
            batch = [self._checked(await self.mailbox.get())]
            self._workers.took_from_mailbox()
            await self._records.pay(costs.interrupt)
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
        records, locks, sim = self._records, self._records.locks, self._records.sim
        self._wait_s += sim.now - notification.time
        await locks.read()
        try:
            block = records.pages.block(notification.block)
            await locks.take(block)
            begin, arrival = sim.now, None
            try:
                wanted = notification.pages & block.system & block.on_host & block.remote
                cost = self.costs.service
                if mapped := block.host_mapped & wanted:
                    cost += records.costs.unmap * (mapped.bit_count() / records.pages.per_block)
                if wanted:
                    # The translations go before the bytes: kernels that come to the pages meanwhile fault, and wait.
                    records.unmap(block, wanted)
                    arrival = await self._mover.fetch(block, wanted, cost, notification.cause, evicts=False)
                if not arrival:
                    records.map_remote_again(block)
                    await records.pay(cost)
                self._served += 1
                self._service_s += sim.now - begin
                records.counters.notifications += 1
            finally:
                if not isinstance(arrival, Signal):
                    locks.give(block)
            if isinstance(arrival, Signal):
                records.counters.counted_htod += wanted.bit_count() * records.pages.page_size
                await arrival.wait()
            if arrival or not wanted:
                self._counters.clear(notification.block)
        finally:
            locks.release()

    def statistics(self) -> AccessCounterStatistics:
        """Return what it did so far."""
        return AccessCounterStatistics(self._served, self._service_s, self._wait_s)
