"""Every schedule with at most so many departures from the order of scheduling, one after the other.

This is delay-bounded exhaustive search (Emmi, Qadeer and Rakamarić, "Delay-bounded scheduling", POPL 2011). Of
schedules that differ only in when servers begin to wait for their first messages, one is run (`ChosenOrder.append`):
nothing depends on these steps. No more is left out: actors share Python objects that the scheduler does not see, so
that any two other steps may depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from offloadrt.extensions.exploring.strategies.recorded import Chance
from offloadrt.extensions.exploring.strategies.schedule import Choice, Departure, Hold, Schedule


@attrs.frozen
class Dfs:
    """Enumerates schedules with at most ``bound`` departures.

    A departure is another choice among those who are ready at one instant and, unless ``held`` is 0.0, an actor that
    is held back for ``held`` virtual seconds. Each run tells where the next ones may depart: `after`.
    """

    bound: int = 2
    held: float = 0.0

    def after(self, departures: Sequence[Departure], chances: Sequence[Chance]) -> Iterator[tuple[Departure, ...]]:
        """Yield the schedules with one departure more than ``departures``, whose run had these ``chances``.

        The added departure comes after all others, so that every schedule is yielded once.
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
        """Return the strategy of one of the schedules."""
        return Schedule(departures, name="dfs")


def _place(last: Departure, chances: Sequence[Chance]) -> int:
    """Return where in the run a departure was."""
    for place, chance in enumerate(chances):
        if isinstance(last, Choice):
            if chance.step == last.step:
                return place
        elif not chance.step and (chance.actor, chance.time) == (last.actor, last.time):
            return place
    return len(chances)
