"""The ranges of host memory that are page-locked (pinned), so that copy engines reach them without staging."""

from __future__ import annotations

from offloadrt.machine.memory.address_map import AddressMap


class PinnedRanges:
    """Registered ranges of host memory; they do not overlap."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends: AddressMap[int] = AddressMap()

    def covers(self, address: int, nbytes: int) -> bool:
        """Return whether all of [address, address + nbytes) lies in one registered range.

        A range that reaches over two registered ranges counts as pageable, even where these touch.
        """
        nearest = self._ends.before(address)
        return nearest is not None and address + nbytes <= nearest[1]

    def overlaps(self, address: int, nbytes: int) -> bool:
        """Return whether any byte of the range is registered."""
        nearest = self._ends.before(address + nbytes - 1)
        return nearest is not None and nearest[1] > address

    def add(self, address: int, nbytes: int) -> None:
        """Register a range."""
        self._ends[address] = address + nbytes

    def remove(self, address: int) -> bool:
        """Unregister the range that begins at ``address``; return False when there is none."""
        return self._ends.pop(address) is not None
