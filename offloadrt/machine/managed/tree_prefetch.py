"""The tree prefetcher of the unified-memory driver: what a fault brings along besides the page that was asked for.

A block is the root of a binary tree whose leaves are its pages.  A fault brings its *big page* (64 KiB), and the
largest subtree around it of which more than a threshold (51 %) is there already or was asked for in the same batch
(NVIDIA's open kernel module, ``uvm_perf_prefetch.c``; Allen & Ge, SC21).  Nothing is brought from beyond the block.

Sets of pages are whole numbers: bit k is page k of the block.
"""

from __future__ import annotations

import functools


@functools.lru_cache(maxsize=1 << 12)  # 16 times as many entries would answer 2 % more calls, for more memory
def with_prefetched(
    there: int, faulted: int, valid: int, pages: int, big: int, threshold: float, thrashing: int = 0
) -> int:
    """Return the faulted pages and what comes along (``uvm_perf_prefetch_get_hint_va_block``).

    there: pages that are where the fault wants them; valid: pages that belong to allocations; pages: how many a block
    has; big: how many a big page has; both are powers of two; threshold: the part of a subtree's valid pages above
    which it comes as a whole; thrashing: pages that neither bring others along nor come along, nor does their big page.

    >>> bin(with_prefetched(0b0001, 0b0010, 0b1111, 4, 1, 0.51)), bin(with_prefetched(0b11, 0b0100, 0b1111, 4, 1, 0.51))
    ('0b11', '0b1111')
    >>> bin(with_prefetched(0, 0b0010, 0b1111, 4, 2, 0.51))
    '0b11'
    """
    left = faulted & ~thrashing
    wanted = faulted | _grown(left, pages, big, thrashing) & valid if big > 1 else faulted
    occupied = (there | wanted) & valid
    while left:
        *larger, own = _trees_of((left & -left).bit_length() - 1, pages, big)
        left &= ~own
        for tree in larger:
            subtree = tree & valid
            if (occupied & tree).bit_count() > threshold * subtree.bit_count():
                wanted |= subtree
                left &= ~tree
                break
    return wanted & ~thrashing | faulted


def _grown(faulted: int, pages: int, big: int, thrashing: int) -> int:
    """Return the big pages that some pages of a block lie in and no thrashing page (``grow_fault_granularity``)."""
    found = 0
    while faulted:
        own = _trees_of((faulted & -faulted).bit_length() - 1, pages, big)[-1]
        if not own & thrashing:
            found |= own
        faulted &= ~own
    return found


@functools.cache
def _trees_of(place: int, pages: int, big: int) -> tuple[int, ...]:
    """Return the subtrees that a page of a block is in, the largest first; the last one is its big page."""
    sizes = [1 << level for level in range(pages.bit_length() - 1, big.bit_length() - 2, -1)]
    return tuple([(1 << size) - 1 << place - place % size for size in sizes])


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
