"""Who lets whom go on: what a run tells of every wait that somebody else ends.

An actor goes on because a timer of its own is due, or because somebody else made it ready: released a lock to it, set
what it waited for, sent it a message, spawned it. The second kind is told here, before the actor goes on. So the
history of a run can be walked backwards from its end: `offloadrt.study.why`. A run that wants none of this has a plain
ready queue and pays nothing.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from offloadrt.sim.actor import HandoverObserver, Scheduler
from offloadrt.sim.chosen_order import ChosenOrder
from offloadrt.sim.strategies import Fifo, Strategy


class ToldQueue(deque[Any]):
    """The ready queue of a run that is observed."""

    __slots__ = ("_observer", "_sim")

    def __init__(self, sim: Scheduler, observer: HandoverObserver) -> None:
        super().__init__()
        self._sim = sim
        self._observer = observer

    def append(self, item: Any) -> None:
        super().append(item)  # first, so that an observer's error ends the run and not the actor's chance to go on
        self._observer.handed_over(self._sim, item)  # an actor: without a strategy a timeout never waits for its target


class ToldOrder(ChosenOrder):
    """The same for a strategy that chooses."""

    def __init__(self, sim: Scheduler, strategy: Strategy, observer: HandoverObserver) -> None:
        super().__init__(sim, strategy)
        self._observer = observer

    def append(self, item: Any) -> None:
        super().append(item)
        if item.is_actor:
            self._observer.handed_over(self.sim, item)


def ready_queue(sim: Scheduler, strategy: Strategy, observer: HandoverObserver | None) -> Any:
    """Return who goes on at one instant, in order: a deque, or what a strategy chooses from."""
    if observer is not None:
        return ToldQueue(sim, observer) if isinstance(strategy, Fifo) else ToldOrder(sim, strategy, observer)
    return deque() if isinstance(strategy, Fifo) else ChosenOrder(sim, strategy)
