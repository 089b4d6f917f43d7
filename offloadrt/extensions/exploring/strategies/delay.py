"""A few delays at random places, so that actors without synchronization overtake one another."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import ldexp

import attrs

from offloadrt.sim.scheduler import Actor

_OCTAVES = 10
"""The longest delay is halved up to so many times, so that delays span about three decades."""


@attrs.define
class Delay:
    """Holds actors (threads, parts of the machine) back ``bound`` times when they go on after a wait.

    Each time is up to ``longest`` virtual seconds. These moments are chosen at random among the first ``steps`` times
    that any actor goes on. The delays are random on a logarithmic scale of about three decades, so that short and long
    ones are equally likely. Actors that are ready at the same instant go on in the order in which they became ready.
    ``seed`` is that of the random choices.
    """

    seed: int = 0
    bound: int = 2
    steps: int = 1000
    longest: float = 1e-3
    name: str = "delay"
    _delays: dict[int, float] = attrs.field(init=False, factory=dict, repr=False)
    _step: int = attrs.field(init=False, default=0, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.bound < 1 or not self.longest >= 0:
            raise ValueError(f"delay: {self.bound} delays of up to {self.longest!r} seconds; it takes one or more")
        draw = random.Random(self.seed).random
        for _ in range(self.bound):
            place = 1 + int(draw() * max(self.steps, 1))
            # no logarithm: its last bit differs between machines
            self._delays[place] = ldexp(self.longest * (0.5 + 0.5 * draw()), -int(draw() * _OCTAVES))

    def choose(self, ready: Sequence[Actor]) -> int:
        return 0

    def delay(self, actor: Actor) -> float | None:
        self._step += 1
        return self._delays.get(self._step)
