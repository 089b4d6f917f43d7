"""Host threads that do nothing but take a lock: folly's SmallLocksBenchmark on `std::mutex`.

Threads in groups share a mutex; each repeats a loop of some turns outside of the lock and some inside. How long a turn
takes is an input, as it is the compiler's and the core's matter. The work outside varies by 20 %, lest threads that do
the same march in step.
"""

from __future__ import annotations

from typing import Final

import attrs

from offloadrt.machine.host_lock import HostLock, lock_policy
from offloadrt.study import Run

VARIES: Final = 0.2


@attrs.define
class SharedMutex:
    """A mutex with the threads that share it; its hand-over is that of the run-time library's `std::mutex`."""

    run: Run
    number: int
    operations: int = 0
    lock: HostLock = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        spec = self.run.machine.spec
        self.lock = HostLock(
            self.run.machine,
            f"mutex {self.number}",
            lock_policy(spec.text("table.handoff")),
            spec.value("table.handover"),
            category="compute",
            wait_category="threads",
        )

    async def use(self, until: float, inside_s: float, outside_s: float) -> None:
        """Take it again and again until an instant."""
        sim, machine = self.run.sim, self.run.machine
        while sim.now < until:
            if outside_s:
                await machine.work(outside_s * sim.rng.uniform(1.0 - VARIES, 1.0 + VARIES), "compute")
            await self.lock.enter(inside_s)
            self.lock.release()
            self.operations += 1


async def contend(run: Run, sharing: int, threads: int, inside_s: float, outside_s: float, seconds: float) -> int:
    """Let so many threads work in groups that share a mutex each; return the operations of all."""
    mutexes = [SharedMutex(run, number) for number in range(max(1, threads // sharing))]
    until = run.sim.now + seconds
    async with run.sim.open_nursery() as nursery:
        for mutex in mutexes:
            for _ in range(sharing):
                nursery.spawn(mutex.use, until, inside_s, outside_s)
    return sum(mutex.operations for mutex in mutexes)
