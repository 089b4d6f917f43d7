"""Free ranges of an address space: best fit, lowest address first, neighbours merged."""

from __future__ import annotations

from bisect import bisect_left, insort

from offloadrt.machine.address_map import AddressMap


class Holes:
    """A set of free ranges: ``take`` finds the smallest that is large enough, ``give`` merges it with neighbours."""

    __slots__ = ("_by_address", "_by_size")

    def __init__(self) -> None:
        self._by_address: AddressMap[int] = AddressMap()
        self._by_size: list[tuple[int, int]] = []

    def take(self, size: int) -> int | None:
        """Address of ``size`` bytes, taken from the smallest hole that holds them; None if none does.

        Of equal holes the lowest is taken.
        """
        place = bisect_left(self._by_size, (size, -1))
        if place == len(self._by_size):
            return None
        found, address = self._by_size.pop(place)
        self._by_address.pop(address)
        if found > size:
            self._add(address + size, found - size)
        return address

    def fits(self, size: int) -> bool:
        """Whether a hole holds ``size`` bytes."""
        return bool(self._by_size) and self._by_size[-1][0] >= size

    def give(self, address: int, size: int, low: int, high: int) -> tuple[int, int]:
        """Return a range; merges with holes within [low, high) and returns the resulting hole (address, size)."""
        end = address + size
        if end < high and (after := self._by_address.get(end)) is not None:
            self.remove(end, after)
            size += after
        if (found := self._by_address.before(address)) is not None:
            before, extent = found
            if before >= low and before + extent == address:
                self.remove(before, extent)
                address, size = before, size + extent
        self._add(address, size)
        return address, size

    def of_size(self, size: int) -> list[int]:
        """Addresses of all holes of exactly this size, ascending."""
        begin, end = bisect_left(self._by_size, (size, -1)), bisect_left(self._by_size, (size + 1, -1))
        return [address for _, address in self._by_size[begin:end]]

    def remove(self, address: int, size: int) -> None:
        """Take exactly this hole out."""
        self._by_address.pop(address)
        del self._by_size[bisect_left(self._by_size, (size, address))]

    def _add(self, address: int, size: int) -> None:
        self._by_address[address] = size
        insort(self._by_size, (size, address))
