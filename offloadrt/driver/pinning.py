"""Which ranges of host memory are page-locked (pinned), so that copy engines reach them without staging."""

from __future__ import annotations

from offloadrt.machine.address_map import AddressMap


class PinnedRanges:
    """Registered ranges of host memory; they do not overlap."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends: AddressMap[int] = AddressMap()

    def covers(self, address: int, nbytes: int) -> bool:
        """Whether all of [address, address + nbytes) lies in one registered range."""
        found = self._ends.before(address)
        return found is not None and address + nbytes <= found[1]

    def overlaps(self, address: int, nbytes: int) -> bool:
        """Whether any byte of the range is registered."""
        found = self._ends.before(address + nbytes - 1)
        return found is not None and found[1] > address

    def add(self, address: int, nbytes: int) -> None:
        """Register a range."""
        self._ends[address] = address + nbytes

    def remove(self, address: int) -> bool:
        """Take the range that begins at ``address`` out; False when there is none."""
        return self._ends.pop(address) is not None
