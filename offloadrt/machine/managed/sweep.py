"""How one kernel proceeds through managed memory: in *windows* of resident threads, one after another.

Resident threads execute a part of the kernel's iterations, its *window*. Of a swept argument they touch the part that
belongs to these iterations. Of an argument accessed in order with gaps, they touch some pages of that part, which are
drawn when the kernel starts. Of a scattered argument, they touch random pages. A window issues its accesses level by
level: each level waits for the loads of the level before. Between windows with missing pages, nothing depends on pages,
so a kernel runs *to its next fault* in one step.

Teams without dependent accesses end after their first accesses and make room for the next teams, where these find their
pages. The accesses after the first level then belong to several windows.

Where resident thread blocks do not have consecutive iterations (``WindowOrder``), a window has those of its blocks. A
store does not block its thread, which goes on to its next iteration; but a block ends only when its stores have ended.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import attrs
import numpy as np

from offloadrt.kernels import Launch
from offloadrt.machine.managed.block import PageSets, Picks, WatchedPages, by_block, how_many, in_turns, joined, merged
from offloadrt.machine.managed.pages import LOCAL, REMOTE, ManagedPages, Translations
from offloadrt.machine.managed.warps import ResidentWarps, Warps


@attrs.frozen
class ByteRuns:
    """Runs of bytes (stretches of neighbours) within a range of memory: their `count`, length and alignment."""

    count: float
    run: float
    """Bytes of each run, on average a multiple of the alignment."""
    alignment: int = 1
    """Each run begins at a multiple of this number of bytes."""
    even: bool = False
    """Whether the runs are evenly spaced; otherwise they lie at random in the range."""
    among: float = math.inf
    """Number of evenly spaced positions from which runs are chosen; infinite: runs may begin anywhere, even twice."""

    def moved(self, size: int) -> float:
        """Return the bytes of all pieces (pages or sectors of ``size`` bytes) that the runs touch, run by run.

        A run begins within a piece at a multiple of the common divisor of alignment and size. A run that is aligned to
        its own length lies in one piece.
        """
        grain = math.gcd(self.alignment, size)
        run = -(-self.run // grain) * grain if self.even else self.run
        return self.count * (size + max(run - grain, 0.0))

    def left_out(self, size: int, nbytes: float) -> float:
        """Return the fraction of the pieces (of ``size`` bytes) in ``nbytes`` bytes that no random run touches."""
        if not self.count:
            return 1.0
        met = self.moved(size) / nbytes
        if math.isinf(self.among):
            return math.exp(-met)
        chosen = min(self.count / self.among, 1.0)
        return 1.0 - met if met < chosen else float((1.0 - chosen) ** (met / chosen))


@attrs.frozen
class ManagedAccess:
    """The accesses of a kernel to one range of managed memory.

    A page migrates, or is mapped, as a whole. Over the link, only the sectors move that are read or written.
    """

    begin: int
    """Address of the range."""
    nbytes: int
    level: int = 0
    """Number of loads of other arrays, each dependent on the one before, that must precede the accesses."""
    scattered: float = 0.0
    """Number of random accesses of the whole launch; 0 for a range that is swept once, in order."""
    reads: tuple[ByteRuns, ...] | None = None
    """The runs that the kernel loads from memory; None: all that it touches."""
    writes: tuple[ByteRuns, ...] | None = None
    """The runs that the kernel stores."""
    picked: ByteRuns | None = None
    """The runs that a sweep with gaps touches, which determine its pages; None for a sweep without gaps."""
    stores: bool = attrs.field(init=False, eq=False, repr=False)
    """Whether the kernel stores to the range."""

    @stores.default
    def _any_writes(self) -> bool:
        return self.writes is None or any(runs.count for runs in self.writes)

    @property
    def visits(self) -> float:
        """Return how many separate runs of bytes a branch or data choose in the range; 0 if all of it is accessed."""
        return self.scattered or (self.picked.count if self.picked else 0.0)

    def part_of_pages(self, size: int) -> float:
        """Return the fraction of the range's pages, of ``size`` bytes, that the kernel touches in all."""
        if self.picked is None or not self.nbytes:
            return 1.0
        return 1.0 - self.picked.left_out(size, self.nbytes)

    def moved(self, touched: tuple[ByteRuns, ...] | None, sector: int) -> float:
        """Return the bytes of the sectors that the whole launch moves for ``touched``, its ``reads`` or ``writes``.

        Accesses in order move a sector once, even if several runs lie in it; each random access moves a sector.
        """
        if self.scattered:
            if touched is None:
                return self.scattered * sector
            return math.fsum([runs.moved(sector) for runs in touched])
        if touched is None:
            touched = (ByteRuns(1.0, self.nbytes, even=True),) if self.picked is None else (self.picked,)
        sectors = (-(-(self.begin + self.nbytes) // sector) - self.begin // sector) * sector
        evenly = math.fsum([runs.moved(sector) for runs in touched if runs.even]) / sectors
        at_random = math.prod([runs.left_out(sector, sectors) for runs in touched if not runs.even])
        left_out = max(1.0 - evenly, 0.0) * at_random
        return sectors * (1.0 - left_out)

    def request(self, touched: tuple[ByteRuns, ...] | None, sector: int, line: int) -> float:
        """Return the mean bytes of a request over the link: sectors in a cache ``line`` with ``touched`` bytes."""
        lines = self.moved(touched, line)
        return self.moved(touched, sector) / lines * line if lines else line


Accesses = tuple[ManagedAccess, ...]


@attrs.frozen
class GridStride:
    """The order of a grid-stride loop: a thread block stays resident for all ``rounds``, with one iteration in each.

    A *cell* is one iteration of the loop. A *window*, the unit of the kernel's progress, is what resident blocks do in
    a round. If they access more pages than their SMs can wait for, the window is divided into ``lots`` of blocks, since
    each SM first gets what its oldest blocks request. The grid has ``blocks`` blocks of ``threads`` threads.
    """

    blocks: int
    threads: int
    groups: int
    """Number of groups of blocks that are resident one after another."""
    rounds: int
    """Number of iterations of each thread."""
    total: int
    """Number of cells in all."""
    at_a_time: int
    """Number of blocks in a lot."""
    sms: int | None = None
    """Number of SMs if each block accesses several pages, which the SMs report in turns; None if blocks share pages."""

    @property
    def lots(self) -> int:
        """Return the number of lots (parts with separate windows) into which a group of resident blocks is divided."""
        return -(-self.blocks // (self.groups * self.at_a_time))

    @property
    def windows(self) -> int:
        """Return the number of windows (units of the kernel's progress): each lot of blocks has one in each round."""
        return self.groups * self.rounds * self.lots

    def cells(self, window: int) -> list[tuple[int, int]]:
        """Return a window's iterations as ranges [low, high): one for each block if `sms` is set, else one.

        A window is what the resident blocks, or a lot of them, do in one round of the loop. `sms` is set if the blocks'
        pages are to be reported in turns, which needs the range of each block.
        """
        blocks = self._blocks_of(window)
        edges = [blocks.start, blocks.stop] if self.sms is None else [*blocks, blocks.stop]
        places = [min(edge * self.threads, self.total) for edge in edges]
        return [(low, high) for low, high in itertools.pairwise(places) if low < high]

    def span(self, window: int) -> tuple[int, int]:
        """Return the first iteration of a window (part of the loop), and the iteration behind its last one."""
        blocks = self._blocks_of(window)
        return min(blocks.start * self.threads, self.total), min(blocks.stop * self.threads, self.total)

    def _blocks_of(self, window: int) -> range:
        """Return the blocks of a window, numbered through all rounds: block b of round r is ``r * blocks + b``."""
        rest, lot = divmod(window, self.lots)
        group, turn = divmod(rest, self.rounds)
        first, last = (self.blocks * one // self.groups for one in (group, group + 1))
        first += lot * self.at_a_time
        return range(turn * self.blocks + first, turn * self.blocks + min(last, first + self.at_a_time))

    def before(self, window: int) -> int | None:
        """Return the window (part of the loop) with the previous iteration of these threads; None if there is none."""
        return window - self.lots if self._turn(window) else None

    def ends(self, window: int) -> bool:
        """Tell whether a window (part of the loop) contains the last iteration of its threads."""
        return self._turn(window) == self.rounds - 1

    def _turn(self, window: int) -> int:
        return window // self.lots % self.rounds


@attrs.frozen
class Tiled:
    """The order of a two-dimensional grid of ``blocks`` thread blocks, which run in ``windows`` parts, one by one.

    A row has ``columns`` blocks of ``height`` × ``width`` threads; a window's blocks are resident at the same time.
    """

    blocks: int  # in the whole grid
    width: int
    height: int
    columns: int
    windows: int  # each has blocks that are resident at the same time
    sms: ClassVar[None] = None
    """None, because neighbouring blocks share pages (see `GridStride.sms`)."""

    @property
    def total(self) -> int:
        """Return the number of threads of the whole grid, each of which has one cell (iteration)."""
        return self.blocks * self.width * self.height

    def cells(self, window: int) -> list[tuple[int, int]]:
        """Return a window's threads (cells) as ranges [low, high) of thread numbers, one for each row that it has."""
        first, last = (self.blocks * one // self.windows for one in (window, window + 1))
        pitch, found = self.columns * self.width, list[tuple[int, int]]()
        for line in range(first // self.columns, -(-last // self.columns)):
            low = max(first - line * self.columns, 0) * self.width
            high = min(last - line * self.columns, self.columns) * self.width
            top = line * self.height * pitch
            if high - low == pitch:
                found.append((top, top + self.height * pitch))
            else:
                found += [(top + row * pitch + low, top + row * pitch + high) for row in range(self.height)]
        return found

    def span(self, window: int) -> tuple[int, int]:
        """Return the first thread (cell) of a window of the grid, and the thread behind its last one."""
        cells = self.cells(window)
        return (cells[0][0], cells[-1][1]) if cells else (0, 0)

    def before(self, window: int) -> None:
        """Return None, because each thread has one iteration."""

    def ends(self, window: int) -> bool:
        """Return True: each thread has one iteration, so that every window (group of threads) has its last one."""
        return True


WindowOrder = GridStride | Tiled


@attrs.frozen
class Residence:
    """Says what a device's SMs (`sms` of them) can hold of a launch at once: blocks, and pages that they wait for."""

    sms: int
    blocks: int
    """Number of blocks that are resident on one SM."""
    held_back: int
    """Bytes of the pages for which all SMs together can wait."""
    page: int
    """Bytes that the GPU reports with one fault."""


def order_of(launch: Launch, on: Residence, swept: Sequence[int]) -> WindowOrder | None:
    """Return the order in which a launch executes its iterations in windows; None for ascending order.

    A window is the threads that are resident at one time. on: what the SMs can hold. swept: for each array that is
    accessed in order, the bytes of its pages.
    """
    groups = -(-launch.teams // (on.sms * on.blocks))
    rounds = -(-launch.iterations // (launch.teams * launch.threads))
    shape = launch.teams, launch.threads, groups, rounds, launch.iterations
    total, most, pages = sum(swept), max(swept, default=0), on.page * launch.iterations
    order: WindowOrder | None = None
    if (tile := launch.tile) is not None:
        order = Tiled(launch.teams, tile.width, tile.height, tile.columns, groups)
    elif rounds > 1 and not launch.strided:
        return None
    elif launch.teams > 1 and most <= pages < most * launch.threads:
        # A thread comes to a page of an array at most, its block to several: the blocks that run at one time wait for
        # pages far apart.
        per_sm = on.held_back * launch.iterations // (on.sms * total * launch.threads)
        return GridStride(*shape, min(max(per_sm, 1), on.blocks) * on.sms, on.sms)
    elif rounds > 1:
        order = GridStride(*shape, -(-launch.teams // groups))
    if order is not None and order.windows * on.held_back < total:
        return None  # fewer blocks than are resident have pages to wait for: as if in the order of the iterations
    return order


_FEW = 4
"""Missing pages per draw up to which it is cheaper to test each missing page than to draw."""


@attrs.define(eq=False)
class RandomHits:
    """The random accesses to one range of memory: independent of one another, and equally many in each window.

    A window is the work of the threads that are resident at the same time.
    """

    per_window: float
    """Number of accesses in one window."""
    windows: int
    """Number of windows of the kernel."""
    watch: WatchedPages
    """Counts the missing pages of the range."""
    table: Translations
    """The translations that the accesses use: those for loads, or for stores."""
    _next: int = attrs.field(default=-1, init=False)
    """The window in which an access next meets a missing page; -1: not drawn yet."""
    _drawn: int = attrs.field(default=0, init=False)
    """Number of missing pages at the time of that draw."""

    def forget(self) -> None:
        """Drop the stored result of `next_window`, because pages have left the device since it was found."""
        self._next = -1

    def next_window(self, window: int, rng: np.random.Generator) -> int:
        """Return the first window (group of resident threads) from ``window`` on with an access to a missing page.

        The window is chosen at random, and again after pages have left the device. Where pages have come to the device
        since it was chosen, the window may be too early.
        """
        if self._next < window or self.watch.missing > self._drawn:
            self._drawn = self.watch.missing
            # Accesses at random are independent, so the windows up to the first hit are distributed geometrically.
            # Drawing the number of windows at once spares a draw for each window, and has the same distribution.
            chance = -math.expm1(-self._mean())
            self._next = window + int(rng.geometric(chance)) - 1 if chance > 0.0 else self.windows
        return self._next

    def met(self, window: int, end: int, pages: ManagedPages, rng: np.random.Generator) -> PageSets:
        """Return missing pages, chosen by `rng`, that accesses meet in windows (groups of threads) [window, end)."""
        hit = self.next_window(window, rng)
        if hit >= end:
            return ()
        self._next = -1
        mean = self._mean()
        if mean <= 0.0:
            return ()
        # The window of the hit has at least one such access, whose moment is drawn by inversion; behind it they come as
        # a Poisson process again.
        first = -math.log1p(rng.random() * math.expm1(-mean)) / mean
        draws = 1 + int(rng.poisson(mean * (end - hit - min(first, 1.0))))
        watch, translations = self.watch, self.table
        # Many missing pages: draw some of them. Few: ask each whether it is met. Its chance is the same either way.
        if watch.missing > _FEW * draws:
            return translations.draw_unmapped(watch, draws, rng)
        missing = translations.unmapped_numbers(watch.low, watch.high)
        if len(missing) > 1:
            part = -math.expm1(draws * math.log1p(-1.0 / len(missing)))
            drawn = zip(missing, rng.random(len(missing)).tolist(), strict=True)
            missing = [page for page, at in drawn if at < part] or [missing[int(rng.integers(len(missing)))]]
        return by_block(missing, pages.per_block)

    def _mean(self) -> float:
        """Return the average number of accesses of a window that meet a missing page; it is Poisson-distributed."""
        watch = self.watch
        return self.per_window * watch.missing / (watch.high - watch.low)


HOST = -1
"""The host's number among the devices."""
_ALL = 1.0 - 1e-6
"""Fraction of the pages from which on a sweep is assumed to touch all of them."""


@attrs.define(eq=False)
class ManagedSweep:
    """A kernel's progress over managed memory, in steps of up to ``step_windows`` of its ``windows``.

    A window is the work of the threads that are resident at the same time; a step ends where a page is missing.
    """

    accesses: Accesses
    windows: int
    step_windows: int
    levels: tuple[int, ...]
    """The levels of the kernel's accesses (numbers of loads that an address waits for), ascending, the first one 0."""
    at_level: dict[int, list[int]]
    """The indices of the accesses at each level."""
    outstanding: int
    """Largest number of entries that the uTLBs of the kernel's SMs hold back at the same time."""
    reports: list[float]
    """For each access, how often the GPU reports each page that the access misses."""
    of_warps: list[int]
    """For each access, how many pages a warp touches in it at one time."""
    ahead: int = 1
    """Number of windows whose later accesses run at the same time.

    Many teams end after their first accesses. This many windows together have as many teams with later accesses as the
    device holds at the same time.
    """
    at: int = 0
    """The window that the kernel is in, or enters next."""
    end: int = 1
    """The window after the last one that runs now: with `look_ahead`, later windows run at the same time."""
    level: int = 0
    """The level of the window that is checked next; the levels before had all pages when they were checked."""
    until: int = 0
    """The window at which the current step ends."""
    needed: dict[int, int] = attrs.field(factory=dict)
    """By block, the bit set of pages for which the kernel has raised faults."""
    in_order: PageSets = ()
    """The needed pages in the order in which the GPU reports them."""
    stored: dict[int, int] = attrs.field(factory=dict)
    """By block, the bit set of needed pages that stores access; empty where stores and loads share translations."""
    entries: int = 0
    """Number of entries in the fault buffer that the faults on the needed pages make."""
    remote: int = 0
    """Number of transfers over the link for which the current step still waits."""
    hits: list[RandomHits | None] = attrs.field(factory=list)
    """For each random access, its next hits on missing pages; None for a swept access."""
    picks: list[Picks | None] = attrs.field(factory=list)
    """For each access, the pages that it touches; None for all pages."""
    order: WindowOrder | None = None
    """The order in which thread blocks execute the iterations; None for ascending order."""
    resident: ResidentWarps | None = None
    """Finds the warps of a window and the pages of each; None where a window's iterations determine its pages."""
    warps: Warps | None = None
    """The warps of the current window; None where none of them misses a page."""

    @classmethod
    def of(
        cls,
        accesses: Accesses,
        windows: int,
        step_windows: int,
        ahead: int,
        outstanding: int,
        reports: list[float],
        of_warps: list[int],
        pages: ManagedPages,
        rng: np.random.Generator,
        order: WindowOrder | None = None,
        resident: ResidentWarps | None = None,
    ) -> ManagedSweep:
        """Return the progress of a kernel that starts, in `windows` (groups of threads that are resident together).

        step_windows: the most windows that a step spans. ahead: how many windows run together after their first
        accesses, when most teams have ended. outstanding: fault entries that the SMs' uTLBs hold back at one time.
        reports, of_warps: for each access, how often the GPU reports a missing page, and how many pages a warp touches
        at one time. rng: chooses the pages that conditions on data leave out. order: of the iterations; None:
        ascending. resident: finds each warp's pages.
        """
        levels = (0,) if resident else tuple(sorted({0, *(access.level for access in accesses)}))
        at_level = {
            level: [k for k, access in enumerate(accesses) if access.level == level and access.nbytes]
            for level in levels
        }
        sweep = cls(
            accesses, windows, step_windows, levels, at_level, outstanding, reports, of_warps, ahead, order=order
        )
        sweep.resident = resident
        if resident is not None:
            sweep.picks = [None for _ in accesses]
            sweep.hits = [None for _ in accesses]
            return sweep
        sweep.picks = [_picks(access, pages, rng) for access in accesses]
        sweep.hits = [
            _hits(access, windows, pages.table_for(access.stores), sweep._all(pages, access))
            if access.scattered
            else None
            for access in accesses
        ]
        return sweep

    def leave(self, pages: ManagedPages) -> None:
        """End a kernel whose windows (groups of threads) have all run: stop counting missing pages for the kernel."""
        for hits in self.hits:
            if hits is not None:
                hits.table.unwatch(hits.watch)

    @property
    def over(self) -> bool:
        """Tell whether the kernel has gone through all of its windows (groups of resident threads)."""
        return self.at >= self.windows

    def enter(self, window: int) -> None:
        """Make ``window`` (a group of resident threads) the current one; it begins with accesses that need no load."""
        self.at, self.end, self.level, self.warps = window, window + 1, 0, None

    def look_ahead(self, pages: ManagedPages) -> None:
        """Let at most ``ahead`` windows from the current one on run together; ``end``: the next that lacks a page."""
        if self.ahead > 1:
            first, last = self.at + 1, min(self.windows, self.at + self.ahead)
            for place in self.at_level[0]:
                if first < last and not self.accesses[place].scattered:
                    last = self._swept_up_to(pages, place, first, last)
            self.end = last

    def missing(self, pages: ManagedPages, level: int, rng: np.random.Generator) -> PageSets:
        """Return the pages, each once, that the window's accesses at ``level`` need and the GPU cannot translate.

        An access's level is the number of loads that its address waits for. A warp makes the loads of a level one after
        another, so pages of several arrays are reported in turns. Sets the fields ``entries`` (fault entries for these
        pages) and ``stored`` (pages that stores access).
        """
        parts, lots = list[PageSets](), list[int]()
        self.entries, self.stored = 0, {}
        if self.resident is not None:
            return self._missing_of_warps(pages, self.resident)
        for place in self.at_level[level] if level or self.order is None else range(len(self.accesses)):
            access = self.accesses[place]
            if (hits := self.hits[place]) is not None:
                more = hits.met(self.at, self.end, pages, rng) if access.level == level else ()
            elif self.order is not None:
                more = self._missing_of(pages, place, self.order, level)
            else:
                low, high = self._pages(pages, access, self.at, self.end)
                more = pages.unmapped(low, high, self.picks[place], stores=access.stores)
            if more:
                if pages.for_stores is not None and access.stores:
                    self.stored = merged([*self.stored.items(), *more])
                self.entries += self._entries(pages, place, more)
                parts.append(more)
                lots.append(self.of_warps[place])
        return in_turns(parts, lots) if len(parts) > 1 else parts[0] if parts else ()

    def _missing_of_warps(self, pages: ManagedPages, resident: ResidentWarps) -> PageSets:
        """Return the pages for which the window's warps wait after they have gone on as far as they can."""
        if self._has_every_page(pages):
            self.warps = None
        elif self.warps is None and (warps := resident.window(self.at, pages)) is not None:
            self.warps = warps
            warps.go_on(pages, {})
        if self.warps is None:
            return ()
        missing, self.entries, self.stored = self.warps.missing(pages, resident.reports)
        return missing

    def _has_every_page(self, pages: ManagedPages) -> bool:
        """Tell whether no page of the arrays is missing, so that no access can fault."""
        return all(pages.next_unmapped(*self._all(pages, access), stores=access.stores) < 0 for access in self.accesses)

    def _entries(self, pages: ManagedPages, place: int, missing: PageSets) -> int:
        """Return how many fault-buffer entries an access makes for missing pages of the window.

        A sweep touches all parts of a page that the GPU reports, except in the window's first and last page; an access
        with gaps touches one part of each page.
        """
        access, size, count = self.accesses[place], pages.page_size, how_many(missing)
        if size > pages.reported and not access.scattered and self.picks[place] is None:
            count *= size // pages.reported
            if self.order is None:
                begin, end = access.begin + self._byte(access, self.at), access.begin + self._byte(access, self.end)
                if _has(missing[0], begin // size, pages):
                    count -= begin % size // pages.reported
                if _has(missing[-1], (end - 1) // size, pages):
                    count -= (size - 1 - (end - 1) % size) // pages.reported
        return round(count * self.reports[place])

    def plan(self, pages: ManagedPages, rng: np.random.Generator) -> None:
        """Set ``until``, the window (a group of resident threads) at which the next step ends.

        This is the first window with a missing page, or the one after ``step_windows`` windows.
        """
        first = self.end
        last = min(self.windows, max(first, self.at + self.step_windows))
        if self.resident is not None:
            self.until = last if self._has_every_page(pages) else first
            return
        for place, access in enumerate(self.accesses):
            if last <= first:
                break
            if (hits := self.hits[place]) is None:
                last = self._swept_up_to(pages, place, first, last)
            elif access.nbytes:
                last = min(last, max(first, hits.next_window(first, rng)))
        self.until = last

    def _swept_up_to(self, pages: ManagedPages, place: int, first: int, last: int) -> int:
        """Find the first window of [first, last) in which a swept access misses a page; ``last`` if there is none."""
        access = self.accesses[place]
        if access.nbytes:
            if self.order is not None:
                return self._ordered_up_to(pages, place, self.order, first, last)
            page = pages.next_unmapped(*self._pages(pages, access, first, last), self.picks[place], access.stores)
            if page >= 0:
                offset = max(page * pages.page_size - access.begin, 0)
                return min(last, max(first, offset * self.windows // access.nbytes))
        return last

    def plan_anew(self, pages: ManagedPages, rng: np.random.Generator, done: float) -> None:
        """Set ``until`` anew when ``done`` windows of the step are over, because pages have lost their translations."""
        at, end, longest, whole = self.at, self.end, self.step_windows, self.until - self.at
        self.at += min(int(done), whole - 1)
        self.end = self.at + 1
        self.step_windows = self.until - self.at
        for hits in self.hits:
            if hits is not None:
                hits.forget()
        self.plan(pages, rng)
        self.at, self.end, self.step_windows = at, end, longest

    def reaches(self, pages: ManagedPages, low: int, high: int) -> bool:
        """Tell whether the part of the kernel that runs now may touch a page of [low, high)."""
        for access in self.accesses:
            begin, end = (
                self._all(pages, access)
                if access.scattered or self.order is not None or self.resident is not None
                else self._pages(pages, access, self.at, self.until)
            )
            if access.nbytes and begin < high and low < end:
                return True
        return False

    def remote_bytes(self, pages: ManagedPages, sector: int) -> Iterator[tuple[int, int, float, float]]:
        """Yield (index of an access, device, bytes read, bytes written) for the step that runs now, in whole sectors.

        The device is the one whose memory the access reaches over a link, or ``HOST``.
        """
        for place, access in enumerate(self.accesses):
            for device, part in self._remote_parts(pages, access, self.picks[place]) if access.nbytes else ():
                reads, writes = (access.moved(places, sector) for places in (access.reads, access.writes))
                yield place, device, part * reads, part * writes

    def host_pages(self, pages: ManagedPages, number: int) -> PageSets:
        """Return the pages of system-allocated memory that an access may reach over the host's link in this step.

        number: the access's index among the kernel's. A step is the kernel's work up to its next missing page.
        """
        access, picks = self.accesses[number], self.picks[number]
        everywhere = access.scattered or self.order is not None or self.resident is not None
        low, high = self._all(pages, access) if everywhere else self._pages(pages, access, self.at, self.until)
        first = low // pages.per_block
        found: list[tuple[int, int]] = []
        for index in range(first, -(-high // pages.per_block)):
            block, base = pages.block(index), index * pages.per_block
            reached = block.system & block.remote & (1 << min(high - base, pages.per_block)) - (1 << max(low - base, 0))
            if reached := reached if picks is None else reached & picks.pages[index - picks.first]:
                found.append((index, reached))
        return found

    def _remote_parts(self, pages: ManagedPages, access: ManagedAccess, picks: Picks | None) -> list[tuple[int, float]]:
        """Return (device, fraction of an access' bytes that the current step moves over the link to that device).

        All pages that a step accesses have a translation. Random accesses use each device's pages in proportion to
        their number among these. In a sweep with gaps, each picked page has an equal share.
        """
        if picks is not None and self.order is None:
            size = pages.page_size
            low, high = (-(-(access.begin + self._byte(access, window)) // size) for window in (self.at, self.until))
            low = low if self.at else access.begin // size
            remote = pages.remote_among(picks, low, high)
            return _by_device(pages, low, high, picks, remote, remote / max(picks.count, 1)) if remote else []
        if access.scattered or self.order is not None or self.resident is not None:
            low, high = self._all(pages, access)
            part = (self.until - self.at) / self.windows
        else:
            low, high = self._pages(pages, access, self.at, self.until)
            part = (self._byte(access, self.until) - self._byte(access, self.at)) / access.nbytes
        remote = pages.translations.how_many(REMOTE, low, high)
        if not remote:
            return []
        part = part * remote / (remote + pages.translations.how_many(LOCAL, low, high))
        return _by_device(pages, low, high, None, remote, part)

    # where accesses are

    def _byte(self, access: ManagedAccess, window: int) -> int:
        return access.nbytes * window // self.windows

    def _pages(self, pages: ManagedPages, access: ManagedAccess, first: int, last: int) -> tuple[int, int]:
        """Return the pages [low, high) of a swept argument that the windows [first, last) touch."""
        nbytes, windows, size = access.nbytes, self.windows, pages.page_size
        low, high = access.begin + nbytes * first // windows, access.begin + nbytes * last // windows
        return low // size, -(-high // size) if high > low else low // size

    def _window_of(self, place: int, order: WindowOrder, window: int, level: int) -> int | None:
        """Return the window whose cells an access uses at ``level`` of ``window``; None if it uses none there.

        A store that waits for loads runs at level 0 of its thread's next iteration; the last one, at its own level.
        """
        access = self.accesses[place]
        if not access.nbytes:
            return None
        if access.level and access.reads == () and level == 0:
            return order.before(window)
        is_over = not access.level or access.reads != () or order.ends(window)
        return window if level == access.level and is_over else None

    def _pages_of(
        self, pages: ManagedPages, place: int, order: WindowOrder, cells: Sequence[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """Return, for each range of cells, the pages [low, high) of a swept argument that contain the cells' bytes."""
        access, size, total = self.accesses[place], pages.page_size, order.total
        begin, nbytes = access.begin, access.nbytes
        return [
            ((begin + nbytes * low // total) // size, -(-(begin + nbytes * high // total) // size))
            for low, high in cells
        ]

    def _has_all(self, pages: ManagedPages, place: int, order: WindowOrder, window: int) -> bool:
        """Tell whether all pages from a window's first cell to its last one have translations."""
        ((low, high),) = self._pages_of(pages, place, order, [order.span(window)])
        return pages.next_unmapped(low, high, self.picks[place], self.accesses[place].stores) < 0

    def _missing_of(self, pages: ManagedPages, place: int, order: WindowOrder, level: int) -> PageSets:
        """Return the pages without translation that an access of the window needs at a level."""
        window = self._window_of(place, order, self.at, level)
        if window is None:
            return ()
        # Where there are as many ranges as thread blocks, most windows have all their pages, and one look tells.
        if order.sms is not None and self._has_all(pages, place, order, window):
            return ()
        picks, stores = self.picks[place], self.accesses[place].stores
        parts = [
            pages.unmapped(low, high, picks, stores=stores)
            for low, high in self._pages_of(pages, place, order, order.cells(window))
        ]
        if order.sms is None:
            return [*merged([one for part in parts for one in part]).items()]
        missing: PageSets = ()
        for first in range(0, len(parts), order.sms):  # each SM comes to its next block when it has been through one
            missing = joined(missing, in_turns(parts[first : first + order.sms]))
        return missing

    def _ordered_up_to(self, pages: ManagedPages, place: int, order: WindowOrder, first: int, last: int) -> int:
        """Find the first window of [first, last) in which an access misses a page; ``last`` if there is none."""
        access, picks, stores = self.accesses[place], self.picks[place], self.accesses[place].stores
        if pages.next_unmapped(*self._all(pages, access), picks, stores) < 0:
            return last
        for window in range(first, last):
            for level in sorted({0, access.level}):
                touched_window = self._window_of(place, order, window, level)
                if touched_window is None or self._has_all(pages, place, order, touched_window):
                    continue
                ranges = self._pages_of(pages, place, order, order.cells(touched_window))
                if any(pages.next_unmapped(low, high, picks, stores) >= 0 for low, high in ranges):
                    return window
        return last

    def _all(self, pages: ManagedPages, access: ManagedAccess) -> tuple[int, int]:
        size = pages.page_size
        return access.begin // size, -(-(access.begin + access.nbytes) // size)


def _hits(access: ManagedAccess, windows: int, table: Translations, pages: tuple[int, int]) -> RandomHits:
    return RandomHits(access.scattered / windows, windows, table.watch(*pages), table)


def _by_device(
    pages: ManagedPages, low: int, high: int, picks: Picks | None, remote: int, part: float
) -> list[tuple[int, float]]:
    """Divide ``part``, a fraction of an access' bytes, among the devices that have its ``remote`` pages [low, high)."""
    if not pages.peer_pages:
        return [(HOST, part)]
    counts = pages.at_peers(low, high, picks)
    counts[HOST] = remote - sum(counts.values())
    return [(device, part * count / remote) for device, count in sorted(counts.items()) if count]


def _has(pages: tuple[int, int], page: int, among: ManagedPages) -> bool:
    """Tell whether the page with number ``page`` is in ``pages``, a set (block, its pages)."""
    index, place = divmod(page, among.per_block)
    return pages[0] == index and bool(pages[1] >> place & 1)


def _picks(access: ManagedAccess, pages: ManagedPages, rng: np.random.Generator) -> Picks | None:
    """Draw the pages that a sweep with gaps touches; None when the sweep touches all pages."""
    size, per_block = pages.page_size, pages.per_block
    part = access.part_of_pages(size)
    if part >= _ALL:
        return None
    low, high = access.begin // size, -(-(access.begin + access.nbytes) // size)
    first, last = low // per_block, -(-high // per_block)
    touched = np.zeros((last - first, per_block), np.bool_)
    touched.reshape(-1)[low - first * per_block : high - first * per_block] = rng.random(high - low) < part
    rows = np.packbits(touched, axis=1, bitorder="little")
    return Picks(first, [int.from_bytes(row, "little") for row in map(bytes, rows)], int(np.count_nonzero(touched)))
