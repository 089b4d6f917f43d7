"""Waiting: how an actor lets time pass, parks until somebody resumes it, and learns that its wait was cut short."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from heapq import heappop, heappush, heappushpop
from math import inf
from typing import Any

import trio
from trio.lowlevel import current_task, reattach_detached_coroutine_object, temporarily_detach_coroutine_object

from offloadrt.sim import story
from offloadrt.sim.actor import GO, PASSED, SELF, Actor, hand_over, uninterrupted
from offloadrt.sim.clock import SLICE, Clock
from offloadrt.sim.errors import Expired, UnregisteredTask


class _Paused:
    """What an actor waits for that has only stepped aside for a look at Trio: nothing."""

    name = "its turn"

    def __init__(self, sim: Clock) -> None:
        self._sim = sim

    def forget(self, actor: Actor) -> bool:
        self._sim.ready.remove(actor)
        return True


class WaitingClock(Clock):
    """A clock whose actors can wait; its parameters are those of `Simulation`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._paused = _Paused(self)
        self.sleep: Callable[[float], Awaitable[None]] = self._make_sleep()

    def _make_sleep(self) -> Callable[[float], Awaitable[None]]:
        sim, heap, ready = self, self.heap, self.ready
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
            sim.events = number = sim.events + 1
            if (trap := me.trap) is not None:
                heappush(heap, (sim.now + dt, number, me))
                yield trap
            else:
                if ready:
                    heappush(heap, (sim.now + dt, number, me))
                    item = popleft()
                else:
                    sim.now, _, item = heappushpop(heap, (sim.now + dt, number, me))
                    if item is me and sim.strides:  # nobody else is due before: go on without a switch
                        sim.strides -= 1
                        return
                sim.running = item
                yield item.send
            if me.trouble is not None:
                yield from sim.interrupted(me)

        return sleep

    @uninterrupted
    def pass_to(self, due: float, steps: int = 1) -> bool:
        """Let time pass up to ``due`` without a suspension, if nobody else is due before; True if that was so.

        For what would only sleep otherwise, in so many ``steps``: ``return PASSED if sim.pass_to(due) else
        self._stay(...)``.
        """
        heap = self.heap
        if self.ready or self.strides < steps or (heap and heap[0][0] <= due):
            return False
        me = self.running
        if me is None or me.trap is not None:
            return False
        self.events += steps
        self.strides -= steps
        self.now = due
        return True

    def until_due(self, me: Actor) -> Awaitable[None]:
        """Wait for the timer that ``me`` has just set for itself."""
        return PASSED if self.goes_on(me) else self._suspended(me)

    @uninterrupted
    @types.coroutine
    def _suspended(self, me: Actor) -> Generator[Any, Any, None]:
        yield me.trap
        if me.trouble is not None:
            yield from self.interrupted(me)

    def goes_on(self, me: Actor, timer: Any = None) -> bool:
        """Let time pass to the timer that ``me`` has just set, if it is the next thing to happen; False if it is not.

        For whoever sets a timer for itself: ``if not sim.goes_on(me): yield me.trap``. An actor that is alone then
        goes on without a switch, and what happens is the same in both gears: here the timer is popped as the
        trampoline would pop it. An actor that parks without a timer may ask as well: the answer is False.
        """
        heap = self.heap
        if self.ready or not self.strides or me.trap is not None or not heap or heap[0][2] is not (timer or me):
            return False
        self.strides -= 1
        self.now = heappop(heap)[0]
        return True

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
    def park(self, me: Actor, target: Any) -> Generator[Any, Any, Any]:
        """Wait until somebody appends ``me`` to ``ready``, and return the ``value`` that it has left there.

        ``target`` is what the actor waits for. It has a ``name`` for messages and a method ``forget(actor)``, which
        takes the actor off its queue when the wait is cancelled or times out. All primitives wait here.
        """
        me.waits_for = target
        me.waits_since = now = self.now
        me.story.append((now, target.name))
        me.value = None
        yield me.trap
        me.waits_for = None
        if me.trouble is not None:
            yield from self.interrupted(me)
        return me.value

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

    def cancel_scope(self, scope: trio.CancelScope) -> None:
        """Cancel a Trio scope at an instant of the kernel's choosing, from within the clock hook."""
        self._watch.by_kernel = True
        scope.cancel()
        self._watch.by_kernel = False

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
            await awaitable(self.interrupted(me))


def _task_or_none() -> Any:
    try:
        return current_task()
    except RuntimeError:
        return None


@types.coroutine
def awaitable(generator: Generator[Any, Any, None]) -> Generator[Any, Any, None]:
    """A generator that is awaited."""
    yield from generator
