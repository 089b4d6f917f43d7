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
from offloadrt.machine.managed.block import PageSets, runs
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
_MOST_WARPS = 512
"""Warps that report theirs after a replay, those of all SMs in turn."""


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
        ends = np.searchsorted(of_entries, np.arange(1, count + 1) * late)
        begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        sm = (np.arange(count) // warps_a_team + first) % self.sms
        turn = np.arange(count) // warps_a_team // self.sms * warps_a_team + np.arange(count) % warps_a_team
        waits = np.lexsort((sm, turn))
        waits = waits[begins[waits] < ends[waits]]
        return Warps(page // 2 + low, of_entries, page % 2 == 1, begins, ends, sm, turn, sm // self.sharers, waits)

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
    """How far the warps of one window have come."""

    _pages: Whole
    """The pages that they come to, one warp after the other, each in its own order."""
    _moments: Whole
    """The moments at which they come to them, ascending: those of each warp are its own."""
    _stores: NDArray[np.bool_]
    _next: Whole
    """The entry of each warp that it has not got past."""
    _ends: Whole
    _sm: Whole
    """The SM of each warp."""
    _turn: Whole
    """Its place among the warps of its SM."""
    _tlb: Whole
    _waiting: Whole
    """The warps that wait for a page, or have not begun, in the order in which their SMs report."""

    def go_on(self, pages: ManagedPages, served: Mapping[int, int]) -> None:
        """Let each warp that waits go on to the next page that is missing.

        served: pages by block that have come since it waited; they count as touched, even when they are gone again
        """
        loads, stores = pages.table_for(False), pages.table_for(True)
        front, base = self._next[self._waiting], pages.per_block
        again = ~_missing(loads, stores, self._pages[front], self._stores[front])
        came = np.zeros(0, np.int64)
        if served:
            stretches = [(index * base, *stretch) for index, those in served.items() for stretch in runs(those)]
            came = np.concatenate([came, *(first + np.arange(low, high) for first, low, high in stretches)])
            blocks = np.fromiter(served, np.int64, len(served))
            again |= np.isin(self._pages[front] // base, blocks)
        active = self._waiting[again]
        while active.size:
            at = self._next[active]
            places, there = self._next_of(at, self._ends[active])
            page = self._pages[places]
            misses = there & _missing(loads, stores, page, self._stores[places])
            if came.size:
                together = np.nonzero(misses & (places < self._together_until(at)[:, None]))
                misses[together] = ~np.isin(page[together], came)
            stops = misses.any(axis=1)
            ahead = np.where(stops, misses.argmax(axis=1), _AHEAD)
            self._next[active] = np.minimum(at + ahead, self._ends[active])
            active = active[~stops & (self._next[active] < self._ends[active])]
        self._waiting = self._waiting[self._next[self._waiting] < self._ends[self._waiting]]

    def _next_of(self, at: Whole, ends: Whole) -> tuple[Whole, NDArray[np.bool_]]:
        """Return the entries from each of some on, a row each, and which of a row lie before its end."""
        places = at[:, None] + np.arange(min(_AHEAD, int((ends - at).max(initial=1))))
        there = places < ends[:, None]
        return np.where(there, places, at[:, None]), there

    def _together_until(self, at: Whole) -> Whole:
        """Return the ends of the entries that warps come to at one moment with some."""
        return np.searchsorted(self._moments, self._moments[at], side="right")

    def missing(self, pages: ManagedPages, reports: float) -> tuple[PageSets, int, dict[int, int]]:
        """Return the pages that warps wait for in the order of their reports, their entries, and those of stores.

        reports: entries of one page, at most, for which several uTLBs wait
        """
        loads, stores = pages.table_for(False), pages.table_for(True)
        warps = self._waiting[:_MOST_WARPS]
        at = self._next[warps]
        places, there = self._next_of(at, self._together_until(at))
        there &= _missing(loads, stores, self._pages[places], self._stores[places])
        row, column = np.nonzero(there)
        sm, sms = self._sm[warps][row], int(self._sm.max(initial=0)) + 1
        order = np.argsort((self._turn[warps][row] * _AHEAD + column) * sms + sm, kind="stable")
        row, column = row[order], column[order]
        page, stored = self._pages[places[row, column]], self._stores[places[row, column]]
        unique, first, which = np.unique(page, return_index=True, return_inverse=True)
        few, tlbs = np.argsort(first)[:_MOST_REPORTED], int(self._tlb.max(initial=0)) + 1
        reported = np.minimum(np.bincount(_different(which * tlbs + self._tlb[warps][row]) // tlbs), reports)
        by_block: dict[int, int] = {}
        for number in np.unique(page[stored]).tolist() if pages.for_stores is not None else ():
            index, place = divmod(number, pages.per_block)
            by_block[index] = by_block.get(index, 0) | 1 << place
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
