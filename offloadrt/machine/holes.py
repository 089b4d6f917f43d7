"""Free ranges of an address space: best fit, lowest address first, neighbours merged."""

from __future__ import annotations

from sortedcontainers import SortedDict, SortedList


class Holes:
    """A set of free ranges: ``take`` finds the smallest that is large enough, ``give`` merges it with neighbours."""

    __slots__ = ("_by_address", "_by_size")

    def __init__(self) -> None:
        self._by_address: SortedDict[int, int] = SortedDict()
        self._by_size: SortedList[tuple[int, int]] = SortedList()

    def take(self, size: int) -> int | None:
        """Address of ``size`` bytes, taken from the smallest hole that holds them; None if none does.

        Of equal holes the lowest is taken.
        """
        place = self._by_size.bisect_left((size, -1))
        if place == len(self._by_size):
            return None
        found, address = self._by_size.pop(place)
        del self._by_address[address]
        if found > size:
            self._add(address + size, found - size)
        return address

    def give(self, address: int, size: int, low: int, high: int) -> tuple[int, int]:
        """Return a range; merges with holes within [low, high) and returns the resulting hole (address, size)."""
        end = address + size
        if end < high and (after := self._by_address.get(end)) is not None:
            self._drop(end, after)
            size += after
        place = self._by_address.bisect_left(address) - 1
        if place >= 0:
            before, extent = self._by_address.peekitem(place)
            if before >= low and before + extent == address:
                self._drop(before, extent)
                address, size = before, size + extent
        self._add(address, size)
        return address, size

    def of_size(self, size: int) -> list[int]:
        """Addresses of all holes of exactly this size, ascending."""
        return [address for _, address in self._by_size.irange((size, -1), (size + 1, -1))]

    def remove(self, address: int, size: int) -> None:
        """Take exactly this hole out."""
        self._drop(address, size)

    def _add(self, address: int, size: int) -> None:
        self._by_address[address] = size
        self._by_size.add((size, address))

    def _drop(self, address: int, size: int) -> None:
        del self._by_address[address]
        self._by_size.remove((size, address))
