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
    """How often a thread computed."""
    waited: int
    """How often a thread found no idle core."""
    wait_s: float
    busy_s: float


class Cores:
    """``count`` equal cores.  A thread that waits for anything else gives its core up.

    With ``uncontended`` every thread has a core of its own (an ablation).
    """

    __slots__ = ("_busy_s", "_host_time", "_idle", "_sim", "_uncontended", "count")

    def __init__(self, sim: Simulation, count: int, host_time: HostTime, *, uncontended: bool = False) -> None:
        self._sim = sim
        self._host_time = host_time
        self.count = count
        self._idle = Semaphore(sim, count, "core")
        self._uncontended = uncontended
        self._busy_s = 0.0

    async def compute(self, dt: float, category: str = "compute") -> None:
        """Occupy one core for ``dt`` virtual seconds, and account for them, the wait for a core included.

        ``category`` is one of ``trace.HOST_TIME``: ``compute`` is the program's own work.
        """
        sim = self._sim
        arrival = sim.now
        if not self._uncontended:
            await self._idle.acquire()
        try:
            await sim.sleep(dt)
        finally:
            self.give_back(dt)
            self._host_time.add(category, sim.now - arrival)

    async def take(self) -> None:
        """Wait for a core and keep it until ``give_back``."""
        if not self._uncontended:
            await self._idle.acquire()

    def give_back(self, used_s: float) -> None:
        """Leave the core after ``used_s`` virtual seconds on it."""
        self._busy_s += used_s
        if not self._uncontended:
            self._idle.release()

    def statistics(self) -> CoreStatistics:
        idle = self._idle.statistics()
        return CoreStatistics(self.count, idle.acquired, idle.contended, idle.wait_s, self._busy_s)
