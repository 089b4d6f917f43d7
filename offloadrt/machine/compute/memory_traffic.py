"""The memory bandwidth of an APU, which the copies of DMA rings take from kernels.

A copy within one memory reads and writes each byte; it draws on the memory evenly from its beginning to its end.  While
kernels and copies could together use more than there is, they divide the bandwidth (``share.py``): a kernel can use
what it draws alone, and when it gets less, it can use so much less of the SMs.  Kernels alone have nothing to divide
here, since a kernel never demands less of the SMs than of the bandwidth (``ComputeSpec.demand``).

Two simplifications: copies by the host's cores do not draw on this bandwidth (they could use about a tenth of it), and
a kernel draws evenly over its time, though a real one may read at its beginning and write at its end.
"""

from __future__ import annotations

import math
from typing import Annotated

import attrs

from offloadrt.machine.compute.residency import ResidentKernel, ResidentKernels
from offloadrt.machine.messages import TrafficChanged
from offloadrt.machine.servers import LevelOverTime
from offloadrt.machine.share import SharedPool, Ticket

_READ_AND_WRITTEN = 2
"""Bytes of traffic for each byte that is copied within one memory."""


@attrs.frozen
class TrafficSpec:
    """What the memory of an APU can do; bytes/s."""

    bandwidth: Annotated[float, "mem.bw"]
    uncontended: Annotated[bool, "memory_traffic.uncontended"]
    """Whether the kernels and each copy have all of the bandwidth for themselves (an ablation)."""

    @property
    def copies(self) -> float:
        """Return the bytes/s that a copy alone can have."""
        return self.bandwidth / _READ_AND_WRITTEN


@attrs.frozen
class TrafficStatistics:
    """How the memory was divided; virtual seconds, up to now.  busy_s + idle_s is the time elapsed."""

    busy_s: float
    """Time with copies that divide the bandwidth, among themselves or with kernels."""
    idle_s: float
    """Time without such copies."""
    wait_s: float
    """Time that the copies which have ended took longer than they would have alone, summed over them."""


class MemoryTraffic:
    """Divides the bandwidth between the copies in its ``flows`` and the resident kernels.

    The actor of the compute units calls ``divide`` while it is ``shared``; DMA rings announce their copies by flows.
    """

    def __init__(self, units: ResidentKernels, spec: TrafficSpec) -> None:
        sim = self.sim = units.sim
        self.name = f"device {units.device} memory"
        self.spec = spec
        self.flows: list[Flow] = []
        self.shared = False
        """Whether there have been copies since kernels last had all that they can use."""
        self.pool = SharedPool(sim, spec.bandwidth, self.name)
        self.dividing = LevelOverTime(sim)
        """Counts the copies that divide."""
        self.wait_s = 0.0
        self.resident = units.resident
        self._units = units
        self._kernels: dict[ResidentKernel, Ticket] = {}
        """The copies that divide, and their parts."""
        self._born = sim.now

    def open_flow(self) -> Flow:
        """Open the flow of a DMA ring's copies, which it makes one after the other."""
        self.flows.append(Flow(self))
        return self.flows[-1]

    def copy_began(self) -> None:
        """Divide the bandwidth, if there is not enough for all."""
        if self._needed() > self.spec.bandwidth:
            self._copies_divide()
            self.tell()

    def tell(self) -> None:
        """Tell the compute units that kernels have another part from now on."""
        if self.resident:
            self._units.mailbox.put(TrafficChanged())

    def divide(self) -> None:
        """Give each resident kernel its part for now."""
        kernels, needed = self._kernels, self._needed()
        scarce = needed > self.spec.bandwidth
        self.shared = needed > 0.0
        if not (scarce or kernels):
            return
        resident = self.resident
        if scarce:
            self._copies_divide()
        drawing = {kernel: kernel.draw for kernel in resident.values() if kernel.draw} if scarce else {}
        for gone in [kernel for kernel in kernels if kernel not in drawing]:
            self.pool.leave(kernels.pop(gone))
        for come, draw in drawing.items():
            if come not in kernels:
                # An amount without end: only the rate matters. A kernel leaves when it ends, not when it has moved its
                # bytes.
                kernels[come] = self.pool.enter(math.inf, draw)
        for ticket, kernel in list(resident.items()):
            part = self.pool.share.rate(kernels[kernel]) / kernel.draw if kernel in kernels else 1.0
            self._units.limit(ticket, kernel, kernel.rate * part)

    def _needed(self) -> float:
        """Return the bytes/s that copies, and kernels beside them, could use; 0 without copies."""
        needed = 0.0
        for flow in self.flows:
            needed += flow.draw
        if needed:
            for kernel in self.resident.values():
                needed += kernel.draw
        return needed

    def _copies_divide(self) -> None:
        """Give what is left of each copy its share of the bandwidth."""
        for flow in self.flows:
            if flow.draw and flow.part is None:
                # Up to now there was enough for all, so the copy has had its whole rate since it began.
                left = max(flow.traffic - (self.sim.now - flow.begun) * flow.draw, 0.0)
                flow.part = self.pool.enter(left, flow.draw)
                self.dividing.rise()

    def statistics(self) -> TrafficStatistics:
        """Return how the memory was divided so far."""
        busy_s = self.dividing.some_s
        return TrafficStatistics(busy_s, self.sim.now - self._born - busy_s, self.wait_s)


@attrs.define(eq=False)
class Flow:
    """The copies that a DMA ring makes, one after the other: ``begin``, the time that it takes alone, and ``end``."""

    memory: MemoryTraffic
    draw: float = 0.0
    """Bytes/s that the copy in progress can use; 0 without one."""
    traffic: float = 0.0
    """Bytes that it reads and writes."""
    begun: float = 0.0
    part: Ticket | None = None
    """Its share of the bandwidth, while copies divide it."""

    def begin(self, nbytes: int, alone: float) -> None:
        """Begin a copy of ``nbytes`` bytes, which takes ``alone`` virtual seconds without others."""
        self.traffic = _READ_AND_WRITTEN * nbytes
        self.draw = self.traffic / alone if nbytes else 0.0
        memory = self.memory
        self.begun = memory.sim.now
        if not memory.spec.uncontended:
            memory.shared = True
            if memory.resident or len(memory.flows) > 1:
                memory.copy_began()

    async def end(self, part: Ticket) -> None:
        """Wait until a copy that divides has all its bytes, after the time that it takes alone."""
        memory = self.memory
        came = memory.sim.now
        await memory.pool.finish(part)
        memory.wait_s += memory.sim.now - came
        memory.dividing.fall()
        self.part = None
        self.draw = 0.0
        memory.tell()
