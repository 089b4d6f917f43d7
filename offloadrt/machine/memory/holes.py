"""Free ranges of an address space, for a best-fit allocator.

Best fit, with the lowest address among equal ranges and with neighbours merged, is a choice: CUDA's driver does not
publish its policy.  It decides which addresses blocks get and when a segment becomes empty, but no duration.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from offloadrt.machine.memory.address_map import AddressMap


class Holes:
    """A set of free ranges, called holes: ``take`` uses the smallest that fits, ``give`` merges with neighbours."""

    __slots__ = ("_by_address", "_by_size")

    def __init__(self) -> None:
        self._by_address: AddressMap[int] = AddressMap()
        self._by_size: list[tuple[int, int]] = []

    def take(self, size: int) -> int | None:
        """Take ``size`` bytes from the smallest hole that holds them; return their address, or None if none does.

        Of holes of one size the lowest is taken.
        """
        place = bisect_left(self._by_size, (size, -1))
        if place == len(self._by_size):
            return None
        extent, address = self._by_size.pop(place)
        self._by_address.pop(address)
        if extent > size:
            self._add(address + size, extent - size)
        return address

    def fits(self, size: int) -> bool:
        """Return whether a hole holds ``size`` bytes."""
        return bool(self._by_size) and self._by_size[-1][0] >= size

    def give(self, address: int, size: int, low: int, high: int) -> tuple[int, int]:
        """Put a range back, merged with its neighbours within [low, high); return the hole as (address, size)."""
        end = address + size
        if end < high and (after := self._by_address.get(end)) is not None:
            self.remove(end, after)
            size += after
        if (neighbour := self._by_address.before(address)) is not None:
            before, extent = neighbour
            if before >= low and before + extent == address:
                self.remove(before, extent)
                address, size = before, size + extent
        self._add(address, size)
        return address, size

    def of_size(self, size: int) -> list[int]:
        """Return the addresses of all holes of exactly this size, ascending."""
        begin, end = bisect_left(self._by_size, (size, -1)), bisect_left(self._by_size, (size + 1, -1))
        return [address for _, address in self._by_size[begin:end]]

    def remove(self, address: int, size: int) -> None:
        """Remove exactly this hole."""
        self._by_address.pop(address)
        del self._by_size[bisect_left(self._by_size, (size, address))]

    def _add(self, address: int, size: int) -> None:
        self._by_address[address] = size
        insort(self._by_size, (size, address))
