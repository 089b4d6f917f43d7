"""A page table: which pages of the host's address space a processor can translate, and what becomes of faults.

An APU has two of them for one memory: the CPU's (pages that the operating system has given to the program) and the
GPU's.  The table keeps ranges, not pages, so that gigabytes cost as much as one page.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import attrs

from offloadrt.kernels.memo import Memo

Ranges = tuple[tuple[int, int], ...]
"""(address, bytes) of pieces of host memory."""

_REMEMBERED = 4096
"""The most ranges that a table remembers as covered before it forgets them all, so that its memory stays bounded."""


class PageTable:
    """A set of pages of ``page_size`` bytes.

    Ranges given to it are rounded out to whole pages; a range of 0 bytes has no pages.
    """

    __slots__ = ("_covered", "_ends", "_starts", "_whole", "generation", "page_size", "pages")

    def __init__(self, page_size: int) -> None:
        if page_size < 1:
            raise ValueError(f"pages of {page_size} bytes")
        self.page_size = page_size
        self.pages = 0
        """How many pages the table holds."""
        self.generation = 0
        """Changes whenever a page is removed: a range that was covered at a generation is covered while it lasts."""
        self._starts: list[int] = []
        self._ends: list[int] = []  # ends[i] belongs to starts[i]; ranges ascend and never touch
        # A program launches the same kernels on the same arrays many times over, so two memories of positive answers
        # pay off: of single ranges, and of whole tuples by identity.  Any removal clears both.
        self._covered: set[tuple[int, int]] = set()
        self._whole: Memo[int, Ranges] = Memo()

    def bounds(self, begin: int, nbytes: int) -> tuple[int, int]:
        """Return (low, high), the whole pages that hold [begin, begin + nbytes).

        Raises ValueError for a negative size.
        """
        if nbytes < 0:
            raise ValueError(f"a range of {nbytes} bytes at {begin:#x}")
        size = self.page_size
        low = begin - begin % size
        return low, low if nbytes == 0 else -(-(begin + nbytes) // size) * size

    def missing(self, begin: int, nbytes: int) -> list[tuple[int, int]]:
        """Return what the table lacks of a range, as page-aligned ranges (low, high) in ascending order."""
        low, high = self.bounds(begin, nbytes)
        starts, ends = self._starts, self._ends
        gaps: list[tuple[int, int]] = []
        place = bisect_right(ends, low)
        while low < high:
            start = starts[place] if place < len(starts) else high
            if start > low:
                gaps.append((low, min(start, high)))
            if start >= high:
                break
            low = ends[place]
            place += 1
        return gaps

    def missing_pages(self, begin: int, nbytes: int) -> int:
        """Return how many pages of a range are missing."""
        if self.covers(begin, nbytes):
            return 0
        count = 0
        for low, high in self.missing(begin, nbytes):
            count += (high - low) // self.page_size
        return count

    def covers(self, begin: int, nbytes: int) -> bool:
        """Return whether all pages of a range are there."""
        if nbytes <= 0:
            self.bounds(begin, nbytes)
            return True
        place = bisect_right(self._starts, begin) - 1
        return place >= 0 and begin + nbytes <= self._ends[place]

    def covers_all(self, ranges: Ranges) -> bool:
        """Return whether all pages of all ranges are there.

        The answer is quick for ranges that were asked for before, and immediate for the same tuple.
        """
        if self._whole.get(id(ranges)) is ranges:
            return True
        covered = self._covered
        if not covered.issuperset(ranges):
            for begin, nbytes in ranges:
                if not self.covers(begin, nbytes):
                    return False
            if len(covered) > _REMEMBERED:
                covered.clear()
            covered.update(ranges)
        self._whole[id(ranges)] = ranges
        return True

    def insert(self, low: int, high: int) -> int:
        """Add the pages of [low, high); return how many are new."""
        low, high = self.bounds(low, high - low)
        if low == high:
            return 0
        starts, ends = self._starts, self._ends
        first, last = bisect_left(ends, low), bisect_right(starts, high)  # ranges that only touch are merged as well
        new = (high - low - self._held(low, high, first, last)) // self.page_size
        if first < last:
            low, high = min(low, starts[first]), max(high, ends[last - 1])
        starts[first:last], ends[first:last] = [low], [high]
        self.pages += new
        return new

    def remove(self, low: int, high: int) -> int:
        """Remove the pages of [low, high); return how many were there."""
        low, high = self.bounds(low, high - low)
        starts, ends = self._starts, self._ends
        first, last = bisect_right(ends, low), bisect_left(starts, high)
        gone = self._held(low, high, first, last) // self.page_size
        if gone:
            left = [(starts[first], low)] if starts[first] < low else []
            right = [(high, ends[last - 1])] if ends[last - 1] > high else []
            starts[first:last] = [start for start, _ in left + right]
            ends[first:last] = [end for _, end in left + right]
            self.pages -= gone
            self.generation += 1
            self._covered.clear()
            self._whole.clear()
        return gone

    def _held(self, low: int, high: int, first: int, last: int) -> int:
        """Return the bytes of [low, high) that lie in the ranges with indices from ``first`` to before ``last``."""
        held = 0
        for place in range(first, last):
            held += max(0, min(self._ends[place], high) - max(self._starts[place], low))
        return held


# ---------------------------------------------------------------------- page faults
# Statistics of kernels' page faults on an APU, and the error when a kernel may not fault.
@attrs.frozen
class AccessFault:
    """A kernel reached a page that the GPU cannot translate and may not fault in (XNACK is off)."""

    address: int
    """The first byte of host memory without translation that the kernel met."""
    kernel: int
    """Number of its launch in the run."""
    name: str
    device: int
    cause: int
    """The directive that launched it."""
    time: float
    """When it happened, in virtual seconds."""

    def __str__(self) -> str:
        return (
            f"Memory access fault by GPU node-{self.device + 1} on address {self.address:#x}. "
            "Reason: Page not present or supervisor privilege."
        )


class MemoryAccessFault(Exception):
    """The end of a program by an ``AccessFault``; the message names ``array`` and ``thread`` where they are known."""

    def __init__(self, fault: AccessFault, array: str = "", thread: str = "") -> None:
        super().__init__(fault, array, thread)
        self.fault, self.array, self.thread = fault, array, thread

    def __str__(self) -> str:
        of = f" of array {self.array!r}" if self.array else ""
        by = f", launched by {self.thread}," if self.thread else ""
        fault = self.fault
        return f"{fault} (kernel {fault.name!r}{by} touched it{of} at {fault.time:.9f} s; XNACK is off)"


@attrs.frozen
class FaultStatistics:
    """Page faults of the kernels of one device; virtual seconds.  busy_s + idle_s is the time elapsed."""

    faults: int
    """Served: each mapped at least one page."""
    duplicates: int
    """Raised for pages that somebody else had mapped when the handler came to it."""
    pages: int
    """Pages that they mapped."""
    service_s: float
    """Time that their services took up to now."""
    wait_s: float
    """Time that kernels were stalled besides, until it was their turn."""
    violations: int
    """Kernels that died because XNACK is off."""
    idle_s: float

    @property
    def busy_s(self) -> float:
        """Return ``service_s`` under the name that all statistics of a machine have."""
        return self.service_s
