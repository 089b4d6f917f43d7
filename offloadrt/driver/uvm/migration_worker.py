"""The worker that carries out prefetches of managed memory (cuMemPrefetchAsync), in the order of their streams."""

from __future__ import annotations

from offloadrt.driver.uvm.block_mover import BlockMover
from offloadrt.driver.uvm.block_records import BlockRecords
from offloadrt.machine.messages import PrefetchPacket
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
