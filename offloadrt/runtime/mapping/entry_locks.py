"""The locks of the entries of one present table: made when a block is mapped, used again after it is removed."""

from __future__ import annotations

import attrs

from offloadrt.sim import Lock, LockStatistics, Simulation


class EntryLocks:
    """Hands out a free lock for each new entry; `statistics` sums over all of them."""

    def __init__(self, sim: Simulation, name: str) -> None:
        self.sim = sim
        self.name = name
        self._all: list[Lock] = []
        self._free: list[Lock] = []
        self.passed = 0
        """How often a free lock would have been taken and given back at one instant (`OffloadDevice.pass_entry`)."""

    def take(self, array: str) -> Lock:
        if self._free:
            lock = self._free.pop()
        else:
            lock = Lock(self.sim, self.name)
            self._all.append(lock)
        lock.name = f"entry of {array}" if array else "entry"
        return lock

    def give_back(self, lock: Lock) -> None:
        """Take back the lock of an entry that is gone: nobody can wait for it any more."""
        self._free.append(lock)

    def statistics(self) -> LockStatistics:
        total = LockStatistics.total(lock.statistics() for lock in self._all)
        return attrs.evolve(total, acquired=total.acquired + self.passed)
