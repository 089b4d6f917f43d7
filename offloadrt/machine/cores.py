"""The cores of the host: a thread that computes occupies one; when all are taken it waits for one, in order."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Generator
from heapq import heappush
from math import inf
from typing import Any

import attrs

from offloadrt.sim import PASSED, Semaphore, Simulation
from offloadrt.sim.actor import uninterrupted
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
    """Of threads for a core."""
    busy_s: float
    idle_s: float


class Cores:
    """``count`` equal cores.  A thread that waits for anything else gives its core up.

    With ``uncontended`` every thread has a core of its own (an ablation).
    """

    __slots__ = (
        "_born", "_busy", "_busy_s", "_computed", "_host_seconds", "_queue", "_sim", "_uncontended", "count",
    )  # fmt: skip

    def __init__(self, sim: Simulation, count: int, host_time: HostTime, *, uncontended: bool = False) -> None:
        self._sim = sim
        self.count = count
        self._queue = Semaphore(sim, 0, "core")
        self._uncontended = uncontended
        self._host_seconds = host_time.seconds
        self._computed = 0
        self._busy = 0
        self._busy_s = 0.0  # ends less beginnings, so that those at work need no look
        self._born = sim.now

    @uninterrupted
    def compute(self, dt: float, category: str = "compute") -> Awaitable[None]:
        """Occupy one core for ``dt`` virtual seconds, and account for them, the wait for a core included.

        ``category`` is one of ``trace.HOST_TIME``: ``compute`` is the program's own work.  Await it at once: when a
        core is idle and nobody else is due meanwhile, the time has passed already.
        """
        if not 0.0 <= dt < inf:
            raise ValueError(f"compute({dt!r}): virtual seconds are finite and not negative")
        sim = self._sim
        if not sim.ready and sim.strides and (self._busy < self.count or self._uncontended):
            now, heap, me = sim.now, sim.heap, sim.running
            due = now + dt
            if (not heap or heap[0][0] > due) and me is not None and me.trap is None:  # as sim.pass_to(due) does
                sim.events += 1
                sim.strides -= 1
                sim.now = due
                self._computed += 1
                self._busy_s = self._busy_s - now + due
                self._host_seconds[category] += due - now
                return PASSED
        return self._compute(dt, category)

    @uninterrupted
    @types.coroutine
    def _compute(self, dt: float, category: str) -> Generator[Any, Any, None]:
        sim = self._sim
        me = sim.running
        if me is None:
            me = sim.current
        arrival = sim.now
        if self._busy < self.count or self._uncontended:
            self._computed += 1
            self._busy += 1
            self._busy_s -= arrival
        else:
            yield from self.take().__await__()
        try:
            sim.events = number = sim.events + 1
            heappush(sim.heap, (sim.now + dt, number, me))
            yield me.trap
            if me.trouble is not None:
                yield from sim.interrupted(me)
        finally:
            now = sim.now
            if self._queue.waiters:
                self._queue.release()
            else:
                self._busy -= 1
                self._busy_s += now
            self._host_seconds[category] += now - arrival

    def take_now(self) -> bool:
        """Take a core if one is idle, without a coroutine; False when ``take`` has to wait for one."""
        if self._busy >= self.count and not self._uncontended:
            return False
        self._computed += 1
        self._busy += 1
        self._busy_s -= self._sim.now
        return True

    async def take(self) -> None:
        """Wait for a core and keep it until ``give_back``."""
        self._computed += 1
        if self._busy < self.count or self._uncontended:
            self._busy += 1
            self._busy_s -= self._sim.now
        else:
            await self._queue.acquire()

    def give_back(self) -> None:
        """Leave the core; the thread that waits longest gets it."""
        if self._queue.waiters:
            self._queue.release()
        else:
            self._busy -= 1
            self._busy_s += self._sim.now

    def statistics(self) -> CoreStatistics:
        """What the cores did so far."""
        now, queue = self._sim.now, self._queue.statistics()
        busy_s = self._busy_s + self._busy * now
        idle_s = max((now - self._born) * self.count - busy_s, 0.0)
        return CoreStatistics(self.count, self._computed, queue.contended, queue.wait_s, busy_s, idle_s)
