"""The cores of the host: a thread that computes occupies one; when all are taken it waits for one, in order."""

from __future__ import annotations

import attrs

from offloadrt.sim import Semaphore, Simulation


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

    __slots__ = ("_busy_s", "_idle", "_sim", "_uncontended", "count")

    def __init__(self, sim: Simulation, count: int, *, uncontended: bool = False) -> None:
        self._sim = sim
        self.count = count
        self._idle = Semaphore(sim, count, "core")
        self._uncontended = uncontended
        self._busy_s = 0.0

    async def compute(self, dt: float) -> None:
        """Occupy one core for ``dt`` virtual seconds."""
        if self._uncontended:
            await self._sim.sleep(dt)
            self._busy_s += dt
            return
        await self.take()
        try:
            await self._sim.sleep(dt)
        finally:
            self.give_back(dt)

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
