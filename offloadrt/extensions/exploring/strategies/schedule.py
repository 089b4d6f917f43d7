"""A recorded schedule, as its departures from the order of scheduling."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from offloadrt.sim.scheduler import Actor


@attrs.frozen
class Choice:
    """A recorded choice: another one of the ready actors goes on than the one that became ready first.

    An actor is a thread or a part of the machine. step: the number of the choice in the run, from 1. place: the index,
    among the ready actors, of the one that goes on; the first has index 0.
    """

    step: int
    place: int


@attrs.frozen
class Hold:
    """A recorded delay: an actor (thread or part of the machine) that could go on is held back for some virtual time.

    time: which time is delayed, among the times that this actor goes on while others could, too; the first is 1.
    seconds: how long the delay is; with 0.0 the actor goes on after all actors that are ready then.
    """

    actor: int
    """The actor's index, in order of spawning."""
    time: int
    seconds: float


Departure = Choice | Hold


@attrs.define
class Schedule:
    """A strategy that repeats recorded choices and delays of actors (`Choice` and `Hold`).

    An actor is a thread or a part of the machine. Everywhere else the actor that became ready first goes on. reach: by
    how many virtual seconds a timer may be later than the earliest one and still be among the actors to choose from; it
    must be that of the recorded strategy. departures: these choices and delays.
    """

    departures: Sequence[Departure]
    reach: float = 0.0
    name: str = "schedule"
    _places: dict[int, int] = attrs.field(init=False, repr=False)
    _holds: dict[tuple[int, int], float] = attrs.field(init=False, repr=False)
    _step: int = attrs.field(init=False, default=0, repr=False)
    _times: dict[int, int] = attrs.field(init=False, factory=dict, repr=False)

    def __attrs_post_init__(self) -> None:
        self._places = {one.step: one.place for one in self.departures if isinstance(one, Choice)}
        self._holds = {(one.actor, one.time): one.seconds for one in self.departures if isinstance(one, Hold)}

    def choose(self, ready: Sequence[Actor]) -> int:
        self._step += 1
        place = self._places.get(self._step, 0)
        return place if place < len(ready) else 0  # with fewer departures than were recorded, fewer may be ready

    def delay(self, actor: Actor) -> float | None:
        time = self._times[actor.index] = self._times.get(actor.index, 0) + 1
        return self._holds.get((actor.index, time))
