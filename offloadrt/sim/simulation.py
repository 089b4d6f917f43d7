"""`Simulation`: virtual time for users, as the clock of a Trio run.

Trio asks its clock how long to sleep when no task can run: that *is* quiescence, so `deadline_to_sleep_time` takes the
next actor from the ready queue, or else the next timer from the heap, and resumes that one actor. At most one task is
runnable at any time. So Trio, which runs runnable tasks in random order, has nothing to choose, and a run is a function
of program, seed and strategy. (Trio's own `MockClock` jumps in the same way, but leaves the order within an instant to
Trio.)

Two gears run the same actors over the same heap and ready queue. In ``native``, the reference, each step is a step of
the Trio task; in ``turbo`` a trampoline makes them (`Trampoline`). Primitives wait through `Scheduler.park`.
"""

from __future__ import annotations

import types
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from heapq import heappop, heappush
from itertools import repeat
from math import inf
from operator import length_hint
from threading import get_ident
from typing import Any, Literal, TypeVar

import numpy as np
import trio
from trio.lowlevel import current_task, reschedule

from offloadrt.sim import life, story
from offloadrt.sim.errors import LONGEST_S, ReturnToTrio, SimulationError
from offloadrt.sim.life import Caretaker
from offloadrt.sim.messages import Mailbox
from offloadrt.sim.ready_queue import ChosenOrder, ready_queue
from offloadrt.sim.scheduler import (
    GO,
    SLICE,
    Actor,
    LateCancel,
    Observer,
    ResumptionObserver,
    Scheduler,
    make_sleep,
    remove,
    return_to_trio,
)
from offloadrt.sim.scope import Attached, Nursery, TimeoutScope
from offloadrt.sim.strategies import Fifo, Strategy
from offloadrt.sim.watch import TrioWatch, Watchdog

# ---------------------------------------------------------------------- the trampoline
# The gear ``turbo``: a trampoline inside the clock hook steps actors that are detached from Trio.
#
# Trio spends about 2.5 microseconds on each step of a task. `Trampoline` calls the coroutine's ``send`` itself, which
# makes a step about seven times as fast. Coroutines are detached by Trio's public function
# ``temporarily_detach_coroutine_object`` (`Actor.leave_trio`), so a plain Trio call out of a detached actor fails
# loudly instead of going wrong. The order of steps is that of the gear ``native``: both take them from one ready
# queue and heap.
ADVANCES = 4 * SLICE
"""Timers that `set_timer` lets pass in one slice without a switch: they are no steps, but take real time too."""

_STOPPED = "the simulation is not running: `run.sim.run(main)` starts it, and `trio.run(main)` does not"
_OUR_STEPS = (types.MethodType, types.FunctionType, partial, LateCancel)


class Fence:
    """A timer at Trio's own next deadline: when it is due, the scheduler's loop returns to Trio.

    So the loop need not compare every step with that deadline.
    """

    __slots__ = ("fired",)
    is_actor = False

    def __init__(self) -> None:
        self.fired = False

    def send(self, _: Any) -> Any:
        # The hook returns, and Trio looks at its deadlines itself.
        self.fired = True
        return return_to_trio


class Trampoline:
    """Makes the steps of actors that Trio does not step, until Trio has work or `slice` steps are made."""

    __slots__ = ("_sim", "_slice")

    def __init__(self, sim: Scheduler, slice: int) -> None:
        self._sim = sim
        self._slice = slice

    def run_slice(self) -> int:
        """Make steps of actors until Trio has work or the slice is used up; return their number, 0 if nothing was due.

        A step returns the next step to make, if known (``sleep`` looks at the heap anyway), else None.
        """
        sim = self._sim
        heap, ready, popleft = sim.heap, sim.ready, sim.ready.popleft
        step: Any = None
        budget = repeat(None, self._slice)
        # For speed, the loop tests for no rare case; exceptions report them. IndexError: the heap was empty as well, so
        # nothing is due (or a step raised it, and then it is an error like any other). TypeError: an actor yielded an
        # object that cannot be called, so the object is Trio's and not ours.
        try:
            for _ in budget:
                if step is None:
                    if ready:
                        item = popleft()
                    else:
                        sim.now, _, item = heappop(heap)
                    sim.running = item
                    step = item.send
                step = step(GO)
            if step is not None:
                self._end_slice(step)
        except ReturnToTrio:
            pass
        except IndexError:
            if heap or ready:
                raise
            sim.running = None
            return 0
        except TypeError:
            self._foreign_yield(step)
        sim.running = None
        return self._slice - length_hint(budget)

    def _end_slice(self, step: Any) -> None:
        """Put back ``step``, which did not fit into the slice; its actor keeps its place in the order."""
        item: Any = self._sim.running
        # The kind of the step decides what to put back. A fence has left the heap, so it counts as due. A late
        # cancellation is delivered now: it takes no turn of its own. All others go back to the head of the queue.
        if step is return_to_trio:
            return
        if isinstance(step, LateCancel):
            step(GO)
        elif not isinstance(step, _OUR_STEPS):
            self._foreign_yield(step)
        elif isinstance(item, Fence):
            item.fired = True
        else:
            self._sim.ready.appendleft(item)

    def _foreign_yield(self, message: Any) -> None:
        """Raise DetachedTrioCall in the detached actor that yielded an object of Trio's, where it did so."""
        actor = self._sim.running
        if not isinstance(actor, Actor) or isinstance(message, _OUR_STEPS):
            raise
        coroutine: Any = actor.task.coro
        error = story.detached_call(self._sim, actor, story.awaited(coroutine))
        step = actor.task.context.run(coroutine.throw, error)
        if step is not None:
            self._end_slice(step)


Gear = Literal["native", "turbo"]
T = TypeVar("T")


class Simulation(Scheduler, trio.abc.Clock):
    """Virtual time for one run.

    :param gear: the engine: ``native`` (Trio tasks) or ``turbo`` (coroutines); both give the same order of events.
    :param strategy: who goes on first, and who is held back (``Fifo()``, ``Random(seed)``, …: `strategies/`).
    :param seed: the seed of ``rng``, the run's only random generator.
    :param observer: called for events of actors and locks; ``causal_log``: called when an actor resumes another.
    :param slice: number of steps between two looks at Trio (``turbo``).
    :param livelock_limit: steps at one instant (and 1000 more for each actor) after which a run ends with Livelock.

    ``now`` is the virtual time in seconds, ``current`` the actor that runs. A simulation runs once.
    """

    __slots__ = (
        "_nursery", "_service", "_trampoline", "_watch", "_watchdog", "gear", "rng", "seed", "sleep", "strategy",
    )  # fmt: skip

    def __init__(
        self, *, gear: Gear = "native", strategy: Strategy | None = None, seed: int = 0,
        observer: Observer | None = None, causal_log: ResumptionObserver | None = None, slice: int = SLICE,
        livelock_limit: int = 1_000_000,
    ) -> None:  # fmt: skip
        if gear not in ("native", "turbo"):
            raise ValueError(f"gear is {gear!r}; it can be 'native' or 'turbo'")
        super().__init__(gear == "turbo", observer, causal_log)
        self.gear: Gear = gear
        self.strategy: Strategy = strategy if strategy is not None else Fifo()
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        self.ready = ready_queue(self, self.strategy, causal_log)
        self._order = self.ready if isinstance(self.ready, ChosenOrder) else None
        self.caretaker = Caretaker(self)
        self.sleep: Callable[[float], Awaitable[None]] = make_sleep(self)
        self._nursery: trio.Nursery | None = None
        self._service: trio.Nursery | None = None
        self._watchdog = Watchdog(self)
        self._watch = TrioWatch(self, self._watchdog, livelock_limit)
        self._trampoline = Trampoline(self, slice)

    # ------------------------------------------------------------------ for programs
    def move_on_after(self, dt: float) -> TimeoutScope:
        """Leave the body of ``with`` after ``dt`` virtual seconds; the scope's ``timed_out`` tells whether it did."""
        return TimeoutScope(self, dt, fail=False)

    def fail_after(self, dt: float) -> TimeoutScope:
        """Raise SimTimeout in the body of ``with`` if it takes longer than ``dt`` virtual seconds."""
        return TimeoutScope(self, dt, fail=True)

    def attached(self) -> Attached:
        """Allow any Trio API in the body of ``async with sim.attached()``.

        That is ``trio.sleep`` (in virtual time), cancel scopes, events, nurseries. Only the engine ``turbo`` needs it.
        """
        return Attached(self)

    def open_nursery(self) -> Nursery:
        """Open a nursery for ``async with``: ``n.spawn(fn, *args)`` starts children, awaited at the end of the body."""
        return Nursery(self)

    def spawn(
        self, fn: Callable[..., Awaitable[Any]], *args: Any, name: str | None = None, daemon: bool = False,
        serves: Mailbox | None = None,
    ) -> Actor:  # fmt: skip
        """Start an actor that runs ``await fn(*args)``. The run's end does not wait for a ``daemon``.

        ``serves``, for a daemon: the mailbox from which ``fn`` gets a message before it does anything that others can
        notice. Until the first message, the daemon costs almost no time of the real processor.
        """
        nursery = self._service if daemon else self._nursery
        if nursery is None:
            raise SimulationError(f"spawn: {_STOPPED}")
        return life.start(self, nursery, fn, args, name, daemon, serves if daemon else None)

    def spawn_service(self, fn: Callable[..., Awaitable[Any]], *args: Any, name: str, chosen: bool = False) -> Actor:
        """Start a daemon that needs no Trio task with the engine ``turbo``, so that it begins and ends at little cost.

        ``fn`` uses neither Trio nor a nursery, and waits for nothing in its clean-up. Before it does anything that
        others can notice, it gets a message from its mailbox; else set ``chosen``: the schedule says when it begins.
        """
        if self._service is None:
            raise SimulationError(f"spawn_service: {_STOPPED}")
        return life.start_service(self, self._service, fn, args, name, chosen)

    def run(self, main: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run ``await main(*args)`` as the first actor, until it and all actors that are no daemons have ended.

        Returns the value of ``main``. An actor's error is raised as it is, with a note of what all actors did; several
        come as an ExceptionGroup. Also Deadlock, Livelock, RealInputOutput, UncontrolledNondeterminism (`errors.py`).
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
        except trio.TrioInternalError as broken:
            error = self.violation or story.disorder(self, broken)
            error.__cause__ = error.__cause__ or broken
        if error is not None:
            raise error  # here, so that its own cause and context stay
        if self.violation is not None:
            raise self.violation
        value: T = actor[0].value
        return value

    @asynccontextmanager
    async def running_here(self) -> AsyncIterator[None]:
        """Let virtual time pass in the current ``trio.run``, whose clock must be this simulation.

        At the end of the body the actors that are no daemons are awaited, then the daemons are cancelled.
        """
        if self._service is not None:
            raise SimulationError("a simulation runs once")
        self._watch.root, self.thread = current_task(), get_ident()
        self._watch.begin(dormant=not self.turbo)  # where Trio makes no steps, it costs nothing to look at all
        try:
            # Outside of the actors' nursery: daemons outlast the actors, and an error of the watchdog ends all of them.
            async with trio.open_nursery() as service:
                self._service = service
                self.by_scheduler = True
                self.newborn += 1
                service.start_soon(self._watchdog.wait)
                self.by_scheduler = False
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    yield
                self.ending = True
                service.cancel_scope.cancel()
        finally:
            self._watch.end()

    def adopt(self, name: str = "main") -> AbstractAsyncContextManager[Actor]:
        """Make the current Trio task an actor while the body runs; Trio makes its steps. Used by tests."""
        self._watch.wake_up()  # the task may wait in Trio before the scheduler resumes it the first time
        return life.adopt(self, name)

    # ------------------------------------------------------------------ the clock that Trio sees
    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        """Return the virtual time in seconds. Trio calls this in each pass of its loop, before it runs tasks."""
        # The pass after a `reschedule` of the scheduler runs that one task; any other runs tasks that Trio has woken.
        if self.expected is not None:
            self.expected = None
        else:
            self._watch.unordered_pass()
        return self.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Resume the actor that is due; return how long Trio may sleep. Trio calls this when it has no task to run.

        ``deadline``: Trio's own next one. The engine ``native`` resumes one actor, the engine ``turbo`` makes many
        steps. No error may be raised here, since Trio would take it for an internal error of its own: the watchdog
        raises it in a task instead.
        """
        if (last := self.running) is not None:
            if last.waits_for is None and not last.finished:  # it does not wait in virtual time: then in Trio itself
                self._watch.wake_up()
            self.running = None
        self.timer_due = False
        if deadline < inf:  # seldom: an actor waits in Trio itself
            return self._advance_to(deadline)
        if self.violation is not None and not self.ending:
            return self._watchdog.fail(self.violation)
        if self.turbo:
            return 0 if self._run_turbo() else self._watch.quiescent()
        ready, heap = self.ready, self.heap
        while True:
            if ready:
                item = ready.popleft()
            elif heap:
                self.now, _, item = heappop(heap)
            else:
                return self._watch.quiescent()
            if item.is_actor:  # as Actor.wake does, without the call
                self.expected = task = item.task
                reschedule(task, GO)
                self.running = item
                break
            if item.send(GO) is not None:
                break
        self._steps = steps = self._steps + 1
        if steps > SLICE:
            self._look_around()
        return 0

    def _run_turbo(self) -> bool:
        self.last_advance = self.timers_set + ADVANCES
        steps = self._trampoline.run_slice()
        self._steps += steps
        if self._steps > SLICE:
            self._look_around()
        return steps > 0

    def _look_around(self) -> None:
        steps, self._steps = self._steps, 0
        self._watch.look_around(steps)

    def _advance_to(self, deadline: float) -> float:
        """Resume the actors that are due before Trio's next ``deadline``, for which a fence stands in the heap."""
        if deadline <= self.now:
            return 0
        # Number 0: before the timers of that instant, after interruptions, whose numbers are negative. A number from
        # `timers_set` would depend on how often Trio has asked, because each call pushes a new fence.
        fence = Fence()
        heappush(self.heap, (deadline, 0, fence))
        sleep = self.deadline_to_sleep_time(inf)
        self.timer_due = fence.fired
        if not fence.fired:
            remove(self.heap, fence)
        elif deadline > LONGEST_S:
            error = SimulationError(f"trio.sleep or a deadline of Trio ends at t={deadline:g}; at most 1e9 may pass")
            return self._watchdog.fail(error)
        return sleep
