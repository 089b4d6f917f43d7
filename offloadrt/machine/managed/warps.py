"""The warps of a launch in managed memory: each goes through its own pages, and waits at the first that is missing.

A sweep (``sweep.py``) comes to its pages in the order of the iterations.  Threads that walk through parts of an array
of their own, and those that data send anywhere, do not: all resident warps are in different places, and a page that
comes lets go on only those that wait for it.  Here the pages of each warp are found by evaluating the kernel's source
(``kernels/element_traces.py``), exactly where indices have numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import Launch
from offloadrt.kernels.element_traces import ElementTrace, Visits
from offloadrt.machine.managed.block import PageSets
from offloadrt.machine.managed.pages import ManagedPages, Translations

Whole = NDArray[np.int64]

_LOOKED_AT = 1 << 16
"""Elements of an index array from which it is told whether it is the one of an earlier launch."""
WARP = 32
"""Threads that execute an instruction together."""
_AHEAD = 128
"""Pages of a warp that are looked at together."""
_MOST_REPORTED = 1024
"""Pages that a launch reports after a replay: several batches. The next replay has it report what is left."""


@attrs.frozen(eq=False)
class AddressTrace:
    """What a launch's source says of its accesses to managed memory."""

    elements: ElementTrace
    arguments: Mapping[str, object]
    """The arguments of the launch by the names of their parameters."""
    places: Mapping[str, tuple[int, int]]
    """The address of each array in managed memory, and the bytes of its elements."""
    view: Callable[[Any], Any]
    """Returns what the kernel sees of an argument, at the time of the call."""

    def visits(self, iterations: Whole, grain: int) -> tuple[list[Visits], int]:
        """Return what some iterations come to (``ElementTrace.visits``), by the numbers that arrays hold now."""
        return attrs.evolve(self.elements, arguments=self._values(), grain=grain).visits(iterations)

    def _values(self) -> dict[str, Any]:
        return {
            name: self.view(self.arguments[name]) if isinstance(known, np.ndarray) else known
            for name, known in self.elements.arguments.items()
        }

    def measured(self, launch: Launch, resident: int, warp: int, sector: int, cache: float) -> Launch:
        """Return a launch with where its elements lie, by the numbers that its index arrays hold now."""
        values, analysis = self._values(), self.elements.analysis
        numbers = [
            (name, value.shape, zlib.crc32(value.reshape(-1)[:: 1 + value.size // _LOOKED_AT].tobytes()))
            if isinstance(value, np.ndarray) else value for name, value in values.items()
        ]  # fmt: skip
        asked = resident, warp, sector, cache, *numbers
        if (places := analysis.places.get(asked)) is None:
            elements = attrs.evolve(self.elements, arguments=values, grain=1)
            places = analysis.places[asked] = elements.places(resident, warp, sector, cache)
        return launch.at(places)


@attrs.frozen(eq=False)
class ResidentWarps:
    """Which threads of a launch are resident at a time: those of each group of teams, one after the other."""

    trace: AddressTrace
    launch: Launch
    sms: int
    sharers: int
    """SMs that share a uTLB."""
    outstanding: int
    """Faults that a uTLB holds back."""
    groups: int
    reports: float
    """How often a page is reported, at most, for which warps on several SMs wait."""

    def window(self, group: int, pages: ManagedPages) -> Warps | None:
        """Find the pages of the warps of a group of teams, each in the order in which it comes to them.

        Returns None if no page of the group is missing: most groups find that others have brought theirs.
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
    """How far the warps of one window have come.

    What the lanes of a warp come to at one moment is a *request*.  A uTLB takes the requests of its warps in the order
    in which they are made.  From the first fault on it takes no new ones; those that are under way then either find
    their pages or are held back, as many as it has room for.  It goes on when none is held back any more
    (L. Dunning et al., "Replaying memory transactions while resolving memory access faults", US patent 9575892).  So a
    page that is there waits behind one that is not, and may be gone when its turn comes.
    """

    _pages: Whole
    """The pages that they come to, one warp after the other, each in its own order."""
    _stores: NDArray[np.bool_]
    _requests: Whole
    """The request that each of these entries belongs to; they are counted through all warps."""
    _starts: Whole
    """The first entry of each request, and the end of the last one."""
    _next: Whole
    """The request of each warp that it has not got past."""
    _ends: Whole
    _tlb: Whole
    _order: Whole
    """The place of each warp among those that make their requests at the same time."""
    _room: int
    """Pages that a uTLB holds requests back for."""
    _since: Whole = attrs.field(init=False)
    """When each warp has made its request: in which turn of its uTLB."""
    _done: NDArray[np.bool_] = attrs.field(init=False)
    """Entries that have found their page while others of their request have not."""
    _held: Whole = attrs.field(init=False, factory=lambda: np.zeros(0, np.int64))
    """Entries that are held back, in the order in which each uTLB reports them."""
    _holders: Whole = attrs.field(init=False, factory=lambda: np.zeros(0, np.int64))
    """The warp of each of them."""
    _look: int = attrs.field(init=False)
    """Entries of a warp that are looked at together: those of its next requests, of one at least."""

    def __attrs_post_init__(self) -> None:
        """Let all warps make their first requests."""
        self._since = np.zeros(self._next.size, np.int64)
        self._done = np.zeros(self._pages.size, np.bool_)
        self._look = max(_AHEAD, int(np.diff(self._starts).max(initial=0)))

    def go_on(self, pages: ManagedPages, served: Mapping[int, int]) -> None:
        """Let each uTLB that holds nothing back any more take requests up to the next page that is missing.

        served: pages by block that have come since it waited; they count as touched, even when they are gone again
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
        """Let go what is held back for pages that are there, or were."""
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
        """Tell of each of some entries whether its page is missing, and was when its request was made."""
        missing = _missing(pages.table_for(False), pages.table_for(True), self._pages[entries], self._stores[entries])
        return missing & ~self._done[entries]

    def _first_missing(self, pages: ManagedPages, warps: Whole) -> tuple[Whole, NDArray[np.bool_]]:
        """Return for each of some warps the first request with a missing page, and whether it is known to be one.

        Of those that have none, up to where they have been looked at, it is the request to look at next.
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
        """Hold back the requests that some warps make in one turn of their uTLBs, of which ``stops`` miss pages.

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
        """Return the pages that requests are held back for in the order of their reports, their entries, and stores'.

        reports: entries of one page, at most, for which several uTLBs wait
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
    """Return each of some numbers once, ascending; ``numpy.unique`` takes three times as long for many."""
    numbers.sort()
    first = np.ones(numbers.size, np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=first[1:])
    return numbers[first]


def _missing(loads: Translations, stores: Translations, page: Whole, stored: NDArray[np.bool_]) -> NDArray[np.bool_]:
    misses = loads.unmapped_among(page)
    return misses if stores is loads else np.where(stored, stores.unmapped_among(page), misses)


def _in_order(numbers: Whole, per_block: int) -> PageSets:
    """Return different pages as sets by block, in their order as far as the pages of one set ascend."""
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
