"""The order of scheduling."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from offloadrt.sim.scheduler import Actor


@attrs.frozen
class Fifo:
    """Order of scheduling. The scheduler knows it and never asks."""

    name: str = "fifo"

    def choose(self, ready: Sequence[Actor]) -> int:
        return 0
