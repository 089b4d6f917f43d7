"""Who goes on first among the actors that are ready at one instant.

The ready queue is a plain deque under `Fifo`, so that a run without a strategy pays for none. `ChosenOrder` is what
every other strategy chooses from. Both exist once more for a run that records who lets whom go on.
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
    """Stands where the scheduler has its ready deque, and hands out what a strategy chooses.

    It is true while a timer is pending, so the scheduler never takes a timer itself: whoever is due at this instant has
    to be among the choices, whether a timer or another actor made it ready. Timers stay in the heap until they are
    chosen; one that was passed over is late there. Whom the strategy holds back waits here and not in the heap, since
    its wait has ended: it keeps what it has been given, and no timeout may interrupt it.
    """

    def __init__(self, sim: Scheduler, strategy: Strategy) -> None:
        self.sim = sim
        self.strategy = strategy
        self.first: deque[Any] = deque()
        """Who goes on before anybody is chosen: put back after a slice, or stepped aside for a look at Trio."""
        self.control: deque[Any] = deque()
        """Timeouts of actors that are on their way: they strike when these have gone on."""
        self.woken: list[tuple[float, Actor]] = []
        """Whom others have made ready, and since when."""
        self.held: list[tuple[float, Actor]] = []
        """Whom the strategy holds back, and until when."""
        self._reach = max(0.0, float(getattr(strategy, "reach", 0.0)))
        self._delay: Callable[[Actor], float | None] | None = getattr(strategy, "delay", None)
        self._heap = sim.heap
        self._was_held: set[Actor] = set()
        self._said: float | None = None
        """How long the strategy holds back the actor that waits next, if it has been asked already."""
        self._striking: Timer = (-inf, 0, None)
        """The timer of the timeout that was handed out last."""

    def __bool__(self) -> bool:
        return bool(self._heap or self.woken or self.first or self.held or self.control)

    def __contains__(self, item: Any) -> bool:
        """Tell whether an actor is on its way, as seen by the timeout that strikes now."""
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
        """Tell whether the running actor, about to wait until ``due``, is the next to go on whatever is chosen.

        ``timer`` is what it would set, if it is a timeout. What the strategy says of an actor that goes on is asked
        here, at the time for which it is; if that is to hold it back, its turn comes as that of any other.
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
        """Take what is due now and is no choice: a fence, a cancellation or a timeout. None if there is none."""
        heap, now = self._heap, self.sim.now
        if heap and heap[0][0] <= now:
            timer = heap[0]
            if timer[1] <= 0 or not timer[2].is_actor:  # of all timers the least, so of those due as well
                self._striking = timer
                return self._take(timer)
            if len(heap) > 1:
                due = [timer for timer in heap if timer[0] <= now and (timer[1] <= 0 or not timer[2].is_actor)]
                if due:
                    self._striking = timer = min(due, key=_order)
                    return self._take(timer)
        for position, item in enumerate(self.control):
            if not self._on_its_way(item.target, (now, inf)):
                del self.control[position]
                return item
        return None

    def _on_its_way(self, actor: Any, before: tuple[float, float]) -> bool:
        """Tell whether an actor's wait has ended: it was woken, is held back, or its timer comes before that one."""
        if any(other is actor for _, other in self.woken) or any(other is actor for _, other in self.held):
            return True
        now = self.sim.now
        return any(timer[2] is actor and timer[0] <= now and timer[:2] <= before for timer in self.sim.heap)

    def _timers(self) -> list[Timer]:
        """Return the timers that can be chosen beside those woken: whose time comes within reach, in order.

        To be asked when somebody may go on, and no timeout is due.
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
                    else:  # nobody overtakes a timeout
                        limit = nextafter(timer[0], -inf)
            if self.held:
                limit = min(limit, max(min(self.held, key=_since)[0], now))
            if limit < reached:
                timers = [timer for timer in timers if timer[0] <= limit]
        if len(timers) > 1:
            timers.sort()  # by time and number, which no two of them share
        return timers

    def _advance(self) -> None:
        """Let time pass until the next timer is due, or the next one who was held back may go on."""
        sim, until = self.sim, self._heap[0][0] if self._heap else inf
        if self.held:
            until = min(until, min(self.held, key=_since)[0])
        if until > sim.now:
            sim.now = until
        if self.held:
            self._let_go(nextafter(sim.now, inf))

    def _let_go(self, time: float) -> None:
        """Make those ready who were held back until before ``time``."""
        for entry in [entry for entry in self.held if entry[0] < time]:
            self.held.remove(entry)
            self._was_held.add(entry[1])
            self.woken.append((self.sim.now, entry[1]))

    def _take(self, timer: Timer) -> Any:
        """Take a timer off the heap; time goes on to it, if it lies ahead."""
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
        """Ask the strategy whether to hold an actor back, once each time that it goes on while there are others."""
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
        """Ask the strategy for how long to hold back an actor that goes on now, among others."""
        try:
            if (seconds := delay(actor)) is None or (isfinite(seconds) and seconds >= 0.0):
                return seconds
            what = f"returned {seconds!r}; it returns virtual seconds, or None"
        except Exception as error:
            what = f"raised {type(error).__name__}: {error}"
        self._refuse(f"delay {what} at t={self.sim.now:.9g}, for {actor.name}")
        return None

    def _chosen(self, ready: list[Actor]) -> int:
        """Ask the strategy, and return the place that it chooses.

        Any other answer ends the run as soon as Trio can be told; until then the first is chosen.
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


def _order(timer: Timer) -> tuple[float, int]:
    return timer[0], timer[1]


def _since(entry: tuple[float, Actor]) -> float:
    return entry[0]


# ---------------------------------------------------------------------- who lets whom go on
# Who lets whom go on: what a run tells of every wait that somebody else ends.
#
# An actor goes on because a timer of its own is due, or because somebody else made it ready: released a lock to it,
# set what it waited for, sent it a message, spawned it. The second kind is told here, before the actor goes on. So
# the history of a run can be walked backwards from its end: `offloadrt.study.why`. A run that wants none of this has
# a plain ready queue and pays nothing.
class LoggedQueue(deque[Any]):
    """The ready queue of a run that is observed."""

    __slots__ = ("_observer", "_sim")

    def __init__(self, sim: Scheduler, observer: ResumptionObserver) -> None:
        super().__init__()
        self._sim = sim
        self._observer = observer

    def append(self, item: Any) -> None:
        super().append(item)  # first, so that an observer's error ends the run and not the actor's chance to go on
        self._observer.resumed(self._sim, item)  # an actor: without a strategy a timeout never waits for its target


class LoggedOrder(ChosenOrder):
    """The same for a strategy that chooses."""

    def __init__(self, sim: Scheduler, strategy: Strategy, observer: ResumptionObserver) -> None:
        super().__init__(sim, strategy)
        self._observer = observer

    def append(self, item: Any) -> None:
        super().append(item)
        if item.is_actor:
            self._observer.resumed(self.sim, item)


def ready_queue(sim: Scheduler, strategy: Strategy, observer: ResumptionObserver | None) -> Any:
    """Return who goes on at one instant, in order: a deque, or what a strategy chooses from."""
    if observer is not None:
        return LoggedQueue(sim, observer) if isinstance(strategy, Fifo) else LoggedOrder(sim, strategy, observer)
    return deque() if isinstance(strategy, Fifo) else ChosenOrder(sim, strategy)
