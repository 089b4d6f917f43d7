"""A one-shot completion that many may wait for."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import attrs

from offloadrt.sim.actor import Actor, Scheduler, uninterrupted

NOBODY: list[Actor] = []
"""The waiters of every signal that nobody waits for; it stays empty. A list for each signal made a wait 3 % slower."""


@attrs.frozen
class SignalStatistics:
    """Whether the signal is set, and how many actors wait for it."""

    is_set: bool
    tasks_waiting: int


class Signal:
    """``set(value)`` once; ``await wait()`` returns the value, at once if it is set. Waiters resume in FIFO order.

    RuntimeError when it is set twice. It can also have one callback, run when it is set.
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
        """Take a waiter off the list; False if it is not there, because the signal has been set."""
        if actor not in self.waiters:
            return False
        self.waiters.remove(actor)
        return True

    @uninterrupted
    def set(self, value: Any = None) -> None:
        """Complete: give ``value`` to all who wait, and to all who will."""
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
        """Run a callback when it is set, after its waiters have been resumed, or now. RuntimeError for a second one."""
        if self._callback is not None:
            raise RuntimeError(f"signal {self.name!r} has a callback already")
        self._callback = callback
        if self.is_set:
            callback()

    @uninterrupted
    def wait(self) -> Awaitable[Any]:
        """Wait until it is set, and return the value. Await it at once."""
        sim = self.sim
        me = sim.running or sim.current
        if self.is_set:
            return self._value(me)
        if self.waiters:
            self.waiters.append(me)
        else:
            # A list of its own: the one that all signals begin with must stay empty.
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
