"""The barrier of a team of host threads."""

from __future__ import annotations

from offloadrt.sim import Signal, Simulation


class Barrier:
    """Holds up all threads until `parties` have arrived, again and again. A thread that gives up has not arrived."""

    def __init__(self, sim: Simulation, parties: int) -> None:
        self.sim = sim
        self.parties = parties
        self._arrived = 0
        self._open = Signal(sim, "barrier")

    @property
    def gate(self) -> Signal:
        """Return what opens when all have arrived this time."""
        return self._open

    async def wait(self) -> None:
        self._arrived += 1
        if self._arrived == self.parties:
            self._arrived = 0
            # The gate of the next round is in place before anybody goes on: a thread may be back at once.
            gate, self._open = self._open, Signal(self.sim, "barrier")
            gate.set()
        else:
            gate = self._open
            try:
                await gate.wait()
            except BaseException:
                if not gate.is_set:
                    self._arrived -= 1
                raise
