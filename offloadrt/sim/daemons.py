"""Daemons without a Trio task, in the gear ``turbo``: a task costs 50 microseconds to begin and to end.

A *service* never has one: the trampoline steps its coroutine as that of any detached actor. A *dormant* daemon gets its
task when its first message comes, which for many never happens. Both are actors like all others, with an index and a
place in the order; nothing in a run's history tells that they have no task. What Trio would do at the end of a run, the
`Caretaker` does: it cancels them with the others, in order of spawning, and stays until they have ended.
"""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Generator
from contextvars import copy_context
from functools import partial
from inspect import CO_COROUTINE
from typing import Any

from trio.lowlevel import (
    Abort,
    Task,
    current_task,
    disable_ki_protection,
    reschedule,
    wait_task_rescheduled,
)

from offloadrt.sim import story
from offloadrt.sim.actor import SELF, Actor, Scheduler, return_to_trio, uninterrupted
from offloadrt.sim.errors import Expired
from offloadrt.sim.mailbox import Mailbox


class Caretaker:
    """A Trio task that stands for all daemons without one."""

    is_actor = False
    __slots__ = ("_cancelled", "_daemons", "_sim", "_task", "begun")

    def __init__(self, sim: Scheduler) -> None:
        self._sim = sim
        self._daemons: dict[int, Callable[[], None]] = {}
        """How each is cancelled, by index."""
        self._cancelled = False
        self._task: Task | None = None
        self.begun = False
        """Whether the task has been started."""

    async def wait(self) -> None:
        """Wait until the daemons of the run are cancelled, and have ended."""
        self._task = current_task()

        def abort(_: object) -> Abort:
            self._cancelled = True
            for cancel in list(self._daemons.values()):
                cancel()
            return Abort.FAILED if self._daemons else Abort.SUCCEEDED

        await wait_task_rescheduled(abort)

    def took(self, actor: Actor, cancel: Callable[[], None]) -> None:
        """Take a new daemon into care."""
        self._daemons[actor.index] = cancel

    def gave(self, actor: Actor) -> None:
        """Let a daemon go that has ended or become a Trio task."""
        if self._daemons.pop(actor.index, None) is not None and self._cancelled and not self._daemons:
            self._sim.ready.appendleft(self)

    def send(self, _: Any) -> Any:
        """Go on, as Trio's task: the last daemon has ended."""
        assert self._task is not None
        self._sim.expected = self._task
        reschedule(self._task)
        return return_to_trio


def lets_ctrl_c_in(fn: Callable[..., Awaitable[Any]]) -> bool:
    """Mark an actor's ``async def`` function as one in which Ctrl-C may strike; False for anything else.

    A function that is marked itself needs no frame around it.
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
"""The code of functions that are marked, by its id: actors run few functions, and marking one takes long."""
_MOST_MARKED = 256


# ---------------------------------------------------------------------- services
def _end() -> None:
    """Raise, where a service waits when the run is over, what ends it without anybody being told."""
    raise Expired  # as a class: an instance would keep the frames that it has passed


def service(
    actor: Actor, fn: Callable[..., Awaitable[Any]], args: tuple[Any, ...], ended: Callable[[Actor], None]
) -> Callable[[], None]:
    """Let the trampoline step an actor without a task; returns the function that cancels it."""
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
    """Run the whole life of a service, as `life` does that of a task. It never returns: nobody awaits it."""
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
    """Makes the steps of a daemon until its first message has come: ``actor.send`` is one of its methods.

    ``begin`` starts its Trio task and returns what the trampoline is to do next; ``ended`` takes it out of the run.
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
        """Wait at the mailbox, as `Mailbox.get` and `Simulation.park` do, unless a message is there."""
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
        """Begin, because a message has come, or end."""
        actor = self._actor
        actor.waits_for = None
        if actor.interruption is not None:
            self._ended(actor)
            return None
        # The task gets it from there before anybody else runs; None tells it to look at the messages itself.
        self._box.items.appendleft(actor.value)
        return self._context.run(self._begin)

    def cancel(self) -> None:
        """End the daemon; one that has not waited yet does so first."""
        self._cancelled = True
        self._actor.interrupt(_end)
