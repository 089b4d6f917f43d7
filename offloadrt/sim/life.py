"""Starting and ending actors."""

from __future__ import annotations

import types
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import trio
from trio.lowlevel import current_task, disable_ki_protection

from offloadrt.sim import story
from offloadrt.sim.actor import SELF, Actor, Scheduler, awaitable, uninterrupted
from offloadrt.sim.daemons import Dormant, lets_ctrl_c_in, service
from offloadrt.sim.errors import Expired
from offloadrt.sim.mailbox import Mailbox

T = TypeVar("T")


@uninterrupted
def start(
    sim: Scheduler,
    nursery: trio.Nursery,
    fn: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    name: str | None,
    daemon: bool,
    serves: Mailbox | None = None,
) -> Actor:
    """Start an actor that runs ``await fn(*args)`` in a Trio nursery; it is ready, after all that are ready already.

    With ``serves``, a mailbox, the task of a daemon begins when a message lies there (turbo).
    """
    actor = Actor(sim, sim.next_index(), name or str(getattr(fn, "__name__", repr(fn))), daemon)
    actor.waits_first = serves is not None
    if serves is None or not sim.turbo:
        _begin(nursery, actor, fn, args)
    else:

        def begin() -> Any:
            sim.caretaker.gave(actor)
            actor.send = actor.not_started
            _begin(nursery, actor, fn, args)
            return actor.send

        _care_for(sim, nursery, actor, Dormant(actor, serves, begin, _unregister).cancel)
    return _ready(actor)


@uninterrupted
def start_service(
    sim: Scheduler,
    nursery: trio.Nursery,
    fn: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    name: str,
    chosen: bool,
) -> Actor:
    """Start a daemon that needs no Trio task in the gear ``turbo``."""
    actor = Actor(sim, sim.next_index(), name, daemon=True)
    actor.waits_first = not chosen
    if sim.turbo:
        _care_for(sim, nursery, actor, service(actor, fn, args, _unregister))
    else:
        _begin(nursery, actor, fn, args)
    return _ready(actor)


def _begin(nursery: trio.Nursery, actor: Actor, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
    """Begin the Trio task of an actor."""
    _start_soon(actor.sim, nursery, _live, actor, fn, args, name=actor.name)


def _start_soon(
    sim: Scheduler, nursery: trio.Nursery, fn: Callable[..., Awaitable[Any]], *args: Any, name: str
) -> None:
    sim.by_scheduler = True
    sim.newborn += 1
    try:
        nursery.start_soon(fn, *args, name=name)
    finally:
        sim.by_scheduler = False


def _care_for(sim: Scheduler, nursery: trio.Nursery, actor: Actor, cancel: Callable[[], None]) -> None:
    caretaker = sim.caretaker
    if not caretaker.begun:
        caretaker.begun = True
        _start_soon(sim, nursery, caretaker.wait, name="caretaker")
    caretaker.took(actor, cancel)


def _ready(actor: Actor) -> Actor:
    """Give an actor its place in the order, which it has though its Trio task has not made a step yet."""
    _register(actor)
    actor.sim.ready.append(actor)
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
    actor.belong_to_trio()
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
    if actor.task is None:
        sim.caretaker.gave(actor)
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
        actor.belong_to_trio()
        await awaitable(_yield(actor.trap))
    try:
        if lets_ctrl_c_in(fn):
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
