"""The tree prefetcher of the unified-memory driver: what a fault brings along besides the page that was asked for.

A block is the root of a binary tree whose leaves are its pages.  A fault brings the largest subtree around its page of
which more than a threshold (51 %) is there already or was asked for in the same batch (NVIDIA's open kernel module,
``uvm_perf_prefetch.c``; Allen & Ge, SC21).  Nothing is brought from beyond the block.

Sets of pages are whole numbers: bit k is page k of the block.
"""

from __future__ import annotations

import functools


@functools.lru_cache(maxsize=1 << 12)  # 16 times as many entries would answer 2 % more calls, for more memory
def with_prefetched(there: int, faulted: int, valid: int, pages: int, threshold: float) -> int:
    """Return the faulted pages and what comes along (``uvm_perf_prefetch_get_hint_va_block``).

    there: pages that are where the fault wants them; valid: pages that belong to allocations; pages: how many a block
    has, a power of two; threshold: the part of a subtree's valid pages above which it comes as a whole.

    >>> bin(with_prefetched(0b0001, 0b0010, 0b1111, 4, 0.51)), bin(with_prefetched(0b0011, 0b0100, 0b1111, 4, 0.51))
    ('0b11', '0b1111')
    """
    occupied, wanted, left = (there | faulted) & valid, faulted, faulted
    while left:
        page = left & -left
        left ^= page
        for tree in _trees_of(page.bit_length() - 1, pages):
            subtree = tree & valid
            if (occupied & tree).bit_count() > threshold * subtree.bit_count():
                wanted |= subtree
                left &= ~tree
                break
    return wanted


@functools.cache
def _trees_of(place: int, pages: int) -> tuple[int, ...]:
    """Return the subtrees with more than one page that a page of a block is in, the largest first."""
    sizes = [1 << level for level in range(pages.bit_length() - 1, 0, -1)]
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
