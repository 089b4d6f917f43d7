"""Strategies: which of several actors that could run at the same instant runs first.

``Fifo`` is the order of scheduling, (time, sequence), and costs nothing. Any other strategy implements one method,
``choose``; the scheduler then collects everything that is due at an instant and asks it. Timeouts and cancellations are
no choices: they are delivered first.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

import attrs

from offloadrt.sim.actor import Actor


class Strategy(Protocol):
    """Chooses among actors that are ready at one instant of virtual time."""

    @property
    def name(self) -> str: ...

    def choose(self, ready: Sequence[Actor]) -> int:
        """Return the index of the actor to run next; ``ready`` has at least two, in order of scheduling.

        Anything else that it returns, or what it raises, ends the run as a `BadChoice`.
        """
        ...


@attrs.frozen
class Fifo:
    """Order of scheduling. The scheduler knows it and never asks."""

    name: str = "fifo"

    def choose(self, ready: Sequence[Actor]) -> int:
        return 0


@attrs.define
class Random:
    """Each ready actor is equally likely; ``seed`` alone decides, on every Python."""

    seed: int = 0
    name: str = "random"
    _random: random.Random = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def choose(self, ready: Sequence[Actor]) -> int:
        # random() is the one method whose stream Python promises never to change
        return int(self._random.random() * len(ready))
