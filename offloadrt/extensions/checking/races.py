"""Races: two accesses to the same bytes of one memory, one of them a write, that no synchronization orders.

Of each strand's accesses from one place of the program the last one is kept for each byte, until all strands come after
it. So which pairs of places are reported does not depend on who came first.
"""

from __future__ import annotations

import attrs

from offloadrt.extensions.checking.accesses import Access, Cell, Intervals
from offloadrt.extensions.checking.mistakes import Mistakes
from offloadrt.extensions.checking.strands import Strands
from offloadrt.runtime.events import HOST

_Key = tuple[int, tuple[str, str], str]
_MANY = 24
"""Accesses of one cell from which on those are dropped that can race with nothing any more."""


@attrs.define(eq=False)
class _History(Cell):
    """Who has used the bytes of a cell."""

    reads: dict[_Key, Access] = attrs.field(factory=dict)
    writes: dict[_Key, Access] = attrs.field(factory=dict)

    def part(self, begin: int, end: int) -> _History:
        return _History(begin, end, dict(self.reads), dict(self.writes))


@attrs.define(eq=False)
class Races:
    """Keeps the accesses to each memory."""

    strands: Strands
    mistakes: Mistakes
    _memories: dict[int, Intervals[_History]] = attrs.field(factory=dict)

    def access(self, access: Access) -> None:
        """Compare an access with the earlier ones, and keep it."""
        key = access.strand.chain, access.site, access.role
        for cell in self._cells(access.memory).cut(access.begin, access.end):
            for other in cell.writes.values():
                self._compare(other, access)
            if access.writes:
                for other in cell.reads.values():
                    self._compare(other, access)
            kept = cell.writes if access.writes else cell.reads
            kept[key] = access
            if len(kept) > _MANY:
                self._drop(kept)

    def forget(self, memory: int, begin: int, end: int) -> None:
        """Forget a range whose memory is another one from now on."""
        self._cells(memory).forget(begin, end)

    def _cells(self, memory: int) -> Intervals[_History]:
        cells = self._memories.get(memory)
        if cells is None:
            cells = self._memories[memory] = Intervals(_History)
        return cells

    def _drop(self, kept: dict[_Key, Access]) -> None:
        known = self.strands.known_to_all()
        over = [key for key, access in kept.items() if known.get(access.strand.chain, 0) >= access.epoch]
        for key in over:
            del kept[key]

    def _compare(self, earlier: Access, access: Access) -> None:
        # A function of the host runs after later work of its stream has been submitted.
        if access.follows(earlier) or (earlier.clock is not None and earlier.follows(access)):
            return
        if _ordered_by_mapping(earlier, access):
            return
        if not (earlier.atomic and access.atomic) and earlier.surely_meets(access):
            first, second = sorted((earlier, access), key=lambda one: (one.site, one.strand.name))
            subject = f"{access.name} {_where(access.memory)}"
            stories, advice = (first.story, second.story), _missing(first, second)
            self.mistakes.add("race", subject, stories, advice, subject, data=access.name)


def _ordered_by_mapping(one: Access, other: Access) -> bool:
    """Tell whether the runtime orders two accesses to a mapped block by its reference count and its transfer."""
    if one.block is None or one.block is not other.block:
        return False
    roles = {one.role, other.role}
    return "" not in roles and roles != {"uses"}


def _where(memory: int) -> str:
    return "on the host" if memory == HOST else f"on device {memory}"


def _missing(one: Access, other: Access) -> str:
    """Say which synchronization is missing."""
    if one.strand.is_queue and other.strand.is_queue:
        return "Nothing orders the two queues: let one wait for the other."
    if one.strand.is_queue or other.strand.is_queue:
        return "Nothing orders the queue and the thread: wait for the queue between them."
    if one.strand.deferred and other.strand.deferred:
        return "Nothing orders the two tasks: depend clauses on both would, or a taskwait between them."
    if one.strand.deferred or other.strand.deferred:
        return "Nothing orders the task and the thread: a taskwait between them would, or depend clauses on both."
    return "Nothing orders the two threads: a barrier between them would."
