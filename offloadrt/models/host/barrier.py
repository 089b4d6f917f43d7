"""The barrier of a team of host threads."""

from __future__ import annotations

from offloadrt.sim import Signal, Simulation


class _Gate(Signal):
    """One round of a barrier: set when all threads have come. A deadlock's story asks it who has not."""

    __slots__ = ("_parties", "arrived")

    def __init__(self, sim: Simulation, parties: int) -> None:
        super().__init__(sim, "barrier")
        self._parties = parties
        self.arrived: list[int] = []
        """The numbers of the threads that wait."""

    def missing(self) -> list[str]:
        return [f"host thread {number}" for number in range(self._parties) if number not in self.arrived]


class Barrier:
    """Holds up all threads until `parties` have arrived, again and again. A thread that gives up has not arrived."""

    def __init__(self, sim: Simulation, parties: int) -> None:
        self.sim = sim
        self.parties = parties
        self._open = _Gate(sim, parties)

    @property
    def gate(self) -> Signal:
        """Return what opens when all have arrived this time."""
        return self._open

    async def wait(self, number: int) -> None:
        """Wait for the others, as the thread of that number in its team."""
        gate = self._open
        gate.arrived.append(number)
        if len(gate.arrived) == self.parties:
            # The gate of the next round is in place before anybody goes on: a thread may be back at once.
            self._open = _Gate(self.sim, self.parties)
            gate.set()
        else:
            try:
                await gate.wait()
            except BaseException:
                if not gate.is_set:
                    gate.arrived.remove(number)
                raise
