"""What is known of each range of addresses: cells that are cut where a use begins or ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, TypeVar

import attrs
from sortedcontainers import SortedDict


@attrs.define(eq=False)
class Cell:
    """What is known of the addresses [begin, end)."""

    begin: int
    end: int

    def part(self, begin: int, end: int) -> Self:
        """Return the same for a part of them."""
        return attrs.evolve(self, begin=begin, end=end)


C = TypeVar("C", bound=Cell)


class Intervals(Generic[C]):
    """Cells in order of their addresses; `make(begin, end)` gives the cell of what nobody has used yet."""

    def __init__(self, make: Callable[[int, int], C]) -> None:
        self._make = make
        self._cells: SortedDict[int, C] = SortedDict()

    def cut(self, begin: int, end: int) -> list[C]:
        """Return the cells of [begin, end), in order; there is one for every byte, and none reaches outside."""
        if begin >= end:
            return []
        exact = self._cells.get(begin)
        if exact is not None and exact.end == end:
            return [exact]
        self._split(begin)
        self._split(end)
        cells: list[C] = []
        at = begin
        for start in list(self._cells.irange(begin, end, inclusive=(True, False))):
            cell = self._cells[start]
            if at < start:
                cells.append(self._add(at, start))
            cells.append(cell)
            at = cell.end
        if at < end:
            cells.append(self._add(at, end))
        return cells

    def forget(self, begin: int, end: int) -> None:
        """Forget what is known of [begin, end)."""
        for cell in self.cut(begin, end):
            del self._cells[cell.begin]

    def replace(self, begin: int, end: int) -> C:
        """Forget what is known of [begin, end), and return its one new cell."""
        self.forget(begin, end)
        return self._add(begin, end)

    def _add(self, begin: int, end: int) -> C:
        cell = self._cells[begin] = self._make(begin, end)
        return cell

    def _split(self, at: int) -> None:
        place = self._cells.bisect_left(at)
        if not place:
            return
        cell: C = self._cells.peekitem(place - 1)[1]
        if cell.begin < at < cell.end:
            self._cells[at] = cell.part(at, cell.end)
            cell.end = at
