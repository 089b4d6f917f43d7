"""How many of something there are over virtual time, for the statistics of what contends."""

from __future__ import annotations

from offloadrt.sim import Simulation


class LevelOverTime:
    """A number that rises and falls by one, and what became of it in time, up to now.

    ``total_s`` sums the seconds that each of them was there, ``some_s`` the seconds in which there was any.
    """

    __slots__ = ("_sim", "_since", "_some_s", "_total_s", "number")

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._since = sim.now
        self._total_s = self._some_s = 0.0
        self.number = 0

    def rise(self) -> None:
        """Count one more from now on."""
        now = self._sim.now
        if self.number:
            dt = now - self._since
            self._total_s += self.number * dt
            self._some_s += dt
        self._since = now
        self.number += 1

    def fall(self) -> None:
        """Count one fewer from now on."""
        now = self._sim.now
        dt = now - self._since
        self._total_s += self.number * dt
        self._some_s += dt
        self._since = now
        self.number -= 1

    @property
    def total_s(self) -> float:
        self._account()
        return self._total_s

    @property
    def some_s(self) -> float:
        self._account()
        return self._some_s

    def _account(self) -> None:
        if self.number:
            now = self._sim.now
            dt = now - self._since
            self._total_s += self.number * dt
            self._some_s += dt
            self._since = now
