"""Communication of actors: a `Signal` wakes all that wait for it; each message in a `Mailbox` goes to one actor.

If actors wait at the mailbox, a new message goes directly to the one that has waited longest: from the queue, a running
actor could take it first. `Mailbox.call` sends a message and waits for the reply.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final

import attrs

from offloadrt.sim.scheduler import Actor, Scheduler, remove, uninterrupted

NOBODY: list[Actor] = []
"""The empty list of waiters that all signals without waiters share. A list for each signal made a wait 3 % slower."""


@attrs.frozen
class SignalStatistics:
    """Says whether a `Signal` is set, and how many actors wait for it (`tasks_waiting`)."""

    is_set: bool
    tasks_waiting: int


class Signal:
    """A one-shot event: ``set(value)`` resumes all waiters in FIFO order; ``await wait()`` returns the value.

    Once the signal is set, ``wait`` returns at once, and a second ``set`` raises RuntimeError.
    """

    __slots__ = ("_callback", "is_set", "name", "sim", "value", "waiters")

    def __init__(self, sim: Scheduler, name: str = "signal") -> None:
        self.sim = sim
        self.name = name
        self.is_set = False
        self.value: Any = None
        self.waiters = NOBODY
        self._callback: Callable[[], None] | None = None

    def forget(self, actor: Actor) -> bool:
        """Remove an actor from the waiters; return False if the signal is set and the actor waits no longer."""
        if actor not in self.waiters:
            return False
        self.waiters.remove(actor)
        return True

    @uninterrupted
    def set(self, value: Any = None) -> None:
        """Set the signal: give ``value`` to all actors that wait, and to all that will wait."""
        if self.is_set:
            raise RuntimeError(f"signal {self.name!r} is set a second time")
        self.is_set = True
        self.value = value
        if self.waiters:
            ready = self.sim.ready
            for waiter in self.waiters:
                waiter.value = value
                ready.append(waiter)
            self.waiters = NOBODY
        if self._callback is not None:
            self._callback()

    def set_callback(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the signal is set (at once if it is). RuntimeError if there is a callback already."""
        if self._callback is not None:
            raise RuntimeError(f"signal {self.name!r} has a callback already")
        self._callback = callback
        if self.is_set:
            callback()

    @uninterrupted
    def wait(self) -> Awaitable[Any]:
        """Wait until the signal is set, and return its value. Await the result of this call at once."""
        sim = self.sim
        me = sim.running or sim.current
        if self.is_set:
            return self._value(me)
        if self.waiters:
            self.waiters.append(me)
        else:
            # A new list: the shared list that all signals begin with must stay empty.
            self.waiters = [me]
        return sim.park(me, self)

    @uninterrupted
    @types.coroutine
    def _value(self, me: Actor) -> Generator[Any, Any, Any]:
        sim = self.sim
        if sim.operations_left:
            sim.operations_left -= 1
        else:
            yield from sim.pause(me)
        return self.value

    def statistics(self) -> SignalStatistics:
        return SignalStatistics(self.is_set, len(self.waiters))


class _TimedOut:
    __slots__ = ()

    def __repr__(self) -> str:
        return "TIMED_OUT"


TIMED_OUT: Final = _TimedOut()
"""What ``Mailbox.get_until`` returns when no message came in time."""


@attrs.frozen
class MailboxStatistics:
    """Counts the messages put into and got from a `Mailbox`, those in it now (`items`), and the waiting actors."""

    put: int
    got: int
    items: int
    tasks_waiting: int


class Request:
    """A message whose sender waits for a reply: ``message``, ``caller``, ``reply(value)``.

    ``open`` is True until somebody has replied or the caller has given up. ``box``: the mailbox to which it was sent.
    """

    __slots__ = ("box", "caller", "message", "open")

    def __init__(self, box: Mailbox, caller: Actor, message: Any) -> None:
        self.box = box
        self.caller = caller
        self.message = message
        self.open = True

    @property
    def name(self) -> str:
        return self.box.reply_name

    def holders(self) -> list[Actor]:
        """Return the actors on which the reply depends, as the mailbox's owner names them (`Mailbox.served_for`)."""
        return list(self.box.served_for())

    def forget(self, actor: Actor) -> bool:
        """Stop waiting for the reply; return False if the reply has already arrived."""
        was_open, self.open = self.open, False
        return was_open

    @uninterrupted
    def reply(self, value: Any = None) -> bool:
        """Give the caller ``value`` and let it go on; return False if it was cancelled before it got the value."""
        if not self.open:
            return False
        self.open = False
        caller = self.caller
        caller.value = value
        self.box.sim.ready.append(caller)
        return True


class Mailbox:
    """FIFO of messages, unbounded. Several actors may get from it; the longest waiting one is served first.

    ``put(x)`` never waits. ``await get()`` returns the next message; ``await get_until(t)`` returns TIMED_OUT if none
    has come at virtual time ``t``. ``await call(message)`` puts a ``Request`` and waits for its ``reply``. A function
    set as ``served_for`` returns the actors on which a reply depends; a report of a deadlock shows them.
    """

    __slots__ = ("_put", "getters", "items", "name", "reply_name", "served_for", "sim")

    def __init__(self, sim: Scheduler, name: str) -> None:
        self.sim = sim
        self.name = name
        self.reply_name = f"a reply from {name}"
        self.items: deque[Any] = deque()
        self.getters: deque[Actor] = deque()
        # By default it returns no actors: `tuple()` is empty.
        self.served_for: Any = tuple
        self._put = 0
        sim.primitives.append(self)

    def forget(self, actor: Actor) -> bool:
        """Remove a waiting actor from the queue; return False if a message has been handed to it already."""
        if actor not in self.getters:
            return False
        self.getters.remove(actor)
        return True

    @uninterrupted
    def put(self, item: Any) -> None:
        """Hand the message `item` to the actor that has waited longest, or queue it if no actor waits."""
        self._put += 1
        if self.getters:
            getter = self.getters.popleft()
            # The message goes to the getter and not through the queue, where a running actor could take it before.
            getter.value = item
            self.sim.ready.append(getter)
        else:
            self.items.append(item)

    @uninterrupted
    def leave(self, item: Any) -> None:
        """Queue a message without waking the actor that waits for one, because the message needs no action yet.

        The mailbox's owner takes the message from ``items`` later.
        """
        self._put += 1
        self.items.append(item)

    @uninterrupted
    def get(self) -> Awaitable[Any]:
        """Wait for the next message, and return it. Await the result at once."""
        sim = self.sim
        me = sim.running or sim.current
        if self.items:
            return self._take(me)
        self.getters.append(me)
        return sim.park(me, self)

    @uninterrupted
    @types.coroutine
    def _take(self, me: Actor) -> Generator[Any, Any, Any]:
        sim = self.sim
        if sim.operations_left:
            sim.operations_left -= 1
        else:
            yield from sim.pause(me)
            if not self.items:  # another actor got it during the pause
                self.getters.append(me)
                return (yield from sim.park(me, self))
        return self.items.popleft()

    @uninterrupted
    @types.coroutine
    def get_until(self, time: float) -> Generator[Any, Any, Any]:
        """Wait for the next message and return it, or TIMED_OUT if none has come at virtual time ``time``."""
        sim = self.sim
        me = sim.running or sim.current
        if self.items:
            return (yield from self._take(me))
        # A time that has passed still needs a timer: an actor that is due at this instant may put a message first.
        if time < sim.now:
            time = sim.now
        expiry = Expiry(self, me)
        if sim.set_timer(me, time, expiry):  # no actor can leave a message before
            return TIMED_OUT
        self.getters.append(me)
        try:
            return (yield from sim.park(me, self))
        finally:
            # A timer that is no longer needed must go, or virtual time would advance to it.
            if not expiry.fired:
                remove(sim.heap, expiry)

    @uninterrupted
    def call(self, message: Any) -> Awaitable[Any]:
        """Send ``message`` in a Request, wait for the reply, and return its value. Await the result at once."""
        sim = self.sim
        me = sim.running or sim.current
        # No other actor runs between the put and the wait, so the reply cannot come too early.
        call = Request(self, me, message)
        self.put(call)
        return sim.park(me, call)

    def statistics(self) -> MailboxStatistics:
        left = len(self.items)
        return MailboxStatistics(self._put, self._put - left, left, len(self.getters))


class Expiry:
    """A timer of ``get_until``: at its time, ``target``, which waits at ``box``, gets TIMED_OUT and runs next."""

    __slots__ = ("box", "fired", "target")
    is_actor = False

    def __init__(self, box: Mailbox, target: Actor) -> None:
        self.box = box
        self.target = target
        self.fired = False

    def send(self, _: Any) -> None:
        self.fired = True
        actor = self.target
        if self.box.forget(actor):
            # First in the queue: a strategy does not choose whether a time is up.
            actor.value = TIMED_OUT
            self.box.sim.ready.appendleft(actor)
