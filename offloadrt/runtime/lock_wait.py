"""Waiting for a lock so that the wait counts in the account of the host threads' time."""

from __future__ import annotations

from collections.abc import Awaitable

from offloadrt.sim import PASSED, Lock
from offloadrt.trace import HostTime


def no_work() -> Awaitable[None]:
    """Return an awaitable that ends at once, for callers that have nothing to wait for."""
    return PASSED


def take(lock: Lock, host_time: HostTime, category: str = "runtime lock") -> Awaitable[None]:
    """Acquire `lock`, which the caller is to release; count the wait as `category`, an entry of `trace.HOST_TIME`."""
    return lock.acquire() if lock.owner is None else _wait(lock, host_time, category)


async def _wait(lock: Lock, host_time: HostTime, category: str) -> None:
    since = lock.sim.now
    await lock.acquire()
    host_time.add(category, lock.sim.now - since)
