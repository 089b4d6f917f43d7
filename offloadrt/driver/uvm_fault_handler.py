"""The page-fault handler of the unified-memory driver: one worker, which serves GPU faults in batches.

A batch is what lies in the fault buffer when the worker comes to fetch it, at most ``fault.batch_max`` faults.  They
are grouped by block, duplicates are dropped, and the blocks are served one after the other.  Then the buffer is flushed
and the kernels are replayed (BATCH_FLUSH): what was not in the batch, or was put off because it thrashes, they ask for
again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs

from offloadrt.machine.level import Level
from offloadrt.machine.messages import ManagedFault, Replay

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

    def start(self) -> None:
        """Spawn a worker."""
        name = f"{self.mailbox.name} worker {self._workers}" if self._workers else self.mailbox.name
        self._workers += 1
        self._idle += 1
        self._sim.spawn(self._run, name=name, daemon=True)

    async def _run(self) -> None:
        """The actor: one batch after the other, for ever."""
        while True:
            message = await self._next()
            self._idle -= 1
            if self._uncontended and not self._idle:
                self.start()
            self._busy.rise()
            await self._batch(message)
            self._busy.fall()
            self._idle += 1

    async def _next(self) -> ManagedFault:
        message = await self.mailbox.get()
        if not isinstance(message, ManagedFault):
            raise TypeError(f"the page-fault handler does not understand {message!r}")
        return message

    async def _batch(self, first: ManagedFault) -> None:
        """Fetch, serve, flush, replay."""
        uvm, sim, mailbox = self._uvm, self._sim, self.mailbox
        await uvm.lock_for_reading()
        try:
            begin = sim.now
            uvm.unpin()
            await sim.sleep(uvm.machine.jitter(uvm.costs.batch))
            base_s = sim.now - begin
            messages, pages = [first], [*first.pages[: uvm.costs.batch_max]]
            while not self._uncontended and mailbox.items and len(pages) < uvm.costs.batch_max:
                message = await self._next()
                messages.append(message)
                pages += message.pages[: uvm.costs.batch_max - len(pages)]
            took, throttled = await self._serve(pages, first.cause)
        finally:
            uvm.unlock()
        while not self._uncontended and mailbox.items:
            messages.append(await self._next())
        for message in messages:
            own_s = math.fsum(took.values() if len(messages) == 1 else self._own(message, took))
            self._wait_s += max(sim.now - message.time - base_s - own_s, 0.0)
        served = frozenset(pages) - throttled if throttled else frozenset(pages)
        uvm.device.compute.mailbox.put(Replay(tuple([message.kernel for message in messages]), served))

    def _own(self, message: ManagedFault, took: dict[int, float]) -> list[float]:
        """What the blocks took on which a kernel faulted."""
        per_block = self._uvm.pages.per_block
        return [took.get(index, 0.0) for index in dict.fromkeys(page // per_block for page in message.pages)]

    async def _serve(self, pages: list[int], cause: int) -> tuple[dict[int, float], set[int]]:
        """Serve the faults of a batch, block by block.

        Returns the seconds that each block took, and the pages that were put off.
        """
        uvm = self._uvm
        per_block, groups = uvm.pages.per_block, dict[int, int]()
        index, low, high, faulted = -1, 0, 0, 0
        for page in pages:
            if not low <= page < high:
                groups[index] = faulted
                index = page // per_block
                low = index * per_block
                high = low + per_block
                faulted = groups.get(index, 0)
            faulted |= 1 << page - low
        groups[index] = faulted
        del groups[-1]
        uvm.counters.batches += 1
        different = 0
        for faulted in groups.values():
            different += faulted.bit_count()
        uvm.counters.duplicates += len(pages) - different
        took: dict[int, float] = {}
        throttled: set[int] = set()
        for index in sorted(groups):
            took[index], put_off = await uvm.serve(index, groups[index], cause)
            if put_off:
                throttled.update(
                    page for page in pages if page // per_block == index and put_off >> page % per_block & 1
                )
            self._block_s += took[index]
            self._blocks += 1
        return took, throttled

    def statistics(self) -> FaultHandlerStatistics:
        """What it did so far."""
        busy_s = self._busy.total_s
        idle_s = max(self._sim.now - self._born - busy_s, 0.0)
        return FaultHandlerStatistics(busy_s, idle_s, self._wait_s, self._blocks, self._block_s)
