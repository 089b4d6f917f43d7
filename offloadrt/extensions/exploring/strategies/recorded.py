"""Records what another strategy does, so that the schedule can be explained, repeated and made smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from offloadrt.extensions.exploring.strategies.schedule import Choice, Departure, Hold
from offloadrt.sim.scheduler import Actor
from offloadrt.sim.strategies import Strategy


@attrs.frozen
class Chance:
    """A moment of a run at which the schedule could have been another one.

    It is a choice among ``width`` actors (threads or parts of the machine) that are ready, or the moment when an actor
    goes on after a wait and could be held back.
    """

    step: int
    """The number of the choice, counted from 1; 0 if the moment is one at which an actor goes on after a wait."""
    width: int
    actor: int
    """The index of the actor that goes on; -1 for a choice."""
    time: int
    """How often this actor has gone on, this time included; 0 for a choice."""


@attrs.define
class Watched:
    """Base of scheduling strategies that choose as another strategy (``strategy``) does, and record its choices."""

    strategy: Strategy
    _delay: Callable[[Actor], float | None] | None = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._delay = getattr(self.strategy, "delay", None)

    @property
    def name(self) -> str:
        return self.strategy.name

    @property
    def reach(self) -> float:
        return float(getattr(self.strategy, "reach", 0.0))

    def _held(self, actor: Actor) -> float | None:
        return None if self._delay is None else self._delay(actor)


@attrs.define
class Recorded(Watched):
    """Chooses as ``strategy`` does, and records each choice of another actor than the one that became ready first.

    An actor is a thread or a part of the machine. A `Schedule` made from ``departures`` repeats the run exactly, if it
    gets the strategy's ``reach`` (the virtual seconds within which actors count as ready together). ``lateness`` is a
    shorter list that repeats it only approximately: for each actor that was passed over or held back, it has one `Hold`
    with the seconds by which the actor went on later. ``chances`` are the moments at which another actor could have
    gone on.
    """

    detailed: bool = False
    """Whether `chances` is filled."""
    departures: list[Departure] = attrs.field(init=False, factory=list)
    lateness: list[Hold] = attrs.field(init=False, factory=list)
    chances: list[Chance] = attrs.field(init=False, factory=list)
    times: dict[int, int] = attrs.field(init=False, factory=dict)
    """By actor: how often it has gone on while others could, too."""
    steps: int = attrs.field(init=False, default=0)
    """How many choices the run has had so far."""
    _passed: dict[int, float] = attrs.field(init=False, factory=dict)

    def choose(self, ready: Sequence[Actor]) -> int:
        self.steps += 1
        if self.detailed:
            self.chances.append(Chance(self.steps, len(ready), -1, 0))
        if place := self.strategy.choose(ready):
            self.departures.append(Choice(self.steps, place))
            now = ready[0].sim.now
            for actor in ready[:place]:
                self._passed.setdefault(actor.index, now)
        return place

    def delay(self, actor: Actor) -> float | None:
        index = actor.index
        time = self.times[index] = self.times.get(index, 0) + 1
        if self.detailed:
            self.chances.append(Chance(0, 0, index, time))
        held = self._held(actor)
        since = self._passed.pop(index, None)
        if held is not None:
            self.departures.append(Hold(index, time, held))
        if held is not None or since is not None:
            late = 0.0 if since is None else actor.sim.now - since
            self.lateness.append(Hold(index, time, late + (held or 0.0)))
        return held
