"""The clock: virtual time passes when Trio has nothing to run.

Trio calls ``deadline_to_sleep_time`` when it has nothing to run: that *is* quiescence. The clock then takes the next
actor from one ready queue, or else pops one heap of timers, and resumes exactly that actor; so at most one actor is
runnable, Trio's random batch order cannot matter, and a run is a function of program, seed and strategy.

A parked actor yields its ``trap``: Trio's message in the native gear, ``None`` in turbo, where the trampoline takes it
as "who is next?". ``sleep`` (`waiting.py`) looks itself and yields the next actor's ``send`` instead.
"""

from __future__ import annotations

import itertools
import types
from collections import deque
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from itertools import repeat
from math import inf
from operator import length_hint
from typing import Any, Literal

import numpy as np
import outcome
import trio
from trio.lowlevel import reschedule

from offloadrt.sim import story
from offloadrt.sim.actor import BEFORE_ALL, GO, Actor, LateCancel, hand_over
from offloadrt.sim.errors import DetachedTrioCall, Handover, SimulationError
from offloadrt.sim.observer import Observer
from offloadrt.sim.strategy import ChosenOrder, Fifo, Strategy
from offloadrt.sim.watch import Watch

Gear = Literal["native", "turbo"]

_OUR_STEPS = (types.MethodType, types.FunctionType, partial, LateCancel)

SLICE = 2000
"""Steps between two looks at Trio, so that Ctrl-C and cancellation stay prompt."""

STRIDES = 4 * SLICE
"""As many sleeps, which are cheaper, may pass without a switch between two looks."""


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


class Clock(trio.abc.Clock):
    """What is due, and who is resumed; its parameters are those of `Simulation`."""

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
        self.events = 0
        """Timers set so far: sleeps, services, timeouts; the same in both gears, and part of every result of study/.
        Each has the next number in the heap, so that of those due at one time the one set first comes first.
        """
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
        self._looks = 0
        self._steps = 0
        self._still = 0
        self._still_at = -1.0
        self._alive = 0
        self.ending = False
        self._watchdog_task: Any = None
        self._watch = Watch(self)

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
            self.running = None
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

    # ------------------------------------------------------------------ taking actors off their waits
    def interrupt(self, actor: Actor, trouble: Callable[[], None]) -> bool:
        """Take a parked actor off what it waits for and resume it at this instant, so that ``trouble()`` raises in it.

        Interrupted actors come before everything else that is due now, in order of spawning. False if the actor is not
        parked here or already on its way.
        """
        first = (self.now, actor.index - BEFORE_ALL, actor)
        if (target := actor.waits_for) is not None and target.forget(actor) is not False:
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
