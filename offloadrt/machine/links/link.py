"""One direction of a link that several transfers use: between two devices, of a switch, between sockets.

Transfers in one direction divide its bandwidth (``share.py``); the two directions are independent. Several links of a
pair count as one link with the sum of their bandwidths, which a single copy can use. A path over several links, as
through a switch, is used as a whole: a transfer begins on all links at once, takes its share of each, and has arrived
when the last link has carried it. A real pipeline differs in two ways: it has to fill first, and a link is busy until
the slowest link behind it has carried the transfer.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Sequence
from typing import Protocol

import attrs

from offloadrt.machine.servers import LevelOverTime
from offloadrt.machine.share import SharedPool
from offloadrt.sim import Signal, Simulation


class Shared(Protocol):
    """A bandwidth that transfers share: a ``Link``, a ``SharedPool``, or a ``Way`` over several."""

    def serve(self, amount: float, cap: float = math.inf) -> Awaitable[None]:
        """Transfer `amount` bytes at the rate that the link's users get, at most ``cap`` bytes/s."""


@attrs.frozen
class LinkStatistics:
    """Statistics of one direction of a link; times are virtual seconds so far. busy_s + idle_s is the time elapsed."""

    busy_s: float
    """Time with a transfer on the link."""
    idle_s: float
    wait_s: float
    """Time by which other transfers, on this link or on the links behind it, prolonged transfers."""
    transfers: int
    bytes: int


class Link:
    """One direction of a link; ``bandwidth`` in bytes/s, of which one transfer can use at most ``cap``.

    ``behind``: the links that transfers pass after this one. ``uncontended``: each transfer has the whole link.
    """

    def __init__(
        self,
        sim: Simulation,
        name: str,
        bandwidth: float,
        *,
        uncontended: bool = False,
        cap: float = math.inf,
        behind: Sequence[Shared] = (),
    ) -> None:
        self.sim = sim
        self.name = name
        self.bandwidth = bandwidth
        self.bytes = 0.0
        """Bytes of the transfers that have ended."""
        self._cap = cap
        pool = SharedPool(sim, bandwidth, name, uncontended=uncontended)
        self._way: Shared = Way(sim, name, (pool, *behind)) if behind else pool
        self._present = LevelOverTime(sim)
        self._transfers = 0
        self._waited_s = 0.0
        self._born = sim.now

    async def serve(self, amount: float, cap: float = math.inf) -> None:
        """Transfer `amount` bytes, at most ``cap`` bytes/s, and return at the end of the transfer."""
        begin, cap = self.sim.now, min(cap, self._cap)
        self._present.rise()
        try:
            await self._way.serve(amount, cap)
        finally:
            self._present.fall()
        self._waited_s += max(self.sim.now - begin - amount / min(self.bandwidth, cap), 0.0)
        self._transfers += 1
        self.bytes += amount

    @property
    def used(self) -> bool:
        """Tell whether any transfer has passed the link."""
        return self._transfers > 0

    def statistics(self) -> LinkStatistics:
        """Return the statistics of the link so far."""
        busy_s = self._present.some_s
        idle_s = max(self.sim.now - self._born - busy_s, 0.0)
        return LinkStatistics(busy_s, idle_s, self._waited_s, self._transfers, int(self.bytes))


class Way:
    """The links that one transfer passes at the same time, such as a device's own link and a switch's link above it."""

    def __init__(self, sim: Simulation, name: str, links: Sequence[Shared]) -> None:
        self._sim = sim
        self._name = name
        self._first, *self._others = links

    async def serve(self, amount: float, cap: float = math.inf) -> None:
        """Transfer `amount` bytes over all links at once, at most ``cap`` bytes/s; each further link has an actor."""
        passed = [Signal(self._sim, f"{self._name}: {amount:.0f} bytes") for _ in self._others]
        for link, signal in zip(self._others, passed, strict=True):
            self._sim.spawn(self._serve_one, link, amount, cap, signal, name=f"{self._name} transfer", daemon=True)
        await self._first.serve(amount, cap)
        for signal in passed:
            await signal.wait()

    async def _serve_one(self, link: Shared, amount: float, cap: float, passed: Signal) -> None:
        await link.serve(amount, cap)
        passed.set(None)
