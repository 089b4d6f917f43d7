"""Enumerates every schedule that has at most a given number of departures from the order of scheduling.

This is delay-bounded exhaustive search (Emmi, Qadeer and Rakamarić, "Delay-bounded scheduling", POPL 2011). Of the
schedules that differ only in when servers begin to wait for their first messages, one is run (`ChosenOrder.append`),
since nothing depends on these steps. No other schedule is left out: actors share Python objects that the scheduler does
not see, so any two other steps may depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from offloadrt.extensions.exploring.strategies.recorded import Chance
from offloadrt.extensions.exploring.strategies.schedule import Choice, Departure, Hold, Schedule


@attrs.frozen
class Dfs:
    """Enumerates schedules with at most ``bound`` departures from the order in which actors become ready.

    An actor is a thread or a part of the machine. A departure is another choice among the actors that are ready at one
    instant. Unless ``held`` is 0.0, it may also be that an actor is held back for ``held`` virtual seconds. `after`
    derives the next schedules from a run.
    """

    bound: int = 2
    held: float = 0.0

    def after(self, departures: Sequence[Departure], chances: Sequence[Chance]) -> Iterator[tuple[Departure, ...]]:
        """Yield the schedules that have one departure more than a run, each as a tuple of departures.

        A departure is a moment at which another actor (thread or part of the machine) goes on than the one that became
        ready first. departures: those of the run. chances: all moments at which the run could have had one. The added
        departure comes after all others, so that every schedule is yielded once.
        """
        if len(departures) >= self.bound:
            return
        begin = _place(departures[-1], chances) + 1 if departures else 0
        for chance in chances[begin:]:
            if chance.step:
                for place in range(1, chance.width):
                    yield (*departures, Choice(chance.step, place))
            elif self.held:
                yield (*departures, Hold(chance.actor, chance.time, self.held))

    def strategy(self, departures: Sequence[Departure]) -> Schedule:
        """Return a strategy that follows the schedule with these departures."""
        return Schedule(departures, name="dfs")


def _place(last: Departure, chances: Sequence[Chance]) -> int:
    """Return the index of the chance at which a departure took place; the number of chances if it is none of them."""
    for place, chance in enumerate(chances):
        if isinstance(last, Choice):
            if chance.step == last.step:
                return place
        elif not chance.step and (chance.actor, chance.time) == (last.actor, last.time):
            return place
    return len(chances)
