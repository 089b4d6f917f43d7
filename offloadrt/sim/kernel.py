"""The kernel: a Trio clock in which virtual time passes.

Trio calls ``deadline_to_sleep_time`` when it has nothing to run: that *is* quiescence. The kernel then takes the next
actor from one ready queue, or else pops one heap of timers, and resumes exactly that actor; so at most one actor is
runnable, Trio's random batch order cannot matter, and a run is a function of program, seed and strategy.

Two gears run the same actors over the same heap and ready queue:

``native``  each resumption is one Trio task step (``reschedule``). The reference.
``turbo``   an actor's coroutine is detached from Trio (public API: ``temporarily_detach_coroutine_object``) and stepped
            by a trampoline inside the clock hook, in slices, except within ``async with sim.attached()``.

A parked actor yields its ``trap``: Trio's message in the native gear, ``None`` in turbo, where the trampoline takes it
as "who is next?". ``sleep`` looks itself and yields the next actor's ``send`` instead.
"""

from __future__ import annotations

import itertools
import types
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from functools import partial
from heapq import heappop, heappush, heappushpop
from inspect import iscoroutinefunction
from itertools import repeat
from math import inf
from operator import length_hint
from typing import Any, Literal, TypeVar

import numpy as np
import outcome
import trio
from trio.lowlevel import (
    Abort,
    current_task,
    disable_ki_protection,
    reattach_detached_coroutine_object,
    reschedule,
    temporarily_detach_coroutine_object,
    wait_task_rescheduled,
)

from offloadrt.sim import story
from offloadrt.sim.actor import BEFORE_ALL, GO, SELF, Actor, LateCancel, hand_over, uninterrupted
from offloadrt.sim.errors import (
    DetachedTrioCall,
    Expired,
    Handover,
    SimulationError,
    UnregisteredTask,
)
from offloadrt.sim.nursery import Nursery
from offloadrt.sim.observer import Observer
from offloadrt.sim.scope import Attached, TimeoutScope
from offloadrt.sim.strategy import ChosenOrder, Fifo, Strategy
from offloadrt.sim.watch import Watch

T = TypeVar("T")
Gear = Literal["native", "turbo"]

_OUR_STEPS = (types.MethodType, types.FunctionType, partial, LateCancel)

SLICE = 2000
STRIDES = 4 * SLICE
"""Steps between two looks at Trio, so that Ctrl-C and cancellation stay prompt."""


class _Fence:
    """A heap entry that stands for Trio's own next deadline: no test per event is needed."""

    __slots__ = ("fired",)
    is_actor = False
    finished = False

    def __init__(self) -> None:
        self.fired = False

    def send(self, _: Any) -> Any:
        self.fired = True
        return hand_over


class _Paused:
    """What an actor waits for that has only stepped aside for a look at Trio: nothing."""

    name = "its turn"

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim

    def forget(self, actor: Actor) -> None:
        self._sim.ready.remove(actor)


class Simulation(trio.abc.Clock):
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
        if gear not in ("native", "turbo"):
            raise ValueError(f"gear is {gear!r}; it can be 'native' or 'turbo'")
        self.gear: Gear = gear
        self.turbo = gear == "turbo"
        self.strategy: Strategy = strategy if strategy is not None else Fifo()
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        self.observer = observer
        self.now = 0.0
        self.heap: list[tuple[float, int, Any]] = []
        self.ready: Any = deque() if isinstance(self.strategy, Fifo) else ChosenOrder(self, self.strategy)
        self.next_sequence = itertools.count(1).__next__
        self.next_index = itertools.count().__next__
        self.running: Actor | None = None
        """The actor that is being stepped, as far as the kernel knows; ``current`` looks further."""
        self.actors: dict[int, Actor] = {}
        self.primitives: list[Any] = []
        self.timer_due = False
        """The kernel let Trio go for one of Trio's own deadlines."""
        self.expected: Any = None
        """The task that the kernel itself has just woken: any other wake-up is Trio's."""
        self.fuel = SLICE
        """How many more uncontended operations may pass before the kernel gets a look."""
        self.strides = 0
        """How many more sleeps may pass without a switch in this slice (turbo)."""
        self.trio_has_work = False
        """An actor has cancelled others: who waited in Trio goes on, alone, before the actor does more than wait."""
        self._slice = slice
        self._livelock_limit = livelock_limit
        self.trouble: SimulationError | None = None
        """The first thing that must not happen in a run; raised as soon as Trio asks for the time."""
        self._looked = 0
        self._looks = 0
        self._steps = 0
        self._still = 0
        self._still_at = -1.0
        self._alive = 0
        self.ending = False
        self._nursery: trio.Nursery | None = None
        self._service: trio.Nursery | None = None
        self._watchdog_task: Any = None
        self._watch = Watch(self)
        self._paused = _Paused(self)
        self.sleep: Callable[[float], Awaitable[None]] = self._make_sleep()

    # ------------------------------------------------------------------ the clock that Trio sees
    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return self.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Run what is due; Trio calls this only when its run queue is empty."""
        self.running = None
        if deadline <= self.now:
            return 0
        if self.trouble is not None and not self.ending:
            return self.fail(self.trouble)
        fence = None
        if deadline < inf:
            fence = _Fence()
            heappush(self.heap, (deadline, 0, fence))
        found = True
        if self.turbo:
            found = self._run_turbo_slice()
        else:  # let one actor go on
            self._steps += 1
            step = None
            while step is None:
                if self.ready:
                    item = self.ready.popleft()
                elif self.heap:
                    self.now, _, item = heappop(self.heap)
                else:
                    found = False
                    break
                if item.is_actor:  # as Actor.wake does
                    self.expected = task = item.task
                    reschedule(task, GO)
                    self.running = item
                    break
                step = item.send(GO)
        if fence is None:
            self.timer_due = False
        else:
            self.timer_due = fence.fired
            if not fence.fired:
                self.remove_timer(fence)
        if found:
            if self._steps > SLICE:
                self._look_around()
            return 0
        if self.ending:
            return self._force_out()
        if self._alive:
            return self.fail(self._watch.blocked_outside() or story.deadlock(self))
        return inf

    def _look_around(self) -> None:
        self._still = self._still + self._steps if self.now == self._still_at else 0
        self._still_at = self.now
        self._steps = 0
        self._looks += 1
        if self.trouble is not None:
            return
        if self._still > self.livelock_limit:
            self.trouble = story.livelock(self, self._still)
        elif self._looks & (self._looks - 1) == 0:  # now and then, and ever more rarely
            self.trouble = self._watch.blocked_outside()

    @property
    def livelock_limit(self) -> int:
        """Steps without virtual time advancing after which the run is stopped."""
        return self._livelock_limit + 1000 * len(self.actors)

    def _run_turbo_slice(self) -> bool:
        """Step detached actors until Trio has something to run or the slice is used up; False if nothing was due."""
        heap, ready, popleft = self.heap, self.ready, self.ready.popleft
        self.strides = STRIDES
        step: Any = None
        budget = repeat(None, self._slice)
        try:
            for _ in budget:
                if step is None:  # somebody parked: who is next?
                    if ready:
                        item = popleft()
                    else:
                        self.now, _, item = heappop(heap)
                    self.running = item
                    step = item.send
                step = step(GO)
            if step is not None:
                self._end_slice(step)
        except Handover:
            pass
        except IndexError:
            if heap or ready:
                raise
            return False
        except TypeError:
            self._foreign_yield(step)
        self.running = None
        self._steps += self._slice - length_hint(budget)
        return True

    def _end_slice(self, step: Any) -> None:
        """The slice is used up before ``step`` was made: whoever is to make it keeps its place."""
        item: Any = self.running
        if step is hand_over:
            return
        if isinstance(step, LateCancel):
            step(GO)
        elif not isinstance(step, _OUR_STEPS):
            self._foreign_yield(step)
        elif isinstance(item, _Fence):
            item.fired = True
        else:
            self.ready.appendleft(item)

    def _foreign_yield(self, message: Any) -> None:
        """A detached actor yielded something that is Trio's: tell it, where it did so."""
        actor = self.running
        if not isinstance(actor, Actor) or isinstance(message, _OUR_STEPS):
            raise
        coroutine: Any = actor.task.coro
        step = actor.task.context.run(coroutine.throw, DetachedTrioCall(story.detached_call(self, actor)))
        if step is not None:
            self._end_slice(step)

    def fail(self, error: BaseException) -> float:
        """Raise in the watchdog: an exception out of the clock hook would be an internal error of Trio."""
        self.ending = True
        if (task := self._watchdog_task) is None:
            return inf
        self._watchdog_task = None
        self.expected = task
        reschedule(task, outcome.Error(error))
        return 0

    def _force_out(self) -> float:
        """The run is ending and its clean-up waits for ever (shielded from cancellation): end these waits as well."""
        error = self.trouble or story.deadlock(self)

        def trouble() -> None:
            raise error

        parked = [actor for actor in self.actors.values() if actor.trouble is None and self.interrupt(actor, trouble)]
        return 0 if parked else inf

    # ------------------------------------------------------------------ waiting
    def _make_sleep(self) -> Callable[[float], Awaitable[None]]:
        sim, heap, ready, sequence = self, self.heap, self.ready, self.next_sequence
        popleft = ready.popleft

        @uninterrupted
        @types.coroutine
        def sleep(dt: float) -> Generator[Any, Any, None]:
            """Let ``dt`` virtual seconds pass for this actor. ValueError if ``dt`` is negative, infinite or NaN."""
            if not 0.0 <= dt < inf:
                raise ValueError(f"sleep({dt!r}): virtual seconds are finite and not negative")
            me = sim.running
            if me is None:
                me = sim.current
            if (trap := me.trap) is not None:
                heappush(heap, (sim.now + dt, sequence(), me))
                yield trap
            else:
                if ready:
                    heappush(heap, (sim.now + dt, sequence(), me))
                    item = popleft()
                else:
                    sim.now, _, item = heappushpop(heap, (sim.now + dt, sequence(), me))
                    if item is me and sim.strides:  # nobody else is due before: go on without a switch
                        sim.strides -= 1
                        return
                sim.running = item
                yield item.send
            if me.trouble is not None:
                yield from sim.interrupted(me)

        return sleep

    @uninterrupted
    def pass_to(self, due: float) -> bool:
        """Let time pass up to ``due`` without a suspension, if nobody else is due before; True if that was so.

        For what would only sleep otherwise: ``return PASSED if sim.pass_to(due) else self._stay(...)``.
        """
        heap = self.heap
        if self.ready or not self.strides or (heap and heap[0][0] <= due):
            return False
        me = self.running
        if me is None or me.trap is not None:
            return False
        self.next_sequence()
        self.strides -= 1
        self.now = due
        return True

    def is_alone_until(self, due: float, steps: int) -> bool:
        """Whether ``pass_to`` lets time pass up to ``due``, also in so many ``steps``."""
        heap, me = self.heap, self.running
        alone = not self.ready and self.strides >= steps and (not heap or heap[0][0] > due)
        return alone and me is not None and me.trap is None

    @property
    def current(self) -> Actor:
        """The actor that runs now. UnregisteredTask if the calling task is none."""
        if (me := self.running) is not None:
            return me
        me = SELF.get(None)
        if me is None or me.sim is not self or me.task is not _task_or_none():
            raise UnregisteredTask(story.unregistered(self, me))
        return me

    @uninterrupted
    @types.coroutine
    def park(self, me: Actor, target: Any) -> Generator[Any, Any, None]:
        """Wait until somebody puts ``me`` back on ``ready``. ``target`` is what is waited for: it has a ``name`` and
        a method ``forget(actor)`` that takes the actor off its queue when the wait is cancelled.
        """
        me.waits_for = target
        me.waits_since = self.now
        me.story.append((self.now, target.name))
        yield me.trap
        if me.trouble is not None:
            yield from self.interrupted(me)

    @uninterrupted
    @types.coroutine
    def pause(self, me: Actor, cancellable: bool = True) -> Generator[Any, Any, None]:
        """Let Trio look at signals and cancellations and run whom it has woken, then go on first."""
        self.trio_has_work = False
        if not self.fuel:
            self._steps += SLICE
            self.fuel = SLICE
        self.ready.appendleft(me)
        me.waits_for = self._paused if cancellable else None
        me.waits_since = self.now
        if me.detached:
            if me.trap is not None and cancellable:
                me.trap(GO)
            yield hand_over
        else:
            yield me.trap
        me.waits_for = None
        if me.trouble is not None:
            yield from self.interrupted(me)

    def resume(self, actor: Actor) -> None:
        """What ``actor`` waits for has happened: it is ready, after all that are ready already."""
        actor.waits_for = None
        self.ready.append(actor)

    @property
    def events(self) -> int:
        """Timers set so far: sleeps, services, timeouts; the same in both gears, and part of every result of study/."""
        self._looked += 1
        return self.next_sequence() - self._looked

    def cancel_scope(self, scope: trio.CancelScope) -> None:
        """Cancel a Trio scope at an instant of the kernel's choosing, from within the clock hook."""
        self._watch.by_kernel = True
        scope.cancel()
        self._watch.by_kernel = False

    def interrupt(self, actor: Actor, trouble: Callable[[], None]) -> bool:
        """Take a parked actor off what it waits for and resume it at this instant, so that ``trouble()`` raises in it.

        Interrupted actors come before everything else that is due now, in order of spawning. False if the actor is not
        parked here or already on its way.
        """
        first = (self.now, actor.index - BEFORE_ALL, actor)
        if (target := actor.waits_for) is not None:
            actor.waits_for = None
            target.forget(actor)
            heappush(self.heap, first)
        elif not self._bring_forward(actor, first):
            return False
        actor.trouble = trouble
        return True

    def remove_timer(self, item: Any) -> None:
        """Take ``item`` off the heap of timers, if it is there."""
        if self._bring_forward(item, (-inf, 0, item)):
            heappop(self.heap)

    def _bring_forward(self, item: Any, entry: tuple[float, int, Any]) -> bool:
        """Give ``item`` an earlier entry in the heap; False if it has none."""
        heap = self.heap
        for position, other in enumerate(heap):  # noqa: B007  # used below the loop
            if other[2] is item:
                break
        else:
            return False
        while position and entry < heap[parent := (position - 1) >> 1]:
            heap[position] = heap[parent]
            position = parent
        heap[position] = entry
        return True

    @uninterrupted
    @types.coroutine
    def interrupted(self, me: Actor) -> Generator[Any, Any, None]:
        """Raise what ``me`` was resumed for. A cancellation turns a detached actor into a plain Trio task again."""
        trouble = me.trouble
        me.trouble = None
        assert trouble is not None
        try:
            trouble()
        except Expired:
            raise
        except BaseException as exc:
            error = exc
        if me.detached:
            yield from self.attach(me).__await__()
        raise error

    def move_on_after(self, dt: float) -> TimeoutScope:
        """``with sim.move_on_after(dt) as scope``: leave the body after ``dt`` virtual seconds; ``scope.timed_out``."""
        return TimeoutScope(self, dt, fail=False)

    def fail_after(self, dt: float) -> TimeoutScope:
        """``with sim.fail_after(dt)``: as move_on_after, but SimTimeout is raised at the end of the body."""
        return TimeoutScope(self, dt, fail=True)

    # ------------------------------------------------------------------ gears
    @uninterrupted
    async def attach(self, me: Actor) -> None:
        """A detached actor becomes a plain Trio task, in the same place of the order."""
        me.detached = False
        me.trap = me.own_trap
        me.send = me.wake
        self.running = None
        self.expected = me.task
        await reattach_detached_coroutine_object(me.task, hand_over)

    @uninterrupted
    async def detach(self, me: Actor) -> None:
        """A plain Trio task becomes a detached actor and goes on first."""
        coroutine: Any = me.task.coro
        me.detached = True
        me.trap = None
        me.send = partial(me.task.context.run, coroutine.send)
        self.ready.appendleft(me)
        await temporarily_detach_coroutine_object(me.abort)
        if me.trouble is not None:
            await _awaitable(self.interrupted(me))

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
            await _awaitable(_yield(actor.trap))
        try:
            if actor.trouble is not None:
                await _awaitable(self.interrupted(actor))
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


def _task_or_none() -> Any:
    try:
        return current_task()
    except RuntimeError:
        return None


@disable_ki_protection
async def _interruptible(fn: Callable[..., Awaitable[T]], args: tuple[Any, ...]) -> T:
    return await fn(*args)


@types.coroutine
def _awaitable(generator: Generator[Any, Any, None]) -> Generator[Any, Any, None]:
    yield from generator


@types.coroutine
def _yield(message: Any) -> Generator[Any, Any, None]:
    yield message
