"""Starts and ends actors: as Trio tasks or, in the gear ``turbo``, as daemons that have no task.

`start` gives an actor its index and its place in the order before its task has made a step. Trio runs the first
steps of new tasks in random order, so each of them only parks (`_live`).
"""

from __future__ import annotations

import types
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from inspect import CO_COROUTINE
from math import inf
from typing import Any, TypeVar

import trio
from trio.lowlevel import Abort, Task, current_task, disable_ki_protection, reschedule, wait_task_rescheduled

from offloadrt.sim import story
from offloadrt.sim.errors import Expired
from offloadrt.sim.messages import Mailbox
from offloadrt.sim.scheduler import SELF, Actor, Scheduler, return_to_trio, uninterrupted


# ---------------------------------------------------------------------- daemons without a task
# Daemons without a Trio task, in the gear ``turbo``: a task costs 50 microseconds to begin and to end.
#
# A *service* never has one: the trampoline steps its coroutine as that of any detached actor. A *dormant* daemon gets
# its task when its first message comes, which for many never happens. Both are actors like all others, with an index
# and a place in the order; a run's history does not show that they have no task. At the end of a run, the `Caretaker`
# does for them what Trio does for tasks: it cancels them, in order of spawning, and waits until they have ended.
class Caretaker:
    """A Trio task that stands for all daemons without a Trio task of their own: its cancellation cancels them all."""

    is_actor = False
    __slots__ = ("_cancelled", "_daemons", "_sim", "_task", "begun")

    def __init__(self, sim: Scheduler) -> None:
        self._sim = sim
        self._daemons: dict[int, Callable[[], None]] = {}
        """The function that cancels each daemon, by the daemon's index."""
        self._cancelled = False
        self._task: Task | None = None
        self.begun = False
        """Whether the caretaker's task has been started."""

    async def wait(self) -> None:
        """Wait until all daemons of the run have been cancelled and have ended."""
        self._task = current_task()

        def abort(_: object) -> Abort:
            self._cancelled = True
            for cancel in list(self._daemons.values()):
                cancel()
            return Abort.FAILED if self._daemons else Abort.SUCCEEDED

        await wait_task_rescheduled(abort)

    def add(self, actor: Actor, cancel: Callable[[], None]) -> None:
        """Register a new daemon without a Trio task; `cancel` is the function that cancels it."""
        self._daemons[actor.index] = cancel

    def remove(self, actor: Actor) -> None:
        """Forget a daemon that has ended or got its own Trio task. If none is left, a cancelled `wait` returns."""
        if self._daemons.pop(actor.index, None) is not None and self._cancelled and not self._daemons:
            self._sim.ready.appendleft(self)

    def send(self, _: Any) -> Any:
        """Resume the caretaker's Trio task, because the last daemon has ended; the scheduler calls this."""
        assert self._task is not None
        self._sim.expected = self._task
        reschedule(self._task)
        return return_to_trio


def lets_ctrl_c_in(fn: Callable[..., Awaitable[Any]]) -> bool:
    """Let Ctrl-C raise KeyboardInterrupt inside `fn`, an ``async def`` function; return False for other callables.

    The caller must run any other callable inside `_interruptible`, which has the same effect but costs one more frame.
    """
    code = getattr(fn, "__code__", None)
    if code is None or not code.co_flags & CO_COROUTINE:
        return False
    if _MARKED.get(id(code)) is not code:
        if len(_MARKED) >= _MOST_MARKED:
            _MARKED.clear()
        _MARKED[id(code)] = code
        disable_ki_protection(fn)
    return True


_MARKED: dict[int, Any] = {}
"""Code objects of marked functions, by the id of the original code. Few functions run as actors; marking is slow."""
_MOST_MARKED = 256


# ---------------------------------------------------------------------- services
def _end() -> None:
    """Raise `Expired` in a service that still waits when the run is over: it ends without an error report."""
    raise Expired  # as a class: an instance would keep the frames that it has passed


def service(
    actor: Actor, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...], ended: Callable[[Actor], None]
) -> Callable[[], None]:
    """Run ``fn(*args)`` as ``actor``, without a Trio task, then call ``ended``. Return a function that cancels it."""
    context = copy_context()
    coroutine: Any = _serve(actor, fn, args, ended)
    actor.detached = True
    context.run(coroutine.send, None)  # up to its first turn
    actor.send = partial(context.run, coroutine.send)

    def cancel() -> None:
        actor.abort(_end)

    return cancel


@uninterrupted
async def _serve(
    actor: Actor, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...], ended: Callable[[Actor], None]
) -> None:
    """Run a service from its begin to its end, as `_live` runs a task. It never returns, since nobody awaits it."""
    sim = actor.sim
    SELF.set(actor)
    await _turn()
    lets_ctrl_c_in(fn)
    try:
        await fn(*args)
    except Expired:
        pass
    except BaseException as exc:
        story.add(sim, actor, error := story.explained(sim, actor, exc))
        if sim.violation is None:
            sim.violation = error
    ended(actor)
    while True:
        await _turn(return_to_trio if sim.violation is not None else None)


@types.coroutine
def _turn(step: Any = None) -> Generator[Any, Any, None]:
    yield step


# ---------------------------------------------------------------------- dormant daemons
class Dormant:
    """A daemon that gets a Trio task only when the first message comes to the mailbox ``box``.

    Until then the methods of this class are the actor's steps. The function ``begin`` starts the Trio task and returns
    the next step for the scheduler's loop; ``ended`` removes the actor from the run.
    """

    __slots__ = ("_actor", "_begin", "_box", "_cancelled", "_context", "_ended")

    def __init__(self, actor: Actor, box: Mailbox, begin: Callable[[], Any], ended: Callable[[Actor], None]) -> None:
        self._actor = actor
        self._box = box
        self._begin = begin
        self._ended = ended
        self._cancelled = False
        self._context = copy_context()  # as Trio's for a task: of who spawned it
        actor.send = self._first_step

    def _first_step(self, _: Any) -> Any:
        """Begin the task if a message is there; else wait at the mailbox, as `Mailbox.get` and `Scheduler.park` do."""
        actor, box = self._actor, self._box
        if box.items:
            return self._context.run(self._begin)
        actor.waits_for = box
        actor.waits_since = now = actor.sim.now
        actor.story.append((now, box.name))
        actor.value = None
        actor.send = self._go_on
        box.getters.append(actor)
        if self._cancelled:
            actor.interrupt(_end)
        return None

    def _go_on(self, _: Any) -> Any:
        """Begin the task, because a message has come; or end the daemon, because it was cancelled."""
        actor = self._actor
        actor.waits_for = None
        if actor.interruption is not None:
            self._ended(actor)
            return None
        # The task gets it from there before any other actor runs; None tells it to look at the messages itself.
        self._box.items.appendleft(actor.value)
        return self._context.run(self._begin)

    def cancel(self) -> None:
        """End the daemon. A daemon that has not begun to wait makes its first step before it ends."""
        self._cancelled = True
        self._actor.interrupt(_end)


# ---------------------------------------------------------------------- actors
# Starting and ending actors.
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
    """Start an actor that runs ``await fn(*args)`` in a Trio nursery; actors that are ready already go first.

    daemon: the run's end does not wait for it. serves: with the engine ``turbo``, a daemon's Trio task begins only when
    a message comes to this mailbox.
    """
    actor = Actor(sim, sim.next_index(), name or str(getattr(fn, "__name__", repr(fn))), daemon)
    actor.waits_first = serves is not None
    if serves is None or not sim.turbo:
        _begin(nursery, actor, fn, args)
    else:

        def begin() -> Any:
            sim.caretaker.remove(actor)
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
    """Start ``fn(*args)`` as a daemon that needs no Trio task with the engine ``turbo``; return its actor.

    chosen: the run's schedule decides when the daemon begins, as for other actors. Otherwise it begins before them: it
    only waits for its first message, so that its place in the order is of no effect. nursery: where Trio tasks start.
    """
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
    caretaker.add(actor, cancel)


def _ready(actor: Actor) -> Actor:
    """Put a new actor in the ready queue, although its Trio task has not made a step yet."""
    _register(actor)
    actor.sim.ready.append(actor)
    return actor


@asynccontextmanager
async def adopt(sim: Scheduler, name: str) -> AsyncIterator[Actor]:
    """Make the current Trio task an actor while the body runs; Trio steps the task, even with the engine ``turbo``."""
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
        sim.caretaker.remove(actor)
    if sim.observer is not None:
        sim.observer.actor_finished(actor)


@uninterrupted
async def _live(actor: Actor, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
    """Run an actor's whole life, as a Trio task.

    Trio runs the first steps of new tasks in random order. So each first step only parks, and the scheduler then
    resumes the actors one after another. No code of the user runs before.
    """
    sim = actor.sim
    SELF.set(actor)
    actor.task = current_task()
    if sim.turbo:
        await actor.leave_trio()
    else:
        actor.belong_to_trio()
        await _turn(actor.trap)
    try:
        if lets_ctrl_c_in(fn):
            actor.value = await fn(*args)
        else:
            actor.value = await _interruptible(fn, args)
        if sim.running is not actor and actor.waits():
            raise sim.stepped_by_hand(actor)
        # The actors that it has cancelled go on before it ends.
        if sim.trio_has_work:
            await sim.pause(actor, cancellable=False)
    except Expired:  # ends a wait on purpose, so it gets no story
        raise
    except BaseException as exc:
        why = ""
        if sim.running is not actor and actor.waits():
            raise sim.stepped_by_hand(actor) from exc
        if isinstance(exc, trio.Cancelled):
            if actor.detached:
                await actor.attach()
            if trio.current_effective_deadline() == -inf:
                raise
            why = "and nobody has cancelled it"
        story.add(sim, actor, error := story.explained(sim, actor, exc, why))
        raise error  # noqa: B904  # its cause is set where it has another one
    finally:
        _unregister(actor)
        # Only Trio can end a task.
        if actor.detached:
            await actor.attach()
        actor.let_task_go()


@disable_ki_protection
async def _interruptible(fn: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> T:
    return await fn(*args)
