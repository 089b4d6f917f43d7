"""Managed memory as one device sees it: its blocks, and the page table that says what the GPU can translate.

Memory is managed in *blocks* of *pages*. A block is 2 MiB of addresses; device memory is given and taken back in
blocks. A page is a page of the host: 4 KiB, or 64 KiB on POWER. Arrays that lie in one block share the block, as small
managed allocations do.

``ManagedBlock`` (``block.py``) keeps the state of a block in integers, one bit for each page. ``Translations`` keeps
the GPU's translations a second time, in one byte for each page, so that C code finds the next missing page.
``set_state`` is the only function that changes both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from offloadrt.address_map import AddressMap
from offloadrt.machine.managed.block import (
    ManagedBlock,
    ManagedUsage,
    PageSet,
    PageSets,
    Picks,
    RootChunks,
    WatchedPages,
    by_block,
    runs,
)

_ARRAY: Final = 8
"""Largest number of draws that are made one by one; for more, NumPy draws an array faster."""


def divided(counts: list[int], draws: int, rng: np.random.Generator) -> list[int]:
    """Divide `draws` random choices among parts in proportion to their `counts`, as NumPy's ``multinomial`` does.

    >>> divided([3, 0, 1], 8, np.random.default_rng(1))
    [6, 0, 2]
    """
    shares: list[int] = []
    total, rest = sum(counts), 1.0
    for count in counts[:-1]:
        part = count / total
        shares.append(int(rng.binomial(draws, min(part / rest, 1.0))) if draws else 0)
        draws -= shares[-1]
        rest -= part
    return [*shares, draws]


def draw(low: int, high: int, draws: int, rng: np.random.Generator) -> list[int]:
    """Return `draws` random integers in [low, high), fewer than 2**32, as NumPy's ``integers`` does, but faster.

    For few draws, the numbers are computed here from the output of `rng`, as in NumPy (Lemire, "Fast random integer
    generation in an interval", ACM TOMACS 29(1), 2019).
    """
    width = high - low
    if draws > _ARRAY or width == 1:
        drawn: list[int] = rng.integers(low, high, draws).tolist()
        return drawn
    numbers: list[int] = []
    bits, state = _bits(rng)
    biased = (1 << 32) % width
    for _ in range(draws):
        product = bits(state) * width
        while product & 0xFFFFFFFF < biased:
            product = bits(state) * width
        numbers.append(low + (product >> 32))
    return numbers


@functools.lru_cache(maxsize=1)
def _bits(rng: np.random.Generator) -> tuple[Callable[[int], int], int]:
    """Return a function that gives the next 32 random bits of a generator, and the function's argument."""
    interface = rng.bit_generator.ctypes
    return interface.next_uint32, interface.state_address


UNMAPPED: Final = 0
"""The GPU has no translation: it faults."""
LOCAL: Final = 1
"""The page lies in the GPU's memory."""
REMOTE: Final = 2
"""The page lies in the host's memory, which the GPU reaches over the link."""

_BLOCKS_PER_SPAN: Final = 512
_SPARSE: Final = 16
"""If fewer than one page in this many is missing, listing the missing ones is cheaper than drawing until one is hit."""


class Translations:
    """A page table for managed memory: a state (local, remote, unmapped) per page; blocks have ``per_block`` pages."""

    def __init__(self, per_block: int) -> None:
        self._per_block = per_block
        self._span = _BLOCKS_PER_SPAN * per_block
        self._table: dict[int, bytearray] = {}
        self._counts: dict[int, list[int]] = {}
        """Number of pages in each state for each span of the table; empty when the span has changed since."""
        self._watches: dict[int, list[WatchedPages]] = {}
        """Ranges whose number of pages without translation is kept up to date, by the spans that they overlap."""

    def place_of(self, index: int) -> tuple[bytearray, int, list[int]]:
        """Return where a block's states are: (states of a span of 512 blocks, index of its first page there, counts).

        The counts are the span's numbers of pages in each state; empty if a state has changed since the count.
        """
        span, offset = divmod(index * self._per_block, self._span)
        if span not in self._table:
            self._table[span] = bytearray(self._span)
            self._counts[span] = []
        return self._table[span], offset, self._counts[span]

    def follow(self, block: ManagedBlock, per_block: int) -> None:
        """Copy a block's state from the table for loads to this one, which is for stores and lacks read-only pages."""
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
        """Keep count of the pages of [low, high) that the GPU cannot translate, until ``unwatch``."""
        stretches = list(self._stretches(low, high))
        counts = [self._how_many(UNMAPPED, *stretch) for stretch in stretches]
        watch = WatchedPages(low, high, stretches, counts, sum(counts))
        for span, _, _ in stretches:
            self._watches.setdefault(span, []).append(watch)
        return watch

    def unwatch(self, watch: WatchedPages) -> None:
        """Stop counting the pages without translation of a range that was watched."""
        for span, _, _ in watch.stretches:
            self._watches[span].remove(watch)

    def note(self, index: int, more: int) -> None:
        """Add `more` to the count of untranslated pages of each watched range that contains the block `index`."""
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
        """Find the first page of [low, high) that the GPU cannot translate; -1 if it can translate all."""
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

    def unmapped_among(self, pages: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell for each page number whether the GPU cannot translate the page."""
        missing = np.ones(pages.shape, np.bool_)
        spans = pages >> self._span.bit_length() - 1  # a block has a power of two of pages, and so has a span
        for span in range(int(spans.min(initial=1 << 62)), int(spans.max(initial=-1)) + 1):
            if (table := self._table.get(span)) is not None:
                here = spans == span
                missing[here] = np.frombuffer(table, np.uint8)[pages[here] - span * self._span] == UNMAPPED
        return missing

    def how_many(self, state: int, low: int, high: int) -> int:
        """Count the pages of [low, high) with this state: local, remote or without translation."""
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
        """Return the numbers of the pages of [low, high) without translation; meant for ranges with few of them."""
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
        """Choose up to ``draws`` untranslated pages of a watched range at random; return (block, bit set of pages)."""
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
        """Draw pages without translation in [first, last) of a span, which has ``missing``; one may be drawn twice."""
        table, base = self._table.get(span), span * self._span
        if table is not None and missing * _SPARSE < last - first:
            (places,) = (np.frombuffer(table, np.uint8)[first:last] == UNMAPPED).nonzero()
            return [base + first + int(places[place]) for place in draw(0, places.size, draws, rng)]
        numbers: list[int] = []
        while len(numbers) < draws:  # those that have a translation are drawn again
            tried = draw(first, last, draws, rng)
            numbers += [base + place for place in tried if table is None or table[place] == UNMAPPED]
        return numbers[:draws]


class ManagedPages:
    """The blocks of one device's managed memory, and the page table in which their states are written.

    ``story`` is a function that returns a text for errors: whose memory this is, the time, and the running actor. Sizes
    are in bytes; ``reported`` is what one fault reports. ValueError unless a block has a power of two of pages.
    """

    def __init__(
        self, block_size: int, page_size: int, reported: int = 4 << 10, story: Callable[[], str] = lambda: "no device"
    ) -> None:
        if page_size < 1 or block_size % page_size or (block_size // page_size).bit_count() != 1:
            raise ValueError(f"blocks of {block_size} bytes with pages of {page_size} bytes")
        self.block_size = block_size
        self.page_size = page_size
        self.reported = reported
        """Bytes that the GPU reports with one fault; a page may be reported by several faults."""
        self.per_block = block_size // page_size
        self.blocks: dict[int, ManagedBlock] = {}
        self._untouched: AddressMap[tuple[range, int, ManagedUsage]] = AddressMap()
        """Ranges of blocks that have no object yet, by first block: (range, address of the allocation, its counts)."""
        self.chunks = RootChunks()
        """Blocks with device memory."""
        self._story = story
        self.remote_pages = 0
        """Number of pages that the GPU reaches over a link."""
        self.peer_pages = 0
        """Number of these pages that lie in the memory of other devices."""
        self.for_stores: Translations | None = None
        """The translations for stores, without those of read-only pages; None until ``tell_stores_apart`` is called."""
        self.translations = Translations(self.per_block)
        """The GPU's page table; `set_state` changes it."""
        self.usage: dict[str, ManagedUsage] = {}
        """Counts of what happened to the pages of each object, by name; "" stands for pages of no object."""
        self._all = (1 << self.per_block) - 1
        # Of the type of the table: bytes would be made a bytearray at each copy into it.
        self._fills = [bytearray((state,)) * self.per_block for state in (UNMAPPED, LOCAL, REMOTE)]

    # blocks

    def block(self, index: int) -> ManagedBlock:
        """Return the block with this index; it is made at the first request."""
        block = self.blocks.get(index)
        if block is None:
            block = self.blocks[index] = ManagedBlock(index, *self.translations.place_of(index), self._story)
            if (nearest := self._untouched.before(index)) is not None and index in nearest[1][0]:
                _, begin, usage = nearest[1]
                block.enter(begin, self._all, usage)
        return block

    def parts(self, begin: int, nbytes: int, untouched: range = range(0)) -> Iterator[tuple[ManagedBlock, int]]:
        """Yield (block, bit set of its pages in the range), ascending; a page counts if the range has a byte of it.

        Blocks with indices in ``untouched`` that have not been made yet are left out.
        """
        if nbytes <= 0:
            return
        low, high = begin // self.page_size, -(-(begin + nbytes) // self.page_size)
        per_block = self.per_block
        for index in range(low // per_block, -(-high // per_block)):
            if index in untouched and index not in self.blocks:
                continue
            base = index * per_block
            first, last = max(low - base, 0), min(high - base, per_block)
            yield self.block(index), (1 << last) - (1 << first)

    def add(self, begin: int, nbytes: int, populated: bool, name: str) -> None:
        """Add an allocation for the object of this name; `populated` tells whether the host has written to it.

        A block that no other allocation can overlap is made at the first request, unless it is populated: a memory pool
        has tens of thousands of blocks, of which a program may use a few.
        """
        usage, own = self._usage(name), self._blocks_within(begin, nbytes)
        if populated or not own:
            own = range(0)
        else:
            self._untouched[own.start] = own, begin, usage
        for block, pages in self.parts(begin, nbytes, own):
            block.enter(begin, pages, usage)
            if populated:
                block.touched_by_host(pages & ~block.resident)

    def _blocks_within(self, begin: int, nbytes: int) -> range:
        return range(-(-begin // self.block_size), (begin + nbytes) // self.block_size)

    def remove(self, begin: int, nbytes: int) -> Iterator[tuple[ManagedBlock, int]]:
        """Remove an allocation; yield (block, bit set of pages that no other allocation has), blocks ascending.

        Blocks that were never made are left out. The driver unmaps the pages and calls ``ManagedBlock.release``.
        """
        own = self._blocks_within(begin, nbytes)
        if not own or self._untouched.pop(own.start) is None:
            own = range(0)
        for block, pages in self.parts(begin, nbytes, own):
            yield block, block.leave(begin, pages)

    def shares(self, block: ManagedBlock, pages: PageSet) -> list[tuple[int, ManagedUsage]]:
        """Return (number of pages, usage counts) for each allocation that has some of a block's ``pages``.

        A page that several allocations share counts for the first one only.
        """
        own, usage = block.sole
        if usage is not None and not pages & ~own:
            return [(pages.bit_count(), usage)]
        shares: list[tuple[int, ManagedUsage]] = []
        for own, usage in block.users.values():
            if (part := pages & own) != 0:
                shares.append((part.bit_count(), usage))
                pages &= ~own
                if not pages:
                    return shares
        if pages:
            shares.append((pages.bit_count(), self._usage("")))
        return shares

    def usage_at(self, address: int) -> ManagedUsage:
        """Return the counts of migrations and faults of the allocation that contains an address."""
        users = self.block(address // self.block_size).users
        begin = max((begin for begin in users if begin <= address), default=None)
        return self._usage("") if begin is None else users[begin][1]

    def _usage(self, name: str) -> ManagedUsage:
        return self.usage.setdefault(name, ManagedUsage())

    # what the GPU can translate

    def set_state(self, block: ManagedBlock, pages: PageSet, state: int) -> None:
        """Set the GPU's translation of some pages of a block to ``LOCAL``, ``REMOTE`` or ``UNMAPPED``.

        With ``LOCAL`` the GPU becomes the owner; otherwise the CPU does, if anybody has touched the pages. Raises
        IllegalTransition when pages become ``LOCAL`` that the GPU has already.
        """
        remote = block.remote
        more = ((block.resident | remote) & pages).bit_count()
        if remote and (over := remote & pages):
            self.remote_pages -= over.bit_count()
            if block.at_peers:
                self.peer_pages -= block.count_at_peers(pages)
        if state == UNMAPPED:
            block.unmap(pages)
            alike = self._all & ~(block.resident | block.remote)
        else:
            more -= pages.bit_count()
            if state == LOCAL:
                block.map_local(pages)
                alike = block.resident
            else:
                if here := block.resident & pages:
                    block.unmap(here)
                block.map_remote(pages)
                alike = block.remote
                self.remote_pages += pages.bit_count()
        block.counts.clear()
        table, offset, fill = block.table, block.offset, self._fills[state]
        # A whole block of one state, the most frequent case, is one copy of bytes instead of one for each run of pages.
        if alike == self._all:
            table[offset : offset + self.per_block] = fill
        else:
            for low, high in runs(pages):
                table[offset + low : offset + high] = fill[low:high]
        self.translations.note(block.index, more)
        if self.for_stores is not None:
            self.for_stores.follow(block, self.per_block)

    # pages that lie in the memory of other devices, or have copies there

    def set_at_peer(self, block: ManagedBlock, pages: PageSet, device: int) -> None:
        """Let the GPU translate pages of a block that lie in the memory of another device."""
        self.set_state(block, pages, REMOTE)
        block.map_at_peer(pages, device)
        self.peer_pages += pages.bit_count()

    def at_peers(self, low: int, high: int, picks: Picks | None = None) -> dict[int, int]:
        """Count the pages in [low, high), or only those in `picks`, that lie in other devices' memory, by device."""
        counts: dict[int, int] = {}
        per_block = self.per_block
        for index in range(low // per_block, -(-high // per_block)):
            block = self.blocks.get(index)
            if block is not None and block.at_peers:
                base = index * per_block
                among = (1 << min(high - base, per_block)) - (1 << max(low - base, 0))
                among &= self._all if picks is None else picks.pages[index - picks.first]
                for device, there in block.at_peers.items():
                    counts[device] = counts.get(device, 0) + (there & among).bit_count()
        return counts

    def tell_stores_apart(self) -> None:
        """Keep translations for stores apart from those for loads from now on: pages may get read-only copies."""
        if self.for_stores is None:
            self.for_stores = Translations(self.per_block)
            for block in self.blocks.values():
                self.for_stores.follow(block, self.per_block)

    def protect(self, block: ManagedBlock, pages: PageSet, *, read_only: bool) -> None:
        """Make resident pages of a block read-only, so that stores to them fault, or let stores succeed again."""
        if read_only:
            block.protect(pages)
        else:
            block.allow_stores(pages)
        if self.for_stores is not None:
            self.for_stores.follow(block, self.per_block)

    def table_for(self, stores: bool) -> Translations:
        """Return the translations for stores or for loads."""
        return self.translations if self.for_stores is None or not stores else self.for_stores

    # questions

    def next_unmapped(self, low: int, high: int, among: Picks | None = None, stores: bool = False) -> int:
        """Return the first page of [low, high), or of ``among``, that loads (or ``stores``) miss; -1 without any."""
        if among is None:
            return self.table_for(stores).next_unmapped(low, high)
        for index, pages in self.unmapped(low, high, among, 1, stores):
            return index * self.per_block + (pages & -pages).bit_length() - 1
        return -1

    def unmapped(
        self, low: int, high: int, among: Picks | None = None, most: int | None = None, stores: bool = False
    ) -> list[tuple[int, int]]:
        """Return the untranslated pages of [low, high) as (block, bit set), of at most ``most`` blocks, ascending.

        ``among``: only these pages. ``stores``: use the table for stores, which has no read-only pages.
        """
        sets: list[tuple[int, int]] = []
        per_block, blocks = self.per_block, self.blocks
        index = low // per_block
        base = index * per_block
        rest = low - base
        pages = self._all >> rest << rest
        while base < high and len(sets) != most:
            if high - base < per_block:
                pages &= (1 << high - base) - 1
            if among is not None:
                pages &= among.pages[index - among.first]
            if (block := blocks.get(index)) is not None:
                there = block.resident | block.remote
                pages &= ~(there & ~block.read_only if stores else there)
            if pages:
                sets.append((index, pages))
            index += 1
            base += per_block
            pages = self._all
        return sets

    def remote_among(self, picks: Picks, low: int, high: int) -> int:
        """Count the pages of `picks` in [low, high) that the GPU reaches over a link."""
        per_block, count = self.per_block, 0
        for index in range(low // per_block, -(-high // per_block)):
            block = self.blocks.get(index)
            if block is not None and block.remote:
                base = index * per_block
                there = (1 << min(high - base, per_block)) - (1 << max(low - base, 0))
                count += (picks.pages[index - picks.first] & block.remote & there).bit_count()
        return count

    def still_unmapped(self, sets: PageSets, stored: Mapping[int, int]) -> list[tuple[int, int]]:
        """Return the pages of `sets` still untranslated, as (block, bit set). stored: by block, pages for stores."""
        left: list[tuple[int, int]] = []
        for index, pages in sets:
            if (block := self.blocks.get(index)) is not None:
                pages &= ~(block.resident | block.remote) | block.read_only & stored.get(index, 0)
            if pages:
                left.append((index, pages))
        return left
