"""Taking a lock so that the wait for it shows in the accounting of the host threads' time."""

from __future__ import annotations

from offloadrt.sim import Lock
from offloadrt.trace import HostTime


async def take(lock: Lock, host_time: HostTime, category: str = "runtime lock") -> None:
    """Acquire `lock`; the caller releases it. category: one of `trace.HOST_TIME`, gets the time until then."""
    if lock.owner is None:
        await lock.acquire()
        return
    since = lock.sim.now
    await lock.acquire()
    host_time.add(category, lock.sim.now - since)
