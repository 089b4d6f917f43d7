"""Thrashing of managed memory: pages that host and device fault to and fro, and what the driver does about it.

This follows nvidia-uvm (``uvm_perf_thrashing.c``), for one host and one device, where the device can access the host's
memory but not the reverse.  *Detection*: when a block's migrations change direction within ``thrash.lapse``, its pages
are tracked; a page thrashes after ``thrash.threshold`` migrations, each within a lapse of the one before.
*Throttling*: in each period of ``thrash.nap`` one side is favoured and the other may not have the page; the sides take
turns.  *Pinning*: a page with enough throttled faults stays on the host for some time and is accessed over the link.

Nothing here waits or moves a byte: the driver reports migrations to ``Thrashing`` and asks it what to do with a fault.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from typing import Annotated, Final, Literal

import attrs

from offloadrt.driver.uvm.costs import UvmCounters
from offloadrt.machine.managed.block import PageSet, runs

Side = Literal["host", "device"]


@attrs.frozen
class ThrashingRules:
    """Says whether (``detects``) and when a page counts as thrashing, and how long the driver then acts against it."""

    detects: Annotated[bool, "thrash.detection"]
    threshold: Annotated[int, "thrash.threshold"]
    """Number of fault-driven migrations of a page, each within a lapse of the one before, that count as thrashing."""
    pin_threshold: Annotated[int, "thrash.pin_threshold"]
    """Number of throttled faults on a page after which it is pinned."""
    lapse: Annotated[float, "thrash.lapse"]
    """Longest time between two migrations that count together, in seconds."""
    nap: Annotated[float, "thrash.nap"]
    """Seconds of a period in which one side is throttled."""
    oversleep: Annotated[float, "thrash.oversleep"]
    """How much longer a throttled thread sleeps than its nap, as a fraction of that."""
    pin: Annotated[float, "thrash.pin"]
    """Seconds for which a pinned page stays where it is."""


class Hint(enum.Enum):
    """Says how to serve a fault on a page (``uvm_perf_thrashing_hint_t``); MIGRATE: as a page that does not thrash."""

    MIGRATE = "migrate"
    THROTTLE = "throttle"
    """The faulting side cannot have the page before the end of the period."""
    PIN = "pin"
    """The page moves to the host, or stays there, and the device accesses it over the link."""


@attrs.define(eq=False)
class _Page:
    """The state of one page of a tracked block."""

    last: float = -1.0
    """Time of the page's last migration; negative before the first."""
    events: int = 0  # migrations, each within a lapse of the one before
    throttled: set[Side] = attrs.field(factory=set)  # sides that may not have the page
    until: float = 0.0
    """End of the period of throttling."""
    favoured: Side | None = None  # the side that may have the page until then
    throttlings: int = 0  # throttled faults, which count towards a pin
    pinned_to: Side | None = None
    pinned_until: float = 0.0


@attrs.define(eq=False)
class _Block:
    """Migrations of one block; ``pages`` has the state of each page once the block may thrash."""

    side: Side  # to which it last migrated
    last: float  # time of that migration
    pages: list[_Page] | None = None
    thrashing: int = 0
    """Pages that thrash, one bit each."""


class Thrashing:
    """Finds and counts a device's managed pages that migrate to and fro. per_block: number of pages of a block."""

    def __init__(self, rules: ThrashingRules, per_block: int, counters: UvmCounters) -> None:
        self.rules: Final = rules
        self._per_block = per_block
        self._counters = counters
        self._blocks: dict[int, _Block] = {}
        self.pins: deque[tuple[float, int, int]] = deque()
        """When each pin ends, with its block and page, the first to end first."""
        self.pins_begin: Callable[[], object] = lambda: None
        """Called with the first of some pins: from then on someone has to look when they end."""

    def migrated(self, index: int, pages: PageSet, side: Side, now: float) -> None:
        """Note that pages of block ``index`` migrated to ``side`` (host or device) at virtual time ``now``."""
        rules = self.rules
        if not rules.detects:
            return
        block = self._blocks.get(index)
        if block is None:
            self._blocks[index] = _Block(side, now)
            return
        if block.pages is None and block.side != side and now - block.last <= rules.lapse:
            block.pages = [_Page() for _ in range(self._per_block)]
        block.side, block.last = side, now
        if block.pages is None:
            return
        for place in _places(pages):
            page = block.pages[place]
            if page.pinned_to == side:
                continue  # it migrates because it is pinned
            before, page.last = page.last, now
            if before < 0.0:
                continue
            if now - before <= rules.lapse:
                page.events += 1
                if page.events == rules.threshold:
                    block.thrashing |= 1 << place
                    self._counters.thrashing += 1
            elif page.events >= rules.threshold and page.pinned_to is None:
                self._reset(block, place)

    def thrashing(self, index: int) -> int:
        """Return the bit set of a block's pages that thrash now; a fault on another page does not prefetch them."""
        block = self._blocks.get(index)
        return 0 if block is None else block.thrashing

    def hint(self, index: int, number: int, side: Side, now: float) -> Hint:
        """Decide how to serve a fault of ``side`` (host or device) on a page (``uvm_perf_thrashing_get_hint``).

        index: the block's number. number: the page's number in the block. now: virtual seconds.
        """
        block, rules = self._blocks.get(index), self.rules
        if block is None or block.pages is None or not block.thrashing >> number & 1:
            return Hint.MIGRATE
        page = block.pages[number]
        if side in page.throttled:
            if now < page.until and side != page.favoured:
                return Hint.THROTTLE
            page.throttled.discard(side)
            if not page.throttled:
                page.until = 0.0
        if now - page.last > rules.lapse and page.pinned_to is None:
            return Hint.MIGRATE
        if now > page.until:
            page.until = now + rules.nap
            page.favoured = None if page.favoured == side else side
        elif page.favoured is None:
            page.favoured = side
        if page.pinned_to is not None:
            if page.pinned_to == "host" or side == page.favoured:
                return self._pin(page, index, number, "host", now)
            return self._throttle(page, side)
        if side != page.favoured:
            return self._throttle(page, side)
        if page.throttlings >= rules.pin_threshold:
            return self._pin(page, index, number, side, now)
        return Hint.MIGRATE

    def throttled_until(self, index: int, number: int) -> float:
        """Return the virtual time until which faults on a page are delayed. number: the page's number in the block."""
        block = self._blocks[index]
        assert block.pages is not None
        return block.pages[number].until

    def _throttle(self, page: _Page, side: Side) -> Hint:
        if side not in page.throttled:
            page.throttled.add(side)
            self._counters.throttling += 1
            if page.pinned_to is None:
                page.throttlings += 1
        return Hint.THROTTLE

    def _pin(self, page: _Page, index: int, place: int, to: Side, now: float) -> Hint:
        if page.pinned_to != to:
            page.throttled.clear()
            page.until = 0.0
        if page.pinned_to is None:
            page.throttlings = 0
            page.pinned_until = now + self.rules.pin
            self.pins.append((page.pinned_until, index, place))
            if len(self.pins) == 1:
                self.pins_begin()
        page.pinned_to = to
        return Hint.PIN if to == "host" else Hint.MIGRATE

    def unpinned(self, now: float) -> list[tuple[int, int]]:
        """Return (block, page) for thrashing pages whose pinning ended by ``now``, and forget their migrations."""
        ended = []
        while self.pins and self.pins[0][0] <= now:
            until, index, place = self.pins.popleft()
            block = self._blocks[index]
            # a pin that was forgotten meanwhile is over, and a later one of the page is not
            if block.pages is not None and block.pages[place].pinned_until == until:
                self._reset(block, place)
                ended.append((index, place))
        return ended

    def forget(self, index: int, pages: PageSet) -> None:
        """Forget past migrations of a block's pages, because the program has moved or freed the pages."""
        block = self._blocks.get(index)
        if block is not None:
            for place in _places(pages & block.thrashing):
                self._reset(block, place)

    def _reset(self, block: _Block, place: int) -> None:
        """Forget that a page thrashes (``thrashing_reset_page``); how often it was throttled still counts."""
        assert block.pages is not None
        page = block.pages[place]
        page.last, page.events, page.pinned_to = -1.0, 0, None
        if page.throttled:
            page.throttled.clear()
            page.until = 0.0
        block.thrashing &= ~(1 << place)


def _places(pages: PageSet) -> list[int]:
    """Return the pages of a set, ascending."""
    return [place for low, high in runs(pages) for place in range(low, high)]
