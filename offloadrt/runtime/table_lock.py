"""The device table lock: a daemon actor that grants the present table of one device to one thread after the other.

The holder runs the table's plain methods itself; this actor only decides whose turn it is. First come, first served, as
the queue of a contended mutex. A thread that had to wait pays the hand-over (`table.handover`) while it already owns
the lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from offloadrt.sim import Actor, Call, LockStatistics, Mailbox, Simulation


@attrs.frozen
class AcquireTable:
    """Sent with `Mailbox.call`: the reply is a `TableGranted`, when it is the caller's turn."""


@attrs.frozen
class ReleaseTable:
    """Sent by the holder, who does not wait for an answer."""


@attrs.frozen
class TableGranted:
    """The caller owns the table. contended: it had to wait for somebody."""

    contended: bool


@attrs.frozen
class TableFreed:
    """Reply under barging: the table is free and the caller has waited longest, but somebody may still be faster."""


MESSAGES = (AcquireTable, ReleaseTable, TableGranted, TableFreed)

_ACQUIRE = AcquireTable()
_RELEASE = ReleaseTable()
_GRANTED = TableGranted(contended=False)
_HANDED_OVER = TableGranted(contended=True)
_FREED = TableFreed()


class DeviceTableLock:
    """``await lock.acquire()`` and ``lock.release()``; start it once with `start`.

    barging: a release frees the table and wakes the longest waiter, who asks again and may find that somebody running
    was faster. uncontended: an ablation; the lock excludes nobody. on_wait: if the lock was contended, told how long
    the wait was, in the thread that has just got the lock; what a hand-over costs is its business. Looks like
    `offloadrt.sim.Lock` to whoever reads its statistics or watches it.
    """

    def __init__(
        self,
        sim: Simulation,
        name: str,
        barging: bool = False,
        uncontended: bool = False,
        on_wait: Callable[[float], None] | None = None,
    ) -> None:
        self.sim = sim
        self.name = name
        self.owner: Actor | None = None
        self.barging = barging
        self.uncontended = uncontended
        self._on_wait = on_wait
        self._mailbox = Mailbox(sim, name)
        self._mailbox.served_for = self.holders
        self._queue: deque[Call] = deque()
        self._granted_to: Actor | None = None
        self._acquired = 0
        self._contended = 0
        self._wait_s = 0.0
        self._hold_s = 0.0
        self._held_since = 0.0

    def start(self) -> None:
        """Spawn the actor. Call it from a running actor, once."""
        self.sim.spawn(self._serve, name=self.name, daemon=True)

    async def _serve(self) -> None:
        get = self._mailbox.get
        while True:
            item = await get()
            if isinstance(item, Call) and isinstance(item.message, AcquireTable):
                if self._granted_to is None:
                    self._grant(item, _GRANTED)
                else:
                    self._queue.append(item)
                    if self.sim.observer is not None:
                        self.sim.observer.lock_waited(self, item.caller)
            elif isinstance(item, ReleaseTable):
                self._granted_to = None
                self._pass_on()
            else:
                raise TypeError(f"the device table lock does not understand {getattr(item, 'message', item)!r}")

    def _pass_on(self) -> None:
        """To the longest waiter; one that was cancelled while it waited gets nothing, and the next one is asked."""
        while self._queue and self._granted_to is None:
            call = self._queue.popleft()
            if not self.barging:
                self._grant(call, _HANDED_OVER)
            elif call.reply(_FREED):
                return

    def _grant(self, call: Call, reply: TableGranted) -> None:
        if call.reply(reply):
            self._granted_to = call.caller

    async def acquire(self) -> bool:
        """Wait for the table. True if somebody else had it first."""
        sim = self.sim
        me = sim.running or sim.current
        if self.owner is me:
            raise RuntimeError(f"{me.name} acquires {self.name!r}, which it holds")
        if self.uncontended:
            self._acquired += 1
            return False
        since = sim.now
        contended = False
        reply: TableGranted | TableFreed = await self._mailbox.call(_ACQUIRE)
        while isinstance(reply, TableFreed):
            contended = True
            reply = await self._mailbox.call(_ACQUIRE)
        contended = contended or reply.contended
        self.owner = me
        self._acquired += 1
        self._held_since = now = sim.now
        self._wait_s += now - since
        if contended:
            self._contended += 1
            if self._on_wait is not None:
                self._on_wait(now - since)
        if sim.observer is not None:
            sim.observer.lock_acquired(self, me)
        return contended

    def release(self) -> None:
        """Give the table up. RuntimeError if the caller does not hold it."""
        if self.uncontended:
            return
        sim = self.sim
        me = sim.running or sim.current
        if self.owner is not me:
            raise RuntimeError(f"{me.name} releases {self.name!r}, which it does not hold")
        self._hold_s += sim.now - self._held_since
        self.owner = None
        if sim.observer is not None:
            sim.observer.lock_released(self, me)
        self._mailbox.put(_RELEASE)

    def holders(self) -> list[Actor]:
        return [] if self._granted_to is None else [self._granted_to]

    def held_by_me(self) -> bool:
        return self.owner is not None and self.owner is self.sim.current

    def assert_held(self) -> None:
        """The table's methods are for its holder only. RuntimeError otherwise."""
        if self.owner is not (self.sim.running or self.sim.current) and not self.uncontended:
            raise RuntimeError(f"{self.sim.current.name} uses the present table without holding {self.name!r}")

    def statistics(self) -> LockStatistics:
        holding = self.sim.now - self._held_since if self.owner is not None else 0.0
        return LockStatistics(
            acquired=self._acquired,
            contended=self._contended,
            wait_s=self._wait_s,
            hold_s=self._hold_s + holding,
            tasks_waiting=len(self._queue),
            owner=None if self.owner is None else self.owner.name,
        )
