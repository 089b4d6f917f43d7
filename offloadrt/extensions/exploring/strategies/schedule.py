"""A recorded schedule, as its departures from the order of scheduling."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from offloadrt.sim.scheduler import Actor


@attrs.frozen
class Choice:
    """A departure: at the run's ``step``-th choice, from 1, ready actor ``place`` goes on instead of ready actor 0."""

    step: int
    place: int


@attrs.frozen
class Hold:
    """A departure: an actor waits for ``seconds`` of virtual time when it goes on for the ``time``-th time, from 1.

    Only those times are counted at which others could go on as well. With 0.0 seconds the actor goes on after all
    actors that are ready.
    """

    actor: int
    """The actor's index, in order of spawning."""
    time: int
    seconds: float


Departure = Choice | Hold


@attrs.define
class Schedule:
    """Follows the recorded departures; everywhere else, it resumes actors in the order of scheduling.

    ``reach`` is that of the strategy that made these choices, in virtual seconds: how much later a timer may be and
    still be a choice.
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
