"""The worker that carries out prefetches of managed memory (cuMemPrefetchAsync), in the order of their streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offloadrt.machine.messages import PrefetchPacket
from offloadrt.sim import Mailbox, Simulation

if TYPE_CHECKING:
    from offloadrt.driver.uvm import Uvm


class MigrationWorker:
    """Takes prefetches in the order in which hardware queues dispatch them; ``start`` spawns its actor."""

    def __init__(self, sim: Simulation, device: int, uvm: Uvm) -> None:
        self.mailbox = Mailbox(sim, f"device {device} migration worker")
        self._uvm = uvm

    def start(self) -> None:
        """Spawn the actor."""
        self._uvm.sim.spawn(self._run, name=self.mailbox.name, daemon=True)

    async def _run(self) -> None:
        """The actor: one prefetch after the other, for ever."""
        sim = self._uvm.sim
        while True:
            packet = await self.mailbox.get()
            if not isinstance(packet, PrefetchPacket):
                raise TypeError(f"the migration worker does not understand {packet!r}")
            begin = sim.now
            await self._uvm.prefetch(packet.begin, packet.nbytes, packet.to_host, packet.cause)
            packet.done.set(("copies", begin, sim.now))
