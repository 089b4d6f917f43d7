"""The ready queue of a run whose strategy chooses who goes first."""

from __future__ import annotations

import operator
from collections import deque
from heapq import heappop
from typing import Any

from offloadrt.sim.actor import Scheduler
from offloadrt.sim.errors import BadChoice
from offloadrt.sim.strategy import Strategy


class ChosenOrder:
    """Stands where the scheduler has its ready deque, and hands out what a strategy chooses.

    It is true while a timer is pending, so the scheduler never takes a timer itself: whoever is due at this instant has
    to be among the choices, whether a timer or another actor made it ready.
    """

    def __init__(self, sim: Scheduler, strategy: Strategy) -> None:
        self.sim = sim
        self.strategy = strategy
        self.first: deque[Any] = deque()
        """Who goes on before anybody is chosen: put back after a slice, or stepped aside for a look at Trio."""
        self.control: deque[Any] = deque()
        """Timeouts of actors that are among the choices: they strike when these have gone on."""
        self.choices: list[Any] = []

    def __bool__(self) -> bool:
        return bool(self.first or self.control or self.choices or self.sim.heap)

    def __len__(self) -> int:
        return len(self.first) + len(self.control) + len(self.choices)

    def __contains__(self, item: Any) -> bool:
        return item in self.first or item in self.choices

    def append(self, item: Any) -> None:
        (self.choices if item.is_actor else self.control).append(item)

    def appendleft(self, item: Any) -> None:
        self.first.appendleft(item)

    def remove(self, item: Any) -> None:
        self.first.remove(item)

    def popleft(self) -> Any:
        if self.first:
            return self.first.popleft()
        sim, choices = self.sim, self.choices
        if not choices and not self.control:
            sim.now, sequence, item = heappop(sim.heap)
            if sequence <= 0 or not item.is_actor:  # a fence, a cancellation or a timeout: no choice
                return item
            choices.append(item)
        # Timers of this instant are choices like actors that others have made ready.
        while sim.heap and sim.heap[0][0] <= sim.now:
            _, sequence, item = heappop(sim.heap)
            if sequence <= 0 or not item.is_actor:
                return item
            choices.append(item)
        for position, item in enumerate(self.control):
            if item.target not in choices:
                del self.control[position]
                return item
        return choices.pop(self._chosen() if len(choices) > 1 else 0)

    def _chosen(self) -> int:
        """Ask the strategy, and return the place that it chooses.

        Any other answer ends the run as soon as Trio can be told; until then the first is chosen.
        """
        sim, most = self.sim, len(self.choices) - 1
        try:
            if 0 <= (place := operator.index(self.strategy.choose(self.choices))) <= most:
                return place
            what = f"returned {place}"
        except Exception as error:
            what = f"raised {type(error).__name__}: {error}"
        if sim.violation is None:
            name = getattr(self.strategy, "name", type(self.strategy).__name__)
            sim.violation = BadChoice(
                f"strategy {name!r}: choose {what} at t={sim.now:.9g}, with {most + 1} actors ready; it returns the "
                f"place of one of them, from 0 to {most}"
            )
        return 0
