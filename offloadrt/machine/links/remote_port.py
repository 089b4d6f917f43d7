"""Accesses of kernels to host memory over the link: each takes its share of the bandwidth of its direction.

Copies and migrations in that direction share the same bandwidth.
"""

from __future__ import annotations

from offloadrt.machine.links.link import Shared
from offloadrt.machine.messages import RemoteAccess, RemoteDone
from offloadrt.machine.servers import Servers, numbered
from offloadrt.sim import Mailbox, Simulation


class RemotePort:
    """One direction of a device's link, as kernels use it.

    There is an idle actor for every access that comes: accesses do not queue, they only share the link.
    """

    def __init__(
        self, sim: Simulation, device: int, direction: str, link: Shared, bandwidth: float, compute: Mailbox
    ) -> None:
        self.sim = sim
        self.mailbox = Mailbox(sim, f"device {device} remote port {direction}")
        self.bytes = 0.0
        """Bytes of the accesses that have ended."""
        self._link = link
        self._bandwidth = bandwidth
        self._compute = compute
        names = numbered(self.mailbox.name)
        self._servers: Servers[RemoteAccess] = Servers(sim, self.mailbox, self._run, names, grow=True, service=True)
        self.submit = self._servers.submit
        """A kernel's step reaches over the link; the compute units get a ``RemoteDone``."""

    async def _run(self) -> None:
        """Carry out one access after the other, for ever."""
        while True:
            message = await self.mailbox.get()
            if not isinstance(message, RemoteAccess):
                raise TypeError(f"a remote port does not understand {message!r}")
            await self._link.serve(message.nbytes, self._bandwidth)
            self.bytes += message.nbytes
            self._servers.done()
            self._compute.put(RemoteDone(message.kernel))
