"""Timeouts in virtual time, the same in both gears: ``sim.move_on_after(dt)`` and ``sim.fail_after(dt)``."""

from __future__ import annotations

from heapq import heappush
from types import TracebackType
from typing import TYPE_CHECKING, Any

import attrs
import trio

from offloadrt.sim.actor import hand_over
from offloadrt.sim.errors import Expired, SimTimeout

if TYPE_CHECKING:
    from offloadrt.sim.actor import Actor
    from offloadrt.sim.kernel import Simulation


@attrs.define
class RawSection:
    """The body of ``sim.attached()``: what a timeout cancels when the actor waits in Trio itself."""

    scope: trio.CancelScope
    expired: Expired | None = None


class TimeoutScope:
    """Raises once where the actor waits when the time is up; clean-up code after that may wait again.

    ``timed_out`` says whether it did. Only the actor that opened the scope is concerned.
    """

    def __init__(self, sim: Simulation, dt: float, *, fail: bool) -> None:
        if not dt >= 0:
            raise ValueError(f"a timeout of {dt!r} virtual seconds: it must not be negative")
        self.timed_out = False
        self._sim = sim
        self._dt = dt
        self._fail = fail
        self._expired = Expired()
        self._alarm: Alarm | None = None

    def __enter__(self) -> TimeoutScope:
        sim = self._sim
        self._alarm = Alarm(sim.current, self._expired)
        heappush(sim.heap, (sim.now + self._dt, sim.next_sequence(), self._alarm))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        assert self._alarm is not None
        self._alarm.disarm(self._sim)
        if error is self._expired:
            self.timed_out = True
            if self._fail:
                raise SimTimeout(f"t={self._sim.now:g}: not done within {self._dt:g} virtual seconds") from None
            return True
        return False


class Alarm:
    """A timer that interrupts an actor. Disarmed, it leaves the heap: it must not carry time forward."""

    __slots__ = ("_armed", "expired", "target")
    is_actor = False

    def __init__(self, target: Actor, expired: Expired) -> None:
        self.target = target
        self.expired = expired
        self._armed = True

    def disarm(self, sim: Simulation) -> None:
        if self._armed:
            self._armed = False
            sim.remove_timer(self)

    def send(self, _: Any) -> Any:
        if not self._armed:
            return None
        actor = self.target
        if actor.finished or actor.trouble is not None:
            return None
        if actor.sim.unhook(actor):
            self._armed = False
            actor.interrupt(self._raise)
        elif actor.raw_section is not None and not actor.detached:
            self._armed = False
            actor.raw_section.expired = self.expired
            actor.sim.cancel_scope(actor.raw_section.scope)
            return hand_over
        else:  # already on its way: where it parks next, if the scope is still open then
            actor.sim.ready.append(self)
        return None

    def _raise(self) -> None:
        raise self.expired
