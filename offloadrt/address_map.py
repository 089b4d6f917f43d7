"""A map from addresses to what begins there. Readers of recordings use it too, without a machine."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class AddressMap(Generic[T]):
    """Map addresses to values; ``before`` finds the value at an address or, without one, at the nearest lower address.

    The addresses are one sorted list. An insertion moves the rest of the list, which is one ``memmove``: for the
    thousands of blocks that a program has, this is cheaper than a tree of Python objects.
    """

    __slots__ = ("_at", "_begins", "get")

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._at: dict[int, T] = {}
        self.get: Callable[[int], T | None] = self._at.get
        """Returns the value exactly at an address, or None. It is the dictionary's own method, for speed: every copy
        and every kernel argument looks up here."""

    def __len__(self) -> int:
        return len(self._begins)

    def __iter__(self) -> Iterator[T]:
        """Iterate over the values in the order of their addresses."""
        return map(self._at.__getitem__, self._begins)

    def __setitem__(self, address: int, value: T) -> None:
        """Record that ``value`` begins at ``address``. Raises ValueError where another value begins."""
        if address in self._at:
            raise ValueError(f"{self._at[address]!r} begins at {address:#x} already")
        insort(self._begins, address)
        self._at[address] = value

    def pop(self, address: int) -> T | None:
        """Remove the entry at exactly ``address`` and return its value; None if there is no such entry."""
        if address not in self._at:
            return None
        del self._begins[bisect_left(self._begins, address)]
        return self._at.pop(address)

    def before(self, address: int) -> tuple[int, T] | None:
        """Return (address, value) of the entry at ``address``, or else of the nearest lower one; else None."""
        index = bisect_right(self._begins, address)
        if not index:
            return None
        begin = self._begins[index - 1]
        return begin, self._at[begin]
