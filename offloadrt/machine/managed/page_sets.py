"""Pages of several blocks, as (block, its pages): pages of a block are one whole number, bit k for page k.

An order of pages is kept as far as such pairs can: those of one pair ascend.  A block may come twice.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

PageSets = Sequence[tuple[int, int]]
"""Pages in the order in which they were met; no page twice."""


def by_block(pages: Iterable[int], per_block: int) -> list[tuple[int, int]]:
    """Return pages that are given by number, ascending, as sets by block.

    >>> by_block([1, 2, 9], 8)
    [(0, 6), (1, 2)]
    """
    sets: list[tuple[int, int]] = []
    index, high, base, those = -1, 0, 0, 0
    for page in pages:
        if page >= high:
            if those:
                sets.append((index, those))
            index = page // per_block
            base, those = index * per_block, 0
            high = base + per_block
        those |= 1 << page - base
    if those:
        sets.append((index, those))
    return sets


def how_many(sets: Iterable[tuple[int, int]]) -> int:
    """Count the pages of some sets."""
    count = 0
    for _, pages in sets:
        count += pages.bit_count()
    return count


def merged(sets: PageSets) -> dict[int, int]:
    """Return the pages of each block."""
    by_index = dict(sets)
    if len(by_index) < len(sets):
        by_index.clear()
        for index, pages in sets:
            by_index[index] = by_index.get(index, 0) | pages
    return by_index


def joined(first: PageSets, more: PageSets) -> PageSets:
    """Return the pages of both, what they have in common once."""
    if not first or not more:
        return first or more
    seen = merged(first)
    return [*first, *((index, new) for index, pages in more if (new := pages & ~seen.get(index, 0)))]


def without(pages: Mapping[int, int], others: Mapping[int, int]) -> list[tuple[int, int]]:
    """Return the pages that are not among the others, ascending."""
    return [(index, left) for index in sorted(pages) if (left := pages[index] & ~others.get(index, 0))]


def among(sets: PageSets, those: Mapping[int, int]) -> list[tuple[int, int]]:
    """Return the pages that are among those, in the order of the sets."""
    return [(index, left) for index, pages in sets if (left := pages & those.get(index, 0))]


def in_turns(parts: Iterable[PageSets]) -> list[tuple[int, int]]:
    """Return the first page of each part, then the second of each, and so on; no page twice.

    >>> in_turns([[(7, 0b1101)], [(7, 0b100000), (8, 1)]])
    [(7, 33), (7, 4), (8, 1), (7, 8)]
    """
    ordered: list[tuple[int, int]] = []
    seen: dict[int, int] = {}
    left = [[*reversed(sets)] for sets in parts if sets]
    while left:
        turn: dict[int, int] = {}
        for sets in left:
            index, pages = sets.pop()
            first = pages & -pages
            if pages != first:
                sets.append((index, pages ^ first))
            if not seen.get(index, 0) & first:
                seen[index] = seen.get(index, 0) | first
                turn[index] = turn.get(index, 0) | first
        ordered += turn.items()
        left = [sets for sets in left if sets]
    return ordered


def begun(sets: PageSets, entries: int, few: int) -> PageSets:
    """Return the first of some pages, those that ``few`` of their ``entries`` reports have begun with.

    >>> begun([(7, 0b1101), (3, 0b11)], 10, 3)
    [(7, 5)]
    """
    return up_to(sets, -(-how_many(sets) * few // entries))


def up_to(sets: PageSets, count: int) -> PageSets:
    """Return the first so many pages.

    >>> up_to([(7, 0b1101), (3, 0b11)], 2)
    [(7, 5)]
    """
    taken: list[tuple[int, int]] = []
    for index, pages in sets:
        if count <= 0:
            break
        more = pages.bit_count() - count
        if more > 0:
            pages = _lowest(pages, count)
        taken.append((index, pages))
        count = -more
    return taken


def _lowest(pages: int, count: int) -> int:
    """Return the first so many pages of a block, which has more."""
    places = count
    # So many places more cannot hold more pages than are lacking.
    while lacking := count - (pages & (1 << places) - 1).bit_count():
        places += lacking
    return pages & (1 << places) - 1


@functools.lru_cache(maxsize=1 << 16)
def runs(pages: int) -> tuple[tuple[int, int], ...]:
    """Return a set of pages as ranges [low, high), ascending.

    >>> runs(0b110111)
    ((0, 3), (4, 6))
    """
    ranges: list[tuple[int, int]] = []
    low = 0
    while pages:
        empty = (pages & -pages).bit_length() - 1
        pages >>= empty
        low += empty
        full = (~pages & (pages + 1)).bit_length() - 1
        pages >>= full
        ranges.append((low, low + full))
        low += full
    return tuple(ranges)
