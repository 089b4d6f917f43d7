"""The order in which actors that are ready at one instant go on.

With the strategy `Fifo` the ready queue is a plain deque, so a run without a strategy has no extra cost. Every other
strategy chooses from a `ChosenOrder`. `LoggedQueue` and `LoggedOrder` also record which actor resumes which.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop
from math import inf, isfinite, nextafter
from typing import Any

from offloadrt.sim.errors import BadChoice
from offloadrt.sim.scheduler import Actor, ResumptionObserver, Scheduler, Timer
from offloadrt.sim.strategies import Fifo, Strategy


class ChosenOrder:
    """A queue of ready actors (the scheduler uses it like a deque); ``popleft`` returns the one the strategy chooses.

    The queue counts as true while a timer is pending, so that the scheduler takes no timer from the heap itself: all
    actors that are due are choices, whether a timer or another actor made them ready. A timer stays in the heap until
    it is chosen, even if it is late by then. An actor that the strategy delays waits in ``held`` and not in the heap:
    its own wait has ended, so it keeps the result of the wait, and no timeout may interrupt it.
    """

    def __init__(self, sim: Scheduler, strategy: Strategy) -> None:
        self.sim = sim
        self.strategy = strategy
        self.first: deque[Any] = deque()
        """Entries that go on before any choice: put back after a slice, paused to look at Trio, or ``waits_first``."""
        self.control: deque[Any] = deque()
        """Timeouts of actors that have been resumed and have not run yet: each strikes after its actor has run."""
        self.woken: list[tuple[float, Actor]] = []
        """Actors that other actors have made ready, each with the virtual time of that."""
        self.held: list[tuple[float, Actor]] = []
        """Actors that the strategy delays, each with the virtual time until which it does."""
        self._reach = max(0.0, float(getattr(strategy, "reach", 0.0)))
        self._delay: Callable[[Actor], float | None] | None = getattr(strategy, "delay", None)
        self._heap = sim.heap
        self._was_held: set[Actor] = set()
        self._said: float | None = None
        """The delay in seconds of the actor that waits next, if `passes` has asked the strategy already; else None."""
        self._striking: Timer = (-inf, 0, None)
        """The timer of the timeout that was handed out last."""

    def __bool__(self) -> bool:
        return bool(self._heap or self.woken or self.first or self.held or self.control)

    def __contains__(self, item: Any) -> bool:
        """Tell whether an actor's wait has ended, so that the timeout that strikes now must not interrupt it."""
        return item in self.first or self._on_its_way(item, self._striking[:2])

    def append(self, item: Any) -> None:
        if not item.is_actor:
            self.control.append(item)
        elif item.waits_first:
            # A persistent set of one (Godefroid, "Partial-Order Methods for the Verification of Concurrent Systems",
            # 1996): the step commutes with every other, but for a message that comes before it, and that message then
            # makes it ready at this instant either way. So one place in the order stands for all.
            item.waits_first = False
            self.first.append(item)
        else:
            self.woken.append((self.sim.now, item))

    def appendleft(self, item: Any) -> None:
        self.first.appendleft(item)

    def remove(self, item: Any) -> None:
        self.first.remove(item)

    def popleft(self) -> Any:
        if self.first:
            return self.first.popleft()
        sim, heap, woken = self.sim, self._heap, self.woken
        while True:
            if self.held:
                self._let_go(sim.now)
            is_due = heap and heap[0][0] <= sim.now
            if (is_due or self.control) and (item := self._timeout()) is not None:
                return item
            count = len(woken)
            if not count and not is_due:
                self._advance()
                continue
            timers = self._timers() if is_due or (self._reach and heap) else []
            place = 0
            if count + len(timers) > 1:
                place = self._chosen([entry[1] for entry in woken] + [timer[2] for timer in timers])
            actor = woken.pop(place)[1] if place < count else self._take(timers[place - count])
            if self._delay is None or not self._held_back(actor, self._delay):
                return actor

    def passes(self, actor: Actor, due: float, timer: Any) -> bool:
        """Tell whether the running actor can sleep until virtual time ``due`` without a switch to another actor.

        ``timer`` is the timeout that the actor would set; None if it only sleeps. A strategy that can delay actors
        decides here whether the actor goes on at ``due``; if it delays the actor, the result is False.
        """
        sim, heap = self.sim, self._heap
        if self.woken or self.first or self.held or self.control or (heap and heap[0][0] <= due + self._reach):
            return False
        if self._delay is None or timer is not None or not heap:
            return True
        before, sim.now = sim.now, due
        self._said = self._asked(actor, self._delay)
        sim.now = before
        return self._said is None

    # ------------------------------------------------------------------ who is due
    def _timeout(self) -> Any:
        """Remove and return a due item that no strategy chooses: a fence, a cancellation or a timeout. None without."""
        heap, now = self._heap, self.sim.now
        if heap and heap[0][0] <= now:
            timer = heap[0]
            if timer[1] <= 0 or not timer[2].is_actor:  # of all timers the least, so of those due as well
                self._striking = timer
                return self._take(timer)
            if len(heap) > 1:
                due = [timer for timer in heap if timer[0] <= now and (timer[1] <= 0 or not timer[2].is_actor)]
                if due:
                    self._striking = timer = min(due, key=operator.itemgetter(0, 1))
                    return self._take(timer)
        for position, item in enumerate(self.control):
            if not self._on_its_way(item.target, (now, inf)):
                del self.control[position]
                return item
        return None

    def _on_its_way(self, actor: Any, before: tuple[float, float]) -> bool:
        """Tell whether an actor's wait has ended: it was woken, is delayed, or has a due timer not after `before`."""
        if any(other is actor for _, other in self.woken) or any(other is actor for _, other in self.held):
            return True
        now = self.sim.now
        return any(timer[2] is actor and timer[0] <= now and timer[:2] <= before for timer in self.sim.heap)

    def _timers(self) -> list[Timer]:
        """Return the timers that a strategy may choose, in order: those due, or within ``reach`` of the earliest.

        Called when an actor may go on and no timeout is due.
        """
        heap, woken, now = self._heap, self.woken, self.sim.now
        if not self._reach:
            timers = [timer for timer in heap if timer[0] <= now]
        else:
            earliest = min(heap[0][0], woken[0][0]) if woken else heap[0][0]
            limit = reached = earliest + self._reach
            timers = []
            for timer in heap:
                if timer[0] <= limit:
                    if timer[1] > 0 and timer[2].is_actor:
                        timers.append(timer)
                    else:  # no actor overtakes a timeout
                        limit = nextafter(timer[0], -inf)
            if self.held:
                limit = min(limit, max(min(self.held, key=operator.itemgetter(0))[0], now))
            if limit < reached:
                timers = [timer for timer in timers if timer[0] <= limit]
        if len(timers) > 1:
            timers.sort()  # by time and number, which no two of them share
        return timers

    def _advance(self) -> None:
        """Advance virtual time to the next timer, or to the end of the next delay if that comes first."""
        sim, until = self.sim, self._heap[0][0] if self._heap else inf
        if self.held:
            until = min(until, min(self.held, key=operator.itemgetter(0))[0])
        if until > sim.now:
            sim.now = until
        if self.held:
            self._let_go(nextafter(sim.now, inf))

    def _let_go(self, time: float) -> None:
        """Make those actors ready whose delay ends before virtual time ``time``."""
        for entry in [entry for entry in self.held if entry[0] < time]:
            self.held.remove(entry)
            self._was_held.add(entry[1])
            self.woken.append((self.sim.now, entry[1]))

    def _take(self, timer: Timer) -> Any:
        """Remove a timer from the heap and return its item; advance virtual time to it if it lies ahead."""
        sim, heap = self.sim, self._heap
        if timer is heap[0]:
            heappop(heap)
        else:
            heap.remove(timer)
            heapify(heap)
        if timer[0] > sim.now:
            sim.now = timer[0]
        return timer[2]

    # ------------------------------------------------------------------ what the strategy says
    def _held_back(self, actor: Actor, delay: Callable[[Actor], float | None]) -> bool:
        """Put an actor into ``held`` if the strategy delays it, and return whether it does; asked once per turn."""
        sim = self.sim
        if actor in self._was_held:
            self._was_held.discard(actor)
            return False
        if not (self.woken or self.held or sim.heap):
            return False
        seconds, self._said = self._said, None
        if seconds is None and (seconds := self._asked(actor, delay)) is None:
            return False
        self.held.append((sim.now + seconds, actor))
        return True

    def _asked(self, actor: Actor, delay: Callable[[Actor], float | None]) -> float | None:
        """Return the seconds for which the strategy delays an actor; None for no delay, or after an invalid answer."""
        try:
            if (seconds := delay(actor)) is None or (isfinite(seconds) and seconds >= 0.0):
                return seconds
            what = f"returned {seconds!r}; it returns virtual seconds, or None"
        except Exception as error:
            what = f"raised {type(error).__name__}: {error}"
        self._refuse(f"delay {what} at t={self.sim.now:.9g}, for {actor.name}")
        return None

    def _chosen(self, ready: list[Actor]) -> int:
        """Return the index in ``ready`` that the strategy chooses.

        An invalid answer ends the run with `BadChoice`, as soon as the watchdog can raise it; until then it means 0.
        """
        most = len(ready) - 1
        try:
            if 0 <= (place := operator.index(self.strategy.choose(ready))) <= most:
                return place
            what = f"returned {place}"
        except Exception as error:
            what = f"raised {type(error).__name__}: {error}"
        self._refuse(
            f"choose {what} at t={self.sim.now:.9g}, with {most + 1} actors ready; it returns the "
            f"place of one of them, from 0 to {most}"
        )
        return 0

    def _refuse(self, what: str) -> None:
        if self.sim.violation is None:
            name = getattr(self.strategy, "name", type(self.strategy).__name__)
            self.sim.violation = BadChoice(f"strategy {name!r}: {what}")


# ---------------------------------------------------------------------- reports of resumptions
# Reports of resumptions: every wait that another actor ends.
#
# An actor goes on because its own timer is due, or because another actor made it ready: released a lock to it, set the
# signal that it waited for, sent it a message, spawned it. The queues below report the second kind to an observer,
# before the actor goes on. So the history of a run can be followed backwards from its end. A run without an observer
# has a plain ready queue and no extra cost.
class LoggedQueue(deque[Any]):
    """A FIFO queue of ready actors that reports to an observer which actor has made which other actor ready."""

    __slots__ = ("_observer", "_sim")

    def __init__(self, sim: Scheduler, observer: ResumptionObserver) -> None:
        super().__init__()
        self._sim = sim
        self._observer = observer

    def append(self, item: Any) -> None:
        super().append(item)  # first, so that an observer's error ends the run and not the actor's chance to go on
        self._observer.resumed(self._sim, item)  # an actor: without a strategy a timeout never waits for its target


class LoggedOrder(ChosenOrder):
    """A queue ordered by the strategy that reports to an observer which actor has made which other actor ready."""

    def __init__(self, sim: Scheduler, strategy: Strategy, observer: ResumptionObserver) -> None:
        super().__init__(sim, strategy)
        self._observer = observer

    def append(self, item: Any) -> None:
        super().append(item)
        if item.is_actor:
            self._observer.resumed(self.sim, item)


def ready_queue(sim: Scheduler, strategy: Strategy, observer: ResumptionObserver | None) -> Any:
    """Make the ready queue for a strategy: a deque for `Fifo`, else a `ChosenOrder`; a logged one for an observer."""
    if observer is not None:
        return LoggedQueue(sim, observer) if isinstance(strategy, Fifo) else LoggedOrder(sim, strategy, observer)
    return deque() if isinstance(strategy, Fifo) else ChosenOrder(sim, strategy)
