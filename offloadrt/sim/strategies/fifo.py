"""The default strategy: the order of scheduling."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from offloadrt.sim.scheduler import Actor


@attrs.frozen
class Fifo:
    """Resumes actors in the order in which they became ready; the scheduler does so itself and never calls this."""

    name: str = "fifo"

    def choose(self, ready: Sequence[Actor]) -> int:
        return 0
