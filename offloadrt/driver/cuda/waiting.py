"""How a thread waits for the device: spinning on a core, giving the core to others, or asleep until an interrupt."""

from __future__ import annotations

from typing import Annotated, Literal

import attrs

from offloadrt.machine import Machine
from offloadrt.sim import Signal

Schedule = Literal["auto", "spin", "yield", "blocking_sync"]
"""The flags of cudaSetDeviceFlags."""


@attrs.frozen
class WaitingCosts:
    """What spinning and sleeping take; read when a program first asks for either."""

    time_slice: Annotated[float, "stream.time_slice"]
    """Seconds after which the operating system gives a spinning thread's core to another that waits for one."""
    interrupt: Annotated[float, "stream.interrupt"]
    """Seconds that a sleeping thread needs on top of ``sync.latency`` to return."""


class Waiting:
    """The waits of one context's callers.

    ``auto`` and ``yield``: a thread has no core while it waits, and returns ``sync.latency`` after the completion, as
    soon as a core is idle.  CUDA's auto spins while a process has no more contexts than the host has cores: as long as
    no other thread wants the core, the two cannot be told apart.  ``spin``: a thread keeps its core, and gives it up
    only when its time slice is over and another waits.  ``blocking_sync``: it sleeps, and waking it takes longer.
    """

    def __init__(self, machine: Machine, wake: float) -> None:
        self._machine = machine
        self._sim = machine.sim
        self._wake = wake
        self._costs: WaitingCosts | None = None
        self.schedule: Schedule = "auto"

    @property
    def is_plain(self) -> bool:
        """Tell whether a thread only waits and then wakes up, so that nobody need ask ``until``."""
        return self.schedule in ("auto", "yield")

    async def until(self, done: Signal, *, blocking_sync: bool = False) -> float:
        """Wait for a completion; returns the seconds of work that are left until the call can return."""
        if self.schedule == "spin" and not blocking_sync:
            await self._spin(done)
            return 0.0
        await done.wait()
        return self._wake + (self._read().interrupt if blocking_sync or self.schedule == "blocking_sync" else 0.0)

    async def _spin(self, done: Signal) -> None:
        machine, sim, time_slice = self._machine, self._sim, self._read().time_slice
        while True:
            await machine.cores.take()
            try:
                if not done.is_set:
                    with sim.move_on_after(time_slice):
                        await done.wait()
                if done.is_set:  # it sees the completion on the core that it has
                    await sim.sleep(machine.jitter(self._wake))
                    return
            finally:
                machine.cores.give_back()

    def _read(self) -> WaitingCosts:
        if self._costs is None:
            self._costs = self._machine.spec.read(WaitingCosts)
        return self._costs
