"""Signals of HSA: completions that know their stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offloadrt.sim import Actor, Signal, Simulation
from offloadrt.sim.messages import NOBODY


class HsaSignal(Signal):
    """A completion of a command of ``stream``."""

    __slots__ = ("stream",)

    def __init__(self, sim: Simulation, name: str, stream: object = None) -> None:
        # Sets what Signal's constructor sets, without calling it: an APU's program makes one for every command.
        self.sim = sim
        self.name = name
        self.is_set = False
        self.value: Any = None
        self.waiters: list[Actor] = NOBODY
        self.stream = stream
        self._callback: Callable[[], None] | None = None
