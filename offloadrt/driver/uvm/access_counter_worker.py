"""The worker that serves notifications of the GPU's access counters: it migrates what kernels often reach on the host.

It follows nvidia-uvm's ``uvm_parent_gpu_service_access_counters``.  The first notification in an empty buffer
interrupts the host.  The worker takes at most ``access_counter.batch`` of them at a time, sorts them by address, and
serves one region after the other, as ``service_notification_ats`` does: the translations go, the bytes move, and the
worker waits for the copy.  It clears the counter of a region of which something has migrated.  When there is no device
memory to be had, nothing migrates; no other memory is evicted for it.
"""

from __future__ import annotations

from operator import attrgetter

import attrs

from offloadrt.driver.uvm.block_mover import BlockMover
from offloadrt.driver.uvm.block_records import BlockRecords
from offloadrt.driver.uvm.costs import CounterCosts
from offloadrt.machine.managed.access_counters import AccessCounters
from offloadrt.machine.messages import AccessNotification
from offloadrt.machine.servers import Servers, numbered_from_the_second
from offloadrt.sim import Signal


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
