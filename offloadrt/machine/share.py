"""Fair division of one resource: a bandwidth in bytes/s, or a pool of streaming multiprocessors.

This is the only file of the package in which a number of users yields a time.  The rule is that of every fluid model:

* **max-min**: each user gets as much as it can use (its *cap*) or an equal share, whichever is less;
* **work-conserving**: what one user leaves, the others get;
* **re-divided** whenever a user comes or goes, or the resource is halted or resumed;
* **ties**: users who finish at the same instant finish in the order in which they came.

``FairShare`` is pure: it is told the time and tells who finishes when.  ``SharedPool`` lets actors wait for it.

Users of equal cap always progress together, so each cap has one clock of *service per user*: it advances at the
rate that each of its users gets, a user finishes when the clock passes the mark set at its arrival, and a heap of
marks gives the next one.  Arrivals and departures cost O(log users + caps), however many users there are.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from offloadrt.sim import PASSED, Mailbox, Simulation

_SPACINGS = 8
"""A user is finished when what is left of it takes less than this many spacings of the floating-point clock."""


@attrs.define(eq=False)
class Ticket:
    """One user of a shared resource, from its arrival to its departure."""

    group: _Class
    """All users of its cap."""
    mark: float
    """Reading of the group's clock at which it is finished."""
    order: int
    """Place in the order of arrival."""
    user: Any = None
    present: bool = True
    box: Mailbox | None = None

    def __lt__(self, other: Ticket) -> bool:
        return (self.mark, self.order) < (other.mark, other.order)


@attrs.define(eq=False)
class _Class:
    """All users of one cap: their common clock (units served per user) and the heap of their marks."""

    cap: float
    clock: float = 0.0
    rate: float = 0.0
    users: int = 0
    heap: list[Ticket] = attrs.Factory(list)

    def head(self) -> Ticket:
        """The user who finishes first; there must be one."""
        while not self.heap[0].present:
            heapq.heappop(self.heap)
        return self.heap[0]


class FairShare:
    """Max-min division of ``capacity`` units per second among the users present.

    Times are absolute virtual seconds and must not decrease from call to call.
    """

    __slots__ = ("_arrivals", "_classes", "_halts", "_now", "_spare", "_used", "capacity", "delivered", "users")

    def __init__(self, capacity: float) -> None:
        if not capacity > 0:
            raise ValueError(f"capacity is {capacity!r}, but must be positive")
        self.capacity = capacity
        self.delivered = 0.0
        """Units served to all users so far."""
        self.users = 0
        """How many users are present (for tests and statistics; no time may follow from it elsewhere)."""
        self._classes: list[_Class] = []  # ascending caps
        self._spare: _Class | None = None  # without users, to be used again
        self._now = 0.0
        self._used = 0.0
        self._halts = 0
        self._arrivals = 0

    def rate(self, ticket: Ticket) -> float:
        """Units per second that a user gets now."""
        return ticket.group.rate

    def join(self, now: float, amount: float, cap: float = math.inf, user: Any = None) -> Ticket:
        """A user comes that needs ``amount`` units and can use at most ``cap`` units per second."""
        if not (amount >= 0 and cap > 0):
            raise ValueError(f"amount {amount!r} and cap {cap!r} must not be negative, and cap not zero")
        if now > self._now:
            self.advance(now)
        group = self._class(cap)
        group.users += 1
        self.users += 1
        self._arrivals += 1
        ticket = Ticket(group, group.clock + amount, self._arrivals, user)
        heapq.heappush(group.heap, ticket)
        self._divide()
        return ticket

    def leave(self, now: float, ticket: Ticket) -> float:
        """A user goes, finished or not; returns the units that it did not get."""
        if now > self._now:
            self.advance(now)
        group = ticket.group
        ticket.present = False
        group.users -= 1
        self.users -= 1
        left = ticket.mark - group.clock
        if not group.users:
            self._classes.remove(group)
            group.heap.clear()
            self._spare = group
        if self.users:
            self._divide()
        else:
            self._used = 0.0
        return left if left > 0.0 else 0.0

    def limit(self, now: float, ticket: Ticket, cap: float) -> Ticket:
        """A user can use ``cap`` units per second at most from now on; its new ticket, in its place among arrivals."""
        if ticket.group.cap == cap:
            return ticket
        left = self.leave(now, ticket)
        group = self._class(cap)
        group.users += 1
        self.users += 1
        limited = Ticket(group, group.clock + left, ticket.order, ticket.user, box=ticket.box)
        heapq.heappush(group.heap, limited)
        self._divide()
        return limited

    def serve_alone(
        self, now: float, amount: float, cap: float, pass_to: Callable[[float], bool], *, sleeps: bool = True
    ) -> bool:
        """A user that comes when nobody is here, and is through before anybody else does anything, in one step.

        ``pass_to`` lets time pass up to an instant, if nobody else is due before.  False when it could not.  Who
        ``sleeps`` waits for the seconds up to that instant, as they are rounded.
        """
        if self.users or self._halts or not (amount >= 0 and cap > 0):
            return False
        rate = cap if cap < self.capacity else self.capacity
        if amount <= _SPACINGS * (math.ulp(now) * rate + math.ulp(amount)):
            return False  # nothing to wait for
        self.advance(now)
        due = now + amount / rate
        if sleeps:
            due = now + (due - now)
        if not pass_to(due):
            return False
        self._arrivals += 1
        self.delivered += rate * (due - now)
        self._now = due
        return True

    def due_alone(self, now: float, amount: float) -> float:
        """When a user that comes at ``now``, and meets nobody until then, has ``amount`` units."""
        return now + (now + amount / self.capacity - now)

    def serve_at(self, now: float, amount: float) -> float:
        """A user that comes at ``now`` meets nobody until it has ``amount`` units; returns when that is."""
        capacity = self.capacity
        due = now + (now + amount / capacity - now)
        self._arrivals += 1
        self.delivered += capacity * (due - now)
        self._now = due
        return due

    def halt(self, now: float) -> None:
        """Nobody progresses until ``resume`` has been called as often as ``halt``."""
        self.advance(now)
        self._halts += 1
        self._divide()

    def resume(self, now: float) -> None:
        """Take back one ``halt``."""
        self.advance(now)
        self._halts -= 1
        assert self._halts >= 0, "resumed more often than halted"
        self._divide()

    def advance(self, now: float) -> None:
        """Serve everybody up to ``now``."""
        if (dt := now - self._now) > 0:
            for group in self._classes:
                group.clock += group.rate * dt
            self.delivered += self._used * dt
        self._now = now

    def first(self) -> tuple[Ticket | None, float]:
        """Who finishes first, and when, if nobody comes or goes; (None, inf) when nobody can."""
        best: Ticket | None = None
        soonest = math.inf
        for group in self._classes:
            if group.rate > 0:
                ticket = group.heap[0]
                if not ticket.present:
                    ticket = group.head()
                left = (ticket.mark - group.clock) / group.rate
                if left < soonest or (left == soonest and best is not None and ticket.order < best.order):
                    best, soonest = ticket, left
        return best, self._now + (soonest if soonest > 0.0 else 0.0)

    def is_finished(self, ticket: Ticket) -> bool:
        """Whether a user has got all it needed, up to the resolution of the clock at the time of the last call."""
        group = ticket.group
        left = ticket.mark - group.clock
        return left <= 0.0 or left <= _SPACINGS * (math.ulp(self._now) * group.rate + math.ulp(ticket.mark))

    def _class(self, cap: float) -> _Class:
        """The users of this cap; a new one in its place when there are none."""
        place = 0
        for group in self._classes:
            if group.cap == cap:
                return group
            if group.cap < cap:
                place += 1
        if (spare := self._spare) is None:
            group = _Class(cap)
        else:
            group, self._spare = spare, None
            group.cap, group.clock, group.rate = cap, 0.0, 0.0
        self._classes.insert(place, group)
        return group

    def _divide(self) -> None:
        """Fill the users up: those with small caps are content first, the others share equally what is left."""
        all_used = 0.0
        left = 0.0 if self._halts else self.capacity
        users = self.users
        for group in self._classes:
            rate = left / users if left > 0.0 else 0.0
            if group.cap < rate:
                rate = group.cap
            group.rate = rate
            used = rate * group.users
            left -= used
            users -= group.users
            all_used += used
        self._used = all_used


class SharedPool:
    """A bandwidth that actors wait for: ``await pool.serve(amount)`` returns when the caller has got ``amount``.

    Only the user who finishes first keeps a timer, and whoever leaves, or is first no longer, wakes the one who is: a
    user alone costs one suspension.  With ``uncontended`` every user has the whole capacity for itself (an ablation).
    """

    __slots__ = ("_boxes", "_sim", "_uncontended", "_width", "name", "share")

    def __init__(self, sim: Simulation, capacity: float, name: str, *, uncontended: bool = False) -> None:
        self._sim = sim
        self.name = name
        self.share = FairShare(capacity)
        self._width = capacity
        self._uncontended = uncontended
        self._boxes: list[Mailbox] = []

    def serve(self, amount: float, cap: float = math.inf) -> Awaitable[None]:
        """Take ``amount`` units at the rate that the division gives, at most ``cap`` per second.

        Await it at once: where nobody can come in between, the time has passed already.
        """
        sim, share = self._sim, self.share
        if not (self._uncontended or share.users or sim.ready) and share.serve_alone(sim.now, amount, cap, sim.pass_to):
            return PASSED
        if self._uncontended:
            return sim.sleep(amount / min(cap, self._width))
        return self.finish(share.join(sim.now, amount, cap), came=True)

    def enter(self, amount: float, cap: float) -> Ticket:
        """Somebody comes who need not wait yet; it calls ``finish``, before it could be through, or ``leave``."""
        return self.share.join(self._sim.now, amount, cap)

    def leave(self, ticket: Ticket) -> None:
        """Somebody who came by ``enter`` goes."""
        self.share.leave(self._sim.now, ticket)
        if self.share.users:
            self._wake_first()

    async def finish(self, ticket: Ticket, *, came: bool = False) -> None:
        """Wait until a user has got all it needs; ``came`` tells that it comes just now."""
        sim, share = self._sim, self.share
        box = self._boxes.pop() if self._boxes else Mailbox(sim, self.name)
        ticket.box = box
        woken = not came
        if woken:
            share.advance(sim.now)
        try:
            while not share.is_finished(ticket):
                first, time = share.first()
                if share.users == 1:  # whoever comes can only make it later
                    await sim.sleep(time - sim.now if time > sim.now else 0.0)
                elif first is ticket:
                    await box.get_until(time)
                else:
                    if woken:  # another user is first by now, and may have no timer
                        self._wake_first()
                    await box.get()
                woken = True
                share.advance(sim.now)
        finally:
            share.leave(sim.now, ticket)
            self._boxes.append(box)
            if share.users:
                self._wake_first()

    def _wake_first(self) -> None:
        first, _ = self.share.first()
        if first is not None and first.box is not None:
            first.box.put(None)
