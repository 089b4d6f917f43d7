"""An actor: one Trio task that takes part in virtual time, and what it sees of the scheduler.

`Actor` is the central class. `Scheduler` names what actors and the other parts of this package use of `Simulation`; as
a protocol it lets the modules import in one direction, from `Simulation` down to here.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Generator
from contextvars import ContextVar
from functools import partial
from heapq import heappush
from typing import Any, Protocol, TypeVar

import outcome
from trio.lowlevel import (
    Abort,
    enable_ki_protection,
    reattach_detached_coroutine_object,
    reschedule,
    temporarily_detach_coroutine_object,
    wait_task_rescheduled,
)

from offloadrt.sim.errors import Expired, ReturnToTrio
from offloadrt.sim.timers import Timer, bring_forward

GO = outcome.Value(None)
"""The value that every resumption sends. It never says why an actor was resumed: ``Actor.interruption`` does. So one
object serves for all, and nothing is allocated or unwrapped in a step (a fifth of the cost of a native step).
"""

SELF: ContextVar[Actor] = ContextVar("offloadrt_actor")
"""The actor that a Trio task belongs to. Tasks of a nursery inherit it, so the scheduler compares tasks as well."""

F = TypeVar("F", bound=Callable[..., Any])


@types.coroutine
def _nothing() -> Generator[Any, Any, None]:
    yield  # pragma: no cover - PASSED is closed before its first step


PASSED = _nothing()
"""What a primitive returns when there is nothing to wait for.

It is a generator that has been closed: awaiting it ends at once, as often as it is done, so this one object serves all
calls. A coroutine could be awaited only once and would have to be made for each call.
"""
PASSED.close()

BEFORE_ALL = 1 << 62
"""Subtracted from an actor's index to number its interruption in the heap: cancellations and timeouts of one instant
come before everything else that is due then, in order of spawning.
"""


def uninterrupted(function: F) -> F:
    """Protect a function from Ctrl-C: KeyboardInterrupt is raised in the user's code, never inside the scheduler."""
    code_owner: Any = function
    enable_ki_protection(code_owner)
    return function


def _message(abort: Callable[[Any], Abort]) -> Any:
    """Return the object that ``wait_task_rescheduled(abort)`` yields to Trio.

    An actor makes it once instead of once a wait, which would cost a coroutine and a message each time.
    """
    wait = wait_task_rescheduled(abort)
    message = wait.send(None)
    wait.close()
    return message


def return_to_trio(_: Any = None) -> Any:
    """Stop the trampoline: a step yields or returns this function when Trio has something to run."""
    raise ReturnToTrio


class Scheduler(Protocol):
    """What actors, scopes, nurseries, stories and the watch use of `Simulation`, which says what each member is.

    Wide because it is the whole inner surface of the scheduler in one place.
    """

    now: float
    heap: list[Timer]
    ready: Any
    timers_set: int
    running: Actor | None
    expected: Any
    actors: dict[int, Actor]
    primitives: list[Any]
    incidents: list[str]
    violation: BaseException | None
    ending: bool
    turbo: bool
    operations_left: int
    last_advance: int
    trio_has_work: bool
    timer_due: bool
    by_scheduler: bool
    newborn: int
    caretaker: Any
    observer: Any
    handovers: Any
    next_index: Callable[[], int]

    @property
    def current(self) -> Actor: ...
    def pause(self, me: Actor, cancellable: bool = True) -> Any: ...  # to be awaited, or delegated to


class Actor:
    """A task of the run, with a ``name`` and an ``index`` in order of spawning.

    Its other fields are the scheduler's, but for two that belong to the actor's owner: ``cause``, the number of the
    directive that the actor works for (0: none), and ``data``, where floors above keep what they know of a host thread.

    Wide because the scheduler reads and writes these fields in every step: an object between would cost a look-up
    each.
    """

    __slots__ = (
        "_own_trap",
        "cause",
        "daemon",
        "data",
        "detached",
        "finished",
        "index",
        "interruption",
        "name",
        "raw_section",
        "send",
        "sim",
        "story",
        "task",
        "trap",
        "value",
        "waits_first",
        "waits_for",
        "waits_since",
    )  # fmt: skip
    is_actor = True
    """Tells actors from the other things that stand in the heap and the ready queue: alarms, expiries, fences."""

    def __init__(self, sim: Scheduler, index: int, name: str, daemon: bool) -> None:
        self.sim = sim
        self.index = index
        self.name = name
        self.daemon = daemon
        self.cause = 0
        self.data: dict[str, Any] = {}
        self.task: Any = None
        """Its trio.lowlevel.Task, as soon as it has begun."""
        self.detached = False
        """Whether the trampoline steps it, and not Trio."""
        self.finished = False
        self.value: Any = None
        """What its wait ended with left by whoever ended it; in the end what its function returned."""
        self.waits_for: Any = None
        """What it is parked on, from `Simulation.park` until it is stepped again; None while it runs or sleeps."""
        self.waits_since = 0.0
        self.waits_first = False
        """Its first step only begins to wait for a message: no strategy has to choose when (`ChosenOrder`)."""
        self.interruption: Callable[[], None] | None = None
        """Raises what it was resumed for, if its wait was cut short. Whoever waits looks here when it goes on."""
        self.raw_section: Any = None
        """The `RawSection` that it is in, if it may be waiting in Trio itself."""
        self.story: deque[tuple[float, str]] = deque(maxlen=6)
        """Its last waits, for error messages: when each began, and the name of what it waited for."""
        self._own_trap: Any = None
        self.trap: Any = None
        """What it yields to park: Trio's message, or None when it is detached: "who is next?" to the trampoline."""
        self.send: Callable[[Any], Any] = self.not_started
        """Makes its next step: called with ``GO`` when its turn has come."""

    def __repr__(self) -> str:
        return f"<actor {self.index} {self.name!r}>"

    def not_started(self, _: Any) -> Any:
        """Let Trio run the first step of the new task, and take the turn after that."""
        self.sim.ready.appendleft(self)
        return return_to_trio

    def belong_to_trio(self) -> None:
        """Have Trio make its steps from now on, and be told of its waits."""
        if self._own_trap is None:  # only now: most daemons of the gear ``turbo`` never need one
            self._own_trap = _message(self.abort)
        self.trap = self._own_trap
        self.send = self.wake

    def wake(self, _: Any) -> Any:
        """Leave the next step to Trio: how an actor is stepped in the gear ``native``, and while it is attached."""
        sim = self.sim
        # In this order: Trio tells its instruments of a wake-up within `reschedule`.
        sim.expected = task = self.task
        reschedule(task, GO)
        sim.running = self
        return return_to_trio

    # ------------------------------------------------------------------ waits that are cut short
    def interrupt(self, interruption: Callable[[], None]) -> bool:
        """Take a parked actor off what it waits for and resume it now, so that ``interruption()`` raises in it.

        Interrupted actors come before everything else that is due now, in order of spawning. False if the actor is not
        parked here, or is on its way already: then its wait has ended, and it keeps what it has been given.
        """
        sim = self.sim
        first = (sim.now, self.index - BEFORE_ALL, self)
        # An actor that waits for no primitive may have a timer, as it sleeps or is served: that is brought forward.
        if (target := self.waits_for) is not None and target.forget(self) is not False:
            self.waits_for = None
            heappush(sim.heap, first)
        elif not bring_forward(sim.heap, self, first):
            return False
        self.interruption = interruption
        return True

    def abort(self, raise_cancel: Callable[[], Any]) -> Abort:
        """Deliver Trio's cancellation of a parked actor; called by Trio.

        The scheduler does it instead of Trio (hence ``Abort.FAILED``), because Trio cancels the tasks of a scope in the
        order of a set, which differs from run to run; the heap has them in order of spawning. An actor that is already
        on its way is cancelled where it parks next: Trio asks again there if it is attached.
        """
        if (self.interruption is not None or not self.interrupt(raise_cancel)) and self.detached:
            self.trap = LateCancel(self, raise_cancel)
        return Abort.FAILED

    @uninterrupted
    @types.coroutine
    def interrupted(self) -> Generator[Any, Any, None]:
        """Raise what the actor was resumed for.

        A cancellation turns a detached actor into a plain Trio task first: from then on Trio raises Cancelled at each
        of its waits, which the trampoline could not do.
        """
        interruption = self.interruption
        self.interruption = None
        assert interruption is not None
        try:
            interruption()
        except Expired:  # a timeout raises once
            raise
        except BaseException as exc:
            error = exc
        if self.detached:
            yield from self.attach().__await__()
        raise error

    # ------------------------------------------------------------------ between Trio and the trampoline
    @uninterrupted
    async def attach(self) -> None:
        """Turn a detached actor into a plain Trio task, in the same place of the order."""
        self.detached = False
        self.belong_to_trio()
        self.sim.running = None
        self.sim.expected = self.task
        # Trio reschedules the task. The trampoline gets the second argument as its next step, which ends the slice.
        await reattach_detached_coroutine_object(self.task, return_to_trio)

    @uninterrupted
    async def detach(self) -> None:
        """Turn a plain Trio task into a detached actor, which goes on first."""
        self.sim.ready.appendleft(self)
        await self.leave_trio()

    @uninterrupted
    async def leave_trio(self) -> None:
        """Have the trampoline step the actor from now on; it parks until its turn comes.

        Each step runs in the task's own context, as Trio's steps do: without that, context variables (structlog's, for
        one) would leak from actor to actor. It costs 8 to 19 % of the trampoline's speed.
        """
        coroutine: Any = self.task.coro
        self.detached = True
        self.trap = None
        self.send = partial(self.task.context.run, coroutine.send)
        await temporarily_detach_coroutine_object(self.abort)


class LateCancel:
    """A cancellation that found its detached actor on its way: the trap that the actor yields where it parks next."""

    __slots__ = ("actor", "raise_cancel")

    def __init__(self, actor: Actor, raise_cancel: Callable[[], Any]) -> None:
        self.actor = actor
        self.raise_cancel = raise_cancel

    def __call__(self, _: Any) -> None:
        self.actor.trap = None
        self.actor.interrupt(self.raise_cancel)


@types.coroutine
def awaitable(generator: Generator[Any, Any, None]) -> Generator[Any, Any, None]:
    """Let an ``async def`` function await a plain generator."""
    yield from generator
