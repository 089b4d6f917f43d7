"""A nursery whose children are actors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

import trio

from offloadrt.sim import life, story
from offloadrt.sim.actor import Actor, Scheduler, return_to_trio, uninterrupted
from offloadrt.sim.async_only import AsyncOnly
from offloadrt.sim.scope import RawSection, cancel


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
        """Start a child that runs ``await fn(*args)``."""
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
        # Trio complains of a raw call by the name of its own internals: the story says what to do instead.
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
            if sim.handovers is not None:
                sim.handovers.joined(sim, me, since)
            me.raw_section = outer
            if self._detached:
                await me.detach()
        if section.expired is not None:
            raise section.expired
        return swallowed


class _LookAtTrio:
    """An entry of the ready queue: Trio runs whom a detached actor has woken before anybody else goes on."""

    is_actor = False

    def send(self, _: Any) -> Any:
        return return_to_trio


_LOOK_AT_TRIO = _LookAtTrio()
