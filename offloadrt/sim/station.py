"""A service station: acquire, stay, release in one suspension."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Generator
from math import inf
from typing import Any

import attrs

from offloadrt.sim.actor import Actor, Scheduler, uninterrupted


@attrs.frozen
class StationStatistics:
    """``busy_s`` is the sum over servers of the virtual seconds spent serving, up to now for those who are served."""

    served: int
    waited: int
    wait_s: float
    busy_s: float
    in_service: int
    tasks_waiting: int


class Station:
    """``capacity`` servers and one FIFO queue. ``await station.serve(dt)`` waits for a server and stays ``dt``.

    A cancelled visit gives its server to the next in the queue at once.
    """

    takes_turns = True
    """Whoever waits here waits for others to be through, and for no result of theirs."""

    __slots__ = (
        "_busy_s", "_free", "_since", "_wait_s", "_waited", "capacity", "name", "served", "sim", "waiters",
    )  # fmt: skip

    def __init__(self, sim: Scheduler, capacity: int, name: str) -> None:
        if capacity < 1:
            raise ValueError(f"station {name!r}: capacity is {capacity}; it needs at least one server")
        self.sim = sim
        self.name = name
        self.capacity = capacity
        self.waiters: deque[tuple[Actor, float]] = deque()
        self.served = 0
        self._free = capacity
        self._waited = 0
        self._wait_s = self._busy_s = self._since = 0.0
        sim.primitives.append(self)

    def forget(self, actor: Actor) -> bool:
        """Take a waiter off the queue; False if it is not there, because it is being served."""
        left = deque(waiter for waiter in self.waiters if waiter[0] is not actor)
        if len(left) == len(self.waiters):
            return False
        self.waiters = left
        self._wait_s += self.sim.now - actor.waits_since
        actor.value = self  # it leaves the queue, not a server
        return True

    @uninterrupted
    @types.coroutine
    def serve(self, dt: float) -> Generator[Any, Any, None]:
        """Wait for a server, then stay ``dt`` virtual seconds. ValueError if dt is negative, infinite or NaN."""
        if not 0.0 <= dt < inf:
            raise ValueError(f"{self.name!r}: a service of {dt!r} virtual seconds; it must be finite and not negative")
        sim = self.sim
        me = sim.running or sim.current
        if self._free:
            self._account()
            self._free -= 1
            visit: Any = sim.until_due(me, sim.now + dt)
        else:
            self._waited += 1
            self.waiters.append((me, dt))
            visit = sim.park(me, self)
        # It tells a visit that is cut short what it has to give up: `forget` sets it when the actor leaves the queue,
        # else the actor leaves a server.
        me.value = None
        try:
            yield from visit
        except BaseException:
            if me.value is not self:
                self._leave()
            raise
        self.served += 1
        self._leave()

    def _account(self) -> None:
        now = self.sim.now
        self._busy_s += (self.capacity - self._free) * (now - self._since)
        self._since = now

    def _leave(self) -> None:
        """Free one server: the next in the queue starts its service at once."""
        if self.waiters:
            sim = self.sim
            # Who leaves sets the successor's timer, so a visit is one suspension, whether it had to wait or not.
            actor, dt = self.waiters.popleft()
            self._wait_s += sim.now - actor.waits_since
            sim.set_timer(actor, sim.now + dt)
        else:
            self._account()
            self._free += 1

    def statistics(self) -> StationStatistics:
        self._account()
        return StationStatistics(
            served=self.served,
            waited=self._waited,
            wait_s=self._wait_s,
            busy_s=self._busy_s,
            in_service=self.capacity - self._free,
            tasks_waiting=len(self.waiters),
        )
