"""A counting semaphore in virtual time."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import attrs

from offloadrt.sim.actor import uninterrupted

if TYPE_CHECKING:
    from types import TracebackType

    from offloadrt.sim.actor import Actor
    from offloadrt.sim.kernel import Simulation


@attrs.frozen
class SemaphoreStatistics:
    acquired: int
    contended: int
    wait_s: float
    value: int
    tasks_waiting: int


class Semaphore:
    """``value`` units; ``acquire`` takes one, waiting in FIFO order, ``release`` gives one back (also another's)."""

    __slots__ = ("_acquired", "_contended", "_wait_s", "name", "sim", "value", "waiters")

    def __init__(self, sim: Simulation, value: int, name: str) -> None:
        if value < 0:
            raise ValueError(f"semaphore {name!r}: {value} units; it cannot be negative")
        self.sim = sim
        self.name = name
        self.value = value
        self.waiters: deque[Actor] = deque()
        self._acquired = self._contended = 0
        self._wait_s = 0.0
        sim.primitives.append(self)

    def forget(self, actor: Actor) -> None:
        self.waiters.remove(actor)
        self._wait_s += self.sim.now - actor.waits_since

    @uninterrupted
    @types.coroutine
    def acquire(self) -> Generator[Any, Any, None]:
        """Wait until one unit is mine."""
        sim = self.sim
        me = sim.running
        if me is None:
            me = sim.current
        if sim.fuel:
            sim.fuel -= 1
        else:
            yield from sim.pause(me)
        if self.value:
            self.value -= 1
        else:
            self._contended += 1
            since = sim.now
            self.waiters.append(me)
            me.waits_for = self
            me.waits_since = since
            me.story.append((since, self.name))
            yield me.trap
            if me.trouble is not None:
                yield from sim.interrupted(me)
            self._wait_s += sim.now - since
        self._acquired += 1

    @uninterrupted
    def release(self) -> None:
        """Give one unit back; the longest waiter gets it."""
        if self.waiters:
            successor = self.waiters.popleft()
            successor.waits_for = None
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
