"""The mmap lock of a process, under which its page tables change.

In Linux one read-write lock guards the address space of a process (``mmap_lock``).  amdkfd takes it for writing when it
sets attributes of a range (``svm_range_set_attr``), goes down to reading before it maps pages, and takes it for reading
when it serves a fault of a kernel (``svm_range_restore_pages``); the CPU's own fault handler takes it for reading.
Linux can serve a CPU fault under the lock of one mapping only; here every fault takes the mmap lock, as Linux did
before 6.4.
"""

from __future__ import annotations

from offloadrt.sim import RWLock, Simulation
from offloadrt.sim.resources import RWLockStatistics


class MmapLock:
    """The lock of one process; with ``uncontended`` it excludes nobody (an ablation)."""

    __slots__ = ("_contends", "_lock")

    def __init__(self, sim: Simulation, name: str, *, uncontended: bool) -> None:
        self._lock = RWLock(sim, name)
        self._contends = not uncontended

    @property
    def name(self) -> str:
        return self._lock.name

    async def acquire_read(self) -> None:
        """Take the lock together with other readers; ``release`` gives it back."""
        if self._contends:
            await self._lock.acquire_read()

    async def acquire_write(self) -> None:
        """Take the lock alone; ``release`` gives it back."""
        if self._contends:
            await self._lock.acquire_write()

    def downgrade(self) -> None:
        """Go on as a reader, beside others."""
        if self._contends:
            self._lock.downgrade()

    def release(self) -> None:
        """Give the lock back."""
        if self._contends:
            self._lock.release()

    def statistics(self) -> RWLockStatistics:
        """Return how often it was taken and how long actors waited for it."""
        return self._lock.statistics()
