"""The page-fault handler of the unified-memory driver: one worker, which serves GPU faults in batches.

A batch is what lies in the fault buffer when the worker comes to fetch it, at most ``fault.batch_max`` faults.  They
are grouped by block, duplicates are dropped, and the blocks are served one after the other.  Then the buffer is flushed
and the kernels are replayed (nvidia-uvm's policy BATCH_FLUSH, ``uvm_gpu_service_replayable_faults``): what was not in
the batch, or was put off because it thrashes, they ask for again.

The way of a page fault: the compute units' actor finds pages missing (``ManagedKernels``) and leaves a ``ManagedFault``
in this actor's mailbox; ``_batch`` serves each block by ``GpuFaults.serve``, which has ``UvmBlocks.fetch`` fetch it; a
``ReplayFaults`` lets the kernel try again.
"""

from __future__ import annotations

import math

import attrs

from offloadrt.driver.uvm.blocks import UvmBlocks
from offloadrt.driver.uvm.fault_batch import FaultBatch
from offloadrt.driver.uvm.gpu_faults import GpuFaults
from offloadrt.machine.level import LevelOverTime
from offloadrt.machine.managed.page_sets import how_many, merged, up_to
from offloadrt.machine.messages import ManagedFault, ReplayFaults
from offloadrt.machine.servers import Servers, numbered_from_the_second
from offloadrt.sim import Mailbox


@attrs.frozen
class FaultHandlerStatistics:
    """What the handler did; virtual seconds.  busy_s + idle_s is the time elapsed with one worker."""

    busy_s: float
    """Time in batches, up to now."""
    idle_s: float
    wait_s: float
    """Time that kernels were stalled besides what serving their own faults alone takes."""
    blocks: int
    """Blocks that were served; one that has faults in several batches counts in each."""
    block_s: float
    """Time that the service of these blocks took."""


class UvmFaultHandler:
    """Serves the GPU faults of one device; ``start`` spawns its actor.

    With ``uncontended`` each message of a kernel finds a worker of its own, so that no batch has two kernels.
    """

    def __init__(self, blocks: UvmBlocks, faults: GpuFaults, mailbox: Mailbox, *, uncontended: bool = False) -> None:
        self._blocks = blocks
        self._faults = faults
        self._sim = blocks.sim
        self.mailbox = mailbox
        self._uncontended = uncontended
        names = numbered_from_the_second(mailbox.name, "worker")
        self._workers: Servers[ManagedFault] = Servers(self._sim, mailbox, self._run, names, grow=uncontended)
        self.start = self._workers.start
        """Spawn a worker."""
        self.batches: list[FaultBatch] = []
        """The batches so far, in the order in which they ended."""
        self._busy = LevelOverTime(self._sim)
        self._wait_s = self._block_s = 0.0
        self._served = 0
        self._born = self._sim.now

    async def _run(self) -> None:
        """Serve one batch after the other, for ever."""
        compute, get = self._blocks.device.compute.mailbox, self.mailbox.get
        while True:
            first = _understood(await get())
            self._workers.took_from_mailbox()
            self._busy.rise()
            replay = await self._batch(first)
            self._busy.fall()
            self._workers.done()
            compute.put(replay)

    async def _batch(self, first: ManagedFault) -> ReplayFaults:
        """Fetch, serve, flush, replay."""
        blocks, faults, sim, mailbox = self._blocks, self._faults, self._sim, self.mailbox
        costs, counters, messages, duplicates = blocks.costs, blocks.counters, [first], 0
        took: dict[int, float] = {}
        came, moved_before = sim.now, counters.bytes_htod
        await blocks.locks.read()  # advice must not change the rules within a batch
        try:
            begin = sim.now
            faults.unpin()
            await blocks.pay(costs.batch)
            base_s = sim.now - begin
            pages = up_to(first.pages, costs.batch_max)
            served = merged(pages)  # a kernel asks for no page twice
            while not self._uncontended and mailbox.items and (room := costs.batch_max - how_many(pages)) > 0:
                message = _understood(await mailbox.get())
                messages.append(message)
                pages = [*pages, *up_to(message.pages, room)]
                served = merged(pages)
                duplicates = how_many(pages) - how_many([*served.items()])
            different = how_many([*served.items()])
            counters.batches += 1
            counters.duplicates += duplicates
            serve, cause = faults.serve, first.cause
            # Blocks are served in the order of their addresses: nvidia-uvm sorts a batch too (preprocess_fault_batch).
            for index in sorted(served):
                took[index], put_off = await serve(index, served[index], cause)
                self._block_s += took[index]
                if put_off:
                    served[index] &= ~put_off
            self._served += len(took)
        finally:
            blocks.locks.release()
        nbytes = counters.bytes_htod - moved_before
        self.batches.append(
            FaultBatch(came, came, came, begin, sim.now, sim.now, how_many(pages), different, len(took), nbytes)
        )
        while not self._uncontended and mailbox.items:
            # The flush drops faults that came during the batch. Their kernels are replayed with the others and ask
            # again.
            messages.append(_understood(await mailbox.get()))
        for message in messages:
            own_s = math.fsum([took.get(index, 0.0) for index in dict(message.pages)])
            self._wait_s += max(sim.now - message.time - base_s - own_s, 0.0)
        return ReplayFaults(tuple([message.kernel for message in messages]), served)

    def statistics(self) -> FaultHandlerStatistics:
        """Return what it did so far."""
        busy_s = self._busy.total_s
        idle_s = max(self._sim.now - self._born - busy_s, 0.0)
        return FaultHandlerStatistics(busy_s, idle_s, self._wait_s, self._served, self._block_s)


def _understood(message: object) -> ManagedFault:
    if not isinstance(message, ManagedFault):
        raise TypeError(f"the page-fault handler does not understand {message!r}")
    return message
