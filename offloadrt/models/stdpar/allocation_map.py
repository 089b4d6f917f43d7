"""Which allocation an address belongs to: what the runtime knows of the program's heap in shared USM.

Follows AdaptiveCpp's ``allocation_map.hpp``, of which the radix tree is not followed: an address that is only inside of
an allocation is found as well as its first.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from offloadrt.machine.memory.address_map import AddressMap

NEVER = -1
"""`Allocation.most_recent_batch` of one that no kernel has used."""


@attrs.define(eq=False)
class Allocation:
    """Bytes [root, root + size). most_recent_batch: the batch of operations before which it was last prefetched."""

    root: int = attrs.field(on_setattr=attrs.setters.frozen)
    size: int = attrs.field(on_setattr=attrs.setters.frozen)
    most_recent_batch: int = NEVER

    @property
    def end(self) -> int:
        return self.root + self.size


class AllocationMap:
    """The allocations of a program; they do not overlap."""

    def __init__(self) -> None:
        self._allocations: AddressMap[Allocation] = AddressMap()

    def __len__(self) -> int:
        return len(self._allocations)

    def __iter__(self) -> Iterator[Allocation]:
        """Yield the allocations in order of their addresses."""
        return iter(self._allocations)

    def add(self, address: int, size: int) -> Allocation:
        """Add an allocation, which no kernel has used. ValueError for one without bytes, or over another one."""
        if size < 1:
            raise ValueError(f"an allocation at {address:#x} has {size} bytes; it has at least one")
        before = self._allocations.before(address + size - 1)
        if before is not None and before[1].end > address:
            raise ValueError(
                f"an allocation of {size} bytes at {address:#x} lies over the {before[1].size} bytes at {before[0]:#x}"
            )
        allocation = self._allocations[address] = Allocation(address, size)
        return allocation

    def remove(self, address: int) -> Allocation | None:
        """Take out the allocation that begins at `address`; None where none begins."""
        return self._allocations.pop(address)

    def find(self, address: int) -> Allocation | None:
        """Find the allocation that has this byte."""
        before = self._allocations.before(address)
        return before[1] if before is not None and address < before[1].end else None
