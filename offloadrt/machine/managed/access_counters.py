"""The access counters of a GPU: how often kernels reach each region of the host's memory over a coherent link.

A region is a block.  At the threshold the GPU leaves one notification in the mailbox of the driver's worker, and none
any more for the region until the worker clears its counter.  A notification names the sub-regions that were reached.
The transfers of a step count when they have ended, so that a notification comes later than on a GPU by a step at most.
"""

from __future__ import annotations

from typing import Annotated

import attrs

from offloadrt.machine.managed.page_sets import PageSets, how_many
from offloadrt.machine.managed.pages import ManagedPages
from offloadrt.machine.messages import AccessNotification
from offloadrt.sim import Mailbox, Simulation


@attrs.frozen
class CounterSpec:
    """What the GPU counts; sizes in bytes."""

    threshold: Annotated[int, "access_counter.threshold"]
    """Accesses to a region after which the GPU notifies the driver."""
    access: Annotated[float, "access_counter.access"]
    """Bytes of what counts as one access."""
    sub_region: Annotated[int, "access_counter.sub_region"]
    """Parts of a region that a notification tells apart."""


@attrs.define(eq=False)
class _Region:
    """The counter of one region; ``pages`` are those of the sub-regions that were reached."""

    accesses: float = 0.0
    pages: int = 0
    notified: bool = False


class AccessCounters:
    """The counters of one device; the compute units' actor counts, the driver's worker clears."""

    def __init__(self, sim: Simulation, name: str, spec: CounterSpec, pages: ManagedPages) -> None:
        self.mailbox = Mailbox(sim, name)
        self._sim = sim
        self._spec = spec
        self._pages_a_part = max(1, spec.sub_region // pages.page_size)
        self._regions: dict[int, _Region] = {}
        self._under_way: dict[int, list[tuple[PageSets, float]]] = {}
        """What the present step of each kernel reaches, by the number of the kernel."""

    def begin(self, kernel: int, reached: PageSets, nbytes: float) -> None:
        """Note that a kernel's step moves so many bytes of some pages over the link, evenly."""
        if reached:
            self._under_way.setdefault(kernel, []).append((reached, nbytes))

    def end(self, kernel: int, cause: int) -> None:
        """Count what a kernel's step has reached: its transfers have ended."""
        for reached, nbytes in self._under_way.pop(kernel, ()):
            accesses_a_page = nbytes / self._spec.access / how_many(reached)
            for index, pages in reached:
                self._count(index, pages, accesses_a_page * pages.bit_count(), cause)

    def clear(self, index: int) -> None:
        """Let the counter of a region begin anew."""
        self._regions.pop(index, None)

    def _count(self, index: int, pages: int, accesses: float, cause: int) -> None:
        region = self._regions.setdefault(index, _Region())
        if region.notified:
            return
        region.accesses += accesses
        region.pages |= pages
        if region.accesses >= self._spec.threshold:
            region.notified = True
            self.mailbox.put(AccessNotification(index, self._whole_parts(region.pages), cause, self._sim.now))

    def _whole_parts(self, pages: int) -> int:
        """Return all pages of the sub-regions that hold some pages."""
        width, whole = self._pages_a_part, 0
        part = (1 << width) - 1
        while pages:
            first = (pages & -pages).bit_length() - 1
            mask = part << first // width * width
            whole |= mask
            pages &= ~mask
        return whole
