"""The device table lock: a daemon actor that grants the present table of one device to one thread after the other.

The holder runs the table's plain methods itself; this actor only decides whose turn it is. First come, first served, as
the queue of a contended mutex. A thread that had to wait pays the hand-over (`table.handover`) while it already owns
the lock. A table that nobody wants is taken and given back without a message, as a free mutex is.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable

import attrs

from offloadrt.sim import PASSED, Actor, Call, LockStatistics, Mailbox, Simulation


@attrs.frozen
class AcquireTable:
    """Sent with `Mailbox.call`: the reply is a `TableGranted`, when it is the caller's turn."""


@attrs.frozen
class ReleaseTable:
    """Sent by the holder, who does not wait for an answer."""


@attrs.frozen
class TableGranted:
    """The caller owns the table."""


MESSAGES = (AcquireTable, ReleaseTable, TableGranted)

_ACQUIRE = AcquireTable()
_RELEASE = ReleaseTable()
_GRANTED = TableGranted()


class DeviceTableLock:
    """``await lock.acquire()`` and ``lock.release()``; start it once with `start`.

    uncontended: an ablation; the lock excludes nobody. on_wait: if the lock was contended, told how long the wait was,
    in the thread that has just got the lock; what a hand-over costs is its business. Looks like `offloadrt.sim.Lock` to
    whoever reads its statistics or watches it. `runtime.barging_table_lock` is the same without a queue's fairness.
    """

    def __init__(
        self,
        sim: Simulation,
        name: str,
        uncontended: bool = False,
        on_wait: Callable[[float], None] | None = None,
    ) -> None:
        self.sim = sim
        self.name = name
        self.owner: Actor | None = None
        self.uncontended = uncontended
        self._on_wait = on_wait
        self._requests = Mailbox(sim, name)
        self._requests.served_for = self.holders
        self._granted: Callable[[], Awaitable[object]] = functools.partial(self._requests.call, _ACQUIRE)
        """Asks for the table until it has been granted."""
        self._releases = Mailbox(sim, f"release of the {name}")
        self._users = 0
        self._granted_to: Actor | None = None
        self._taken = False
        """Held by somebody who took it without a message; the actor waits for their release before it grants."""
        self._asked = False
        """Somebody has asked for it since."""
        self._acquired = 0
        self._contended = 0
        self._wait_s = 0.0
        self._hold_s = 0.0
        self._held_since = 0.0

    def start(self) -> None:
        """Spawn the actor. Call it from a running actor, once."""
        self.sim.spawn(self._serve, name=self.name, daemon=True)

    async def _serve(self) -> None:
        """One holder after the other: the requests of those who wait stay in their mailbox meanwhile."""
        requests = self._requests
        while True:
            call = await requests.get()
            if not isinstance(call, Call) or not isinstance(call.message, AcquireTable):
                raise misunderstood(call)
            if not call.open:
                continue
            if self._taken:
                self._asked = True
                self._released(await self._releases.get())
                self._taken = False
            if call.reply(_GRANTED):  # else it was cancelled while it waited
                self._granted_to = call.caller
                self._released(await self._releases.get())

    def _released(self, released: object) -> None:
        if not isinstance(released, ReleaseTable):
            raise misunderstood(released)
        self._granted_to = self.owner  # somebody may have taken it meanwhile

    def take_now(self) -> bool:
        """Take the table if nobody has it or wants it: ``lock.take_now() or await lock.acquire()``.

        False also when others are ready at this instant, who come first where a message has to be served.
        """
        sim = self.sim
        me = sim.running
        if self.uncontended:
            self._acquired += 1
            return True
        if self._users or self._taken or me is None or sim.ready or not sim.fuel:
            return False
        sim.fuel -= 1
        self._users = 1
        self._taken, self._asked = True, False
        self._granted_to = self.owner = me
        self._acquired += 1
        self._held_since = sim.now
        if sim.observer is not None:
            sim.observer.lock_acquired(self, me)
        return True

    def pass_now(self, work: Callable[[float, str], Awaitable[None]], dt: float) -> bool:
        """Take the table, work there for ``dt`` and give it back, in one step: if it is free, and nobody else is due
        meanwhile. What the holder does at the end of its work, the caller does next.

        False, and nothing has happened, when it could not. ``work``: `Cores.compute`.
        """
        sim = self.sim
        if self._users or self._taken or sim.ready or not sim.fuel or self.uncontended or sim.observer is not None:
            return False
        since = sim.now
        if work(dt, "runtime") is not PASSED:
            return False
        sim.fuel -= 1
        self._acquired += 1
        self._hold_s += sim.now - since
        return True

    def glance(self) -> bool:
        """Take the table and give it back at once, if nobody has it or wants it and nobody watches: what is done there
        takes no time.
        """
        sim = self.sim
        if self._users or self._taken or sim.ready or not sim.fuel or self.uncontended or sim.observer is not None:
            return False
        sim.fuel -= 1
        self._acquired += 1
        return True

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
        contended = self._users > 0
        if contended and sim.observer is not None:
            sim.observer.lock_waited(self, me)
        self._users += 1
        self._asked = True
        try:
            await self._granted()
        except BaseException:  # a wait that was cut short counts all the same
            self._users -= 1
            self._wait_s += sim.now - since
            self._contended += contended
            raise
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
        self._users -= 1
        if sim.observer is not None:
            sim.observer.lock_released(self, me)
        if self._taken and not self._asked:
            self._taken = False
            self._granted_to = None
        else:
            self._releases.put(_RELEASE)

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
            tasks_waiting=max(self._users - 1, 0),
            owner=None if self.owner is None else self.owner.name,
        )


def misunderstood(message: object) -> TypeError:
    """For a message that the lock does not know."""
    return TypeError(f"the device table lock does not understand {getattr(message, 'message', message)!r}")
