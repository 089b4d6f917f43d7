"""The page-fault handler of the unified-memory driver: one worker, which serves GPU faults in batches.

A batch is what lies in the fault buffer when the worker comes to fetch it, at most ``fault.batch_max`` faults.  They
are grouped by block, duplicates are dropped, and the blocks are served one after the other.  Then the buffer is flushed
and the kernels are replayed (BATCH_FLUSH): what was not in the batch, or was put off because it thrashes, they ask for
again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

from offloadrt.driver.uvm_alone import UvmAlone
from offloadrt.machine.level import Level
from offloadrt.machine.messages import ManagedFault, ReplayFaults
from offloadrt.machine.page_sets import PageSets, how_many, merged, up_to
from offloadrt.machine.servers import Servers, numbered_from_the_second

if TYPE_CHECKING:
    from offloadrt.driver.uvm import Uvm
    from offloadrt.sim import Mailbox


@attrs.frozen
class FaultHandlerStatistics:
    """What the handler did; virtual seconds.  busy_s + idle_s is the time elapsed with one worker."""

    busy_s: float
    """In batches, up to now."""
    idle_s: float
    wait_s: float
    """That kernels were stalled besides what serving their own faults alone takes."""
    blocks: int
    """Served, batch by batch."""
    block_s: float
    """That they took."""


class UvmFaultHandler:
    """Serves the GPU faults of one device; ``start`` spawns its actor.

    With ``uncontended`` each message of a kernel finds a worker of its own, so that no batch has two kernels.
    """

    def __init__(self, uvm: Uvm, mailbox: Mailbox, *, uncontended: bool = False) -> None:
        self._uvm = uvm
        self._sim = uvm.machine.sim
        self.mailbox = mailbox
        self._uncontended = uncontended
        names = numbered_from_the_second(mailbox.name, "worker")
        self._workers: Servers[ManagedFault] = Servers(self._sim, mailbox, self._run, names, grow=uncontended)
        self._busy = Level(uvm.machine.sim)
        self._wait_s = self._block_s = 0.0
        self._blocks = 0
        self._born = uvm.machine.sim.now
        self.alone = None if uvm.draws or uvm.costs.restore else UvmAlone(uvm)
        """Serves what nobody can disturb."""
        uvm.kernels.serve_alone = None if uncontended or self.alone is None else self._serve_alone

    def start(self) -> None:
        """Spawn a worker."""
        self._workers.start()

    async def _run(self) -> None:
        """The actor: one batch after the other, for ever."""
        compute = self._uvm.device.compute.mailbox
        while True:
            message = await self._next()
            self._workers.took_unannounced()
            replay = await self._batch(message)
            self._workers.ended()
            compute.put(replay)

    def _serve_alone(self, pages: PageSets, needed: dict[int, int]) -> Mapping[int, int] | None:
        """A kernel's faults, as ``ReplayFaults`` has them, served in one step of the compute units' actor.

        None, and nothing is done, when anybody else could act before.
        """
        uvm, alone, most, served = self._uvm, self.alone, self._uvm.costs.batch_max, needed
        if len(needed) * uvm.pages.per_block > most:
            served = merged(up_to(pages, most))
        if alone is None or not self.mailbox.getters or not uvm.lock_is_free() or not alone.may_serve(served):
            return None
        begin = self._sim.now
        uvm.unpin()
        uvm.counters.batches += 1
        base_s = begin + alone.batch_s - begin
        took = alone.serve(served, alone.batch_s)
        passed_s = self._sim.now - begin
        uvm.had_lock(passed_s)
        self._count(took)
        self._wait_s += max(passed_s - base_s - math.fsum(took), 0.0)
        self._busy.was(passed_s)
        return served

    async def _next(self) -> ManagedFault:
        message = await self.mailbox.get()
        if not isinstance(message, ManagedFault):
            raise TypeError(f"the page-fault handler does not understand {message!r}")
        return message

    async def _batch(self, first: ManagedFault) -> ReplayFaults:
        """Fetch, serve, flush, replay."""
        uvm, sim, mailbox = self._uvm, self._sim, self.mailbox
        self._busy.rise()
        await uvm.lock_for_reading()
        try:
            begin = sim.now
            uvm.unpin()
            await uvm.pay(uvm.costs.batch)
            base_s = sim.now - begin
            messages, most = [first], uvm.costs.batch_max
            pages = up_to(first.pages, most)
            while not self._uncontended and mailbox.items and (room := most - how_many(pages)) > 0:
                message = await self._next()
                messages.append(message)
                pages = [*pages, *up_to(message.pages, room)]
            took, served = await self._serve(pages, first.cause)
        finally:
            uvm.unlock()
        while not self._uncontended and mailbox.items:
            messages.append(await self._next())
        for message in messages:
            own = dict.fromkeys(index for index, _ in message.pages)
            own_s = math.fsum(took.get(index, 0.0) for index in own)
            self._wait_s += max(sim.now - message.time - base_s - own_s, 0.0)
        self._busy.fall()
        return ReplayFaults(tuple([message.kernel for message in messages]), served)

    async def _serve(self, pages: PageSets, cause: int) -> tuple[dict[int, float], dict[int, int]]:
        """Serve the faults of a batch, block by block.

        Returns the seconds that each block took, and the pages of each that were not put off.
        """
        uvm, served, took = self._uvm, merged(pages), dict[int, float]()
        uvm.counters.batches += 1
        uvm.counters.duplicates += how_many(pages) - how_many([*served.items()])
        if (alone := self.alone) is not None and alone.may_serve(served):
            took = dict(zip(sorted(served), alone.serve(served), strict=True))
        for index in sorted(served) if not took else ():
            took[index], put_off = await uvm.serve(index, served[index], cause)
            served[index] &= ~put_off
        self._count(took.values())
        return took, served

    def _count(self, took: Iterable[float]) -> None:
        """Blocks have been served, in so many seconds each."""
        for dt in took:
            self._blocks += 1
            self._block_s += dt

    def statistics(self) -> FaultHandlerStatistics:
        """What it did so far."""
        busy_s = self._busy.total_s
        idle_s = max(self._sim.now - self._born - busy_s, 0.0)
        return FaultHandlerStatistics(busy_s, idle_s, self._wait_s, self._blocks, self._block_s)
