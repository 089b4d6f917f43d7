"""Fair division of one resource: a bandwidth in bytes/s, or a pool of streaming multiprocessors.

This is the only file of the package in which a number of users yields a time.  The rule is that of every fluid model:

* **max-min**: each user gets as much as it can use (its *cap*) or an equal share, whichever is less;
* **work-conserving**: what one user leaves, the others get;
* **re-divided** whenever a user comes or goes, or the resource is halted or resumed;
* **ties**: users who finish at the same instant finish in the order in which they came.

``FairShare`` is pure: given the time, it computes who finishes when.  ``SharedPool`` lets actors wait for that.

Users of equal cap always progress together, so each cap has one clock of *service per user*: it advances at the
rate that each of its users gets, a user finishes when the clock passes the mark set at its arrival, and a heap of
marks gives the next one.  Arrivals and departures cost O(log users + caps), however many users there are.
"""

from __future__ import annotations

import bisect
import heapq
import math
import operator
from collections.abc import Awaitable, Callable

import attrs
import msgspec

from offloadrt.sim import Mailbox, Simulation

_RESOLUTION = 8 * 2.0**-52
"""A user is finished when its rest is a few units in the last place of the time or of its mark.

A timer is due at a rounded time, so that the clock of service may stand a little before the mark when it fires.
Without this tolerance the user would set another timer, of less than the clock can resolve, and never end.
"""


class Ticket(msgspec.Struct, eq=False):
    """Identifies one user of a shared resource, from arrival until departure."""

    group: _Class
    """The group of all users with the same cap."""
    mark: float
    """The reading of the group's clock (units that each of its users has got) at which this user is finished."""
    order: int
    """The user's place in the order of arrival."""
    present: bool = True
    """False as soon as the user has left; the heap drops such a ticket when it reaches the head."""
    box: Mailbox | None = None
    """Mailbox in which the user's actor waits until the user is the one who finishes first."""

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
        """Return the user who finishes first; there must be one."""
        while not self.heap[0].present:
            heapq.heappop(self.heap)
        return self.heap[0]


class FairShare:
    """Divides ``capacity`` units per second max-min fairly among the users present: equal rates, up to each one's cap.

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
        self._spare: _Class | None = None  # the class that was the last to lose its last user, to be used again
        self._now = 0.0
        self._used = 0.0
        self._halts = 0
        self._arrivals = 0

    @property
    def serves(self) -> bool:
        """Tell whether any user is being served now, so that the shared resource is in use."""
        return self._used > 0.0

    def rate(self, ticket: Ticket) -> float:
        """Return the units per second that a user, identified by its ticket, gets now."""
        return ticket.group.rate

    def left(self, ticket: Ticket) -> float:
        """Return the units that a user, identified by its ticket, has not got yet."""
        return ticket.mark - ticket.group.clock

    def join(self, now: float, amount: float, cap: float = math.inf, order: int | None = None) -> Ticket:
        """Add a user that needs ``amount`` units and can use at most ``cap`` units per second; return its ticket.

        now: virtual seconds. A user with a cap of 0 is present, and gets nothing until ``limit`` gives it another cap.
        ``order``: the user's number in the order of arrival, if the user returns.
        """
        if not (amount >= 0 and cap >= 0):
            raise _bad_request(amount, cap)
        if not self.users:
            self._now = now
        elif now > self._now:
            self.advance(now)
        if order is None:
            self._arrivals = order = self._arrivals + 1
        divided = False
        for group in self._classes:
            if group.cap == cap:
                break
        else:
            if (spare := self._spare) is None:
                group = _Class(cap)
            else:
                group, self._spare = spare, None
                # Its last user was the last of all, and left it the rate of a user alone, as this one is.
                divided = group.cap == cap and not self._classes
                group.cap, group.clock = cap, 0.0
            if self._classes:
                bisect.insort(self._classes, group, key=_cap)
            else:
                self._classes.append(group)
        group.users += 1
        self.users += 1
        ticket = Ticket(group, group.clock + amount, order)
        heapq.heappush(group.heap, ticket)
        if divided:
            self._used = group.rate
        else:
            self._divide()
        return ticket

    def leave(self, now: float, ticket: Ticket) -> float:
        """Remove the user with this ticket, finished or not, at time ``now``; return the units that it did not get."""
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
        """Limit a user to ``cap`` units per second from now on; return its new ticket, with the old arrival order."""
        if ticket.group.cap == cap:
            return ticket
        limited = self.join(now, self.leave(now, ticket), cap, ticket.order)
        limited.box = ticket.box
        return limited

    def halt(self, now: float) -> None:
        """Stop all users at the time ``now``, until ``resume`` has been called as often as ``halt``."""
        self.advance(now)
        self._halts += 1
        self._spare = None
        self._divide()

    def resume(self, now: float) -> None:
        """Take back one ``halt`` at the time ``now``; after the last one, all users are served again."""
        self.advance(now)
        self._halts -= 1
        assert self._halts >= 0, "resumed more often than halted"
        self._spare = None
        self._divide()

    def advance(self, now: float) -> None:
        """Serve all users up to the virtual time ``now``."""
        dt = now - self._now
        if dt > 0.0:
            for group in self._classes:
                group.clock += group.rate * dt
            self.delivered += self._used * dt
        self._now = now

    def first(self) -> tuple[Ticket | None, float]:
        """Return (user who finishes first if nobody comes or goes, virtual time of that); (None, inf) without users."""
        best: Ticket | None = None
        soonest = math.inf
        for group in self._classes:
            if group.rate > 0.0:
                ticket = group.heap[0]
                if not ticket.present:
                    ticket = group.head()
                left = (ticket.mark - group.clock) / group.rate
                if left < soonest or (left == soonest and best is not None and ticket.order < best.order):
                    best, soonest = ticket, left
        return best, self._now + (soonest if soonest > 0.0 else 0.0)

    def is_finished(self, ticket: Ticket, now: float = 0.0) -> bool:
        """Tell whether the user with this ticket has got all its units by ``now``, up to the clock's resolution."""
        if now > self._now:
            self.advance(now)
        # What it lacks is nothing when times and marks cannot resolve it.
        group, mark = ticket.group, ticket.mark
        return mark - group.clock <= _RESOLUTION * (self._now * group.rate + mark)

    def _divide(self) -> None:
        """Set the users' rates: users with small caps get their caps, the others share the rest equally."""
        all_used = 0.0
        left = 0.0 if self._halts else self.capacity
        users = self.users
        for group in self._classes:
            group.rate = rate = _fair_rate(left, users, group.cap)
            used = rate * group.users
            left -= used
            users -= group.users
            all_used += used
        self._used = all_used


_cap: Callable[[_Class], float] = operator.attrgetter("cap")


def _fair_rate(left: float, users: int, cap: float) -> float:
    """Return the rate of a user, one of ``users`` who share a rate of ``left``: an equal share, at most its cap."""
    rate = left / users if left > 0.0 else 0.0
    return cap if cap < rate else rate


def _bad_request(amount: float, cap: float) -> ValueError:
    return ValueError(f"amount {amount!r} and cap {cap!r} must not be negative, and cap not zero")


class _TicketBox(Mailbox):
    """The mailbox in which a user of a pool waits while the user is served."""

    __slots__ = ()
    is_service = True
    """Whether waits here count as service: a message does not end the wait, it reports a new division."""


class SharedPool:
    """A bandwidth that actors share: ``await pool.serve(amount)`` returns when the caller has got ``amount`` units.

    Only the user who finishes first keeps a timer. A user who leaves, or is no longer first, wakes the new first one.
    So a lone user costs one suspension, or none where no other event is due before. With ``uncontended`` every user has
    the whole capacity (to find out what sharing costs).
    """

    __slots__ = ("_boxes", "_sim", "_uncontended", "name", "share")

    def __init__(self, sim: Simulation, capacity: float, name: str, *, uncontended: bool = False) -> None:
        self._sim = sim
        self.name = name
        self.share = FairShare(capacity)
        self._uncontended = uncontended
        self._boxes: list[Mailbox] = []  # of users who have left, to be used again

    def serve(self, amount: float, cap: float = math.inf) -> Awaitable[None]:
        """Take ``amount`` units at the rate of a fair division among all users, at most ``cap`` units per second.

        Await the result at once: the user arrives at the call. Raises ValueError for a cap of 0.
        """
        if not cap > 0:
            raise _bad_request(amount, cap)
        if self._uncontended:
            return self._sim.sleep(amount / _fair_rate(self.share.capacity, 1, cap))
        return self.finish(self.share.join(self._sim.now, amount, cap), just_joined=True)

    def enter(self, amount: float, cap: float) -> Ticket:
        """Add a user of ``amount`` units, at most ``cap`` a second; the caller goes on and calls ``finish`` later."""
        return self.share.join(self._sim.now, amount, cap)

    def leave(self, ticket: Ticket) -> None:
        """Remove a user before it has all its units, by its ticket from ``enter``; ``finish`` is then not called."""
        self.share.leave(self._sim.now, ticket)
        if self.share.users:
            self._wake_first()

    async def finish(self, ticket: Ticket, *, just_joined: bool = False) -> None:
        """Wait until a ticket's user has all its units. ``just_joined``: `join` made the ticket at this instant."""
        sim, share = self._sim, self.share
        try:
            while not share.is_finished(ticket, sim.now):
                first, time = share.first()
                if share.users == 1:  # whoever comes can only make it later: nobody needs to wake it
                    await sim.sleep(time - sim.now)
                else:
                    if (box := ticket.box) is None:
                        box = ticket.box = self._boxes.pop() if self._boxes else _TicketBox(sim, self.name)
                    if first is ticket:
                        await box.get_until(time)
                    else:
                        if not just_joined:  # the one who is first by now may have no timer
                            self._wake_first()
                        await box.get()
                just_joined = False
        finally:
            share.leave(sim.now, ticket)
            if ticket.box is not None:
                self._boxes.append(ticket.box)
            if share.users:
                self._wake_first()

    def _wake_first(self) -> None:
        first, _ = self.share.first()
        if first is not None and first.box is not None:
            first.box.put(None)
