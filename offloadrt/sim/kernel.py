"""The kernel: `Simulation`, the Trio clock that lets virtual time pass (`clock.py`) and whose actors can wait
(`waiting.py`); here they are born, live and die.

Two gears run the same actors over the same heap and ready queue:

``native``  each resumption is one Trio task step (``reschedule``). The reference.
``turbo``   an actor's coroutine is detached from Trio (public API: ``temporarily_detach_coroutine_object``) and stepped
            by a trampoline inside the clock hook, in slices, except within ``async with sim.attached()``.
"""

from __future__ import annotations

import types
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, TypeVar

import trio
from trio.lowlevel import (
    Abort,
    current_task,
    disable_ki_protection,
    temporarily_detach_coroutine_object,
    wait_task_rescheduled,
)

from offloadrt.sim import story
from offloadrt.sim.actor import SELF, Actor, uninterrupted
from offloadrt.sim.clock import SLICE, Gear
from offloadrt.sim.errors import DetachedTrioCall, Expired, SimulationError
from offloadrt.sim.nursery import Nursery
from offloadrt.sim.observer import Observer
from offloadrt.sim.scope import Attached, TimeoutScope
from offloadrt.sim.strategy import Strategy
from offloadrt.sim.waiting import WaitingClock, awaitable

T = TypeVar("T")


class Simulation(WaitingClock):
    """Virtual time for one run.

    :param gear: ``native`` or ``turbo``; both give the same order of events.
    :param strategy: order among actors that are ready at one instant (``Fifo()``, ``Random(seed)``).
    :param seed: of ``rng``, the run's only random generator.
    :param observer: told of actors and locks; see ``offloadrt.sim.observer``.
    :param slice: steps between two looks at Trio (turbo).
    :param livelock_limit: steps (and 1000 more an actor) without time advancing after which a run is stopped.

    ``now`` is the virtual time in seconds. A simulation runs once.
    """

    def __init__(
        self,
        *,
        gear: Gear = "native",
        strategy: Strategy | None = None,
        seed: int = 0,
        observer: Observer | None = None,
        slice: int = SLICE,
        livelock_limit: int = 1_000_000,
    ) -> None:
        super().__init__(
            gear=gear, strategy=strategy, seed=seed, observer=observer, slice=slice, livelock_limit=livelock_limit
        )
        self._nursery: trio.Nursery | None = None
        self._service: trio.Nursery | None = None

    def move_on_after(self, dt: float) -> TimeoutScope:
        """``with sim.move_on_after(dt) as scope``: leave the body after ``dt`` virtual seconds; ``scope.timed_out``."""
        return TimeoutScope(self, dt, fail=False)

    def fail_after(self, dt: float) -> TimeoutScope:
        """``with sim.fail_after(dt)``: as move_on_after, but SimTimeout is raised at the end of the body."""
        return TimeoutScope(self, dt, fail=True)

    def attached(self) -> Attached:
        """``async with sim.attached():`` inside, any Trio API may be used: ``trio.sleep`` (in virtual time), cancel
        scopes, events, nurseries. Needed in the gear ``turbo`` only.
        """
        return Attached(self)

    # ------------------------------------------------------------------ life and death of actors
    def spawn(
        self, fn: Callable[..., Awaitable[Any]], *args: Any, name: str | None = None, daemon: bool = False
    ) -> Actor:
        """Start an actor that runs ``await fn(*args)``. A run ends when all actors that are no daemons have ended."""
        nursery = self._service if daemon else self._nursery
        if nursery is None:
            raise SimulationError("spawn: the simulation is not running")
        return self.spawn_in(nursery, fn, args, name, daemon)

    @uninterrupted
    def spawn_in(
        self,
        nursery: trio.Nursery,
        fn: Callable[..., Awaitable[Any]],
        args: tuple[Any, ...],
        name: str | None,
        daemon: bool,
    ) -> Actor:
        actor = Actor(self, name or str(getattr(fn, "__name__", repr(fn))), daemon)
        self._watch.by_kernel = True
        try:
            nursery.start_soon(self._live, actor, fn, args, name=actor.name)
        finally:
            self._watch.by_kernel = False
        self._register(actor)
        self.ready.append(actor)
        return actor

    def _register(self, actor: Actor) -> None:
        self.actors[actor.index] = actor
        self._alive += not actor.daemon
        if self.observer is not None:
            self.observer.actor_spawned(actor)

    def _bury(self, actor: Actor) -> None:
        actor.finished = True
        del self.actors[actor.index]
        self._alive -= not actor.daemon
        if self.observer is not None:
            self.observer.actor_finished(actor)

    @uninterrupted
    async def _live(self, actor: Actor, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
        SELF.set(actor)
        actor.task = current_task()
        if self.turbo:
            coroutine: Any = actor.task.coro
            actor.detached = True
            actor.trap = None
            actor.send = partial(actor.task.context.run, coroutine.send)
            await temporarily_detach_coroutine_object(actor.abort)
        else:
            actor.send = actor.wake
            await awaitable(_yield(actor.trap))
        try:
            if actor.trouble is not None:
                await awaitable(self.interrupted(actor))
            if hasattr(fn, "__code__") and iscoroutinefunction(fn):
                disable_ki_protection(fn)  # Ctrl-C may strike in the user's code
                actor.value = await fn(*args)
            else:
                actor.value = await _interruptible(fn, args)
            if self.trio_has_work:
                await self.pause(actor, cancellable=False)
        except (trio.Cancelled, Expired):
            raise
        except BaseException as exc:
            story.add(self, actor, error := self.explained(actor, exc))
            raise error  # noqa: B904  # its cause is set where it has another one
        finally:
            self._bury(actor)
            if actor.detached:
                await self.attach(actor)

    def explained(self, actor: Actor, error: BaseException) -> BaseException:
        """The error itself, or DetachedTrioCall if it is Trio's complaint of a call out of a detached actor."""
        if isinstance(error, RuntimeError) and actor.detached and "async context" in str(error):
            explained = DetachedTrioCall(story.detached_call(self, actor))
            explained.__cause__ = error
            return explained
        return error

    def open_nursery(self) -> Nursery:
        """``async with sim.open_nursery() as n: n.spawn(fn, *args)``: children are actors, joined at the end."""
        return Nursery(self)

    @asynccontextmanager
    async def adopt(self, name: str = "main") -> AsyncIterator[Actor]:
        """Make the current Trio task an actor (in native steps) while the body runs. Used by tests."""
        task = current_task()
        before = SELF.get(None)
        if before is not None and before.task is task and not before.finished:
            yield before
            return
        actor = Actor(self, name, daemon=False)
        actor.task = task
        actor.send = actor.wake
        self._register(actor)
        token = SELF.set(actor)
        try:
            yield actor
        finally:
            self._bury(actor)
            SELF.reset(token)

    @asynccontextmanager
    async def running_here(self) -> AsyncIterator[None]:
        """Let virtual time pass in the current ``trio.run``, whose clock must be this simulation.

        At the end of the body the actors that are no daemons are awaited, then the daemons are cancelled.
        """
        if self._service is not None:
            raise SimulationError("a simulation runs once")
        trio.lowlevel.add_instrument(self._watch)
        self._watch.root = current_task()
        try:
            async with trio.open_nursery() as service:
                self._service = service
                self._watch.by_kernel = True
                service.start_soon(self._watchdog)
                self._watch.by_kernel = False
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    yield
                self.ending = True
                service.cancel_scope.cancel()
        finally:
            trio.lowlevel.remove_instrument(self._watch)

    async def _watchdog(self) -> None:
        self._watchdog_task = current_task()

        def abort(_: Any) -> Abort:
            self._watchdog_task = None
            return Abort.SUCCEEDED

        await wait_task_rescheduled(abort)

    def run(self, main: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run ``await main(*args)`` as the first actor, until it and all actors that are no daemons have ended.

        Returns its value. An error of one actor is raised as it is, with the story of the run as a note; several
        come as an ExceptionGroup. Deadlock, Livelock, RealInputOutput, UncontrolledNondeterminism as documented.
        """
        actor: list[Actor] = []

        async def root() -> None:
            async with self.running_here():
                actor.append(self.spawn(main, *args, name="main"))

        error: BaseException | None = None
        try:
            trio.run(root, clock=self)
        except BaseExceptionGroup as group:
            error = story.only_error(group)
        if error is not None:
            raise error  # here, so that its own cause and context stay
        if self.trouble is not None:
            raise self.trouble
        value: T = actor[0].value
        return value


@disable_ki_protection
async def _interruptible(fn: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> T:
    return await fn(*args)


@types.coroutine
def _yield(message: Any) -> Generator[Any, Any, None]:
    yield message
