"""What a kernel does with one range of managed memory: which pages it comes to, and what it reads and writes of them.

A page migrates, or is mapped, as a whole. Over the link only the sectors move that are read or written, each way by
itself; a *place* is a run of bytes that are touched together.
"""

from __future__ import annotations

import math

import attrs


@attrs.frozen
class ByteRuns:
    """Runs of bytes in a range."""

    count: float
    run: float
    """Bytes of each, a multiple of the alignment on average."""
    alignment: int = 1
    """Each begins at a multiple of so many bytes."""
    even: bool = False
    """At even distances; otherwise at random in the range."""
    among: float = math.inf
    """How many there are at even distances, of which these are chosen; without an end: they may be anywhere, and the
    same one be met again.
    """

    def moved(self, size: int) -> float:
        """Return the bytes of the pieces of ``size`` bytes, page or sector, that the runs touch, each for itself.

        Where a place begins within a piece is a multiple of what alignment and size have in common: aligned to its own
        length, it lies in one piece.
        """
        grain = math.gcd(self.alignment, size)
        run = -(-self.run // grain) * grain if self.even else self.run
        return self.count * (size + max(run - grain, 0.0))

    def left_out(self, size: int, nbytes: float) -> float:
        """Return the part of a range's pieces of ``size`` bytes that none of the runs touches which lie at random."""
        if not self.count:
            return 1.0
        met = self.moved(size) / nbytes
        if math.isinf(self.among):
            return math.exp(-met)
        chosen = min(self.count / self.among, 1.0)
        return 1.0 - met if met < chosen else float((1.0 - chosen) ** (met / chosen))


@attrs.frozen
class ManagedAccess:
    """What a kernel does with one range of managed memory."""

    begin: int
    """Address."""
    nbytes: int
    level: int = 0
    """How many loads of other arrays its accesses wait for, one after the other."""
    scattered: float = 0.0
    """Accesses of the whole launch, to places at random; 0: it is swept once, in order."""
    reads: tuple[ByteRuns, ...] | None = None
    """What it loads from memory; None: all that it touches."""
    writes: tuple[ByteRuns, ...] | None = None
    """What it stores."""
    picked: ByteRuns | None = None
    """The places that a sweep comes to, which decide its pages; None: it leaves no page out."""
    stores: bool = attrs.field(init=False, eq=False, repr=False)
    """Whether it stores to any of the places that it touches."""

    @stores.default
    def _any_writes(self) -> bool:
        return self.writes is None or any(runs.count for runs in self.writes)

    @property
    def visits(self) -> float:
        """Return how many runs data, or a branch, choose; 0 when the range is swept and nothing left out."""
        return self.scattered or (self.picked.count if self.picked else 0.0)

    def part_of_pages(self, size: int) -> float:
        """Return the part of the pages of ``size`` bytes that a sweep touches."""
        if self.picked is None or not self.nbytes:
            return 1.0
        return 1.0 - self.picked.left_out(size, self.nbytes)

    def moved(self, places: tuple[ByteRuns, ...] | None, sector: int) -> float:
        """Return the bytes of the sectors that the whole launch moves for its ``reads`` or its ``writes``.

        A sweep moves a sector once, in which several places may lie; an access at random moves its own.
        """
        if self.scattered:
            if places is None:
                return self.scattered * sector
            return math.fsum([runs.moved(sector) for runs in places])
        if places is None:
            places = (ByteRuns(1.0, self.nbytes, even=True),) if self.picked is None else (self.picked,)
        sectors = (-(-(self.begin + self.nbytes) // sector) - self.begin // sector) * sector
        evenly = math.fsum([runs.moved(sector) for runs in places if runs.even]) / sectors
        at_random = math.prod([runs.left_out(sector, sectors) for runs in places if not runs.even])
        left_out = max(1.0 - evenly, 0.0) * at_random
        return sectors * (1.0 - left_out)


Accesses = tuple[ManagedAccess, ...]
