"""A readers-writer lock in virtual time, with downgrade (as Linux's mmap lock has)."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Awaitable, Generator
from typing import Any

import attrs

from offloadrt.sim.actor import PASSED, Actor, Scheduler, uninterrupted
from offloadrt.sim.lock import LockStatistics


@attrs.frozen
class RWLockStatistics:
    """``read_hold_s`` sums over readers; all times in virtual seconds."""

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


class RWLock:
    """Many readers or one writer, granted in order of arrival: a waiting writer holds up readers that come later.

    ``await acquire_read()``, ``await acquire_write()``, ``release()``; ``downgrade()`` turns a writer into a reader
    without letting another writer in. RuntimeError when the caller does not hold what it gives up.
    """

    takes_turns = True
    """Whoever waits here waits for others to be through, and for no result of theirs."""

    __slots__ = (
        "_contended", "_read_acquired", "_read_hold_s", "_since", "_wait_s", "_write_acquired", "_write_hold_s", "name",
        "readers", "sim", "waiters", "writer",
    )  # fmt: skip

    def __init__(self, sim: Scheduler, name: str) -> None:
        self.sim = sim
        self.name = name
        self.readers: dict[Actor, float] = {}
        self.writer: Actor | None = None
        self.waiters: deque[tuple[Actor, bool]] = deque()
        self._since = 0.0
        self._read_acquired = self._write_acquired = self._contended = 0
        self._wait_s = self._read_hold_s = self._write_hold_s = 0.0
        sim.primitives.append(self)

    def holders(self) -> list[Actor]:
        return [self.writer] if self.writer is not None else list(self.readers)

    def forget(self, actor: Actor) -> bool:
        """Take a waiter off the queue; False if it is not there, because the lock has been handed to it."""
        left = deque(waiter for waiter in self.waiters if waiter[0] is not actor)
        if len(left) == len(self.waiters):
            return False
        self.waiters = left
        self._wait_s += self.sim.now - actor.waits_since
        # Behind a writer that gives up there may be readers, who can come in now.
        self._grant()
        return True

    @uninterrupted
    def acquire_read(self) -> Awaitable[None]:
        """Wait until I am a reader. Await it at once: a free lock is taken by the call."""
        return self._acquire(False)

    @uninterrupted
    def acquire_write(self) -> Awaitable[None]:
        """Wait until I am the writer. Await it at once: a free lock is taken by the call."""
        return self._acquire(True)

    @uninterrupted
    def _acquire(self, write: bool) -> Awaitable[None]:
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
        self.waiters.append((me, write))
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
        while self.waiters and self._free_for(self.waiters[0][1]):
            actor, write = self.waiters.popleft()
            self._take(actor, write)
            self.sim.ready.append(actor)

    @uninterrupted
    def release(self) -> None:
        """Give up what I hold, as reader or writer."""
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
        """Turn a writer into a reader; readers that head the queue come in as well."""
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
