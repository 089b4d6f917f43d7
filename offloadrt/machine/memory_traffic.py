"""The memory bandwidth of an APU, which DMA rings take from its kernels.

A copy within one memory reads and writes each byte.  While its bytes flow, the copies and the kernels that are there
divide the memory's bandwidth (``share.py``).  A kernel can use what it draws alone; when it gets less, it can use so
much less of the SMs.  Without copies there is nothing to divide: of the SMs, kernels never get more than what the
memory feeds, because what a kernel demands of them is never less than what it draws of the bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Annotated

import attrs

from offloadrt.machine.level import Level
from offloadrt.machine.messages import TrafficChanged
from offloadrt.machine.resident_kernel import ResidentKernel
from offloadrt.machine.share import SharedPool, Ticket
from offloadrt.sim import PASSED, Simulation

if TYPE_CHECKING:
    from offloadrt.machine.compute_units import ComputeUnits

_READ_AND_WRITTEN = 2
"""Bytes of traffic for each byte that is copied within one memory."""
_SPACINGS = 16
"""A copy that takes less than so many spacings of the floating-point clock is left to the division to end."""


@attrs.frozen
class TrafficSpec:
    """What the memory does.  Bytes/s."""

    bandwidth: Annotated[float, "mem.bw"]
    uncontended: Annotated[bool, "memory_traffic.uncontended"]
    """Whether kernels and each copy have all of the bandwidth for themselves (an ablation)."""


@attrs.frozen
class TrafficStatistics:
    """What the copies of DMA rings drew; virtual seconds, up to now.  busy_s + idle_s is the time elapsed."""

    busy_s: float
    """With bytes of a copy flowing."""
    idle_s: float
    wait_s: float
    """That the copies which have ended took longer than alone, because others drew on the memory as well."""
    copies: int
    bytes: int
    """Read and written."""


class MemoryTraffic:
    """Divides the bandwidth: a DMA ring awaits ``copy``, the compute units call ``divide`` while it is ``shared``."""

    def __init__(self, sim: Simulation, units: ComputeUnits, spec: TrafficSpec) -> None:
        self.sim = sim
        self.name = f"device {units.device} memory"
        self.shared = False
        """Whether bytes of a copy flow, or kernels have yet to get back what copies have left."""
        self._units = units
        self._resident = units.resident
        self._bandwidth, self._uncontended = spec.bandwidth, spec.uncontended
        self._most = spec.bandwidth / _READ_AND_WRITTEN
        """Bytes/s that a copy can have."""
        self._pool = SharedPool(sim, spec.bandwidth, self.name, uncontended=spec.uncontended)
        self._draws: list[float] = []
        """Bytes/s that each copy can use."""
        self._kernels: dict[ResidentKernel, Ticket] = {}
        """Those that divide the bandwidth with copies, and their parts."""
        self._flowing = Level(sim)
        self._alone_s = self._wait_s = 0.0
        self._copies = 0
        self._bytes = 0
        self._born = sim.now

    def copy(self, latency: float, nbytes: int, rate: float) -> Awaitable[None]:
        """After ``latency`` read and write ``nbytes`` bytes, at most ``rate`` of them per second, at the bandwidth that
        is left to them.  Await it at once: where nobody can come in between, the time has passed already.
        """
        if not (self._draws or self._resident or self._uncontended):
            sim, alone = self.sim, nbytes / min(rate, self._most)
            came = sim.now + latency
            if alone > _SPACINGS * math.ulp(came) and sim.pass_to(came + (came + alone - came), 2):
                self._copies += 1
                self._bytes += _READ_AND_WRITTEN * nbytes
                self._alone_s += alone
                return PASSED
        return self._copy(latency, _READ_AND_WRITTEN * nbytes, _READ_AND_WRITTEN * rate)

    async def _copy(self, latency: float, traffic: int, draw: float) -> None:
        sim, draws = self.sim, self._draws
        await sim.sleep(latency)
        begin = sim.now
        if self._is_scarce(draw):
            self._units.mailbox.put(TrafficChanged())
        self._flowing.rise()
        draws.append(draw)
        self.shared = True
        try:
            await self._pool.serve(traffic, draw)
        finally:
            self._flowing.fall()
            draws.remove(draw)
            self.shared = bool(draws or self._kernels)
            if self._kernels:
                self._units.mailbox.put(TrafficChanged())
        self._copies += 1
        self._bytes += traffic
        self._wait_s += max(sim.now - begin - traffic / min(draw, self._bandwidth), 0.0)

    def _is_scarce(self, draw: float = 0.0) -> bool:
        """Whether the kernels and the copies, and one that draws so much more, could use more than there is."""
        if not self._resident or self._uncontended:
            return False
        return math.fsum([draw, *self._draws, *[one.draw for one in self._resident.values()]]) > self._bandwidth

    def divide(self) -> None:
        """Give each resident kernel its part for now; where there is enough for all, nobody divides."""
        kernels, scarce = self._kernels, bool(self._draws) and self._is_scarce()
        if not (scarce or kernels):
            return
        share, resident, pool, now = self._units.share, self._resident, self._pool, self.sim.now
        drawing = [one for one in resident.values() if one.draw] if scarce else []
        for gone in [one for one in kernels if one not in drawing]:
            pool.release(kernels.pop(gone))
        for come in drawing:
            if come not in kernels:
                kernels[come] = pool.hold(come.draw)
        for ticket, one in list(resident.items()):
            part = pool.share.rate(kernels[one]) / one.draw if one in kernels else 1.0
            if (limited := share.limit(now, ticket, one.demand * part)) is not ticket:
                del resident[ticket]
                resident[limited] = one
        self.shared = bool(self._draws or kernels)

    def statistics(self) -> TrafficStatistics:
        """What the copies did so far."""
        busy_s = self._alone_s + self._flowing.some_s
        idle_s = self.sim.now - self._born - busy_s
        return TrafficStatistics(busy_s, idle_s, self._wait_s, self._copies, self._bytes)
