"""Ranges of an address space by the address where each begins, in order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class AddressMap(Generic[T]):
    """What begins at which address; ``before`` finds what begins at or before one.

    The addresses are one sorted list: an insertion moves the rest of it, which for as many blocks as a machine has
    is cheaper than any tree.
    """

    __slots__ = ("_at", "_begins", "get")

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._at: dict[int, T] = {}
        self.get: Callable[[int], T | None] = self._at.get
        """What begins exactly there."""

    def __len__(self) -> int:
        return len(self._begins)

    def __iter__(self) -> Iterator[T]:
        """What is there, by address."""
        at = self._at
        return (at[address] for address in self._begins)

    def __setitem__(self, address: int, what: T) -> None:
        """``what`` begins at ``address``.  ValueError where something begins already."""
        if address in self._at:
            raise ValueError(f"{self._at[address]!r} begins at {address:#x} already")
        insort(self._begins, address)
        self._at[address] = what

    def pop(self, address: int) -> T | None:
        """Take out what begins exactly there; None when there is nothing."""
        if address not in self._at:
            return None
        begins = self._begins
        del begins[bisect_left(begins, address)]
        return self._at.pop(address)

    def before(self, address: int) -> tuple[int, T] | None:
        """What begins at ``address`` or else last before it, and where."""
        place = bisect_right(self._begins, address)
        if not place:
            return None
        begin = self._begins[place - 1]
        return begin, self._at[begin]
