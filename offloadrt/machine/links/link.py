"""One direction of a link that several transfers use: between two devices, of a switch, between sockets.

Transfers in one direction divide its bandwidth (``share.py``); the two directions are independent.  Several links of a
pair count as one link with the sum of their bandwidths, which a single copy can use.  A way over several links, as
through a switch, is used as a whole: a transfer begins on all of them at once, takes its share of each, and has arrived
when the last one is through with it.  That is what a pipeline does but for its filling, and but for one thing: a link
is free again before the transfer has passed the one that holds it up.
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
        """Transfer so many bytes at the rate that the division gives, at most ``cap`` per second."""


@attrs.frozen
class LinkStatistics:
    """What one direction of a link did; virtual seconds, up to now.

    busy_s + idle_s is the time elapsed.
    """

    busy_s: float
    """Time with a transfer on it."""
    idle_s: float
    wait_s: float
    """Time by which transfers took longer because others were on it, or on the links behind it, as well."""
    transfers: int
    bytes: int


class Link:
    """One direction of a link; ``bandwidth`` in bytes/s, of which one transfer can use at most ``cap``.

    ``behind`` holds the links that a transfer passes with this one.
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
        """Transfer so many bytes with the bandwidth that is left to them; a copy engine or a kernel awaits it."""
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
        """Tell whether anything has been transferred over it."""
        return self._transfers > 0

    def statistics(self) -> LinkStatistics:
        """Return what the link did so far."""
        busy_s = self._present.some_s
        idle_s = max(self.sim.now - self._born - busy_s, 0.0)
        return LinkStatistics(busy_s, idle_s, self._waited_s, self._transfers, int(self.bytes))


class Way:
    """Several links that a transfer passes, at the same time."""

    def __init__(self, sim: Simulation, name: str, links: Sequence[Shared]) -> None:
        self._sim = sim
        self._name = name
        self._first, *self._others = links

    async def serve(self, amount: float, cap: float = math.inf) -> None:
        """Transfer so many bytes over all links; an actor each takes the share of those after the first."""
        passed = [Signal(self._sim, f"{self._name}: {amount:.0f} bytes") for _ in self._others]
        for link, signal in zip(self._others, passed, strict=True):
            self._sim.spawn(self._serve_one, link, amount, cap, signal, name=f"{self._name} transfer", daemon=True)
        await self._first.serve(amount, cap)
        for signal in passed:
            await signal.wait()

    async def _serve_one(self, link: Shared, amount: float, cap: float, passed: Signal) -> None:
        await link.serve(amount, cap)
        passed.set(None)
