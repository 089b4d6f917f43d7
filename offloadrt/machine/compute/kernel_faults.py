"""Page faults of an APU's kernels: what a kernel has yet to fault in, and what became of the faults of a device.

A kernel that starts with pages missing meets them one after the other while it runs: the k-th of m missing ranges (of
``fault.range``, the unit of one service) when it has done k/m of its work, the first at its start.  There it is stalled
until the page-fault handler has served it, unless somebody else had the range mapped meanwhile.

Two simplifications.  A real kernel meets the pages of its first teams nearly at once and may have several faults in
flight; here it has one, which is right where one worker serves them in turn.  And a stalled kernel stops as a whole,
while a real one's other teams go on: a kernel that computes much for each page is predicted too slow, by at most the
time of its faults' services.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import attrs

from offloadrt.machine.injection import Injector
from offloadrt.machine.memory.page_table import AccessFault, FaultStatistics, PageTable
from offloadrt.machine.messages import FaultServed, KernelPacket, PageFault
from offloadrt.machine.servers import LevelOverTime
from offloadrt.sim import Mailbox, Simulation


@attrs.frozen
class FaultSpec:
    """How kernels of a device fault."""

    range: Annotated[int, "fault.range"]
    """Bytes, and alignment, of what one service maps; less at the end of the program's memory."""
    xnack: Annotated[bool, "gpu.xnack"]
    """Whether a kernel waits for a missing page; otherwise it dies."""
    small_pages: Annotated[float, "mem.small_pages"]
    """The part of the memory's bandwidth that a kernel reaches in host memory whose pages are not huge."""


Mapped = Callable[[int, int], tuple[int, int]]
"""The part of a range that the program has memory at."""


@attrs.define(eq=False)
class Missing:
    """What one kernel has yet to meet: ``pieces`` of whole ranges, in the order in which it touches them."""

    pieces: list[tuple[int, int]]
    range: int
    mapped: Mapped
    total: int
    """How many ranges were missing at the kernel's start."""
    place: int = 0
    address: int = 0

    @property
    def head(self) -> tuple[int, int] | None:
        """Return the range that the kernel meets next; None when it has met all."""
        if self.place == len(self.pieces):
            return None
        return self.mapped(self.address, self.address + self.range)

    def advance(self) -> None:
        """Let the kernel pass the range that it met."""
        self.address += self.range
        if self.address >= self.pieces[self.place][1]:
            self.place += 1
            if self.place < len(self.pieces):
                self.address = self.pieces[self.place][0]


class KernelFaults:
    """The faults of one device's kernels; ``pages`` is its page table, ``handler`` the mailbox of who serves them.

    No service reaches beyond the memory that the program has (``mapped``, by process), as the kernel driver's ranges
    end with the mapping of the process that they lie in (Linux, ``svm_range_get_range_boundaries``).  Each process has
    a page table of its own on a real GPU.  Here one stands for all, since no two processes share an address.
    """

    def __init__(
        self, sim: Simulation, device: int, pages: PageTable, spec: FaultSpec, mapped: Mapped, huge: bool
    ) -> None:
        self.sim = sim
        self.pages = pages
        self.spec = spec
        self.translates_slowly = spec.small_pages < 1.0 and not huge
        """Whether kernels are slower in host memory, whose pages are small."""
        self.mapped = {0: mapped}
        self.handler = Mailbox(sim, f"device {device} page fault handler")
        self.injector: Injector | None = None
        self._device = device
        self._faults = self._duplicates = self._mapped = self._violations = 0
        self.serving = LevelOverTime(sim)
        """Services in progress, which the handler counts."""
        self._wait_s = 0.0
        self._born = sim.now

    def missing(self, packet: KernelPacket) -> Missing:
        """Return what a kernel has to fault in; something of what it touches must be missing."""
        size, seen, total = self.spec.range, PageTable(self.spec.range), 0
        # Two arguments may touch the same range, which one service maps: `seen` counts it once.
        pieces: list[tuple[int, int]] = []
        for touched in packet.touches:
            for low, high in self.pages.missing(*touched):
                pieces += seen.missing(low, high - low)
                total += seen.insert(low, high)
        return Missing(pieces, size, self.mapped[packet.stream.process], total, 0, pieces[0][0])

    def violation(self, packet: KernelPacket) -> AccessFault:
        """Return the fault on the first missing page, which kills the kernel."""
        self._violations += 1
        address = next(max(low, begin) for begin, size in packet.touches for low, _ in self.pages.missing(begin, size))
        name = packet.launch.kernel.name
        return AccessFault(address, packet.number, name, self._device, packet.cause, self.sim.now)

    def raise_fault(self, low: int, high: int, packet: KernelPacket) -> int:
        """Ask the handler for a range; returns how many pages of it are missing."""
        fault, name = PageFault(low, high, packet.number, packet.cause, packet.stream.process), self.handler.name
        if self.injector is not None and self.injector.strike("interrupt", name, f"an interrupt of {name} is lost"):
            self.handler.leave(fault)
        else:
            self.handler.put(fault)
        return self.pages.missing_pages(low, high - low)

    def served(self, message: FaultServed, stalled_s: float) -> None:
        """Count a fault of a kernel that goes on after it was stalled for ``stalled_s`` seconds."""
        if message.pages:
            self._faults += 1
        else:
            self._duplicates += 1
        self._mapped += message.pages
        self._wait_s += max(stalled_s - message.service_s, 0.0)

    def statistics(self) -> FaultStatistics:
        """Return what became of the faults so far."""
        service_s = self.serving.total_s
        idle_s = max(self.sim.now - self._born - service_s, 0.0)
        return FaultStatistics(
            self._faults, self._duplicates, self._mapped, service_s, self._wait_s, self._violations, idle_s
        )
