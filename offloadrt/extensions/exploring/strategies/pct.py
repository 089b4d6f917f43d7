"""PCT (probabilistic concurrency testing): random priorities that change at a few points.

After Burckhardt, Kothari, Musuvathi and Nagarakatte, "A Randomized Scheduler with Probabilistic Guarantees of Finding
Bugs", ASPLOS 2010.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import inf

import attrs

from offloadrt.sim.scheduler import Actor


@attrs.define
class Pct:
    """Lets the ready actor with the highest priority go on; ``depth - 1`` times it puts that actor below all others.

    An actor is a thread or a part of the machine. Priorities are random, and ``seed`` is the seed of that choice. With
    n actors and at most ``steps`` choices in a run, one run finds a bug that needs ``depth`` ordering constraints with
    a probability of at least 1 / (n · steps^(depth-1)), as Burckhardt and others prove. The proof holds for orders of
    actors that are ready within ``reach`` virtual seconds of one another; with 0.0, only at the same instant.
    """

    seed: int = 0
    depth: int = 3
    steps: int = 1000
    """The assumed number of choices of a run; those before which a priority changes are drawn among them."""
    reach: float = 0.0
    name: str = "pct"
    _random: random.Random = attrs.field(init=False, repr=False)
    _priorities: dict[int, float] = attrs.field(init=False, factory=dict, repr=False)
    _changes: dict[int, int] = attrs.field(init=False, factory=dict, repr=False)
    _step: int = attrs.field(init=False, default=0, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"pct: a depth of {self.depth}; it is at least 1")
        draw = self._random = random.Random(self.seed)
        for change in range(1, self.depth):  # a later change puts an actor below those of earlier ones
            self._changes[1 + int(draw.random() * max(self.steps, 1))] = -change

    def choose(self, ready: Sequence[Actor]) -> int:
        self._step += 1
        best = self._highest(ready)
        if (lowest := self._changes.get(self._step)) is not None:
            self._priorities[ready[best].index] = float(lowest)
            best = self._highest(ready)
        return best

    def _highest(self, ready: Sequence[Actor]) -> int:
        """Return the index of the (first) actor with the highest priority; a new actor gets a random one."""
        priorities = self._priorities
        best, highest = 0, -inf
        for place, actor in enumerate(ready):
            if (priority := priorities.get(actor.index)) is None:
                priority = priorities[actor.index] = self._random.random()
            if priority > highest:
                best, highest = place, priority
        return best
