"""The page-fault handler of the unified-memory driver: one worker, which serves GPU faults in batches.

A batch is what lies in the fault buffer when the worker comes to fetch it, at most ``fault.batch_max`` faults.  They
are grouped by block, duplicates are dropped, and the blocks are served one after the other.  Then the buffer is flushed
and the kernels are replayed (BATCH_FLUSH): what was not in the batch, or was put off because it thrashes, they ask for
again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import attrs

from offloadrt.driver.uvm_alone import is_undisturbed, serve_alone
from offloadrt.machine.level import Level
from offloadrt.machine.messages import ManagedFault, Replay
from offloadrt.machine.page_sets import PageSets, how_many, merged, up_to

STEPS: Final = 8
"""Of time, at most, that the service of a block takes, or what a batch takes besides."""

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
        self._workers = 0
        self._idle = 0
        self._busy = Level(uvm.machine.sim)
        self._wait_s = self._block_s = 0.0
        self._blocks = 0
        self._born = uvm.machine.sim.now
        uvm.kernels.serve_alone = None if uncontended else self._serve_alone

    def start(self) -> None:
        """Spawn a worker."""
        name = f"{self.mailbox.name} worker {self._workers}" if self._workers else self.mailbox.name
        self._workers += 1
        self._idle += 1
        self._sim.spawn(self._run, name=name, daemon=True)

    async def _run(self) -> None:
        """The actor: one batch after the other, for ever."""
        compute = self._uvm.device.compute.mailbox
        while True:
            message = await self._next()
            self._idle -= 1
            if self._uncontended and not self._idle:
                self.start()
            compute.put(await self._batch(message))
            self._idle += 1

    async def _serve_alone(self, message: ManagedFault) -> Replay | None:
        """The compute units have the batch of a fault served in their own actor, while everybody else waits for them.

        None, and nothing is done, when anybody could act before its end.
        """
        sim, uvm = self._sim, self._uvm
        blocks = min(len(message.pages), uvm.costs.batch_max)
        steps = STEPS * (blocks + 1)
        if sim.turbo and (sim.strides < steps or not sim.fuel):
            await sim.pause(sim.current)
        if self.mailbox.getters and uvm.lock_is_free() and is_undisturbed(uvm, blocks, steps):
            return await self._batch(message, alone=True)
        return None

    async def _next(self) -> ManagedFault:
        message = await self.mailbox.get()
        if not isinstance(message, ManagedFault):
            raise TypeError(f"the page-fault handler does not understand {message!r}")
        return message

    async def _batch(self, first: ManagedFault, *, alone: bool = False) -> Replay:
        """Fetch, serve, flush, replay; ``alone``: it is known that nobody can disturb it."""
        uvm, sim, mailbox = self._uvm, self._sim, self.mailbox
        self._busy.rise()
        await uvm.lock_for_reading()
        try:
            begin = sim.now
            uvm.unpin()
            await uvm.pay(uvm.costs.batch)
            base_s = sim.now - begin
            messages, most = [first], uvm.costs.batch_max
            pages = first.pages if len(first.pages) * uvm.pages.per_block <= most else up_to(first.pages, most)
            while not self._uncontended and mailbox.items and (room := most - how_many(pages)) > 0:
                message = await self._next()
                messages.append(message)
                pages = [*pages, *up_to(message.pages, room)]
            took, served = await self._serve(pages, first.cause, alone)
        finally:
            uvm.unlock()
        while not self._uncontended and mailbox.items:
            messages.append(await self._next())
        for message in messages:
            own_s = math.fsum(took.values() if len(messages) == 1 else self._own(message, took))
            self._wait_s += max(sim.now - message.time - base_s - own_s, 0.0)
        self._busy.fall()
        return Replay(tuple([message.kernel for message in messages]), served)

    def _own(self, message: ManagedFault, took: dict[int, float]) -> list[float]:
        """What the blocks took on which a kernel faulted."""
        return [took.get(index, 0.0) for index in dict.fromkeys(index for index, _ in message.pages)]

    async def _serve(self, pages: PageSets, cause: int, alone: bool) -> tuple[dict[int, float], dict[int, int]]:
        """Serve the faults of a batch, block by block.

        Returns the seconds that each block took, and the pages of each that were not put off.
        """
        uvm, served = self._uvm, merged(pages)
        uvm.counters.batches += 1
        if len(served) < len(pages):
            uvm.counters.duplicates += how_many(pages) - how_many([*served.items()])
        alone = alone or is_undisturbed(uvm, len(served), STEPS * len(served))
        took = self._counted(serve_alone(uvm, served)) if alone else {}
        for index in sorted(served.keys() - took.keys()) if len(took) < len(served) else ():
            if is_undisturbed(uvm, 1, STEPS):
                took.update(self._counted(serve_alone(uvm, {index: served[index]})))
            if index not in took:
                dt, put_off = await uvm.serve(index, served[index], cause)
                served[index] &= ~put_off
                took.update(self._counted({index: dt}))
        return took, served

    def _counted(self, took: dict[int, float]) -> dict[int, float]:
        """Blocks have been served, in so many seconds each."""
        self._blocks += len(took)
        for dt in took.values():
            self._block_s += dt
        return took

    def statistics(self) -> FaultHandlerStatistics:
        """What it did so far."""
        busy_s = self._busy.total_s
        idle_s = max(self._sim.now - self._born - busy_s, 0.0)
        return FaultHandlerStatistics(busy_s, idle_s, self._wait_s, self._blocks, self._block_s)
