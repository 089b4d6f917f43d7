"""A one-shot completion that many may wait for."""

from __future__ import annotations

import types
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import attrs

from offloadrt.sim.actor import uninterrupted

if TYPE_CHECKING:
    from offloadrt.sim.actor import Actor
    from offloadrt.sim.kernel import Simulation


@attrs.frozen
class SignalStatistics:
    is_set: bool
    tasks_waiting: int


class Signal:
    """``set(value)`` once; ``await wait()`` returns the value, at once if it is set. Waiters resume in FIFO order.

    RuntimeError when it is set twice. It may have one action besides, that is taken when it is set.
    """

    __slots__ = ("_action", "is_set", "name", "sim", "value", "waiters")

    def __init__(self, sim: Simulation, name: str = "signal") -> None:
        self.sim = sim
        self.name = name
        self.is_set = False
        self.value: Any = None
        self.waiters: list[Actor] = []
        self._action: Callable[[], None] | None = None

    def forget(self, actor: Actor) -> None:
        self.waiters.remove(actor)

    @uninterrupted
    def set(self, value: Any = None) -> None:
        """The thing has completed."""
        if self.is_set:
            raise RuntimeError(f"signal {self.name!r} is set a second time")
        self.is_set = True
        self.value = value
        if self.waiters:
            ready = self.sim.ready
            for waiter in self.waiters:
                waiter.waits_for = None
                ready.append(waiter)
            self.waiters.clear()
        if self._action is not None:
            self._action()

    def when_set(self, action: Callable[[], None]) -> None:
        """Take an action when it is set, after its waiters have been resumed, or now. RuntimeError for a second one."""
        if self._action is not None:
            raise RuntimeError(f"signal {self.name!r} has an action already")
        self._action = action
        if self.is_set:
            action()

    @uninterrupted
    @types.coroutine
    def wait(self) -> Generator[Any, Any, Any]:
        """Wait until it is set; returns the value."""
        sim = self.sim
        me = sim.running
        if me is None:
            me = sim.current
        if self.is_set:
            if sim.fuel:
                sim.fuel -= 1
            else:
                yield from sim.pause(me)
        else:
            self.waiters.append(me)
            me.waits_for = self
            me.waits_since = sim.now
            yield me.trap
            if me.trouble is not None:
                yield from sim.interrupted(me)
        return self.value

    def statistics(self) -> SignalStatistics:
        return SignalStatistics(self.is_set, len(self.waiters))
