"""The tree prefetcher of nvidia-uvm (``uvm_perf_prefetch.c``; Allen & Ge, SC21).

A block is the root of a binary tree whose leaves are its pages.  A fault brings its *big page* (64 KiB).  It also
brings the largest subtree around it of which more than a threshold (51 %) is there already or was asked for in the same
batch.  Nothing is brought from beyond the block.  Sets of pages are integers: bit k is page k of the block.
"""

from __future__ import annotations

import functools
import math

from offloadrt.driver.uvm.prefetch import PrefetchRules
from offloadrt.machine.managed.block import whole_parts


class Tree:
    """Migrates the big page around each faulted page, and dense subtrees around it, as the real driver does."""

    name = "tree"

    def brings(self, there: int, faulted: int, valid: int, thrashing: int, rules: PrefetchRules) -> int:
        return with_prefetched(there, faulted, valid, rules.pages, rules.big, rules.threshold, thrashing)


def with_prefetched(
    there: int, faulted: int, valid: int, pages: int, big: int, threshold: float, thrashing: int = 0
) -> int:
    """Return the faulted pages and the pages to prefetch with them (``uvm_perf_prefetch_get_hint_va_block``).

    Sets of pages are integers, one bit for each page. there: pages that already are at the faulting processor; valid:
    pages that belong to allocations; pages: how many a block has; big: how many a big page has; both are powers of two;
    threshold: if more than this fraction of a subtree's valid pages would be present, all of them migrate; thrashing:
    pages that are not prefetched; they and their big pages cause no prefetch of others.

    >>> bin(with_prefetched(0b0001, 0b0010, 0b1111, 4, 1, 0.51)), bin(with_prefetched(0b11, 0b0100, 0b1111, 4, 1, 0.51))
    ('0b11', '0b1111')
    >>> bin(with_prefetched(0, 0b0010, 0b1111, 4, 2, 0.51))
    '0b11'
    """
    left = faulted & ~thrashing
    # The big pages that have a faulted page and no thrashing one (``grow_fault_granularity``) come with it.
    wanted = faulted | whole_parts(left, big, thrashing) & valid if big > 1 else faulted
    occupied = (there | wanted) & valid
    # The largest subtree, which is the block, decides two faults of five under oversubscription: it comes first.
    if occupied.bit_count() > threshold * valid.bit_count() and left and big < pages:
        brought = valid
    else:
        brought = _dense_subtrees(occupied, left, valid, pages, big, threshold)
    return (wanted | brought) & ~thrashing | faulted


@functools.lru_cache(maxsize=1 << 12)  # 16 times as many entries would answer 2 % more calls, for more memory
def _dense_subtrees(occupied: int, left: int, valid: int, pages: int, big: int, threshold: float) -> int:
    """Return the valid pages of the dense subtrees in which one of the pages ``left`` lies."""
    # All subtrees of a size at once: in the bits of its own pages, each has in `occupied` the number of its pages that
    # are occupied, and in the lowest bit of `left` whether one of its pages has faulted.
    brought = 0
    for half, low_halves, lowest, missing, highest, full in _levels(valid, pages, threshold):
        occupied = (occupied & low_halves) + (occupied >> half & low_halves)
        left = (left | left >> half) & lowest
        if half >= big and (dense := (occupied + missing & highest) >> 2 * half - 1 & left):
            brought |= dense * full
    return brought & valid


@functools.lru_cache(maxsize=1 << 8)
def _levels(valid: int, pages: int, threshold: float) -> tuple[tuple[int, int, int, int, int, int], ...]:
    """Return for each size of subtree, ascending from two pages, the numbers that find the dense ones of a block.

    Half the size; masks of the lower halves and of the lowest bits of all subtrees; addends, which set the highest bit
    of a subtree when its count of occupied pages makes it dense; the mask of these highest bits, for subtrees that can
    be dense; and the mask of all pages of one subtree.
    """
    levels: list[tuple[int, int, int, int, int, int]] = []
    for level in range(1, pages.bit_length()):
        size = 1 << level
        full, half = (1 << size) - 1, size // 2
        lowest = missing = highest = 0
        for first in range(0, pages, size):
            lowest |= 1 << first
            own = (valid >> first & full).bit_count()
            if (enough := math.floor(threshold * own) + 1) <= own:
                missing |= (1 << size - 1) - enough << first
                highest |= 1 << first + size - 1
        levels.append((half, lowest * ((1 << half) - 1), lowest, missing, highest, full))
    return tuple(levels)
