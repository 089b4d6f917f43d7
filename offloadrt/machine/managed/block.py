"""One block of managed memory as one device sees it: a state machine that owns all state of the block's pages.

A page of a device is in one of four states. Nobody has touched it; the host has its bytes; the GPU has them
(``resident``); or another GPU has them (``elsewhere``). The GPU can translate resident pages and ``remote`` pages,
which are pages of the host and of other GPUs that it reaches over a link. Everything else that the driver remembers of
a page (advice, copies, mappings of the host) is a further set. Sets of pages are integers (`PageSet`).

The methods of ``ManagedBlock`` are the transitions between these states. No other code changes the sets, so that each
transition keeps the invariants that ``ManagedBlock.broken`` lists. The model is the real driver's ``uvm_va_block_t``:
``resident``, ``pages`` of the page tables, ``mapped``, and the policies of a range.

The functions at the top compute with pages of several blocks, each as (block, its pages).  They keep an order of pages
as far as such pairs can: the pages of one pair ascend.  A block may come twice.
"""

from __future__ import annotations

import functools
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import attrs

PageSet = int
"""Some pages of one block: bit k stands for page k."""
PageSets = Sequence[tuple[int, PageSet]]
"""Pages in an order, as pairs (index of a block, its pages); no page occurs twice."""


def by_block(pages: Iterable[int], per_block: int) -> list[tuple[int, int]]:
    """Group ascending page numbers by block of `per_block` pages; return (block, bit set of its pages) for each.

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
    """Return the total number of pages in several blocks, which are given as (block, bit set of its pages)."""
    count = 0
    for _, pages in sets:
        count += pages.bit_count()
    return count


def merged(sets: PageSets) -> dict[int, int]:
    """Return for each block the union of all its bit sets of pages in `sets`, a list of (block, bit set)."""
    by_index = dict(sets)
    if len(by_index) < len(sets):
        by_index.clear()
        for index, pages in sets:
            by_index[index] = by_index.get(index, 0) | pages
    return by_index


def joined(first: PageSets, more: PageSets) -> PageSets:
    """Return the union of two lists of (block, bit set of pages); a page that is in both occurs once."""
    if not first or not more:
        return first or more
    seen = merged(first)
    return [*first, *((index, new) for index, pages in more if (new := pages & ~seen.get(index, 0)))]


def without(pages: Mapping[int, int], others: Mapping[int, int]) -> list[tuple[int, int]]:
    """Return `pages` without the pages in `others` (both: bit sets by block), as (block, bit set), blocks ascending."""
    return [(index, left) for index in sorted(pages) if (left := pages[index] & ~others.get(index, 0))]


def among(sets: PageSets, those: Mapping[int, int]) -> list[tuple[int, int]]:
    """Return the pages of `sets` that are also in `those` (bit sets by block), as (block, bit set), in order."""
    return [(index, left) for index, pages in sets if (left := pages & those.get(index, 0))]


def in_turns(parts: Iterable[PageSets], lots: Sequence[int] = ()) -> list[tuple[int, int]]:
    """Return the first page of each part, then the second of each, and so on; no page twice.

    A part, and the result, is a list of (block, bit set of pages). `lots`: how many pages each part contributes in a
    turn; by default one.

    >>> in_turns([[(7, 0b1101)], [(7, 0b100000), (8, 1)]])
    [(7, 33), (7, 4), (8, 1), (7, 8)]
    """
    ordered: list[tuple[int, int]] = []
    seen: dict[int, int] = {}
    left = [([*reversed(sets)], lot) for sets, lot in zip(parts, lots or itertools.repeat(1), strict=False) if sets]
    while left:
        turn: dict[int, int] = {}
        for sets, lot in left:
            index, pages = sets.pop()
            first = pages & -pages if lot == 1 else pages if pages.bit_count() <= lot else _lowest(pages, lot)
            if pages != first:
                sets.append((index, pages ^ first))
            if new := first & ~seen.get(index, 0):
                seen[index] = seen.get(index, 0) | new
                turn[index] = turn.get(index, 0) | new
        ordered += turn.items()
        left = [(sets, lot) for sets, lot in left if sets]
    return ordered


def begun(sets: PageSets, entries: int, few: int) -> PageSets:
    """Return the pages that the first ``few`` of ``entries`` fault entries report, if each page has equally many.

    >>> begun([(7, 0b1101), (3, 0b11)], 10, 3)
    [(7, 5)]
    """
    return up_to(sets, -(-how_many(sets) * few // entries))


def up_to(sets: PageSets, count: int) -> PageSets:
    """Return the first `count` pages of some (block, bit set of pages), in order.

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


def _lowest(pages: PageSet, count: int) -> int:
    """Return the lowest `count` bits of `pages`, one for each page of a block; there are more of them than that."""
    places = count
    # So many places more cannot hold more pages than are lacking.
    while lacking := count - (pages & (1 << places) - 1).bit_count():
        places += lacking
    return pages & (1 << places) - 1


@functools.lru_cache(maxsize=1 << 16)
def runs(pages: PageSet) -> tuple[tuple[int, int], ...]:
    """Return the page numbers of a bit set as ranges [low, high), ascending.

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


def whole_parts(pages: PageSet, size: int, spared: PageSet = 0) -> PageSet:
    """Extend `pages` to whole aligned groups of `size` pages; leave out groups with a page that is to be spared.

    >>> bin(whole_parts(0b100100, 2, 0b1000))
    '0b110000'
    """
    whole = 0
    while pages:
        first = (pages & -pages).bit_length() - 1
        part = (1 << size) - 1 << first - first % size
        if not part & spared:
            whole |= part
        pages &= ~part
    return whole


class IllegalTransition(RuntimeError):
    """Raised for a change that the state of a block's pages does not allow; the calling driver code is wrong."""


@attrs.define(eq=False)
class ManagedUsage:
    """Counts of what happened to the managed memory of all objects with one name.

    A page that several objects share counts for the first one of them.
    """

    faults: int = 0
    """Faults of the GPU that were handled."""
    host_faults: int = 0
    """Faults of the CPU that were handled."""
    bytes_htod: int = 0
    """Bytes migrated to the device."""
    bytes_dtoh: int = 0
    """Bytes migrated to the host, evictions included."""
    remote_bytes: float = 0.0
    """Bytes that kernels read and wrote over the link."""
    bytes_dtod: int = 0
    """Bytes migrated or copied to the device from another device."""

    def plus(self, other: ManagedUsage) -> ManagedUsage:
        """Return the sum of these counts and the counts of `other`."""
        pairs = zip(attrs.astuple(self), attrs.astuple(other), strict=True)
        return ManagedUsage(*(one + more for one, more in pairs))

    def moved(self, direction: str, nbytes: int) -> None:
        """Count the bytes of a migration in one direction: ``h2d``, ``d2h`` or ``p2p``."""
        if direction == "h2d":
            self.bytes_htod += nbytes
        elif direction == "d2h":
            self.bytes_dtoh += nbytes
        else:
            self.bytes_dtod += nbytes


@attrs.define(eq=False)
class ManagedBlock:
    """The state of one block of managed memory on one device; a set of pages is an integer, one bit for each page."""

    index: int
    """The block's address divided by its size."""
    table: bytearray
    """The part of the GPU's page table (for 512 blocks, a span) with this block; ``ManagedPages`` writes it."""
    offset: int
    """Position of the block's first page in that span."""
    counts: list[int]
    """Number of pages of that span in each state; empty until somebody asks for the numbers."""
    story: Callable[[], str] = lambda: "a block of no device"
    """Returns a text for errors: whose memory this is, at which time, and which actor runs."""
    valid: PageSet = 0
    """Pages that belong to an allocation."""
    populated: PageSet = 0
    """Pages that somebody has touched."""
    resident: PageSet = 0
    """Pages in the GPU's memory."""
    remote: PageSet = 0
    """Pages in host memory or on other GPUs that the GPU can translate."""
    at_peers: dict[int, PageSet] = attrs.field(factory=dict)
    """The remote pages that lie in other devices' memory, by the device's index."""
    elsewhere: PageSet = 0
    """Pages that lie in the memory of other devices, whether this GPU can translate them or not."""
    host_copy: PageSet = 0
    """Pages on a GPU of which the host also has a valid copy (read duplication)."""
    read_only: PageSet = 0
    """Pages in the GPU's memory that have copies in other places, so that a store faults."""
    read_mostly: PageSet = 0
    """Pages with the advice that reads make copies of them (cudaMemAdviseSetReadMostly)."""
    prefers_host: PageSet = 0
    """Pages with the advice that they stay on the host."""
    prefers_here: PageSet = 0
    """Pages with the advice that they stay in the memory of this GPU."""
    accessed_by: PageSet = 0
    """Pages with the advice that the GPU can always translate them (cudaMemAdviseSetAccessedBy)."""
    system: PageSet = 0
    """Pages of the host's allocators, which the GPU reaches by the host's page table (address translation services)."""
    users: dict[int, tuple[PageSet, ManagedUsage]] = attrs.field(factory=dict)
    """The allocations in the block, by address: the pages of each, and its counts."""
    sole: tuple[PageSet, ManagedUsage | None] = (0, None)
    """The pages of the only allocation in the block, and its counts; no pages when there are several allocations."""
    host_mapped: PageSet = 0
    """Pages that the host can translate; a migration has to remove these translations."""
    dma_mapped: PageSet = 0
    """Pages whose host memory the copy engines can reach; the host keeps that memory while they are on the GPU."""
    on_host_made: PageSet = 0
    """Pages that have host memory; the first touch of a page can make it for the whole block (`make_on_host`)."""
    _last: tuple[str, int] | None = attrs.field(default=None, init=False)
    """The last change of the GPU's translations, for errors."""
    _before: tuple[str, int] | None = attrs.field(default=None, init=False)
    """The change before the last one."""

    @property
    def on_host(self) -> int:
        """Return the bit set (bit k is page k) of the block's pages whose bytes are on the host."""
        return self.populated & ~(self.resident | self.elsewhere) | self.host_copy

    @property
    def untouched(self) -> int:
        """Return the bit set (bit k is page k) of the block's pages that no processor has touched yet."""
        return self.valid & ~(self.populated | self.system)

    # allocations

    def enter(self, address: int, pages: PageSet, usage: ManagedUsage) -> None:
        """Record that these pages belong to the allocation at ``address``, whose migrations count in ``usage``."""
        self.users[address] = pages, usage
        self.sole = self.users[address] if len(self.users) == 1 else (0, None)
        self.valid |= pages

    def leave(self, address: int, pages: PageSet) -> int:
        """Remove an allocation from the block; return the bit set of its pages that belong to no other allocation.

        The returned pages stay unchanged until the driver has unmapped them and calls ``release``. Raises
        IllegalTransition when no allocation begins at the address.
        """
        if address not in self.users:
            raise self._illegal(f"cannot leave the allocation at {address:#x}, which it does not hold", pages)
        del self.users[address]
        self.sole = next(iter(self.users.values())) if len(self.users) == 1 else (0, None)
        for others, _ in self.users.values():
            pages &= ~others
        return pages

    def release(self, pages: PageSet) -> None:
        """Remove all state of pages that belong to no allocation any more.

        Raises IllegalTransition while the GPU can translate one of them, or an allocation contains one.
        """
        if translated := (self.resident | self.remote) & pages:
            raise self._illegal("cannot be released: the GPU can still translate them", translated)
        for held, _ in self.users.values():
            if held & pages:
                raise self._illegal("cannot be released: an allocation still holds them", held & pages)
        kept = ~pages
        self.valid &= kept
        self.populated &= kept
        self.host_mapped &= kept
        self.dma_mapped &= kept
        self.on_host_made &= kept
        self.host_copy &= kept
        self.elsewhere &= kept
        self.system &= kept
        self.prefers_host &= kept
        self.prefers_here &= kept
        self.accessed_by &= kept
        self.read_mostly &= kept

    def admit(self, pages: PageSet) -> None:
        """Mark pages that a kernel has faulted on as valid, also if the program freed them while the kernel ran."""
        self.valid |= pages

    # what the GPU can translate

    def map_local(self, pages: PageSet) -> None:
        """Put pages into the GPU's memory and let the GPU translate them.

        Raises IllegalTransition when the GPU has one of them already, because its bytes would count twice.
        """
        if pages & self.resident:
            raise self._illegal("cannot arrive on the GPU: it has them already", pages & self.resident)
        if self.remote & pages:
            self._leave_link(pages)
        self.populated |= pages
        self.resident |= pages
        self._before, self._last = self._last, ("map_local", pages)

    def map_remote(self, pages: PageSet) -> None:
        """Let the GPU translate pages of the host's memory over the link.

        Raises IllegalTransition when one of them is in the GPU's memory: it has to be unmapped there first, so that
        other devices learn of its migration.
        """
        if pages & self.resident:
            raise self._illegal("cannot be mapped over the link: the GPU has them", pages & self.resident)
        if self.remote & pages:
            self._leave_link(pages)
        self.populated |= pages
        self.remote |= pages
        self._before, self._last = self._last, ("map_remote", pages)

    def map_at_peer(self, pages: PageSet, device: int) -> None:
        """Mark pages that are mapped over a link as lying in the memory of another device.

        Raises IllegalTransition for a page that is not mapped over a link.
        """
        if pages & ~self.remote:
            raise self._illegal(f"cannot lie on device {device}: they are not mapped over a link", pages & ~self.remote)
        self.at_peers[device] = self.at_peers.get(device, 0) | pages

    def unmap(self, pages: PageSet) -> None:
        """Remove the GPU's translations of these pages; those that are resident leave the GPU's memory as well."""
        self.resident &= ~pages
        self.read_only &= ~pages
        if self.remote & pages:
            self._leave_link(pages)
        self._before, self._last = self._last, ("unmap", pages)

    def _leave_link(self, pages: PageSet) -> None:
        self.remote &= ~pages
        for device, there in self.at_peers.items():
            self.at_peers[device] = there & ~pages

    def count_at_peers(self, pages: PageSet) -> int:
        """Return how many of `pages` the GPU reaches in the memory of other devices."""
        return sum([(there & pages).bit_count() for there in self.at_peers.values()])

    # copies of pages in several places

    def protect(self, pages: PageSet) -> None:
        """Make resident pages read-only, because they have copies in other places.

        Raises IllegalTransition for a page that the GPU does not have.
        """
        if pages & ~self.resident:
            raise self._illegal("cannot become read-only: the GPU does not have them", pages & ~self.resident)
        self.read_only |= pages

    def allow_stores(self, pages: PageSet) -> None:
        """Allow stores to pages again, because no other copies exist."""
        self.read_only &= ~pages

    def set_host_copy(self, pages: PageSet, *, valid: bool) -> None:
        """Set whether the host has valid copies of pages on GPUs; pages of no allocation have no copies."""
        self.host_copy = self.host_copy | pages & self.valid if valid else self.host_copy & ~pages

    def arrived_elsewhere(self, pages: PageSet) -> None:
        """Note that these pages are in another device's memory now."""
        self.populated |= pages
        self.elsewhere |= pages

    def left_elsewhere(self, remaining: int) -> None:
        """Note that pages have left other devices' memory; ``remaining``: bit set of the pages still there."""
        self.elsewhere = remaining & self.populated

    # the host

    def touched_by_host(self, pages: PageSet) -> None:
        """Note that the host has touched pages and can translate them."""
        self.populated |= pages
        self.host_mapped |= pages

    def make_on_host(self, pages: PageSet, per_block: int) -> int:
        """Make host memory for pages; if the block has none yet, for all its `per_block` pages. Return the new ones."""
        whole = (1 << per_block) - 1
        there = self.on_host_made | self.host_mapped | self.dma_mapped
        new = whole if self.valid == whole and not there else pages & ~there
        self.on_host_made |= new
        return new

    def map_on_host(self, pages: PageSet) -> None:
        """Note that the host can translate pages that have come back to it."""
        self.host_mapped |= pages

    def unmap_on_host(self, pages: PageSet) -> None:
        """Remove the host's translations of pages, because the pages migrate."""
        self.host_mapped &= ~pages

    def map_for_copies(self, pages: PageSet) -> int:
        """Let copy engines reach the host's memory for pages; return the bit set of those not reachable before."""
        fresh = pages & ~self.dma_mapped
        self.dma_mapped |= fresh
        return fresh

    def use_in_place(self, pages: PageSet) -> None:
        """Mark pages as system-allocated (by malloc): the GPU reaches them in place, by the host's page table."""
        self.system |= pages

    # advice (cuMemAdvise)

    def prefer(self, where: Literal["host", "here", "elsewhere", "nowhere"], pages: PageSet) -> None:
        """Set the preferred location of pages: the host, this GPU (``here``), another GPU (``elsewhere``), or none."""
        self.prefers_host = self.prefers_host | pages if where == "host" else self.prefers_host & ~pages
        self.prefers_here = self.prefers_here | pages if where == "here" else self.prefers_here & ~pages

    def set_accessed_by(self, pages: PageSet, advised: bool) -> None:
        """Set (``advised``) or reset the advice that the GPU should always be able to translate pages."""
        self.accessed_by = self.accessed_by | pages if advised else self.accessed_by & ~pages

    def set_read_mostly(self, pages: PageSet, advised: bool) -> None:
        """Set (``advised``) or reset the advice read-mostly: a processor that reads pages gets a copy of its own."""
        self.read_mostly = self.read_mostly | pages if advised else self.read_mostly & ~pages

    # errors

    def broken(self) -> list[str]:
        """Describe the rules that the block's state breaks, one text each; empty unless the emulator is wrong."""
        at_peers = list(self.at_peers.values())
        united = 0
        for there in at_peers:
            united |= there
        held = 0
        for pages, _ in self.users.values():
            held |= pages
        rules = {
            "a page is translated to one place": not self.resident & self.remote,
            "the GPU translates only pages that somebody has touched": not (self.resident | self.remote)
            & ~self.populated,
            "only pages in the GPU's memory are read-only": not self.read_only & ~self.resident,
            "only pages that are mapped over a link lie at peers": not united & ~self.remote,
            "a page lies at one peer": sum(there.bit_count() for there in at_peers) == united.bit_count(),
            "pages of other devices were touched": not self.elsewhere & ~self.populated,
            "the host has copies of pages of allocations only": not self.host_copy & ~self.valid,
            "a page prefers one place": not self.prefers_host & self.prefers_here,
            "pages of allocations are valid": not held & ~self.valid,
        }
        return [rule for rule, holds in rules.items() if not holds]

    def _illegal(self, what: str, pages: PageSet) -> IllegalTransition:
        """Return the error for a transition that the state of pages does not allow, with the block's story."""
        sets = ("valid", "populated", "resident", "remote", "elsewhere", "read_only", "host_copy")
        state = "; ".join(f"{name} {_shown(getattr(self, name))}" for name in sets)
        before = ", then ".join(
            f"{name} of {_shown(those)}" for name, those in filter(None, (self._before, self._last))
        )
        return IllegalTransition(
            f"{self.story()}: block {self.index:#x}: pages {_shown(pages)} {what}.\n"
            f"State: {state}.\nBefore that: {before or 'nothing was mapped'}."
        )


def _shown(pages: PageSet) -> str:
    """Return a set of pages as ranges, such as ``0-3, 7``."""
    return ", ".join(str(low) if high == low + 1 else f"{low}-{high - 1}" for low, high in runs(pages)) or "none"


class RootChunks:
    """The blocks that have device memory, a root chunk of 2 MiB each (``uvm_gpu_root_chunk_t``), in two orders.

    One is the order of the last faults, as the driver keeps it (the list ``va_block_used`` of ``uvm_pmm_gpu.c``). The
    other, in which blocks got their memory, exists for eviction policies that use it.
    """

    def __init__(self) -> None:
        self._by_fault: OrderedDict[int, ManagedBlock] = OrderedDict()
        self._by_arrival: dict[int, ManagedBlock] = {}
        self.by_last_fault: Mapping[int, ManagedBlock] = MappingProxyType(self._by_fault)
        """Blocks by index, the one whose last fault is longest ago first."""
        self.by_arrival: Mapping[int, ManagedBlock] = MappingProxyType(self._by_arrival)
        """Blocks by index, the one that has had its memory longest first."""

    def __contains__(self, index: int) -> bool:
        return index in self._by_arrival

    def __iter__(self) -> Iterator[int]:
        return iter(self._by_fault)

    def __len__(self) -> int:
        return len(self._by_arrival)

    def add(self, block: ManagedBlock) -> None:
        """Note that a block has got device memory; it counts as the latest to fault."""
        self._by_fault[block.index] = self._by_arrival[block.index] = block

    def remove(self, block: ManagedBlock) -> bool:
        """Note that a block has lost its device memory; return whether it had any."""
        self._by_fault.pop(block.index, None)
        return self._by_arrival.pop(block.index, None) is not None

    def faulted(self, index: int) -> None:
        """Make a block the latest to fault, if it has memory (``uvm_pmm_gpu_mark_root_chunk_used``)."""
        if index in self._by_fault:
            self._by_fault.move_to_end(index)


@attrs.define(eq=False)
class WatchedPages:
    """Counts the pages in [low, high) that the GPU cannot translate: all (`missing`), and per 512 blocks (`counts`)."""

    low: int
    high: int
    stretches: list[tuple[int, int, int]]
    """The parts of the range in each span (512 blocks): (number of the span, first and last page within it)."""
    counts: list[int]
    missing: int


@attrs.frozen(eq=False)
class Picks:
    """Some pages of a range of memory: ``pages[k]`` is the bit set for block ``first + k``; ``count`` is the total."""

    first: int
    pages: list[int]
    count: int
