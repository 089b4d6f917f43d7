"""Writes down what another strategy does, so that it can be told, repeated and made smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from offloadrt.extensions.exploring.strategies.schedule import Choice, Departure, Hold
from offloadrt.sim.scheduler import Actor
from offloadrt.sim.strategies import Strategy


@attrs.frozen
class Chance:
    """Where a schedule could have departed: a choice among ``width`` actors, or an actor that goes on."""

    step: int
    """Of a choice; 0 when this is none."""
    width: int
    actor: int
    """Of an actor that goes on; -1 for a choice."""
    time: int


@attrs.define
class Recorded:
    """Does what ``strategy`` does, and writes it down.

    ``departures`` repeat the run exactly, by a `Schedule` with the same ``reach``. ``lateness`` is the other view of
    the run: how late each actor went on that was passed over or held back; it is shorter, and repeats the run only
    nearly.
    """

    strategy: Strategy
    detailed: bool = False
    """Whether `chances` is filled."""
    departures: list[Departure] = attrs.field(init=False, factory=list)
    lateness: list[Hold] = attrs.field(init=False, factory=list)
    chances: list[Chance] = attrs.field(init=False, factory=list)
    times: dict[int, int] = attrs.field(init=False, factory=dict)
    """How often each actor has gone on while there were others."""
    steps: int = attrs.field(init=False, default=0)
    """How many choices there were."""
    _passed: dict[int, float] = attrs.field(init=False, factory=dict)
    _delay: Callable[[Actor], float | None] | None = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._delay = getattr(self.strategy, "delay", None)

    @property
    def name(self) -> str:
        return self.strategy.name

    @property
    def reach(self) -> float:
        return float(getattr(self.strategy, "reach", 0.0))

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
        held = None if self._delay is None else self._delay(actor)
        since = self._passed.pop(index, None)
        if held is not None:
            self.departures.append(Hold(index, time, held))
        if held is not None or since is not None:
            late = 0.0 if since is None else actor.sim.now - since
            self.lateness.append(Hold(index, time, late + (held or 0.0)))
        return held
