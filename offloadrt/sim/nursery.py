"""A nursery whose children are actors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    from offloadrt.sim.actor import Actor
    from offloadrt.sim.kernel import Simulation


class Nursery:
    """``async with sim.open_nursery() as nursery``: leaving the body waits for all children.

    An error in a child or in the body cancels the others and is raised, in an ExceptionGroup as Trio does.
    """

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._manager: Any = None
        self._trio: trio.Nursery | None = None
        self._detached = False

    async def __aenter__(self) -> Nursery:
        sim = self._sim
        me = sim.current
        self._detached = me.detached
        if self._detached:
            await sim._attach(me)
        self._manager = trio.open_nursery()
        self._trio = await self._manager.__aenter__()
        if self._detached:
            await sim._detach(me)
        return self

    def spawn(self, fn: Callable[..., Awaitable[Any]], *args: Any, name: str | None = None) -> Actor:
        """Start a child that runs ``await fn(*args)``."""
        assert self._trio is not None, "open the nursery with 'async with'"
        return self._sim.spawn_in(self._trio, fn, args, name, daemon=False)

    def cancel(self) -> None:
        """Cancel the body and all children, in order of spawning."""
        assert self._trio is not None, "open the nursery with 'async with'"
        self._trio.cancel_scope.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        sim = self._sim
        me = sim.current
        if me.detached:
            await sim._attach(me)
        swallowed = bool(await self._manager.__aexit__(kind, error, traceback))
        if self._detached:
            await sim._detach(me)
        return swallowed
