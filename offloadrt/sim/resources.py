"""Resources that actors take in turns: `Lock`, `Semaphore`, `RWLock` and `Station`; `Resource` has their queue.

An actor that waits parks (`Scheduler.park`), and the actor that ends the wait appends it to ``sim.ready``. Two rules
hold for all resources. First, a released resource belongs to the next actor of the queue at once, and not only when
that actor makes its next step, so that no third actor can take it in between. (Trio's `Lock` does the same, against a
task that releases and acquires a lock in a loop. A lock with the hand-off ``barging`` breaks the rule on purpose, as
most real mutexes do.) Second, the call itself takes a free resource, not its await: no other actor runs between the
two, and an operation that need not wait needs no coroutine.

In Trio, a lock asks a separate object, its `ParkingLot`, to park and unpark tasks. Here the queue is in the base class:
the hot paths append to it and pop from it themselves, without a call.
"""

from __future__ import annotations

import math
import operator
import types
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable
from math import inf
from types import TracebackType
from typing import Any, Literal, Self

import attrs

from offloadrt.sim.errors import AsyncOnly
from offloadrt.sim.scheduler import PASSED, Actor, Scheduler, uninterrupted

Handoff = Literal["fifo", "barging"]


class Resource:
    """Base of resources that actors take in turns: the queue of waiting actors, in order of arrival, and its counters.

    A subclass says when a request can be granted, and what happens then. A waiting actor stores its request, if there
    are several kinds, in its field ``wants``, so that the queue holds only actors.
    """

    takes_turns = True
    """Whether actors wait here until others have finished with the resource, and not for a result from others."""

    __slots__ = ("_contended", "_wait_s", "name", "sim", "waiters")

    def __init__(self, sim: Scheduler, name: str) -> None:
        self.sim = sim
        self.name = name
        self.waiters: deque[Actor] = deque()
        self._contended = 0
        self._wait_s = 0.0
        sim.primitives.append(self)

    def forget(self, actor: Actor) -> bool:
        """Remove a waiter from the queue; return False if it has already been handed what it waited for."""
        if actor not in self.waiters:
            return False
        self.waiters.remove(actor)
        self._wait_s += self.sim.now - actor.waits_since
        return True


class Entered(Resource, AsyncOnly, ABC):
    """Base of the resources that an actor acquires and releases with ``async with``."""

    __slots__ = ()

    @abstractmethod
    def acquire(self) -> Awaitable[None]: ...

    @abstractmethod
    def release(self) -> None: ...

    async def __aenter__(self) -> Self:
        await self.acquire()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


@attrs.frozen
class Figures:
    """Base of records of counts and virtual seconds; ``+``, ``-`` and ``*`` work field by field.

    ``later - earlier`` is the use between two records. ``record * factor`` estimates the use of a longer run.
    """

    @classmethod
    def of(cls, statistics: object) -> Self:
        """Make a record of this class from those attributes of `statistics` that have its fields' names."""
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
    """Counts how often a lock was taken (`acquired`) and how often an actor had to wait for it (`contended`).

    `wait_s` and `hold_s`: virtual seconds waited (cancelled waits included) and held, summed over all acquisitions.
    """

    acquired: int
    contended: int
    wait_s: float
    hold_s: float


@attrs.frozen
class LockStatistics(LockUse):
    """The use of a lock so far; `tasks_waiting` actors wait for it now, and `owner` is the name of its holder."""

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


class Lock(Entered):
    """A mutex: ``async with lock:``, or ``await lock.acquire()`` and ``lock.release()``.

    :param handoff: ``fifo`` gives a released lock to the actor that has waited longest; ``barging`` frees the lock and
        wakes that actor, but a running actor may take the lock first, as with most real mutexes.

    ``owner`` is the holder, or None. RuntimeError when an actor acquires a lock that it holds, or releases another.
    """

    __slots__ = (
        "_acquired", "_held_since", "_hold_s", "handoff", "owner",
    )  # fmt: skip

    def __init__(self, sim: Scheduler, name: str, handoff: Handoff = "fifo") -> None:
        if handoff not in ("fifo", "barging"):
            raise ValueError(f"lock {name!r}: handoff is {handoff!r}; it can be 'fifo' or 'barging'")
        super().__init__(sim, name)
        self.handoff: Handoff = handoff
        self.owner: Actor | None = None
        self._acquired = 0
        self._hold_s = self._held_since = 0.0

    def holders(self) -> list[Actor]:
        return [] if self.owner is None else [self.owner]

    @uninterrupted
    def acquire(self) -> Awaitable[None]:
        """Wait until the calling actor holds the lock. Await the result at once: the call itself takes a free lock."""
        sim = self.sim
        me = sim.running or sim.current
        # No other actor runs between this call and its await. So a free lock is taken here, and an acquisition without
        # a wait makes no generator.
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
            while self.owner is not me and self.owner is not None:  # barging: another actor was faster
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
        """Release the lock. RuntimeError if the caller does not hold it."""
        sim = self.sim
        me = sim.running or sim.current
        if self.owner is not me:
            raise RuntimeError(f"{me.name} releases {self.name!r}, which it does not hold")
        self._hold_s += sim.now - self._held_since
        if sim.observer is not None:
            sim.observer.lock_released(self, me)
        if self.waiters:
            successor = self.waiters.popleft()
            # Under fifo the successor owns the lock from now on, and not only from its next step on: no other actor can
            # take it in between.
            self.owner = successor if self.handoff == "fifo" else None
            sim.ready.append(successor)
        else:
            self.owner = None

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


@attrs.frozen
class SemaphoreStatistics:
    """Counts of a semaphore: `value` units are free; `contended` acquisitions waited, for `wait_s` virtual seconds."""

    acquired: int
    contended: int
    wait_s: float
    value: int
    tasks_waiting: int


class Semaphore(Entered):
    """A counting semaphore with ``value`` units.

    ``acquire`` takes one unit and waits in FIFO order; ``release`` gives one unit back. Any actor may release.
    """

    __slots__ = ("_acquired", "value")

    def __init__(self, sim: Scheduler, value: int, name: str) -> None:
        if value < 0:
            raise ValueError(f"semaphore {name!r}: {value} units; it cannot be negative")
        super().__init__(sim, name)
        self.value = value
        self._acquired = 0

    @uninterrupted
    def acquire(self) -> Awaitable[None]:
        """Wait until the calling actor has one unit. Await the result at once: the call itself takes a free unit."""
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
            # The successor's unit is counted here and not when it goes on: so it needs no code after its wait.
            self._wait_s += self.sim.now - successor.waits_since
            self._acquired += 1
            self.sim.ready.append(successor)
        else:
            self.value += 1

    def statistics(self) -> SemaphoreStatistics:
        return SemaphoreStatistics(self._acquired, self._contended, self._wait_s, self.value, len(self.waiters))


@attrs.frozen
class RWLockStatistics:
    """Counts acquisitions and those that waited (`contended`); times (`_s`, virtual) are summed over the actors."""

    read_acquired: int
    write_acquired: int
    contended: int
    wait_s: float
    read_hold_s: float
    write_hold_s: float
    tasks_waiting: int

    def combined(self) -> LockStatistics:
        """Return reads and writes added up, as one `LockStatistics`."""
        return LockStatistics(
            acquired=self.read_acquired + self.write_acquired,
            contended=self.contended,
            wait_s=self.wait_s,
            hold_s=self.read_hold_s + self.write_hold_s,
            tasks_waiting=self.tasks_waiting,
            owner=None,
        )


class RWLock(Resource):
    """Many readers or one writer, granted in order of arrival: a waiting writer holds up readers that come later.

    ``downgrade()`` turns a writer into a reader without letting another writer in. Raises RuntimeError when the caller
    releases or downgrades a lock that it does not hold. With `uncontended` nobody waits and nothing is counted.
    """

    __slots__ = (
        "_read_acquired", "_read_hold_s", "_since", "_uncontended", "_write_acquired", "_write_hold_s", "readers",
        "writer",
    )  # fmt: skip

    def __init__(self, sim: Scheduler, name: str, *, uncontended: bool = False) -> None:
        super().__init__(sim, name)
        self._uncontended = uncontended
        self.readers: dict[Actor, float] = {}
        self.writer: Actor | None = None
        self._since = 0.0
        self._read_acquired = self._write_acquired = 0
        self._read_hold_s = self._write_hold_s = 0.0

    def holders(self) -> list[Actor]:
        return [self.writer] if self.writer is not None else list(self.readers)

    def forget(self, actor: Actor) -> bool:
        """Remove a waiter from the queue; return False if the lock has been handed to it already."""
        gone = super().forget(actor)
        # Behind a writer that gives up there may be readers, who can come in now.
        if gone:
            self._grant()
        return gone

    @uninterrupted
    def acquire_read(self) -> Awaitable[None]:
        """Wait until the calling actor is a reader. Await the result at once: the call itself takes a free lock."""
        return self._acquire(False)

    @uninterrupted
    def acquire_write(self) -> Awaitable[None]:
        """Wait until the calling actor is the writer. Await the result at once: the call itself takes a free lock."""
        return self._acquire(True)

    @uninterrupted
    def _acquire(self, write: bool) -> Awaitable[None]:
        if self._uncontended:
            return PASSED
        sim = self.sim
        me = sim.running or sim.current
        if self.writer is me or me in self.readers:
            raise RuntimeError(f"{me.name} acquires {self.name!r}, which it holds")
        if not sim.operations_left:
            return self._acquire_after_pause(me, write)
        sim.operations_left -= 1
        # Readers do not pass a waiting writer, even while others read: a stream of readers would starve it.
        if self.waiters or not self._free_for(write):
            return self._wait(me, write)
        self._take(me, write)
        if sim.observer is not None:
            sim.observer.lock_acquired(self, me)
        return PASSED

    @uninterrupted
    async def _acquire_after_pause(self, me: Actor, write: bool) -> None:
        await self.sim.pause(me)
        await self._acquire(write)

    @uninterrupted
    @types.coroutine
    def _wait(self, me: Actor, write: bool) -> Generator[Any, Any, None]:
        sim = self.sim
        self._contended += 1
        if sim.observer is not None:
            sim.observer.lock_waited(self, me)
        me.wants = write
        self.waiters.append(me)
        yield from sim.park(me, self)
        self._wait_s += sim.now - me.waits_since
        if sim.observer is not None:
            sim.observer.lock_acquired(self, me)

    def _free_for(self, write: bool) -> bool:
        return self.writer is None and not (write and self.readers)

    def _take(self, actor: Actor, write: bool) -> None:
        if write:
            self.writer = actor
            self._since = self.sim.now
            self._write_acquired += 1
        else:
            self.readers[actor] = self.sim.now
            self._read_acquired += 1

    def _grant(self) -> None:
        while self.waiters and self._free_for(self.waiters[0].wants):
            actor = self.waiters.popleft()
            self._take(actor, actor.wants)
            self.sim.ready.append(actor)

    @uninterrupted
    def release(self) -> None:
        """Release what the calling actor holds, as reader or as writer."""
        if self._uncontended:
            return
        sim = self.sim
        me = sim.running or sim.current
        if self.writer is me:
            self.writer = None
            self._write_hold_s += sim.now - self._since
        elif me in self.readers:
            self._read_hold_s += sim.now - self.readers.pop(me)
        else:
            raise RuntimeError(f"{me.name} releases {self.name!r}, which it does not hold")
        if sim.observer is not None:
            sim.observer.lock_released(self, me)
        if self.waiters:
            self._grant()

    @uninterrupted
    def downgrade(self) -> None:
        """Turn the writer into a reader; readers at the head of the queue get the lock as well."""
        if self._uncontended:
            return
        sim = self.sim
        me = sim.current
        if self.writer is not me:
            raise RuntimeError(f"{me.name} downgrades {self.name!r}, which it does not hold for writing")
        self.writer = None
        self._write_hold_s += sim.now - self._since
        # As Linux's downgrade_write does: the readers at the head of the queue are woken too, writers are not.
        self._take(me, False)
        self._grant()

    def statistics(self) -> RWLockStatistics:
        now = self.sim.now
        reading = self._read_hold_s
        for since in self.readers.values():
            reading += now - since
        return RWLockStatistics(
            read_acquired=self._read_acquired,
            write_acquired=self._write_acquired,
            contended=self._contended,
            wait_s=self._wait_s,
            read_hold_s=reading,
            write_hold_s=self._write_hold_s + (now - self._since if self.writer is not None else 0.0),
            tasks_waiting=len(self.waiters),
        )


@attrs.frozen
class StationStatistics:
    """Use of a station so far: virtual seconds of all waits and of busy servers; `in_service` servers are busy now."""

    served: int
    """Number of services that have ended."""
    waited: int
    """Number of visits that found no free server."""
    wait_s: float
    busy_s: float
    in_service: int
    tasks_waiting: int


class Station(Resource):
    """``capacity`` servers and one FIFO queue. ``await serve(dt)`` occupies a server for ``dt`` virtual seconds.

    When a visit is cancelled, its server goes to the next actor in the queue at once.
    """

    __slots__ = (
        "_busy_s", "_free", "_since", "capacity", "served",
    )  # fmt: skip

    def __init__(self, sim: Scheduler, capacity: int, name: str) -> None:
        if capacity < 1:
            raise ValueError(f"station {name!r}: capacity is {capacity}; it needs at least one server")
        super().__init__(sim, name)
        self.capacity = capacity
        self.served = 0
        self._free = capacity
        self._busy_s = self._since = 0.0

    def forget(self, actor: Actor) -> bool:
        """Remove a waiter from the queue; return False if it is being served already."""
        gone = super().forget(actor)
        if gone:
            actor.value = self  # it leaves the queue, not a server
        return gone

    @uninterrupted
    @types.coroutine
    def serve(self, dt: float) -> Generator[Any, Any, None]:
        """Wait for a server and occupy it for ``dt`` virtual seconds. ValueError unless dt is finite and >= 0."""
        if not 0.0 <= dt < inf:
            raise ValueError(f"{self.name!r}: a service of {dt!r} virtual seconds; it must be finite and not negative")
        sim = self.sim
        me = sim.running or sim.current
        if self._free:
            self._account()
            self._free -= 1
            visit: Any = sim.until_due(me, sim.now + dt)
        else:
            self._contended += 1
            me.wants = dt
            self.waiters.append(me)
            visit = sim.park(me, self)
        # When the visit is cut short, this value says what the actor has to give up: `forget` sets it when the actor
        # leaves the queue; otherwise the actor leaves a server.
        me.value = None
        try:
            yield from visit
        except BaseException:
            if me.value is not self:
                self._leave()
            raise
        self.served += 1
        self._leave()

    def _account(self) -> None:
        now = self.sim.now
        self._busy_s += (self.capacity - self._free) * (now - self._since)
        self._since = now

    def _leave(self) -> None:
        """Free one server; the next actor in the queue, if any, starts its service at once."""
        if self.waiters:
            sim = self.sim
            # The leaving actor sets the next one's timer, so a visit is one suspension, whether it had to wait or not.
            actor = self.waiters.popleft()
            self._wait_s += sim.now - actor.waits_since
            sim.set_timer(actor, sim.now + actor.wants)
        else:
            self._account()
            self._free += 1

    def statistics(self) -> StationStatistics:
        self._account()
        return StationStatistics(
            served=self.served,
            waited=self._contended,
            wait_s=self._wait_s,
            busy_s=self._busy_s,
            in_service=self.capacity - self._free,
            tasks_waiting=len(self.waiters),
        )
