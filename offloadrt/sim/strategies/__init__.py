"""Strategies: which of several ready actors goes on first, and which is held back. Each strategy has its file.

`Fifo` (``fifo.py``) is the order of scheduling; to `Random` (``random_order.py``) each is equally likely. Others are
found by entry points of the group `offloadrt.strategies`.

One method is needed, ``choose``. A strategy may also have ``reach`` and ``delay``, by which actors go on later than
they would: as threads that were preempted do, or hardware that was busy. Nobody ever goes on earlier than its own work
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

    Two members are optional. ``reach``, a number of virtual seconds, read once: an actor whose own time comes within
    ``reach`` of the earliest one's is among the choices, too; when it is chosen, virtual time goes on to its time, and
    those who were passed over are late, but never by more than ``reach``. ``delay(actor)``, called with the actor that
    goes on next while there are others: a number of virtual seconds holds it back for so long (0.0: behind all others
    of this instant), None lets it go on. It is called once for each time that the actor goes on.
    """

    @property
    def name(self) -> str: ...

    def choose(self, ready: Sequence[Actor]) -> int:
        """Return the index of the actor to go on next; ``ready`` has at least two, in order of scheduling.

        `Fifo` would choose index 0. Any other kind of result, and any error raised here, ends the run as a `BadChoice`.
        """
