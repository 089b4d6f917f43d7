"""Actors, and the scheduler that they share: who is due, who waits for what, and how a wait begins and ends.

An `Actor` is one Trio task that takes part in virtual time. `Scheduler` is the state of a run and the interface of
primitives: whatever waits does so in `Scheduler.park`, or sets a timer. The two are one file because each reads and
writes the other in every step. `Simulation`, which steps the actors, is built on them.
"""

from __future__ import annotations

import itertools
import types
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar
from functools import partial
from heapq import heappop, heappush, heappushpop
from math import inf
from threading import current_thread, get_ident
from typing import Any, Protocol, TypeAlias, TypeVar

import outcome
from trio.lowlevel import (
    Abort,
    Task,
    current_task,
    enable_ki_protection,
    reattach_detached_coroutine_object,
    reschedule,
    temporarily_detach_coroutine_object,
    wait_task_rescheduled,
)

from offloadrt.sim.errors import LONGEST_S, Expired, ReturnToTrio, SimulationError, UnregisteredTask, no_duration

GO = outcome.Value(None)
"""The value that every resumption sends. It never says why an actor was resumed: ``Actor.interruption`` does. So one
object serves for all, and nothing is allocated or unwrapped in a step (a fifth of the cost of a native step). A wait
that ends with another value was stepped by hand.
"""

SELF: ContextVar[Actor] = ContextVar("offloadrt_actor")
"""The actor that a Trio task belongs to. Tasks of a nursery inherit it, so the scheduler compares tasks as well."""

SLICE = 2000
"""Steps between two looks at Trio. Ctrl-C, cancellation and other threads wait for a look, so slices must be bounded;
longer ones than 300 steps are no faster.
"""

Timer: TypeAlias = tuple[float, int, Any]
"""An entry of the heap of timers: ``(time, number, item)``, of which the least is due next.

``item.send`` is called when its time has come. The number decides among timers of one instant: who set a timer first
is due first. It also keeps ``heapq`` from comparing items, which have no order. The hot paths push and pop with
``heapq`` themselves; `bring_forward` and `remove` are for what happens seldom. Taking an entry out scans the heap: a
token for each entry, so that no scan is needed, made every wait 5 to 15 % slower, and cancellations are rare.
"""

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
    """Decorate a function of the scheduler so that Ctrl-C raises KeyboardInterrupt only later, in the user's code."""
    code_owner: Any = function
    enable_ki_protection(code_owner)
    return function


def return_to_trio(_: Any = None) -> Any:
    """Raise ReturnToTrio, to leave the loop over actors' steps. A step returns this function when Trio has to run."""
    raise ReturnToTrio


def task_in_a_step() -> Task | None:
    """Return the Trio task that is making a step now; None between steps, and outside Trio."""
    try:
        return current_task()
    except RuntimeError:
        return None


class Observer(Protocol):
    """Watches actors and locks; called at the virtual time of the event, before any other actor runs.

    ``offloadrt.trace`` implements it. Without an observer, each call costs one test against None.
    """

    def actor_spawned(self, actor: Actor) -> None: ...
    def actor_finished(self, actor: Actor) -> None: ...
    def lock_waited(self, lock: Any, actor: Actor) -> None: ...
    def lock_acquired(self, lock: Any, actor: Actor) -> None: ...
    def lock_released(self, lock: Any, actor: Actor) -> None: ...


class ResumptionObserver(Protocol):
    """Watches which actor resumes which; called at the virtual time of the event, before any other actor runs."""

    def resumed(self, sim: Scheduler, actor: Actor) -> None:
        """Note that the running actor resumes ``actor``, or has set the timer that will resume it."""

    def joined(self, sim: Scheduler, actor: Actor, since: float) -> None:
        """Note that ``actor`` waited from ``since`` until the last of its children had ended."""


def bring_forward(heap: list[Timer], item: Any, entry: Timer) -> bool:
    """Replace the timer of ``item`` in the heap by the earlier ``entry``; return False if ``item`` has no timer."""
    for position, other in enumerate(heap):  # noqa: B007  # used below the loop
        if other[2] is item:
            break
    else:
        return False
    while position and entry < heap[parent := (position - 1) >> 1]:  # as heapq's private _siftdown does
        heap[position] = heap[parent]
        position = parent
    heap[position] = entry
    return True


def remove(heap: list[Timer], item: Any) -> None:
    """Remove the timer of ``item`` from the heap, if it has a timer."""
    if bring_forward(heap, item, (-inf, 0, item)):
        heappop(heap)


class Actor:
    """A task of the run; ``index`` counts actors in order of spawning. The run's end does not wait for a ``daemon``.

    Two fields are for the code that started the actor: ``cause``, the number of the directive for which the actor works
    (0: none), and ``data``, in which programming models keep what they know of a host thread. The scheduler alone uses
    the others, in every step; they are plain fields here because a separate object would cost a look-up each time.
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
        "wants",
    )  # fmt: skip
    is_actor = True
    """Distinguishes actors from the other entries of the heap and the ready queue: alarms, expiries, fences."""

    def __init__(self, sim: Scheduler, index: int, name: str, daemon: bool) -> None:
        self.sim = sim
        self.index = index
        self.name = name
        self.daemon = daemon
        self.cause = 0
        self.data: dict[str, Any] = {}
        self.task: Any = None
        """The actor's trio.lowlevel.Task, once that task has begun."""
        self.detached = False
        """Whether the trampoline makes the actor's steps, instead of Trio."""
        self.finished = False
        self.value: Any = None
        """The result of the actor's wait, set by whoever ended the wait; after its end, what its function returned."""
        self.waits_for: Any = None
        """The primitive that the actor is parked on, from `Simulation.park` to its next step; None otherwise."""
        self.waits_since = 0.0
        self.wants: Any = None
        """The request to the `Resource` it waits for: seconds of service (`Station`), or True to write (`RWLock`)."""
        self.waits_first = False
        """Whether its first step only waits for a message: then no strategy chooses its time (`ChosenOrder`)."""
        self.interruption: Callable[[], None] | None = None
        """Raises the error that cut the actor's wait short, if one did. Each wait checks this field when it resumes."""
        self.raw_section: Any = None
        """The `RawSection` that the actor is in, if it may be waiting in Trio itself."""
        self.story: deque[tuple[float, str]] = deque(maxlen=6)
        """The actor's last waits, for error messages: when each began, and the name of the primitive."""
        self._own_trap: Any = None
        self.trap: Any = None
        """What the actor yields to park: Trio's message, or None to the trampoline when the actor is detached."""
        self.send: Callable[[Any], Any] = self.not_started
        """Makes the actor's next step; called with ``GO`` when its turn has come."""

    def __repr__(self) -> str:
        return f"<actor {self.index} {self.name!r}>"

    def not_started(self, _: Any) -> Any:
        """Have Trio run the first step of the new actor's task; the scheduler calls this as the actor's first step."""
        self.sim.ready.appendleft(self)
        return return_to_trio

    def belong_to_trio(self) -> None:
        """Have Trio make the actor's steps from now on, as for any plain Trio task."""
        if self._own_trap is None:  # only now: most daemons of the gear ``turbo`` never need one
            # Made once, as each wait would cost a coroutine and a message: what `wait_task_rescheduled` yields to Trio.
            wait = wait_task_rescheduled(self.abort)
            self._own_trap = wait.send(None)
            wait.close()
        self.trap = self._own_trap
        self.send = self.wake

    def let_task_go(self) -> None:
        """Drop the references to the ended Trio task, which refer back to the actor (a cycle for the collector)."""
        self.task = self.trap = self._own_trap = None
        self.send = return_to_trio

    def wake(self, _: Any) -> Any:
        """Let Trio make the actor's next step. It stands where a task's `send` does, whose argument it ignores."""
        sim = self.sim
        # In this order: Trio tells its instruments of a wake-up within `reschedule`.
        sim.expected = task = self.task
        reschedule(task, GO)
        sim.running = self
        return return_to_trio

    def waits(self) -> bool:
        """Return whether the actor is parked or has a timer."""
        return self.waits_for is not None or any(item is self for _, _, item in self.sim.heap)

    # ------------------------------------------------------------------ waits that are cut short
    def interrupt(self, interruption: Callable[[], None]) -> bool:
        """End the wait of a parked actor and resume it now, so that ``interruption()`` raises in it.

        Interrupted actors come before everything else that is due now, in order of spawning. Returns False if the actor
        is not parked, or has been resumed already: then its wait has ended, and it keeps the result of the wait.
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
        """Deliver Trio's cancellation, ``raise_cancel``, to a parked actor; called by Trio.

        The scheduler does it instead of Trio (hence ``Abort.FAILED``), because Trio cancels the tasks of a scope in the
        order of a set, which differs from run to run; the scheduler's heap of timers has them in order of spawning. If
        the wait has ended already, the next one is cancelled: by Trio, or for a `detached` actor by `LateCancel`.
        """
        if (self.interruption is not None or not self.interrupt(raise_cancel)) and self.detached:
            self.trap = LateCancel(self, raise_cancel)
        return Abort.FAILED

    @uninterrupted
    @types.coroutine
    def interrupted(self) -> Generator[Any, Any, None]:
        """Raise the error that cut the actor's wait short: a cancellation or a timeout.

        A cancellation first turns an actor that Trio does not step into a plain Trio task: from then on Trio raises
        Cancelled at each of its waits, which the loop of the engine ``turbo`` could not do.
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
        """Let Trio, not the scheduler, make the actor's steps (engine ``turbo``); the actor still runs now."""
        self.detached = False
        self.belong_to_trio()
        self.sim.running = None
        self.sim.expected = self.task
        # Trio reschedules the task. The trampoline gets the second argument as its next step, which ends the slice.
        await reattach_detached_coroutine_object(self.task, return_to_trio)

    @uninterrupted
    async def detach(self) -> None:
        """Let the scheduler, not Trio, make the actor's steps again (engine ``turbo``); the actor is resumed next."""
        self.sim.ready.appendleft(self)
        await self.leave_trio()

    @uninterrupted
    async def leave_trio(self) -> None:
        """Have the scheduler's loop (`Trampoline`), not Trio, make the actor's steps; return at the next step.

        Each step runs in the task's own context, as Trio's steps do, lest context variables (structlog's, for example)
        leak from actor to actor. This costs 8 to 19 % of the loop's speed.
        """
        coroutine: Any = self.task.coro
        self.detached = True
        self.trap = None
        self.send = partial(self.task.context.run, coroutine.send)
        await temporarily_detach_coroutine_object(self.abort)


class LateCancel:
    """Cancels a resumed actor that Trio does not step, by running ``raise_cancel`` when the actor next waits."""

    __slots__ = ("actor", "raise_cancel")

    def __init__(self, actor: Actor, raise_cancel: Callable[[], Any]) -> None:
        self.actor = actor
        self.raise_cancel = raise_cancel

    def __call__(self, _: Any) -> None:
        self.actor.trap = None
        self.actor.interrupt(self.raise_cancel)


class Scheduler:
    """The state that all parts of a run share, and the operations from which waiting primitives are built.

    `Simulation` adds the loop that steps the actors, and explains the parameters. Other classes of `sim` read and write
    these fields directly: a method for each access would cost a call in every step.
    """

    __slots__ = (
        "_order",
        "_paused",
        "_steps",
        "actors",
        "by_scheduler",
        "caretaker",
        "causal_log",
        "ending",
        "expected",
        "heap",
        "incidents",
        "last_advance",
        "newborn",
        "next_index",
        "now",
        "observer",
        "operations_left",
        "primitives",
        "ready",
        "running",
        "thread",
        "timer_due",
        "timers_set",
        "trio_has_work",
        "turbo",
        "violation",
    )  # fmt: skip

    def __init__(self, turbo: bool, observer: Observer | None, causal_log: ResumptionObserver | None) -> None:
        self.turbo = turbo
        self.observer = observer
        self.causal_log = causal_log
        self.now = 0.0
        self.thread = get_ident()
        """The thread of the operating system that runs this."""
        self.heap: list[Timer] = []
        self.ready: Any = None
        """The actors to resume at this instant, in order; whoever ends a wait appends the actor (`ready_queue`)."""
        self._order: Any = None
        """The ready queue if a strategy chooses from it (`ChosenOrder`), else None."""
        self.timers_set = 0
        """Timers set so far, the same in both gears, and part of every result of a run. Each has the next number in the
        heap, so that of those due at one time the one set first comes first.
        """
        self.next_index = itertools.count().__next__
        self.running: Actor | None = None
        """The actor that is being stepped, as far as the scheduler knows; ``current`` looks further."""
        self.actors: dict[int, Actor] = {}
        self.primitives: list[Any] = []
        """Every lock, station and mailbox; error messages look here for what an actor holds."""
        self.incidents: list[str] = []
        """What was done to the run from outside, as injected faults; reports of a deadlock list it."""
        self.timer_due = False
        """Whether the scheduler has just returned to Trio because one of Trio's own deadlines is due."""
        self.expected: Any = None
        """The task that the scheduler itself has just woken; every other wake-up comes from Trio."""
        self.by_scheduler = False
        """Whether the scheduler itself starts or cancels tasks now, so that their wake-ups count as its own."""
        self.newborn = 0
        """Tasks that the scheduler has started since Trio's last pass that the scheduler did not order."""
        self.caretaker: Any = None
        """The task that stands for all daemons without a Trio task (`life.Caretaker`)."""
        self.operations_left = SLICE
        """How many more operations may pass without waiting before the scheduler gets a look: a program that takes free
        locks in a loop would otherwise never let Trio see Ctrl-C, nor a livelock be noticed.
        """
        self.last_advance = 0
        """The number of the last timer that may pass without a switch in this slice; 0 in the gear ``native``."""
        self.trio_has_work = False
        """Whether an actor has cancelled others: those that waited in Trio must run, alone, before that actor does more
        than wait.
        """
        self.violation: BaseException | None = None
        """The first thing that must not happen in a run; raised when Trio asks for the time."""
        self.ending = False
        self._steps = 0
        self._paused = Paused(self)

    @property
    def current(self) -> Actor:
        """Return the actor that runs now. Raises UnregisteredTask if the calling task is no actor.

        A call from another thread of the operating system ends the run. Each call of a programming model reads this
        property, so that such a mistake is noticed; a hot path reads ``sim.running or sim.current``, which is faster.
        """
        if get_ident() != self.thread:
            raise self.in_wrong_thread()
        me = SELF.get(None)
        if (running := self.running) is not None and (me is running or me is None):
            return running
        if me is not None and me.sim is self and me.waits() and task_in_a_step() in (None, me.task):
            raise self.stepped_by_hand(me)
        if me is None or me.sim is not self or me.task is not task_in_a_step():
            raise UnregisteredTask(f"t={self.now:g}: {unregistered(self, me)}")
        return me

    def in_wrong_thread(self) -> UnregisteredTask:
        """End the run because another thread of the operating system made a call; return the error for that call."""
        error = UnregisteredTask(
            f"t={self.now:g}: a call of the run was made in thread {current_thread().name!r} of the operating system, "
            "where no virtual time passes; a program's threads are actors: await run.parallel(body, num_threads=2)"
        )
        self.violation = self.violation or error
        return error

    def stepped_by_hand(self, me: Actor) -> SimulationError:
        """End the run because other code than the scheduler resumed ``me`` while it waits; return the error."""
        if me.waits_for is not None:
            me.waits_for.forget(me)
            me.waits_for = None
        remove(self.heap, me)
        if self.running not in (me, None):  # whose turn it is, and who is on no queue any more
            self.ready.appendleft(self.running)
        self.running = me
        error = SimulationError(
            f"t={self.now:g}: {me.name} goes on while it waits: a coroutine of the run was stepped by hand, as with "
            "send(None) or asyncio.run; only await lets virtual time pass"
        )
        self.violation = self.violation or error
        return error

    @uninterrupted
    @types.coroutine
    def park(self, me: Actor, target: Any) -> Generator[Any, Any, Any]:
        """Wait until somebody appends ``me`` to ``ready``, and return the ``value`` that it has left in ``me``.

        ``target`` is what the actor waits for. It has a ``name`` for messages and a method ``forget(actor)``, which
        takes the actor off its queue when the wait is cancelled or times out; it returns False if the actor is not
        there any more, because it has been served. All primitives wait here.
        """
        me.waits_for = target
        me.waits_since = now = self.now
        me.story.append((now, target.name))
        me.value = None
        self.running = None
        if (yield me.trap) is not GO:
            raise self.stepped_by_hand(me)
        me.waits_for = None
        if me.interruption is not None:
            yield from self.interrupted(me)
        return me.value

    def until_due(self, me: Actor, due: float) -> Awaitable[None]:
        """Suspend ``me``, the running actor, until virtual time ``due``."""
        return PASSED if self.set_timer(me, due) else _suspended(me)

    def set_timer(self, actor: Actor, due: float, timer: Any = None) -> bool:
        """Set a timer that resumes ``actor`` at virtual time ``due``; return True if the actor can go on at once.

        The running actor can if nothing else happens before ``due``: then virtual time becomes ``due``
        without a switch to another task. With ``timer``, its method ``send`` is called at that time, not the actor's.
        """
        self.timers_set = number = self.timers_set + 1
        heap, order = self.heap, self._order
        # With a trap the actor is a Trio task, or a cancellation waits for it to park: it must not go on then. Of two
        # timers for one time the older comes first.
        if number <= self.last_advance and self.running is actor and actor.trap is None:
            if order is None:
                passes = not self.ready and (not heap or heap[0][0] > due)
            else:
                passes = order.passes(actor, due, timer)
            if passes:
                self.now = due
                return True
        heappush(heap, (due, number, timer or actor))
        if self.causal_log is not None and self.running is not actor:
            self.causal_log.resumed(self, actor)
        return False

    @uninterrupted
    @types.coroutine
    def pause(self, me: Actor, cancellable: bool = True) -> Generator[Any, Any, None]:
        """Let Trio handle signals, its woken tasks and, if ``cancellable``, cancellations; then resume ``me`` first."""
        self.trio_has_work = False
        if not self.operations_left:
            # Operations that passed without a wait are steps: `look_around` notices a loop over free locks.
            self._steps += SLICE
            self.operations_left = SLICE
        self.ready.appendleft(me)
        me.waits_for = self._paused if cancellable else None
        me.waits_since = self.now
        if me.detached:
            if me.trap is not None and cancellable:
                me.trap(GO)
            yield return_to_trio
        else:
            yield me.trap
        me.waits_for = None
        if me.interruption is not None:
            yield from self.interrupted(me)

    def interrupted(self, me: Actor) -> Generator[Any, Any, None]:
        """Raise the error, if any, that ended the wait of ``me``; a user's own primitive calls this after its wait."""
        return me.interrupted()


def unregistered(sim: Scheduler, parent: Actor | None) -> str:
    """Return the error for a primitive that was awaited by a Trio task that is no actor. parent: who started it."""
    if parent is not None and parent.sim is sim:
        return (
            f"a primitive of the run was awaited in a plain Trio task (a child of {parent.name!r}); "
            "start it as an actor: 'async with sim.open_nursery() as n: n.spawn(fn, ...)' or sim.spawn(fn, ...)"
        )
    return "a primitive of the run was awaited outside its actors; use sim.run(main), sim.spawn(fn) or sim.adopt()"


def make_sleep(sim: Scheduler) -> Callable[[float], Awaitable[None]]:
    """Make the function ``sleep(dt)`` of a simulation, which suspends the calling actor for ``dt`` virtual seconds.

    It is a closure, whose names are found faster than fields, because actors call it most often. With the engine
    ``turbo`` it also finds the next actor itself: setting its timer and taking the least one is one operation on the
    heap. A version that called `Simulation.set_timer` instead took 16 to 18 % more instructions for an iteration of the
    models M1 and M4 (`bench/models.py`).
    """
    heap, ready = sim.heap, sim.ready
    popleft = ready.popleft

    @uninterrupted
    @types.coroutine
    def sleep(dt: float) -> Generator[Any, Any, None]:
        """Let ``dt`` virtual seconds pass for this actor. ValueError if ``dt`` is negative, NaN or over `LONGEST_S`."""
        try:
            if not 0.0 <= dt <= LONGEST_S:
                raise no_duration("sleep", dt)
        except TypeError:
            raise no_duration("sleep", dt) from None
        me = sim.running or sim.current
        sim.timers_set = number = sim.timers_set + 1
        if (trap := me.trap) is not None:
            heappush(heap, (sim.now + dt, number, me))
            sim.running = None  # it waits in virtual time, not in Trio (`Simulation.deadline_to_sleep_time`)
            sent = yield trap
        else:
            if ready:
                heappush(heap, (sim.now + dt, number, me))
                item = popleft()
            else:
                sim.now, _, item = heappushpop(heap, (sim.now + dt, number, me))
                # No other is due before. Only so many timers may pass in a slice, or Trio would never get its look.
                if item is me and number <= sim.last_advance:
                    return
            sim.running = item
            sent = yield item.send
        if sent is not GO:
            raise sim.stepped_by_hand(me)
        if me.interruption is not None:
            yield from me.interrupted()

    return sleep


@uninterrupted
@types.coroutine
def _suspended(me: Actor) -> Generator[Any, Any, None]:
    """Wait for a timer that has been set already."""
    me.sim.running = None  # as in sleep
    if (yield me.trap) is not GO:
        raise me.sim.stepped_by_hand(me)
    if me.interruption is not None:
        yield from me.interrupted()


class Paused:
    """The object on which an actor waits while Trio handles signals and cancellations (`Scheduler.pause`)."""

    name = "its turn"

    def __init__(self, sim: Scheduler) -> None:
        self._sim = sim

    def forget(self, actor: Actor) -> bool:
        self._sim.ready.remove(actor)
        return True
