"""Scopes of an actor: timeouts in virtual time, sections in which any Trio API works, and nurseries of actors.

All three are written over Trio's cancel scopes and nurseries, so that cancellation, clean-up and groups of errors are
Trio's own. What they add is the order: a cancellation is delivered at an instant that the scheduler chooses, to actors
in order of spawning, the same in both gears.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from heapq import heappush
from types import TracebackType
from typing import Any

import attrs
import trio

from offloadrt.sim import life, story
from offloadrt.sim.errors import AsyncOnly, Expired, SimTimeout, no_duration
from offloadrt.sim.scheduler import Actor, Scheduler, remove, return_to_trio, uninterrupted


def cancel(sim: Scheduler, scope: trio.CancelScope) -> None:
    """Cancel a Trio scope; the wake-ups that this causes count as expected ones for `TrioWatch`."""
    # A cancellation wakes tasks in Trio. These wake-ups are the scheduler's own, at an instant that it has chosen.
    sim.by_scheduler = True
    scope.cancel()
    sim.by_scheduler = False


@attrs.define
class RawSection:
    """Code in which an actor may wait with Trio's own calls; a timeout cancels ``scope`` and sets ``expired``."""

    scope: trio.CancelScope
    expired: Expired | None = None


class Attached(AsyncOnly):
    """``async with sim.attached()``: Trio steps the actor during the body. No effect where Trio does so anyway."""

    def __init__(self, sim: Scheduler) -> None:
        self._sim = sim
        self._detached = False
        self._section: RawSection | None = None

    @uninterrupted
    async def __aenter__(self) -> None:
        me = self._sim.current
        if self._sim.trio_has_work:
            await self._sim.pause(me)
        # Inside of another section it is a plain Trio task already.
        if me.raw_section is not None:
            return
        self._detached = me.detached
        if self._detached:
            await me.attach()
        self._section = me.raw_section = RawSection(trio.CancelScope())
        self._section.scope.__enter__()

    @uninterrupted
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if (section := self._section) is None:
            return False
        me = self._sim.current
        try:
            swallowed = section.scope.__exit__(kind, error, traceback)
        finally:
            me.raw_section = None
            if self._detached:
                await me.detach()
        if section.expired is not None:
            raise section.expired
        return swallowed


class TimeoutScope:
    """The scope of ``move_on_after`` and ``fail_after``: after ``dt`` seconds it ends the actor's wait with an error.

    It does so once, so clean-up code may wait again. ``timed_out`` says whether the time ran out; with ``fail`` the
    scope then raises SimTimeout at its end. Only the actor that opened the scope is interrupted.
    """

    def __init__(self, sim: Scheduler, dt: float, *, fail: bool) -> None:
        try:
            if not dt >= 0:
                raise ValueError(f"a timeout of {dt!r} virtual seconds: it must not be negative")
        except TypeError:
            raise no_duration("fail_after" if fail else "move_on_after", dt) from None
        self.timed_out = False
        self._sim = sim
        self._dt = dt
        self._fail = fail
        self._expired = Expired()
        self._alarm: Alarm | None = None

    @uninterrupted
    def __enter__(self) -> TimeoutScope:
        sim = self._sim
        me = sim.current
        raw = None
        if not me.detached:  # it may wait in Trio itself
            raw = trio.CancelScope()
            raw.__enter__()
        self._alarm = Alarm(me, self._expired, raw)
        sim.timers_set += 1
        heappush(sim.heap, (sim.now + self._dt, sim.timers_set, self._alarm))
        return self

    @uninterrupted
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        alarm = self._alarm
        assert alarm is not None
        # First of all: from here on no timeout may interrupt the actor.
        alarm.disarm(self._sim)
        swallowed = alarm.raw is not None and alarm.raw.__exit__(kind, error, traceback)
        if error is self._expired or (swallowed and error is not None):
            self.timed_out = True
        elif isinstance(error, BaseExceptionGroup):
            # Out of a nursery the expiry comes in a group; the errors of others in it are not this scope's to swallow.
            mine, others = error.split(lambda part: part is self._expired)
            if mine is not None and others is not None:
                raise others
            self.timed_out = mine is not None
        if self.timed_out and self._fail:
            raise SimTimeout(f"t={self._sim.now:g}: not done within {self._dt:g} virtual seconds") from None
        return self.timed_out


class Alarm:
    """A timer that raises ``expired`` in the actor ``target``. A disarmed alarm leaves the heap and advances no time.

    If the actor waits in one of Trio's own calls, the alarm cancels a Trio scope instead: that of the `RawSection`
    which the actor has entered since the alarm was set, or else the scope ``raw`` (None: none).
    """

    __slots__ = ("_armed", "expired", "opened_in", "raw", "target")
    is_actor = False

    def __init__(self, target: Actor, expired: Expired, raw: trio.CancelScope | None) -> None:
        self.target = target
        self.expired = expired
        self.raw = raw
        self.opened_in = target.raw_section
        self._armed = True

    def disarm(self, sim: Scheduler) -> None:
        if self._armed:
            self._armed = False
            remove(sim.heap, self)

    def send(self, _: Any) -> Any:
        actor = self.target
        if not self._armed or actor.finished:
            return None
        sim = actor.sim
        if actor in sim.ready:  # a strategy lets it go on later at this instant: after that
            sim.ready.append(self)
            return None
        self._armed = False
        if actor.interrupt(self._raise):
            return None
        raw = self.raw
        if (section := actor.raw_section) is not self.opened_in and section is not None:
            section.expired = self.expired
            raw = section.scope
        if raw is None:
            return None
        cancel(sim, raw)
        return return_to_trio

    def _raise(self) -> None:
        raise self.expired


# ---------------------------------------------------------------------- nurseries
# A nursery whose children are actors.
class Nursery(AsyncOnly):
    """``async with sim.open_nursery() as nursery``: leaving the body waits for all children.

    An error in a child or in the body cancels the others and is raised, in an ExceptionGroup as Trio does.
    """

    def __init__(self, sim: Scheduler) -> None:
        self._sim = sim
        self._manager: Any = None
        self._trio: trio.Nursery | None = None
        self._detached = False

    @uninterrupted
    async def __aenter__(self) -> Nursery:
        sim = self._sim
        me = sim.current
        if sim.operations_left and not sim.trio_has_work:
            sim.operations_left -= 1
        else:
            await sim.pause(me)
        # Only a task that Trio steps can open a nursery of Trio's. The body runs detached again.
        self._detached = me.detached
        if self._detached:
            await me.attach()
        self._manager = trio.open_nursery()
        self._trio = await self._manager.__aenter__()
        if self._detached:
            await me.detach()
        return self

    def spawn(self, fn: Callable[..., Awaitable[Any]], *args: Any, name: str | None = None) -> Actor:
        """Start a child that runs ``await fn(*args)``; `name` is the actor's name in reports."""
        assert self._trio is not None, "open the nursery with 'async with'"
        return life.start(self._sim, self._trio, fn, args, name, daemon=False)

    @uninterrupted
    def cancel(self) -> None:
        """Cancel the body and all children, in order of spawning."""
        assert self._trio is not None, "open the nursery with 'async with'"
        sim = self._sim
        cancel(sim, self._trio.cancel_scope)
        # Trio delivers the cancellation in a pass of its own, which must come before this actor does more than wait.
        sim.trio_has_work = True
        if sim.turbo:
            sim.ready.appendleft(_LOOK_AT_TRIO)

    @uninterrupted
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        assert self._trio is not None
        sim = self._sim
        me = sim.current
        # Trio's complaint about a raw call names Trio's internals: `story.explained` says what to do instead.
        if error is not None:
            error = story.explained(sim, me, error)
            kind = type(error)
        if sim.trio_has_work:
            await sim.pause(me, cancellable=False)
        if me.detached:
            await me.attach()
        # It waits for the children in Trio, where a timeout reaches it only through Trio's cancel scope.
        outer, section = me.raw_section, RawSection(self._trio.cancel_scope)
        if outer is None:
            me.raw_section = section
        since = sim.now
        try:
            swallowed = bool(await self._manager.__aexit__(kind, error, traceback))
        finally:
            if sim.causal_log is not None:
                sim.causal_log.joined(sim, me, since)
            me.raw_section = outer
            if self._detached:
                await me.detach()
        if section.expired is not None:
            raise section.expired
        return swallowed


class _LookAtTrio:
    """An entry of the ready queue that lets Trio run the tasks that a cancellation has woken, before any actor."""

    is_actor = False

    def send(self, _: Any) -> Any:
        return return_to_trio


_LOOK_AT_TRIO = _LookAtTrio()
