"""Links between devices (NVLink): one object for each direction of each pair, however many links the pair has.

Transfers in one direction divide its bandwidth (``share.py``); the two directions are independent.  Several
links of a pair count as one link with the sum of their bandwidths, which a single copy can use.
"""

from __future__ import annotations

import attrs

from offloadrt.machine.level import LevelOverTime
from offloadrt.machine.share import SharedPool
from offloadrt.sim import Simulation


@attrs.frozen
class LinkStatistics:
    """What the links from one device to another did; virtual seconds, up to now.

    busy_s + idle_s is the time elapsed.
    """

    busy_s: float
    """Time with a transfer on it."""
    idle_s: float
    wait_s: float
    """Time by which transfers took longer because others were on it as well."""
    transfers: int
    bytes: int


class PeerLink:
    """All links from device ``source`` to device ``destination``; ``bandwidth`` in bytes/s is that of all together."""

    def __init__(
        self, sim: Simulation, source: int, destination: int, bandwidth: float, *, uncontended: bool = False
    ) -> None:
        self.sim = sim
        self.name = f"peer link {source}-{destination}"
        self.bandwidth = bandwidth
        self.bytes = 0
        """Bytes of the transfers that have ended."""
        self._pool = SharedPool(sim, bandwidth, self.name, uncontended=uncontended)
        self._present = LevelOverTime(sim)
        self._transfers = 0
        self._waited_s = 0.0
        self._born = sim.now

    async def carry(self, nbytes: int) -> None:
        """Transfer so many bytes with the bandwidth that is left to them; a copy engine awaits it."""
        begin = self.sim.now
        self._present.rise()
        try:
            await self._pool.serve(nbytes)
        finally:
            self._present.fall()
        self._waited_s += max(self.sim.now - begin - nbytes / self.bandwidth, 0.0)
        self._transfers += 1
        self.bytes += nbytes

    @property
    def used(self) -> bool:
        """Tell whether anything has been transferred over it."""
        return self._transfers > 0

    def statistics(self) -> LinkStatistics:
        """Return what the links did so far."""
        busy_s = self._present.some_s
        idle_s = max(self.sim.now - self._born - busy_s, 0.0)
        return LinkStatistics(busy_s, idle_s, self._waited_s, self._transfers, self.bytes)
