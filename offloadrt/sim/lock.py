"""A mutual-exclusion lock in virtual time."""

from __future__ import annotations

import math
import operator
import types
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable
from types import TracebackType
from typing import Any, Literal, Self

import attrs

from offloadrt.sim.actor import PASSED, Actor, uninterrupted
from offloadrt.sim.async_only import AsyncOnly
from offloadrt.sim.simulation import Simulation

Handoff = Literal["fifo", "barging"]


@attrs.frozen
class Figures:
    """Counts and virtual seconds that add up field by field; what a stretch of a run took is a difference of two.

    ``figures * factor`` estimates what was not run; its counts may be fractions, which stay until the last sum.
    """

    @classmethod
    def of(cls, statistics: object) -> Self:
        """Take those of the figures of `statistics` that this class has."""
        return cls(*(getattr(statistics, field.name) for field in attrs.fields(cls)))

    def __add__(self, other: Self) -> Self:
        return self._with(other, operator.add)

    def __sub__(self, earlier: Self) -> Self:
        return self._with(earlier, operator.sub)

    def __mul__(self, factor: float) -> Self:
        return self._with(self, lambda figure, _: figure * factor)

    def _with(self, other: Self, operation: Callable[[Any, Any], Any]) -> Self:
        names = [field.name for field in attrs.fields(type(self))]
        return type(self)(*(operation(getattr(self, name), getattr(other, name)) for name in names))


@attrs.frozen
class LockUse(Figures):
    """How often a lock was taken, how often an actor had to wait for it, and the virtual seconds waited and held.

    Times are sums over all acquisitions; waits that were cancelled are included.
    """

    acquired: int
    contended: int
    wait_s: float
    hold_s: float


@attrs.frozen
class LockStatistics(LockUse):
    """The use of a lock so far, and who waits for it and holds it at the moment."""

    tasks_waiting: int
    owner: str | None

    @classmethod
    def total(cls, every: Iterable[LockStatistics]) -> LockStatistics:
        """Add up the statistics of several locks."""
        each = list(every)
        return cls(
            acquired=sum(lock.acquired for lock in each),
            contended=sum(lock.contended for lock in each),
            wait_s=math.fsum(lock.wait_s for lock in each),
            hold_s=math.fsum(lock.hold_s for lock in each),
            tasks_waiting=sum(lock.tasks_waiting for lock in each),
            owner=None,
        )


class Lock(AsyncOnly):
    """``async with lock:``, or ``await lock.acquire()`` and ``lock.release()``.

    :param handoff: ``fifo`` gives a released lock to the longest waiter; ``barging`` frees it and wakes the longest
        waiter, which may find that somebody running was faster (as most real mutexes do).

    ``owner`` is the actor that holds it. Errors: RuntimeError on acquiring a lock one holds or releasing another's.
    """

    takes_turns = True
    """Whoever waits here waits for others to be through, and for no result of theirs."""

    __slots__ = (
        "_acquired", "_contended", "_held_since", "_hold_s", "_wait_s", "handoff", "name", "owner", "sim", "waiters",
    )  # fmt: skip

    def __init__(self, sim: Simulation, name: str, handoff: Handoff = "fifo") -> None:
        if handoff not in ("fifo", "barging"):
            raise ValueError(f"lock {name!r}: handoff is {handoff!r}; it can be 'fifo' or 'barging'")
        self.sim = sim
        self.name = name
        self.handoff: Handoff = handoff
        self.owner: Actor | None = None
        self.waiters: deque[Actor] = deque()
        self._acquired = self._contended = 0
        self._wait_s = self._hold_s = self._held_since = 0.0
        sim.primitives.append(self)

    def holders(self) -> list[Actor]:
        return [] if self.owner is None else [self.owner]

    def held_by_me(self) -> bool:
        return self.owner is not None and self.owner is self.sim.current

    def forget(self, actor: Actor) -> bool:
        """Take a waiter off the queue; False if it is not there, because the lock has been handed to it."""
        if actor not in self.waiters:
            return False
        self.waiters.remove(actor)
        self._wait_s += self.sim.now - actor.waits_since
        return True

    @uninterrupted
    def acquire(self) -> Awaitable[None]:
        """Wait until the lock is mine. Await it at once: a free lock is taken by the call."""
        sim = self.sim
        me = sim.running or sim.current
        # Nobody runs between this call and its await. So a free lock is taken here, and an acquisition without a wait
        # makes no generator.
        if self.owner is None and sim.operations_left:
            sim.operations_left -= 1
            self._take(me)
            return PASSED
        return self._acquire(me)

    @uninterrupted
    @types.coroutine
    def _acquire(self, me: Actor) -> Generator[Any, Any, None]:
        sim = self.sim
        # The pause comes before the look at the owner, because others may take the lock during it.
        if sim.operations_left:
            sim.operations_left -= 1
        else:
            yield from sim.pause(me)
        if self.owner is not None:
            if self.owner is me:
                raise RuntimeError(f"{me.name} acquires {self.name!r}, which it holds")
            self._contended += 1
            if sim.observer is not None:
                sim.observer.lock_waited(self, me)
            self.waiters.append(me)
            yield from sim.park(me, self)
            self._wait_s += sim.now - me.waits_since
            while self.owner is not me and self.owner is not None:  # barging: somebody was faster
                # To the head, because it has waited longest. (A futex would queue it last.)
                self.waiters.appendleft(me)
                yield from sim.park(me, self)
                self._wait_s += sim.now - me.waits_since
        self._take(me)

    def _take(self, me: Actor) -> None:
        sim = self.sim
        self.owner = me
        self._acquired += 1
        self._held_since = sim.now
        if sim.observer is not None:
            sim.observer.lock_acquired(self, me)

    @uninterrupted
    def release(self) -> None:
        """Give the lock up. RuntimeError if the caller does not hold it."""
        sim = self.sim
        me = sim.running or sim.current
        if self.owner is not me:
            raise RuntimeError(f"{me.name} releases {self.name!r}, which it does not hold")
        self._hold_s += sim.now - self._held_since
        if sim.observer is not None:
            sim.observer.lock_released(self, me)
        if self.waiters:
            successor = self.waiters.popleft()
            # Under fifo the successor owns the lock from now on, and not from its next step on: nobody can take it
            # between.
            self.owner = successor if self.handoff == "fifo" else None
            sim.ready.append(successor)
        else:
            self.owner = None

    async def __aenter__(self) -> Lock:
        await self.acquire()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def statistics(self) -> LockStatistics:
        holding = self.sim.now - self._held_since if self.owner is not None else 0.0
        return LockStatistics(
            acquired=self._acquired,
            contended=self._contended,
            wait_s=self._wait_s,
            hold_s=self._hold_s + holding,
            tasks_waiting=len(self.waiters),
            owner=None if self.owner is None else self.owner.name,
        )
