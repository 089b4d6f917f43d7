"""Strategies: which of several ready actors goes on first, and which is held back. Each strategy has its file.

`Fifo` (``fifo.py``) keeps the order of scheduling; `Random` (``random_order.py``) draws one at random. Others are
found by entry points of the group `offloadrt.strategies`.

One method is needed, ``choose``. A strategy may also have ``reach`` and ``delay``, by which actors go on later than
they would, like threads that are preempted or hardware that is busy. No actor goes on earlier than its own work
allows. Timeouts and cancellations are no choices: they are delivered first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from offloadrt.sim.scheduler import Actor
from offloadrt.sim.strategies.fifo import Fifo
from offloadrt.sim.strategies.random_order import Random

__all__ = ["Fifo", "Random", "Strategy"]


class Strategy(Protocol):
    """Chooses among actors that are ready.

    Two members are optional. ``reach`` is a number of virtual seconds, read once: an actor whose timer comes at most
    ``reach`` after the earliest one is a choice, too. If it is chosen, virtual time advances to its timer, and the
    actors that were passed over are late, by at most ``reach``. ``delay(actor)`` is called each time that an actor is
    to go on while others exist. It returns for how many virtual seconds the actor is delayed (0.0: behind all others of
    this instant), or None to let it go on.
    """

    @property
    def name(self) -> str: ...

    def choose(self, ready: Sequence[Actor]) -> int:
        """Return the index of the actor to go on next among the two or more in ``ready``, the longest ready first.

        `Fifo` would choose index 0. Any other kind of result, and any error raised here, ends the run as a `BadChoice`.
        """
