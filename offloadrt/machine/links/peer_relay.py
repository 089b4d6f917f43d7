"""Copies between devices without a direct way: through pinned memory of the host, or the memory of a third device.

The driver cuts such a copy into pieces.  Each piece is stored in a buffer there and then forwarded; while one piece is
forwarded the next one comes in, as long as a buffer is free.  A piece takes two transfers on copy engines: device to
host and host to device, or one by the source and one by the neighbour over the two links.  So a relayed copy contends
with all others by what it does, without a rule of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Protocol

import attrs

from offloadrt.machine.links.copy_engine import CopyEngines
from offloadrt.machine.links.link import Link
from offloadrt.machine.messages import CopyPacket, PeerPacket
from offloadrt.machine.queues.stream import internal_channel
from offloadrt.machine.servers import Servers, numbered
from offloadrt.sim import Mailbox, Signal, Simulation


@attrs.frozen
class RelaySpec:
    """What a copy through the host or a neighbour costs besides its transfers, and how it is cut."""

    latency: Annotated[float, "p2p.staged_latency"]
    """Seconds, once for each copy."""
    chunk: Annotated[int, "p2p.chunk"]
    """Bytes of one piece."""
    buffers: Annotated[int, "p2p.buffers"]
    """How many pieces of one copy can be forwarded at a time."""


class EngineHolder(Protocol):
    """What the relay needs of a device; a ``Device``, which imports the relay, provides it."""

    @property
    def engines(self) -> Mapping[str, CopyEngines]: ...
    def start(self) -> None: ...


class PeerRelay:
    """Carries copies piece by piece.

    There is always an actor for a copy that comes, so that copies meet at engines and links only.
    """

    def __init__(
        self,
        sim: Simulation,
        spec: RelaySpec,
        devices: Sequence[EngineHolder],
        links: Mapping[tuple[int, int], Link],
        next_number: Callable[[], int],
    ) -> None:
        self.sim = sim
        self.spec = spec
        self.mailbox = Mailbox(sim, "peer relay")
        self._devices = devices
        self._links = links
        self._next_number = next_number
        self._channel = internal_channel()
        names = numbered(self.mailbox.name)
        self._servers: Servers[PeerPacket] = Servers(sim, self.mailbox, self._run, names, grow=True, service=True)
        self.submit = self._servers.submit
        """Take a copy that its stream has come to."""

    async def _run(self) -> None:
        """Carry out one copy after the other, for ever."""
        while True:
            packet = await self.mailbox.get()
            if not isinstance(packet, PeerPacket):
                raise TypeError(f"a peer relay does not understand {packet!r}")
            begin = self.sim.now
            await self.sim.sleep(self.spec.latency)
            await self._carry(packet)
            if packet.move is not None:
                packet.move()
            self._servers.done()
            packet.done.set(("copies", begin, self.sim.now))

    async def _carry(self, packet: PeerPacket) -> None:
        """Transfer the pieces of a copy to the relay and on; return when the last one has arrived."""
        source, destination, via, cause = packet.source, packet.destination, packet.via, packet.cause
        left = packet.nbytes
        forwarding: deque[Signal] = deque()
        while left:
            size = min(left, self.spec.chunk)
            if len(forwarding) == self.spec.buffers:
                await forwarding.popleft().wait()
            if via is None:
                await self._transfer(source, "d2h", size, cause).wait()
                forwarding.append(self._transfer(destination, "h2d", size, cause))
            else:
                await self._transfer(source, "p2p", size, cause, via).wait()
                forwarding.append(self._transfer(via, "p2p", size, cause, destination))
            left -= size
        for piece in forwarding:
            await piece.wait()

    def _transfer(self, device: int, direction: str, nbytes: int, cause: int, to: int | None = None) -> Signal:
        """Submit a piece to a device's engine, for the host or for device ``to``; return its completion."""
        number = self._next_number()
        done = Signal(self.sim, f"copy {number} ({direction})")
        memory, over = ("pinned", None) if to is None else (f"device {to}", self._links[device, to])
        self._devices[device].start()
        self._devices[device].engines[direction].submit(
            CopyPacket(number, self._channel, cause, direction, nbytes, memory, None, done, over)
        )
        return done
