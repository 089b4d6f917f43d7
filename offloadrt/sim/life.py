"""Starting and ending actors."""

from __future__ import annotations

import types
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from inspect import iscoroutinefunction
from typing import Any, TypeVar

import trio
from trio.lowlevel import current_task, disable_ki_protection

from offloadrt.sim import story
from offloadrt.sim.actor import SELF, Actor, Scheduler, awaitable, uninterrupted
from offloadrt.sim.errors import Expired

T = TypeVar("T")


@uninterrupted
def start(
    sim: Scheduler,
    nursery: trio.Nursery,
    fn: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    name: str | None,
    daemon: bool,
) -> Actor:
    """Start an actor that runs ``await fn(*args)`` in a Trio nursery; it is ready, after all that are ready already."""
    actor = Actor(sim, sim.next_index(), name or str(getattr(fn, "__name__", repr(fn))), daemon)
    sim.by_scheduler = True
    sim.newborn += 1
    try:
        nursery.start_soon(_live, actor, fn, args, name=actor.name)
    finally:
        sim.by_scheduler = False
    # It has its place in the order from now on, though its Trio task has not made a step yet (`Actor.send`).
    _register(actor)
    sim.ready.append(actor)
    return actor


@asynccontextmanager
async def adopt(sim: Scheduler, name: str) -> AsyncIterator[Actor]:
    """Make the current Trio task an actor while the body runs; it stays attached."""
    task = current_task()
    before = SELF.get(None)
    if before is not None and before.task is task and not before.finished:
        yield before
        return
    actor = Actor(sim, sim.next_index(), name, daemon=False)
    actor.task = task
    actor.send = actor.wake
    _register(actor)
    token = SELF.set(actor)
    try:
        yield actor
    finally:
        _unregister(actor)
        SELF.reset(token)


def _register(actor: Actor) -> None:
    sim = actor.sim
    sim.actors[actor.index] = actor
    if sim.observer is not None:
        sim.observer.actor_spawned(actor)


def _unregister(actor: Actor) -> None:
    sim = actor.sim
    actor.finished = True
    del sim.actors[actor.index]
    if sim.observer is not None:
        sim.observer.actor_finished(actor)


@uninterrupted
async def _live(actor: Actor, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
    """Run an actor's whole life, as a Trio task.

    Trio runs the first steps of new tasks in random order. So each only parks, and the scheduler lets one after the
    other go on; nothing of the user's is run before.
    """
    sim = actor.sim
    SELF.set(actor)
    actor.task = current_task()
    if sim.turbo:
        await actor.leave_trio()
    else:
        actor.send = actor.wake
        await awaitable(_yield(actor.trap))
    try:
        if actor.interruption is not None:
            await awaitable(actor.interrupted())
        if hasattr(fn, "__code__") and iscoroutinefunction(fn):
            # Ctrl-C may strike in the user's code. A function that is marked itself needs no frame around it.
            disable_ki_protection(fn)
            actor.value = await fn(*args)
        else:
            actor.value = await _interruptible(fn, args)
        # Whom it has cancelled goes on before it ends.
        if sim.trio_has_work:
            await sim.pause(actor, cancellable=False)
    except (trio.Cancelled, Expired):  # they end a wait on purpose, so they get no story
        raise
    except BaseException as exc:
        story.add(sim, actor, error := story.explained(sim, actor, exc))
        raise error  # noqa: B904  # its cause is set where it has another one
    finally:
        _unregister(actor)
        # Only Trio can end a task.
        if actor.detached:
            await actor.attach()


@disable_ki_protection
async def _interruptible(fn: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> T:
    return await fn(*args)


@types.coroutine
def _yield(message: Any) -> Generator[Any, Any, None]:
    yield message
