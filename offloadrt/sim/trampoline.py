"""The gear ``turbo``: a trampoline inside the clock hook steps actors that are detached from Trio.

Trio spends about 2.5 microseconds on each step of a task. `Trampoline` calls the coroutine's ``send`` itself, which
makes a step about seven times as fast. Coroutines are detached by Trio's public function
``temporarily_detach_coroutine_object`` (`Actor.leave_trio`), so a plain Trio call out of a detached actor fails loudly
instead of going wrong. The order of steps is that of the gear ``native``: both take them from one ready queue and heap.
"""

from __future__ import annotations

import types
from functools import partial
from heapq import heappop
from itertools import repeat
from operator import length_hint
from typing import Any

from offloadrt.sim import place, story
from offloadrt.sim.actor import GO, SLICE, Actor, LateCancel, Scheduler, return_to_trio
from offloadrt.sim.errors import ReturnToTrio

ADVANCES = 4 * SLICE
"""Timers that may pass in a slice by `Simulation.set_timer`: they are no steps, but take real time too."""

_OUR_STEPS = (types.MethodType, types.FunctionType, partial, LateCancel)


class Fence:
    """A timer that stands for Trio's own next deadline.

    With it, a slice needs no comparison with that deadline at each step: when the fence is due, it hands over to Trio.
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
    """Steps whoever is due, one after the other, until Trio has something to run or the slice is used up."""

    __slots__ = ("_sim", "_slice")

    def __init__(self, sim: Scheduler, slice: int) -> None:
        self._sim = sim
        self._slice = slice

    def run_slice(self) -> int:
        """Make the steps of one slice; returns how many, 0 if nothing was due.

        A step returns the next step to make, or None when the actor parked and anybody may be next. ``sleep`` knows the
        next one already, because it looks at the heap anyway.
        """
        sim = self._sim
        heap, ready, popleft = sim.heap, sim.ready, sim.ready.popleft
        step: Any = None
        budget = repeat(None, self._slice)
        # The loop makes no tests for what happens seldom; exceptions tell. IndexError: the heap was empty as well, so
        # nothing is due (or it comes out of a step, where it is an error like any other). TypeError: an actor yielded
        # an object that cannot be called, so it is Trio's and not ours.
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
        """Put back ``step``, which the slice was too short for: whoever is to make it keeps its place."""
        item: Any = self._sim.running
        # Whose step it is decides what to put back. A fence has left the heap, so it counts as due. A late
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
        error = story.detached_call(self._sim, actor, place.awaited(coroutine))
        step = actor.task.context.run(coroutine.throw, error)
        if step is not None:
            self._end_slice(step)
