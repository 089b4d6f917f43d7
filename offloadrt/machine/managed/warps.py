"""The warps of a launch in managed memory: each accesses its own pages, and waits at the first missing one.

A sweep (``sweep.py``) accesses its pages in the order of the iterations. Threads that walk through their own parts of
an array, and threads whose positions depend on data, do not: all resident warps are at different positions, and a page
that arrives resumes only the warps that wait for it. This module finds the pages of each warp by evaluating the
kernel's source (``kernels/element_traces.py``), exactly where indices have numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import Launch
from offloadrt.kernels.costs import launch_key
from offloadrt.kernels.element_traces import ElementTrace, Visits
from offloadrt.machine.managed.block import PageSets
from offloadrt.machine.managed.pages import ManagedPages, Translations

Whole = NDArray[np.int64]

_LOOKED_AT = 1 << 16
"""Largest number of elements of an index array that are hashed to recognize the values of an earlier launch."""
WARP = 32
"""Threads that execute an instruction together."""
_AHEAD = 128
"""Number of pages of a warp that are examined together."""
_MOST_REPORTED = 1024
"""Largest number of pages that a launch reports after a replay: several batches. The next replay reports the rest."""


@attrs.frozen(eq=False)
class AddressTrace:
    """Finds the managed-memory addresses that a launch accesses; `elements` finds the accessed array elements."""

    elements: ElementTrace
    arguments: Mapping[str, object]
    """The arguments of the launch, by parameter name."""
    places: Mapping[str, tuple[int, int]]
    """For each array in managed memory, its address and the bytes of an element."""
    view: Callable[[Any], Any]
    """Returns what the kernel sees of an argument at the time of the call."""

    def visits(self, iterations: Whole, grain: int) -> tuple[list[Visits], int]:
        """Return the accesses of these iterations, to units of `grain` bytes, and how many time steps they take."""
        return attrs.evolve(self.elements, arguments=self._values(), grain=grain).visits(iterations)

    def _values(self) -> dict[str, Any]:
        return {
            name: self.view(self.arguments[name]) if isinstance(known, np.ndarray) else known
            for name, known in self.elements.arguments.items()
        }

    def measured(self, launch: Launch, resident: int, warp: int, sector: int, cache: float) -> Launch:
        """Return the launch with the memory sectors that its accesses touch, given the present values of index arrays.

        resident, warp: threads at once, and in a warp. sector, cache: bytes of a memory sector, and of the cache.
        """
        values, analysis = self._values(), self.elements.analysis
        digests = [
            zlib.crc32(value.reshape(-1)[:: 1 + value.size // _LOOKED_AT].tobytes())
            for value in values.values() if isinstance(value, np.ndarray)
        ]  # fmt: skip
        asked = resident, warp, sector, cache, self.elements.wanted, launch_key([*values.values()]), *digests
        if (places := analysis.places.get(asked)) is None:
            elements = attrs.evolve(self.elements, arguments=values, grain=1)
            places = analysis.places[asked] = elements.places(resident, warp, sector, cache)
        return launch.at(places)


@attrs.frozen(eq=False)
class ResidentWarps:
    """Finds the pages that a launch's warps access on ``sms`` SMs; the teams run in ``groups``, one after another."""

    trace: AddressTrace
    launch: Launch
    sms: int
    sharers: int
    """Number of SMs that share a uTLB (the first-level table of translations)."""
    outstanding: int
    """Number of faulting accesses that a uTLB can hold back."""
    groups: int
    reports: float
    """How often the GPU reports a page, at most, if warps on several SMs wait for it."""

    def window(self, group: int, pages: ManagedPages) -> Warps | None:
        """Find the pages that the warps of a group of teams access, in the order of each warp's accesses.

        Returns None if no page of the group is missing: for most groups, others have brought the pages.
        """
        launch, teams = self.launch, self.launch.teams
        first, last = (teams * each // self.groups for each in (group, group + 1))
        iterations = self._iterations(first, last)
        if (together := self.trace.elements.together) > 1:
            iterations = iterations[iterations % together == 0]
        visits, moments = self.trace.visits(iterations, pages.page_size)
        places, size = self.trace.places, pages.page_size
        met = [(places[visit.array][0] + visit.elements * places[visit.array][1]) // size for visit in visits]
        if not any(
            pages.table_for(each.stores).unmapped_among(page).any() for each, page in zip(visits, met, strict=True)
        ):
            return None
        if launch.strided:
            rounds, thread = np.divmod(iterations, teams * launch.threads)
            team, thread = np.divmod(thread, launch.threads)
        else:
            team, within = np.divmod(iterations, -(-launch.iterations // teams))
            rounds, thread = np.divmod(within, launch.threads)
        warps_a_team = -(-launch.threads // WARP)
        warp = (team - first) * warps_a_team + thread // WARP
        entries: list[Whole] = []
        low = min([address // pages.page_size for address, _ in self.trace.places.values()])
        count = (last - first) * warps_a_team
        for visit, page in zip(visits, met, strict=True):
            when = rounds[visit.lanes] * moments + visit.moments
            entries.append(np.stack([warp[visit.lanes], when, (page - low) * 2 + visit.stores]))
        of_warp, when, page = np.concatenate(entries, axis=1)
        # Threads of a warp that meet one page at one moment meet it once. One sort of whole numbers does both.
        late, far = int(when.max(initial=0)) + 1, int(page.max(initial=0)) + 1
        keys = _different((of_warp * late + when) * far + page)
        of_entries, page = np.divmod(keys, far)
        new = np.diff(of_entries, prepend=-1) != 0
        (begins,), requests = new.nonzero(), np.cumsum(new, dtype=np.int64) - 1
        ends = np.searchsorted(of_entries[begins], np.arange(1, count + 1) * late)
        firsts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        sm = (np.arange(count) // warps_a_team + first) % self.sms
        turn = np.arange(count) // warps_a_team // self.sms * warps_a_team + np.arange(count) % warps_a_team
        starts, order, stores = np.append(begins, of_entries.size), turn * self.sms + sm, page % 2 == 1
        tlb, room = sm // self.sharers, self.outstanding
        return Warps(page // 2 + low, stores, requests, starts, firsts, ends, tlb, order, room)

    def _iterations(self, first: int, last: int) -> Whole:
        """Return the iterations of the teams [first, last)."""
        launch = self.launch
        if not launch.strided:
            each = -(-launch.iterations // launch.teams)
            return np.arange(min(first * each, launch.iterations), min(last * each, launch.iterations))
        grid, low, high = launch.teams * launch.threads, first * launch.threads, last * launch.threads
        found = np.concatenate([np.arange(begin + low, begin + high) for begin in range(0, launch.iterations, grid)])
        return found[found < launch.iterations]


@attrs.define(eq=False)
class Warps:
    """The progress of warps that are resident at one time: what each has accessed, and which requests are held back.

    The accesses of a warp's threads at one moment are a *request*. A uTLB, the first-level table of translations of
    some SMs, takes requests in order. From the first fault on, it takes no new ones. Earlier ones find their pages, or
    are held back, as far as it has room. The uTLB goes on when no request is held back any more (L. Dunning et al.,
    "Replaying memory transactions while resolving memory access faults", US patent 9575892). So a request for a present
    page may wait behind one for a missing page, and the page may be gone when its turn comes.
    """

    _pages: Whole
    """The pages that the warps access, one warp after another, each in its own order."""
    _stores: NDArray[np.bool_]  # whether each of these entries is a store
    _requests: Whole
    """The request to which each entry belongs; requests are numbered through all warps."""
    _starts: Whole
    """The first entry of each request, and the end of the last request."""
    _next: Whole
    """The first request of each warp that has not been completed."""
    _ends: Whole  # the request after the last one of each warp
    _tlb: Whole  # the uTLB of each warp
    _order: Whole
    """The rank of each warp among those that make their requests at the same time."""
    _room: int
    """Number of pages for which a uTLB holds requests back."""
    _since: Whole = attrs.field(init=False)
    """The turn of its uTLB in which each warp made the request that is its next to complete."""
    _done: NDArray[np.bool_] = attrs.field(init=False)
    """Entries whose page was present while others of their request were missing."""
    _held: Whole = attrs.field(init=False, factory=lambda: np.zeros(0, np.int64))
    """Entries that are held back, in the order in which each uTLB reports them."""
    _holders: Whole = attrs.field(init=False, factory=lambda: np.zeros(0, np.int64))
    """The warp of each entry that is held back."""
    _look: int = attrs.field(init=False)
    """Number of entries of a warp that are examined together: those of its next requests, at least one request."""

    def __attrs_post_init__(self) -> None:
        """Begin with the first request of each warp, of which nothing has been examined."""
        self._since = np.zeros(self._next.size, np.int64)
        self._done = np.zeros(self._pages.size, np.bool_)
        self._look = max(_AHEAD, int(np.diff(self._starts).max(initial=0)))

    def go_on(self, pages: ManagedPages, served: Mapping[int, int]) -> None:
        """Let each uTLB that holds no request back take requests of its warps until one misses a page.

        pages: tells which pages are present. served: by block, the bit set of pages that came since requests were held
        back. A request held back for such a page is complete, even if the page is gone again.
        """
        self._release(pages, served)
        holds = np.zeros(int(self._tlb.max(initial=0)) + 1, np.bool_)
        holds[self._tlb[self._holders]] = True
        active = np.flatnonzero((self._next < self._ends) & ~holds[self._tlb])
        while active.size:
            tlb, ends = self._tlb[active], self._ends[active]
            at, stops = self._first_missing(pages, active)
            steps = np.full(holds.size, 1 << 62)
            np.minimum.at(steps, tlb, np.where(at < ends, at - self._next[active], 1 << 62))
            turn = np.minimum(self._next[active] + steps[tlb], ends)
            stops &= at == turn
            self._since[active] += turn - self._next[active]
            self._next[active] = turn
            holds[:] = False
            holds[tlb[stops]] = True
            stopped = holds[tlb] & (turn < ends)
            self._hold(pages, active[stopped], stops[stopped])
            active = active[~holds[tlb] & (turn < ends)]

    def _release(self, pages: ManagedPages, served: Mapping[int, int]) -> None:
        """Release the held entries whose pages are present now, or have been since (``served``: pages by block)."""
        waits = self._misses(pages, self._held)
        if served and self._held.size:
            index, place = np.divmod(self._pages[self._held], pages.per_block)
            blocks, width = sorted(served), -(-pages.per_block // 8)
            came = np.frombuffer(b"".join([served[block].to_bytes(width, "little") for block in blocks]), np.uint8)
            row = np.minimum(np.searchsorted(blocks, index), len(blocks) - 1)
            in_block = np.asarray(blocks)[row] == index
            waits &= ~(in_block & (came[row * width + place // 8] >> place % 8 & 1 > 0))
        self._done[self._held[~waits]] = True
        self._held, self._holders = self._held[waits], self._holders[waits]

    def _misses(self, pages: ManagedPages, entries: Whole) -> NDArray[np.bool_]:
        """Tell for each entry whether its page is missing now and was missing when its request was made."""
        missing = _missing(pages.table_for(False), pages.table_for(True), self._pages[entries], self._stores[entries])
        return missing & ~self._done[entries]

    def _first_missing(self, pages: ManagedPages, warps: Whole) -> tuple[Whole, NDArray[np.bool_]]:
        """Return, for each warp, its first request with a missing page, and whether that page is known to be missing.

        For a warp without one, as far as it has been examined, the result is the next request to examine.
        """
        first, end = self._starts[self._next[warps]], self._starts[self._ends[warps]]
        places = first[:, None] + np.arange(min(self._look, int((end - first).max(initial=1))))
        there = places < end[:, None]
        places = np.where(there, places, first[:, None])
        misses = there & self._misses(pages, places)
        stops: NDArray[np.bool_] = np.any(misses, axis=1)
        last = first + places.shape[1]
        beyond = np.where(last < end, self._requests[np.minimum(last, end - 1)], self._ends[warps])
        found = self._requests[places[np.arange(warps.size), misses.argmax(axis=1)]]
        return np.where(stops, found, beyond), stops

    def _hold(self, pages: ManagedPages, warps: Whole, stops: NDArray[np.bool_]) -> None:
        """Hold back the requests of some warps in one turn of their uTLBs; ``stops`` tells which miss pages.

        Where a uTLB has no room for all, the requests behind are not made yet.
        """
        order = np.lexsort((self._order[warps], self._since[warps], self._tlb[warps]))
        warps, stops = warps[order], stops[order]
        first, size = self._starts[self._next[warps]], np.diff(self._starts)[self._next[warps]]
        which, begins = np.repeat(np.arange(warps.size), size), np.cumsum(size) - size
        entries = np.arange(which.size) + np.repeat(first - begins, size)
        misses = self._misses(pages, entries)
        (late,) = misses.nonzero()
        tlb, missed = self._tlb[warps[which[late]]], entries[late]
        _, new = np.unique(tlb * (int(self._pages.max()) + 1) + self._pages[missed], return_index=True)
        count = np.cumsum(np.isin(np.arange(late.size), new))
        before = np.searchsorted(tlb, tlb)
        held = count - count[before] < self._room
        self._held = np.concatenate([self._held, missed[held]])
        self._holders = np.concatenate([self._holders, warps[which[late[held]]]])
        # What has found its page is over, but for that behind the first for which there is no room.
        full = np.full(int(self._tlb.max()) + 1, which.size)
        np.minimum.at(full, tlb[~held], late[~held])
        issued = np.arange(which.size) < full[self._tlb[warps[which]]]
        self._done[entries[issued & ~misses]] = True
        goes_on = warps[~stops & (begins < full[self._tlb[warps]])]
        self._next[goes_on] += 1
        self._since[goes_on] += 1

    def missing(self, pages: ManagedPages, reports: float) -> tuple[PageSets, int, dict[int, int]]:
        """Return (missing pages as reported, number of fault entries, bit sets, by block, of those that stores miss).

        These are the pages for which warps' requests are held back now. reports: several uTLBs that wait for one page
        make at most this number of fault entries for it.
        """
        tlb = self._tlb[self._holders]
        order = np.argsort(tlb, kind="stable")
        place = np.empty(order.size, np.int64)
        place[order] = np.arange(order.size) - np.searchsorted(tlb[order], tlb[order])
        order = np.lexsort((tlb, place))
        tlb, page, stored = tlb[order], self._pages[self._held[order]], self._stores[self._held[order]]
        unique, first, which = np.unique(page, return_index=True, return_inverse=True)
        few, tlbs = np.argsort(first)[:_MOST_REPORTED], int(tlb.max(initial=0)) + 1
        reported = np.minimum(np.bincount(_different(which * tlbs + tlb) // tlbs), reports)
        by_block: dict[int, int] = {}
        for number in np.unique(page[stored]).tolist() if pages.for_stores is not None else ():
            index, place_in = divmod(number, pages.per_block)
            by_block[index] = by_block.get(index, 0) | 1 << place_in
        return _in_order(unique[few], pages.per_block), round(float(reported[few].sum())), by_block


def _different(numbers: Whole) -> Whole:
    """Return the distinct numbers in ascending order; ``numpy.unique`` takes three times as long for many numbers."""
    numbers.sort()
    first = np.ones(numbers.size, np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=first[1:])
    return numbers[first]


def _missing(loads: Translations, stores: Translations, page: Whole, stored: NDArray[np.bool_]) -> NDArray[np.bool_]:
    misses = loads.unmapped_among(page)
    return misses if stores is loads else np.where(stored, stores.unmapped_among(page), misses)


def _in_order(numbers: Whole, per_block: int) -> PageSets:
    """Return distinct pages as sets by block, in their order as far as the pages of one set ascend."""
    sets: list[tuple[int, int]] = []
    before, index, those = -1, -1, 0
    for block, place in zip((numbers // per_block).tolist(), (numbers % per_block).tolist(), strict=True):
        if block == index and place > before:
            those |= 1 << place
        else:
            if those:
                sets.append((index, those))
            index, those = block, 1 << place
        before = place
    if those:
        sets.append((index, those))
    return sets
