"""A random order of what happens at one instant."""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs

from offloadrt.sim.scheduler import Actor


@attrs.define
class Random:
    """Chooses each ready actor with equal probability; ``seed`` alone decides, on every version of Python."""

    seed: int = 0
    name: str = "random"
    _random: random.Random = attrs.field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def choose(self, ready: Sequence[Actor]) -> int:
        # random() is the one method whose stream Python promises never to change
        return int(self._random.random() * len(ready))
