"""The page-fault handler of the unified-memory driver: one worker, which serves GPU faults in batches.

It follows nvidia-uvm's ``uvm_parent_gpu_service_replayable_faults``.  The first fault in an empty buffer interrupts the
host.  A batch is what lies in the buffer when the worker comes to fetch it, at most ``fault.batch_max`` entries.  They
are sorted, duplicates are merged, and the blocks are served one after the other; copies are submitted meanwhile.  A
replay follows the copies in the GPU's order, and reaches all kernels that wait for pages: those that still lack some
report them again.  So entries of pages that were served in the meantime stay in the buffer, are fetched, and need no
service.

When a replay is sent is the policy's matter (``replay.py``).  With BATCH_FLUSH, the default, the buffer is flushed
after a batch: entries that were seen and did not fit are dropped, and so is what came meanwhile when the batch had
many duplicates.  Then the worker waits for the replay.

The way of a page fault: the compute units' actor finds pages missing (``ManagedKernels``) and leaves a ``ManagedFault``
in the ``FaultBuffer``; ``_batch`` serves each block by ``GpuFaults.serve``, which has ``BlockMover.fetch`` fetch it; a
``ReplayFaults`` lets the kernels try again.
"""

from __future__ import annotations

import math

import attrs
import msgspec

from offloadrt.driver.uvm.block_records import BlockRecords
from offloadrt.driver.uvm.costs import BatchCosts
from offloadrt.driver.uvm.fault_batch import FaultBatches
from offloadrt.driver.uvm.gpu_faults import GpuFaults
from offloadrt.driver.uvm.replay import REPLAY_POLICIES, ReplayChannel
from offloadrt.machine.managed.fault_buffer import FaultBuffer
from offloadrt.machine.managed.page_sets import how_many
from offloadrt.machine.messages import ManagedFault, ReplayFaults
from offloadrt.machine.servers import LevelOverTime, Servers, numbered_from_the_second
from offloadrt.sim import Signal


@attrs.frozen
class FaultHandlerStatistics:
    """What the handler did; virtual seconds.  busy_s + idle_s is the time elapsed with one worker."""

    busy_s: float
    """Time in batches, up to now."""
    idle_s: float
    wait_s: float
    """Time that kernels were stalled besides what serving their own faults alone, and the copies, take."""
    blocks: int
    """Blocks that were served; one that has faults in several batches counts in each that has work for it."""
    block_s: float
    """Time that the service of these blocks took, without the copies."""


class Service(msgspec.Struct, eq=False):
    """What the handler has served since the last replay, in one service of an interrupt."""

    kernels: tuple[int, ...] | None
    """Whose faults these are; None: those of all kernels."""
    served: dict[int, int] = msgspec.field(default_factory=dict)
    """Pages, by block."""
    copies: list[Signal] = msgspec.field(default_factory=list)
    """The copies that were submitted for them."""

    def note(self, served: dict[int, int]) -> None:
        """Note that pages have been served, by block."""
        if not self.served:
            self.served = served
            return
        for index, pages in served.items():
            self.served[index] = self.served.get(index, 0) | pages


class UvmFaultHandler:
    """Serves the GPU faults of one device; ``start`` spawns its actor.

    With ``uncontended`` each message of a kernel finds a worker of its own, so that no batch has two kernels.
    """

    def __init__(
        self, records: BlockRecords, faults: GpuFaults, buffer: FaultBuffer, *, uncontended: bool = False
    ) -> None:
        self._records = records
        self.costs = records.machine.spec.read(BatchCosts)
        self._faults = faults
        self._buffer = buffer
        self.mailbox = buffer.mailbox
        self._uncontended = uncontended
        names = numbered_from_the_second(self.mailbox.name, "worker")
        self._workers: Servers[ManagedFault] = Servers(records.sim, self.mailbox, self._run, names, grow=uncontended)
        self.start = self._workers.start
        """Spawn a worker."""
        self.batches = FaultBatches()
        self._policy = REPLAY_POLICIES[self.costs.policy]
        self._replays = ReplayChannel(records.sim, records.device.compute.mailbox)
        self._busy = LevelOverTime(records.sim)
        self._wait_s = self._block_s = 0.0
        self._served = 0
        self._born = records.sim.now

    async def _run(self) -> None:
        """Serve one interrupt after the other, for ever (``uvm_parent_gpu_service_replayable_faults``)."""
        get, pay, ends_once = self.mailbox.get, self._records.pay, self._policy.after == "buffer"
        while True:
            seen = [self._buffer.took(await get())]
            self._workers.took_from_mailbox()
            self._busy.rise()
            await pay(self.costs.interrupt)
            seen += self._in_buffer()
            service = Service((seen[0].kernel,) if self._uncontended else None)
            while seen:
                seen = await self._batch(seen, service) or self._in_buffer()
            if ends_once:
                await pay(self.costs.flush)
                self._push(service)
            self._busy.fall()
            self._workers.done()

    def _in_buffer(self) -> list[ManagedFault]:
        """Take what lies in the buffer now."""
        return [] if self._uncontended else self._buffer.take_all()

    async def _batch(self, seen: list[ManagedFault], service: Service) -> list[ManagedFault]:
        """Fetch, preprocess, serve, and replay as the policy says; return the entries that are left to fetch."""
        serve, pay, sim, policy = self._faults.serve, self._records.pay, self._records.sim, self._policy
        costs, counters, begin = self.costs, self._records.counters, sim.now
        each_block = policy.after == "block"
        fetched, entries, left, begun = _fetch(seen, costs.batch_max)
        await pay(costs.fetch + costs.fetch_entry * entries)
        fetched_at = sim.now
        await pay(costs.preprocess_entry * entries)
        if (injector := self._records.machine.injector) is not None:
            for fault in fetched:
                injector.page_fault(self._records.device.index, fault.kernel)
        served, entries_of, stored, different = _merged(fetched)
        preprocessed, moved_before = sim.now, counters.bytes_htod
        took: dict[int, float] = {}
        await self._records.locks.read()  # advice must not change the rules within a batch
        try:
            locked = sim.now
            self._faults.unpin()
            counters.batches += 1
            counters.duplicates += entries - different
            # Blocks are served in the order of their addresses: nvidia-uvm sorts a batch too (preprocess_fault_batch).
            for index in sorted(served):
                took_s, put_off = await serve(
                    index, served[index], entries_of[index], seen[0].cause, service.copies, stored.get(index, 0)
                )
                took[index] = took_s
                self._block_s += took_s
                self._served += took_s > 0.0
                if put_off:
                    served[index] &= ~put_off
                if each_block:
                    service.served[index] = served[index]
                    await pay(costs.flush)
                    self._push(service)
        finally:
            self._records.locks.release()
        served_at, nbytes = sim.now, counters.bytes_htod - moved_before
        if policy.after == "batch":
            dropped = 0
            if policy.flushes:
                if entries - different > costs.duplicates * entries:
                    left += self._in_buffer()
                dropped = sum([fault.entries for fault in left]) - begun  # ``begun`` of them were fetched
                left, begun = [], 0
            await pay(costs.flush + costs.flush_entry * dropped)
        self.batches.add(
            begin, fetched_at, preprocessed, locked, served_at, sim.now, entries, different, len(took), nbytes
        )
        for fault in fetched:
            self._note_wait(fault, took)
        if policy.flushes:
            for copy in service.copies:
                if not copy.is_set:
                    await copy.wait()
        if not each_block:
            service.note(served)
        if policy.after == "batch":
            self._push(service)
        return [left[0].tail(begun), *left[1:]] if begun else left

    def _push(self, service: Service) -> None:
        """Have the GPU replay what was served since the last replay, when the copies for it have ended."""
        self._replays.push(service.copies, ReplayFaults(service.kernels, service.served))
        service.served, service.copies = {}, []

    def _note_wait(self, fault: ManagedFault, took: dict[int, float]) -> None:
        """Add the time that a kernel was stalled besides what its faults take alone; nothing if they came too late."""
        costs = self.costs
        own_s = math.fsum(map(took.__getitem__, dict(fault.pages)))
        if own_s:
            own_s += costs.interrupt + costs.fetch + (costs.fetch_entry + costs.preprocess_entry) * fault.entries
            if (wait_s := self._records.sim.now - fault.time - own_s - costs.flush) > 0.0:
                self._wait_s += wait_s

    def statistics(self) -> FaultHandlerStatistics:
        """Return what it did so far."""
        busy_s = self._busy.total_s
        idle_s = max(self._records.sim.now - self._born - busy_s, 0.0)
        return FaultHandlerStatistics(busy_s, idle_s, self._wait_s, self._served, self._block_s)


def _fetch(seen: list[ManagedFault], room: int) -> tuple[list[ManagedFault], int, list[ManagedFault], int]:
    """Return the first so many entries of those that lie in the buffer, how many these are, and those behind them.

    At last how many entries of the first of those behind are among them.
    """
    entries = 0
    for place, fault in enumerate(seen):
        if entries + fault.entries > room:
            begun = room - entries
            fetched = [*seen[:place], fault.head(begun)] if begun else seen[:place]
            return fetched, room, seen[place:], begun
        entries += fault.entries
    return seen, entries, [], 0


def _merged(fetched: list[ManagedFault]) -> tuple[dict[int, int], dict[int, int], dict[int, int], int]:
    """Return the pages, the entries and the stored pages of each block, and how many different pages there are.

    The pages of a fault have as many entries each.
    """
    served: dict[int, int] = {}
    entries: dict[int, int] = {}
    stored: dict[int, int] = {}
    different = 0
    for fault in fetched:
        sets, of_fault = fault.pages, fault.entries
        total = how_many(sets)
        for index, pages in sets:
            own = -(-of_fault * pages.bit_count() // total)
            if index in served:
                before = served[index]
                different -= (pages & before).bit_count()
                served[index] = before | pages
                entries[index] += own
            else:
                served[index] = pages
                entries[index] = own
        different += total
        for index, pages in fault.stored.items():
            stored[index] = stored.get(index, 0) | pages
    return served, entries, stored, different
