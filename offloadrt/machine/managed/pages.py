"""Managed memory as one device sees it: who owns each page, and what the GPU can translate.

Memory is dealt with in *blocks* (2 MiB of addresses; what device memory is given and taken back in) of *pages* (64
KiB).  Arrays that lie in one block share it, as small managed allocations do.  A page has one owner: the GPU when it
is ``resident``, otherwise the CPU, otherwise nobody (not ``populated``: nobody has touched it).

A block is some whole numbers, one bit a page.  The GPU's page table is kept a second time as a byte a page, in which
the next page without translation is found at the speed of C: 32 GB of managed memory cost about 10 MB.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator
from typing import Final

import numpy as np

from offloadrt.machine.managed.block import ManagedBlock, Picks, WatchedPages
from offloadrt.machine.managed.draws import divided, draw
from offloadrt.machine.managed.page_sets import PageSets, by_block
from offloadrt.machine.managed.tree_prefetch import runs
from offloadrt.machine.managed.usage import ManagedUsage

UNMAPPED: Final = 0
"""The GPU has no translation: it faults."""
LOCAL: Final = 1
"""The page lies in the GPU's memory."""
REMOTE: Final = 2
"""The page lies in the host's memory, which the GPU reaches over the link."""

_BLOCKS_PER_SPAN: Final = 512
_SPARSE: Final = 16
"""One page in so many must be missing for draws from all pages to be cheaper than a list of those that are."""


class ManagedPages:
    """The blocks of one device's managed memory.  Raises ValueError unless a block has a power of two of pages.

    Wide because blocks and the GPU's page table hold the same facts twice, and must be changed together.
    """

    def __init__(self, block_size: int, page_size: int) -> None:
        if page_size < 1 or block_size % page_size or (block_size // page_size).bit_count() != 1:
            raise ValueError(f"blocks of {block_size} bytes with pages of {page_size} bytes")
        self.block_size = block_size
        self.page_size = page_size
        self.per_block = block_size // page_size
        self.blocks: dict[int, ManagedBlock] = {}
        self.lru: OrderedDict[int, ManagedBlock] = OrderedDict()
        """Blocks with device memory, the one whose last fault is the longest ago first."""
        self.remote_pages = 0
        """How many pages the GPU reaches over the link."""
        self._watches: list[tuple[int, int, WatchedPages]] = []
        """First block, last block, and a range of which is always known how many pages the GPU cannot translate."""
        self.usage: dict[str, ManagedUsage] = {}
        """By name of the object; what belongs to none has the name ""."""
        self._span = _BLOCKS_PER_SPAN * self.per_block
        self._all = (1 << self.per_block) - 1
        self._fills = [bytes((state,)) * self.per_block for state in (UNMAPPED, LOCAL, REMOTE)]
        self._table: dict[int, bytearray] = {}
        self._counts: dict[int, list[int]] = {}
        """Of each span of the table, how many pages are in each state."""

    # blocks

    def block(self, index: int) -> ManagedBlock:
        """Return a block; it is made when it is first asked for."""
        found = self.blocks.get(index)
        if found is None:
            span, offset = divmod(index * self.per_block, self._span)
            if span not in self._table:
                self._table[span] = bytearray(self._span)
                self._counts[span] = [self._span, 0, 0]
            found = self.blocks[index] = ManagedBlock(index, self._table[span], offset, self._counts[span])
        return found

    def parts(self, begin: int, nbytes: int) -> Iterator[tuple[ManagedBlock, int]]:
        """Yield (block, its pages) of a range of addresses, ascending: every page that the range has a byte of."""
        if nbytes <= 0:
            return
        low, high = begin // self.page_size, -(-(begin + nbytes) // self.page_size)
        per_block = self.per_block
        for index in range(low // per_block, -(-high // per_block)):
            base = index * per_block
            first, last = max(low - base, 0), min(high - base, per_block)
            yield self.block(index), (1 << last) - (1 << first)

    def add(self, begin: int, nbytes: int, populated: bool, name: str) -> None:
        """Add an allocation, of the object of this name; ``populated``: the host has written it."""
        usage = self._usage(name)
        for block, pages in self.parts(begin, nbytes):
            block.users[begin] = pages, usage
            block.sole = block.users[begin] if len(block.users) == 1 else (0, None)
            block.valid |= pages
            if populated:
                block.populated |= pages & ~block.resident
                block.host_mapped |= pages & ~block.resident

    def remove(self, begin: int, nbytes: int) -> Iterator[tuple[ManagedBlock, int]]:
        """Remove an allocation: yield (block, pages that are no other's), ascending."""
        for block, pages in self.parts(begin, nbytes):
            del block.users[begin]
            block.sole = next(iter(block.users.values())) if len(block.users) == 1 else (0, None)
            for others, _ in block.users.values():
                pages &= ~others
            block.valid &= ~pages
            block.populated &= ~pages
            block.host_mapped &= ~pages
            yield block, pages

    def shares(self, block: ManagedBlock, pages: int) -> list[tuple[int, ManagedUsage]]:
        """Return (how many, whose) of some pages of a block; one that several share is the first one's."""
        own, usage = block.sole
        if usage is not None and not pages & ~own:
            return [(pages.bit_count(), usage)]
        found: list[tuple[int, ManagedUsage]] = []
        for own, usage in block.users.values():
            if (part := pages & own) != 0:
                found.append((part.bit_count(), usage))
                pages &= ~own
                if not pages:
                    return found
        if pages:
            found.append((pages.bit_count(), self._usage("")))
        return found

    def usage_at(self, address: int) -> ManagedUsage:
        """Return the counts of the allocation that holds an address."""
        users = self.block(address // self.block_size).users
        begin = max((begin for begin in users if begin <= address), default=None)
        return self._usage("") if begin is None else users[begin][1]

    def _usage(self, name: str) -> ManagedUsage:
        found = self.usage.get(name)
        if found is None:
            found = self.usage[name] = ManagedUsage()
        return found

    def resident_pages(self) -> int:
        """Count the pages that lie in the GPU's memory."""
        count = 0
        for block in self.lru.values():
            count += block.resident.bit_count()
        return count

    # the GPU's page table

    def set_state(self, block: ManagedBlock, pages: int, state: int) -> None:
        """Set the GPU's translation of some pages of a block to ``LOCAL``, ``REMOTE`` or ``UNMAPPED``.

        ``LOCAL`` makes the GPU their owner, the others the CPU if anybody has touched them.
        """
        counts, resident, remote = block.counts, block.resident, block.remote
        changed = pages.bit_count()
        local = (resident & pages).bit_count() if resident else 0
        over = (remote & pages).bit_count() if remote else 0
        if local:
            counts[LOCAL] -= local
        if missing := changed - local - over:
            counts[UNMAPPED] -= missing
        counts[state] += changed
        if over:
            counts[REMOTE] -= over
            self.remote_pages -= over
            block.remote = remote = remote & ~pages
        if state == LOCAL:
            block.populated |= pages
            block.resident = alike = resident | pages
            more = local + over - changed
        else:
            if local:
                block.resident = resident = resident & ~pages
            if state == REMOTE:
                block.populated |= pages
                block.remote = alike = remote | pages
                self.remote_pages += changed
                more = local + over - changed
            else:
                alike = self._all & ~(resident | remote)
                more = local + over
        table, offset, fill = block.table, block.offset, self._fills[state]
        # A whole block of one state, the most frequent case, is one copy of bytes instead of one for each run of pages.
        if alike == self._all:
            table[offset : offset + self.per_block] = fill
        else:
            for low, high in runs(pages):
                table[offset + low : offset + high] = fill[low:high]
        index = block.index
        for first, last, watch in self._watches:
            if first <= index <= last:
                self._watched(watch, block, more)

    def _watched(self, watch: WatchedPages, block: ManagedBlock, more: int) -> None:
        """Note that so many more pages of a block have no translation; a watched range has some of them."""
        first = block.index * self.per_block
        place = first // self._span - watch.low // self._span
        if first < watch.low or watch.high < first + self.per_block:
            more = self._how_many(UNMAPPED, *watch.stretches[place]) - watch.counts[place]
        watch.counts[place] += more
        watch.missing += more

    def watch(self, low: int, high: int) -> WatchedPages:
        """Keep count of the pages of [low, high) without translation, until ``unwatch``."""
        stretches = list(self._stretches(low, high))
        counts = [self._how_many(UNMAPPED, *one) for one in stretches]
        watch = WatchedPages(low, high, stretches, counts, sum(counts))
        if low < high:
            self._watches.append((low // self.per_block, (high - 1) // self.per_block, watch))
        return watch

    def unwatch(self, watches: Collection[WatchedPages | None]) -> None:
        """Keep count of these ranges no more."""
        if self._watches:
            self._watches = [one for one in self._watches if one[2] not in watches]

    def next_unmapped(self, low: int, high: int, among: Picks | None = None) -> int:
        """Find the first page of [low, high), or of those ``among`` them, without translation; -1: there is none."""
        if among is not None:
            for index, pages in self.unmapped(low, high, among, 1):
                return index * self.per_block + (pages & -pages).bit_length() - 1
            return -1
        size = self._span
        while low < high:
            span, offset = divmod(low, size)
            table = self._table.get(span)
            if table is None:
                return low
            found = table.find(UNMAPPED, offset, min(high - span * size, size))
            if found >= 0:
                return span * size + found
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
        if last - first == self._span:
            return self._counts[span][state]
        return int(np.count_nonzero(np.frombuffer(table, np.uint8)[first:last] == state))

    def unmapped(
        self, low: int, high: int, among: Picks | None = None, most: int | None = None
    ) -> list[tuple[int, int]]:
        """Return all pages of [low, high) without translation, ascending, of at most ``most`` blocks.

        ``among``: only those of these pages.
        """
        found: list[tuple[int, int]] = []
        per_block, blocks = self.per_block, self.blocks
        index = low // per_block
        base = index * per_block
        rest = low - base
        pages = self._all >> rest << rest
        while base < high and len(found) != most:
            if high - base < per_block:
                pages &= (1 << high - base) - 1
            if among is not None:
                pages &= among.pages[index - among.first]
            if (block := blocks.get(index)) is not None:
                pages &= ~(block.resident | block.remote)
            if pages:
                found.append((index, pages))
            index += 1
            base += per_block
            pages = self._all
        return found

    def remote_among(self, picks: Picks, low: int, high: int) -> int:
        """Count those of some pages in [low, high) that the GPU reaches over the link."""
        per_block, count = self.per_block, 0
        for index in range(low // per_block, -(-high // per_block)):
            block = self.blocks.get(index)
            if block is not None and block.remote:
                base = index * per_block
                there = (1 << min(high - base, per_block)) - (1 << max(low - base, 0))
                count += (picks.pages[index - picks.first] & block.remote & there).bit_count()
        return count

    def unmapped_numbers(self, low: int, high: int) -> list[int]:
        """Return the pages of [low, high) without translation, by number; for a range in which few are missing."""
        found: list[int] = []
        for span, first, last in self._stretches(low, high):
            base = span * self._span
            table = self._table.get(span)
            if table is None:
                found.extend(range(base + first, base + last))
            else:
                place = table.find(UNMAPPED, first, last)
                while place >= 0:
                    found.append(base + place)
                    place = table.find(UNMAPPED, place + 1, last)
        return found

    def still_unmapped(self, sets: PageSets) -> list[tuple[int, int]]:
        """Return those of some pages that have no translation, in their order."""
        found: list[tuple[int, int]] = []
        for index, pages in sets:
            if (block := self.blocks.get(index)) is not None:
                pages &= ~(block.resident | block.remote)
            if pages:
                found.append((index, pages))
        return found

    def draw_unmapped(self, watch: WatchedPages, draws: int, rng: np.random.Generator) -> list[tuple[int, int]]:
        """Draw up to ``draws`` different watched pages without translation, each as likely as any other."""
        if not watch.missing:
            return []
        found: set[int] = set()
        shares = divided(watch.counts, draws, rng)
        for stretch, missing, share in zip(watch.stretches, watch.counts, shares, strict=True):
            if share:
                found.update(self._draw_in(*stretch, missing, share, rng))
        return by_block(sorted(found), self.per_block)

    def _draw_in(
        self, span: int, first: int, last: int, missing: int, draws: int, rng: np.random.Generator
    ) -> list[int]:
        """Draw pages within one span, of which ``missing`` have no translation; a page may come twice."""
        table, base = self._table.get(span), span * self._span
        if table is not None and missing * _SPARSE < last - first:
            (places,) = (np.frombuffer(table, np.uint8)[first:last] == UNMAPPED).nonzero()
            return [base + first + int(places[place]) for place in draw(0, places.size, draws, rng)]
        found: list[int] = []
        while len(found) < draws:  # those that have a translation are drawn again
            tried = draw(first, last, draws, rng)
            found += [base + place for place in tried if table is None or table[place] == UNMAPPED]
        return found[:draws]
