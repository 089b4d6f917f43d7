"""One block of managed memory, and sets of pages over many: those that are watched, those that a sweep picks."""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class ManagedUsage:
    """Counts and bytes of one object, of all objects with its name.  A page that objects share is the first one's."""

    faults: int = 0
    """Faults of the GPU that were served."""
    host_faults: int = 0
    """Faults of the CPU."""
    bytes_htod: int = 0
    """Migrated to the device."""
    bytes_dtoh: int = 0
    """Migrated to the host, evictions included."""
    remote_bytes: float = 0.0
    """Bytes that kernels read and wrote over the link."""
    bytes_dtod: int = 0
    """Migrated, or copied, to the device from another one."""

    def plus(self, other: ManagedUsage) -> ManagedUsage:
        """Return the sums of both."""
        pairs = zip(attrs.astuple(self), attrs.astuple(other), strict=True)
        return ManagedUsage(*(one + more for one, more in pairs))

    def moved(self, direction: str, nbytes: int) -> None:
        """Count bytes that migrate, ``h2d``, ``d2h`` or ``p2p``."""
        if direction == "h2d":
            self.bytes_htod += nbytes
        elif direction == "d2h":
            self.bytes_dtoh += nbytes
        else:
            self.bytes_dtod += nbytes


@attrs.define(eq=False)
class ManagedBlock:
    """One block; sets of pages are whole numbers.

    Wide because each fact about its pages is a set of its own.
    """

    index: int
    """Its address divided by its size."""
    table: bytearray
    """The stretch of the GPU's page table that it lies in."""
    offset: int
    """Where its first page is in that stretch."""
    counts: list[int]
    """How many pages of that stretch are in each state; empty until somebody asks."""
    valid: int = 0
    """Pages that belong to an allocation."""
    populated: int = 0
    """Pages that somebody has touched."""
    resident: int = 0
    """Pages in the GPU's memory; all are populated."""
    remote: int = 0
    """Pages of the host's, and of other GPUs', that the GPU can translate."""
    at_peers: dict[int, int] = attrs.field(factory=dict)
    """Those of them that lie in the memory of other devices, by the device."""
    elsewhere: int = 0
    """Pages that lie in the memory of other devices, whether this GPU can translate them or not."""
    host_copy: int = 0
    """Pages that a GPU has of which the host has a valid copy as well (read duplication)."""
    read_only: int = 0
    """Pages in the GPU's memory that have copies in other places, so that a store faults."""
    read_mostly: int = 0
    """Pages with the advice that reads make copies of them."""
    prefers_host: int = 0
    """Pages with the advice that they stay on the host."""
    prefers_here: int = 0
    """Pages with the advice that they stay in the memory of this GPU."""
    accessed_by: int = 0
    """Pages with the advice that the GPU can always translate them."""
    system: int = 0
    """Pages of the host's allocators that the GPU reaches by the host's page table (address translation services)."""
    users: dict[int, tuple[int, ManagedUsage]] = attrs.field(factory=dict)
    """The allocations in the block, by address: the pages of each, and the counts of what becomes of them."""
    sole: tuple[int, ManagedUsage | None] = (0, None)
    """The pages of the only allocation in it and where they are counted; no pages when there are several."""
    host_mapped: int = 0
    """Pages of which the host has translations, which a migration has to take away."""
    dma_mapped: int = 0
    """Pages for which the host has memory that the copy engines can reach; it keeps it while they are on the GPU."""

    @property
    def on_host(self) -> int:
        """Return the pages of which the host has the bytes."""
        return self.populated & ~(self.resident | self.elsewhere) | self.host_copy


@attrs.define(eq=False)
class WatchedPages:
    """Pages [low, high), and how many of them have no translation: in all, and in each span of the table."""

    low: int
    high: int
    stretches: list[tuple[int, int, int]]
    """(span, first, last) within the span."""
    counts: list[int]
    missing: int


@attrs.frozen(eq=False)
class Picks:
    """Some pages of a range: ``pages[k]`` are those of block ``first + k``, ``count`` of them in all."""

    first: int
    pages: list[int]
    count: int
