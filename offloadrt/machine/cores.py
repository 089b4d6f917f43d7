"""The cores of the host: a thread that computes occupies one; when all are taken it waits for one, in order."""

from __future__ import annotations

import attrs

from offloadrt.sim import Semaphore, Simulation
from offloadrt.trace import HostTime


@attrs.frozen
class CoreStatistics:
    """What the cores did; times in virtual seconds, summed over cores or threads."""

    cores: int
    computed: int
    """How often a thread took a core."""
    waited: int
    """How often a thread found no idle core."""
    wait_s: float
    busy_s: float


class Cores:
    """``count`` equal cores.  A thread that waits for anything else gives its core up.

    With ``uncontended`` every thread has a core of its own (an ablation).
    """

    __slots__ = ("_busy_s", "_computed", "_host_seconds", "_idle", "_queue", "_queued", "_sim", "_uncontended", "count")

    def __init__(self, sim: Simulation, count: int, host_time: HostTime, *, uncontended: bool = False) -> None:
        self._sim = sim
        self.count = count
        self._idle = count
        self._queue = Semaphore(sim, 0, "core")
        self._queued = 0
        self._uncontended = uncontended
        self._host_seconds = host_time.seconds
        self._computed = 0
        self._busy_s = 0.0

    async def compute(self, dt: float, category: str = "compute") -> None:
        """Occupy one core for ``dt`` virtual seconds, and account for them, the wait for a core included.

        ``category`` is one of ``trace.HOST_TIME``: ``compute`` is the program's own work.
        """
        sim = self._sim
        arrival = sim.now
        if self._idle > 0 or self._uncontended:
            self._idle -= 1
            self._computed += 1
        else:
            await self.take()
        try:
            await sim.sleep(dt)
        finally:
            self.give_back(dt)
            self._host_seconds[category] += sim.now - arrival

    async def take(self) -> None:
        """Wait for a core and keep it until ``give_back``."""
        self._computed += 1
        if self._idle > 0 or self._uncontended:
            self._idle -= 1
            return
        self._queued += 1
        try:
            await self._queue.acquire()
        finally:
            self._queued -= 1

    def give_back(self, used_s: float) -> None:
        """Leave the core after ``used_s`` virtual seconds on it; the thread that waits longest gets it."""
        self._busy_s += used_s
        if self._queued:
            self._queue.release()
        else:
            self._idle += 1

    def statistics(self) -> CoreStatistics:
        """What the cores did so far."""
        queue = self._queue.statistics()
        return CoreStatistics(self.count, self._computed, queue.contended, queue.wait_s, self._busy_s)
