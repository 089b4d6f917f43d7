"""Which ranges of host memory are page-locked (pinned), so that copy engines reach them without staging."""

from __future__ import annotations

from sortedcontainers import SortedDict


class PinnedRanges:
    """Registered ranges of host memory; they do not overlap."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends: SortedDict[int, int] = SortedDict()

    def covers(self, address: int, nbytes: int) -> bool:
        """Whether all of [address, address + nbytes) lies in one registered range."""
        place = self._ends.bisect_right(address) - 1
        if place < 0:
            return False
        return bool(address + nbytes <= self._ends.peekitem(place)[1])

    def overlaps(self, address: int, nbytes: int) -> bool:
        """Whether any byte of the range is registered."""
        place = self._ends.bisect_left(address + nbytes) - 1
        return bool(place >= 0 and self._ends.peekitem(place)[1] > address)

    def add(self, address: int, nbytes: int) -> None:
        """Register a range."""
        self._ends[address] = address + nbytes

    def remove(self, address: int) -> bool:
        """Take the range that begins at ``address`` out; False when there is none."""
        return self._ends.pop(address, None) is not None
