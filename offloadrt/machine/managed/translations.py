"""The GPU's page table for managed memory: a byte for each page, so that C finds the next one without translation.

`ManagedPages` holds the same facts as bits in its blocks, and keeps both alike.  The table is made in *spans* of 512
blocks when their first block is: 32 GB of managed memory cost about 10 MB, or 18 MB with pages of 4 KiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from offloadrt.machine.managed.block import ManagedBlock, WatchedPages
from offloadrt.machine.managed.draws import divided, draw
from offloadrt.machine.managed.page_sets import by_block
from offloadrt.machine.managed.tree_prefetch import runs

UNMAPPED: Final = 0
"""The GPU has no translation: it faults."""
LOCAL: Final = 1
"""The page lies in the GPU's memory."""
REMOTE: Final = 2
"""The page lies in the host's memory, which the GPU reaches over the link."""

_BLOCKS_PER_SPAN: Final = 512
_SPARSE: Final = 16
"""One page in so many must be missing for draws from all pages to be cheaper than a list of those that are."""


class Translations:
    """The translations of one device, ``per_block`` pages for each block.  Pages are numbered by their addresses."""

    def __init__(self, per_block: int) -> None:
        self._per_block = per_block
        self._span = _BLOCKS_PER_SPAN * per_block
        self._table: dict[int, bytearray] = {}
        self._counts: dict[int, list[int]] = {}
        """How many pages of each span of the table are in each state; empty when the span has changed since."""
        self._watches: dict[int, list[WatchedPages]] = {}
        """Ranges of which is always known how many pages the GPU cannot translate, in each span that they reach."""

    def place_of(self, index: int) -> tuple[bytearray, int, list[int]]:
        """Return the span of a block, where in it the block's first page is, and the counts of the span."""
        span, offset = divmod(index * self._per_block, self._span)
        if span not in self._table:
            self._table[span] = bytearray(self._span)
            self._counts[span] = []
        return self._table[span], offset, self._counts[span]

    def follow(self, block: ManagedBlock, per_block: int) -> None:
        """Take over a block's translations from the table that it lies in, but for its pages that are read-only."""
        table, offset, counts = self.place_of(block.index)
        new = bytearray(block.table[block.offset : block.offset + per_block])
        for low, high in runs(block.read_only):
            new[low:high] = bytes((UNMAPPED,)) * (high - low)
        old = table[offset : offset + per_block]
        table[offset : offset + per_block] = new
        counts.clear()
        self.note(block.index, new.count(UNMAPPED) - old.count(UNMAPPED))

    # ranges that are watched

    def watch(self, low: int, high: int) -> WatchedPages:
        """Keep count of the pages of [low, high) without translation, until ``unwatch``."""
        stretches = list(self._stretches(low, high))
        counts = [self._how_many(UNMAPPED, *stretch) for stretch in stretches]
        watch = WatchedPages(low, high, stretches, counts, sum(counts))
        for span, _, _ in stretches:
            self._watches.setdefault(span, []).append(watch)
        return watch

    def unwatch(self, watch: WatchedPages) -> None:
        """Keep count of a range no more."""
        for span, _, _ in watch.stretches:
            self._watches[span].remove(watch)

    def note(self, index: int, more: int) -> None:
        """Note that so many more pages of a block have no translation now."""
        span, low = index // _BLOCKS_PER_SPAN, index * self._per_block
        high = low + self._per_block
        for watch in self._watches.get(span, ()):
            if low < watch.high and watch.low < high:
                place, own = span - watch.stretches[0][0], more
                if low < watch.low or watch.high < high:  # it has only a part of the block's pages
                    own = self._how_many(UNMAPPED, *watch.stretches[place]) - watch.counts[place]
                watch.counts[place] += own
                watch.missing += own

    # questions

    def next_unmapped(self, low: int, high: int) -> int:
        """Find the first page of [low, high) without translation; -1: there is none."""
        size = self._span
        while low < high:
            span, offset = divmod(low, size)
            table = self._table.get(span)
            if table is None:
                return low
            place = table.find(UNMAPPED, offset, min(high - span * size, size))
            if place >= 0:
                return span * size + place
            low = (span + 1) * size
        return -1

    def how_many(self, state: int, low: int, high: int) -> int:
        """Count the pages of [low, high) that have this translation."""
        total = 0
        for span, first, last in self._stretches(low, high):
            total += self._how_many(state, span, first, last)
        return total

    def _stretches(self, low: int, high: int) -> Iterator[tuple[int, int, int]]:
        """Yield pages [low, high) as (span, first, last) within the spans of the table."""
        size = self._span
        for span in range(low // size, -(-high // size)):
            yield span, max(low - span * size, 0), min(high - span * size, size)

    def _how_many(self, state: int, span: int, first: int, last: int) -> int:
        table = self._table.get(span)
        if table is None:
            return last - first if state == UNMAPPED else 0
        if last - first < self._span:
            return int(np.count_nonzero(np.frombuffer(table, np.uint8)[first:last] == state))
        counts = self._counts[span]
        if not counts:
            states = np.frombuffer(table, np.uint8)
            counts += [int(np.count_nonzero(states == each)) for each in (UNMAPPED, LOCAL, REMOTE)]
        return counts[state]

    def unmapped_numbers(self, low: int, high: int) -> list[int]:
        """Return the pages of [low, high) without translation, by number; for a range in which few are missing."""
        numbers: list[int] = []
        for span, first, last in self._stretches(low, high):
            base = span * self._span
            table = self._table.get(span)
            if table is None:
                numbers.extend(range(base + first, base + last))
            else:
                place = table.find(UNMAPPED, first, last)
                while place >= 0:
                    numbers.append(base + place)
                    place = table.find(UNMAPPED, place + 1, last)
        return numbers

    def draw_unmapped(self, watch: WatchedPages, draws: int, rng: np.random.Generator) -> list[tuple[int, int]]:
        """Draw up to ``draws`` different watched pages without translation, each as likely as any other."""
        if not watch.missing:
            return []
        numbers: set[int] = set()
        shares = divided(watch.counts, draws, rng)
        for stretch, missing, share in zip(watch.stretches, watch.counts, shares, strict=True):
            if share:
                numbers.update(self._draw_in(*stretch, missing, share, rng))
        return by_block(sorted(numbers), self._per_block)

    def _draw_in(
        self, span: int, first: int, last: int, missing: int, draws: int, rng: np.random.Generator
    ) -> list[int]:
        """Draw pages within one span, of which ``missing`` have no translation; a page may come twice."""
        table, base = self._table.get(span), span * self._span
        if table is not None and missing * _SPARSE < last - first:
            (places,) = (np.frombuffer(table, np.uint8)[first:last] == UNMAPPED).nonzero()
            return [base + first + int(places[place]) for place in draw(0, places.size, draws, rng)]
        numbers: list[int] = []
        while len(numbers) < draws:  # those that have a translation are drawn again
            tried = draw(first, last, draws, rng)
            numbers += [base + place for place in tried if table is None or table[place] == UNMAPPED]
        return numbers[:draws]
