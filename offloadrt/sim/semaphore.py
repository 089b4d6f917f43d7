"""A counting semaphore in virtual time."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable
from types import TracebackType

import attrs

from offloadrt.sim.actor import PASSED, Actor, Scheduler, uninterrupted
from offloadrt.sim.async_only import AsyncOnly


@attrs.frozen
class SemaphoreStatistics:
    """``wait_s`` is in virtual seconds over all waits so far, cancelled ones included; ``value`` units are free now."""

    acquired: int
    contended: int
    wait_s: float
    value: int
    tasks_waiting: int


class Semaphore(AsyncOnly):
    """``value`` units.

    ``acquire`` takes one, waiting in FIFO order, ``release`` gives one back; any actor may release.
    """

    takes_turns = True
    """Whoever waits here waits for others to be through, and for no result of theirs."""

    __slots__ = ("_acquired", "_contended", "_wait_s", "name", "sim", "value", "waiters")

    def __init__(self, sim: Scheduler, value: int, name: str) -> None:
        if value < 0:
            raise ValueError(f"semaphore {name!r}: {value} units; it cannot be negative")
        self.sim = sim
        self.name = name
        self.value = value
        self.waiters: deque[Actor] = deque()
        self._acquired = self._contended = 0
        self._wait_s = 0.0
        sim.primitives.append(self)

    def forget(self, actor: Actor) -> bool:
        """Take a waiter off the queue; False if it is not there, because it has been given a unit."""
        if actor not in self.waiters:
            return False
        self.waiters.remove(actor)
        self._wait_s += self.sim.now - actor.waits_since
        return True

    @uninterrupted
    def acquire(self) -> Awaitable[None]:
        """Wait until one unit is mine. Await it at once: a free unit is taken by the call."""
        sim = self.sim
        me = sim.running or sim.current
        if not sim.operations_left:
            return self._acquire_after_pause(me)
        sim.operations_left -= 1
        if self.value:
            self.value -= 1
            self._acquired += 1
            return PASSED
        self._contended += 1
        self.waiters.append(me)
        return sim.park(me, self)

    @uninterrupted
    async def _acquire_after_pause(self, me: Actor) -> None:
        await self.sim.pause(me)
        # From the beginning, because others may have taken the units during the pause.
        await self.acquire()

    @uninterrupted
    def release(self) -> None:
        """Give one unit back; the longest waiter gets it."""
        if self.waiters:
            successor = self.waiters.popleft()
            # What a waiter gets is accounted for here and not when it goes on: it then needs no code after its wait.
            self._wait_s += self.sim.now - successor.waits_since
            self._acquired += 1
            self.sim.ready.append(successor)
        else:
            self.value += 1

    async def __aenter__(self) -> Semaphore:
        await self.acquire()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def statistics(self) -> SemaphoreStatistics:
        return SemaphoreStatistics(self._acquired, self._contended, self._wait_s, self.value, len(self.waiters))
