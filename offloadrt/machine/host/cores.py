"""The cores of the host: a thread that computes occupies one; when all are taken it waits for one, in order."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Awaitable, Generator
from math import inf
from typing import Any

import attrs

from offloadrt.sim import PASSED, Actor, Simulation
from offloadrt.sim.errors import no_duration
from offloadrt.sim.scheduler import uninterrupted
from offloadrt.trace import HostTime


@attrs.frozen
class CoreStatistics:
    """What the cores did; times in virtual seconds, summed over cores or threads, up to now.

    busy_s + idle_s is the time elapsed times the number of cores.
    """

    cores: int
    computed: int
    """How often a thread took a core."""
    waited: int
    """How often a thread found no idle core."""
    wait_s: float
    """Time for which threads waited for a core, summed over them."""
    busy_s: float
    """Time of cores at work."""
    idle_s: float
    """Time of idle cores."""


class Cores:
    """``count`` equal cores.  A thread that waits for anything else gives its core up.

    With ``uncontended`` every thread has a core of its own (an ablation).
    """

    takes_turns = True

    __slots__ = (
        "_born", "_busy", "_busy_s", "_computed", "_host_seconds", "_places", "_sim", "_wait_s", "_waited",
        "_waiters", "count", "name",
    )  # fmt: skip

    def __init__(self, sim: Simulation, count: int, host_time: HostTime, *, uncontended: bool = False) -> None:
        self._sim = sim
        self.count = count
        self.name = "core"
        self._waiters: deque[tuple[Actor, float | None]] = deque()
        """Who waits for a core, and for how long it will work there; None: until it gives the core back."""
        self._places = inf if uncontended else count
        self._host_seconds = host_time.seconds
        self._computed = 0
        self._waited = 0
        self._wait_s = 0.0
        self._busy = 0
        self._busy_s = 0.0  # ends less beginnings, so that those at work need no look
        self._born = sim.now
        sim.primitives.append(self)

    @uninterrupted
    def compute(self, dt: float, category: str = "compute") -> Awaitable[None]:
        """Occupy one core for ``dt`` virtual seconds, and account for them, the wait for a core included.

        Await it at once: the work begins with the call. ``category`` is one of ``trace.HOST_TIME``: ``compute`` is the
        program's own work.
        """
        try:
            if not 0.0 <= dt < inf:
                raise no_duration("compute", dt)
        except TypeError:
            raise no_duration("compute", dt) from None
        sim = self._sim
        if (me := sim.running) is None:
            me = sim.current
        begin = sim.now
        if not self.begin(me, dt):
            return self._at_work(me, begin, category)
        self._host_seconds[category] += sim.now - begin  # done: nothing else was to happen before
        return PASSED

    @uninterrupted
    @types.coroutine
    def _at_work(self, me: Actor, begin: float, category: str) -> Generator[Any, Any, None]:
        """Wait for the end of work that has begun, or waits for a core."""
        sim = self._sim
        sim.running = None  # it waits in virtual time, as in `sleep`
        yield me.trap
        self.ended(me)
        self._host_seconds[category] += sim.now - begin
        if me.interruption is not None:
            yield from me.interrupted()

    @uninterrupted
    def take(self) -> Awaitable[None]:
        """Wait for a core and keep it until ``give_back``."""
        return PASSED if self.begin(self._sim.current, None) else self._wait()

    @uninterrupted
    @types.coroutine
    def _wait(self) -> Generator[Any, Any, None]:
        me = self._sim.current
        self._sim.running = None  # it waits in virtual time, as in `sleep`
        yield me.trap
        if me.interruption is not None:
            self.ended(me)
            yield from me.interrupted()

    def give_back(self) -> None:
        """Leave the core; the thread that waits longest gets it."""
        self.ended(self._sim.current)

    # ------------------------------------------------------------------ for a lock, which begins a thread's work

    def begin(self, actor: Actor, dt: float | None) -> bool:
        """Have ``actor``, which is parked or is about to park, resumed when it has worked on a core for ``dt``.

        It then calls ``ended``, also when it was resumed earlier because it was cancelled. With None it has the core
        until then. True if there is nothing to wait for: the core is its own from now on, or the work is over already,
        because the actor runs and nothing else was to happen before (`Simulation.set_timer`).
        """
        sim = self._sim
        self._computed += 1
        if self._busy < self._places:
            now = sim.now
            if dt is not None and sim.set_timer(actor, now + dt):
                self._busy_s = self._busy_s - now + sim.now
                return True
            self._busy += 1
            self._busy_s -= now
            return dt is None
        self._waited += 1
        self._waiters.append((actor, dt))
        actor.waits_for = self
        actor.waits_since = sim.now
        actor.story.append((sim.now, self.name))
        return False

    def ended(self, actor: Actor) -> None:
        """Give up the core that ``actor`` has; the thread that waits longest gets it, and begins its work at once.

        There is nothing to give up if the actor was cancelled while it waited for a core.
        """
        sim = self._sim
        if actor.value is self:
            actor.value = None
        elif not self._waiters:
            self._busy -= 1
            self._busy_s += sim.now
        else:
            # The core passes from one to the other without being idle. Its successor's timer is set here, so waiting
            # and working are one suspension of that thread.
            successor, dt = self._waiters.popleft()
            self._wait_s += sim.now - successor.waits_since
            if dt is None:
                sim.ready.append(successor)
            else:
                sim.set_timer(successor, sim.now + dt)
            successor.waits_for = None

    def forget(self, actor: Actor) -> None:
        """Take ``actor``, which is cancelled, off the queue."""
        self._waiters = deque(waiter for waiter in self._waiters if waiter[0] is not actor)
        self._wait_s += self._sim.now - actor.waits_since
        actor.waits_for = None
        actor.value = self  # it leaves the queue, not a core

    def statistics(self) -> CoreStatistics:
        """Return what the cores did so far."""
        now = self._sim.now
        busy_s = self._busy_s + self._busy * now
        idle_s = max((now - self._born) * self.count - busy_s, 0.0)
        return CoreStatistics(self.count, self._computed, self._waited, self._wait_s, busy_s, idle_s)
