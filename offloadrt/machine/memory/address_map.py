"""Values kept in the order of the addresses where they begin."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class AddressMap(Generic[T]):
    """A map from addresses to what begins there; ``before`` finds what begins at or before an address.

    The addresses are one sorted list.  An insertion moves the rest of the list, which is one ``memmove``: for the
    thousands of blocks that a program has, this is cheaper than a tree of Python objects.
    """

    __slots__ = ("_at", "_begins", "get")

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._at: dict[int, T] = {}
        self.get: Callable[[int], T | None] = self._at.get
        """Returns what begins exactly at an address, or None.  It is the dictionary's own method: the look-up of
        every copy and every kernel argument goes through it."""

    def __len__(self) -> int:
        return len(self._begins)

    def __iter__(self) -> Iterator[T]:
        """Iterate over the values in the order of their addresses."""
        at = self._at
        return (at[address] for address in self._begins)

    def __setitem__(self, address: int, value: T) -> None:
        """Record that ``value`` begins at ``address``.

        Raises ValueError where something begins already.
        """
        if address in self._at:
            raise ValueError(f"{self._at[address]!r} begins at {address:#x} already")
        insort(self._begins, address)
        self._at[address] = value

    def pop(self, address: int) -> T | None:
        """Remove and return what begins exactly at ``address``; None when there is nothing."""
        if address not in self._at:
            return None
        begins = self._begins
        del begins[bisect_left(begins, address)]
        return self._at.pop(address)

    def before(self, address: int) -> tuple[int, T] | None:
        """Return (address, value) of what begins at ``address`` or, failing that, last before it."""
        place = bisect_right(self._begins, address)
        if not place:
            return None
        begin = self._begins[place - 1]
        return begin, self._at[begin]
