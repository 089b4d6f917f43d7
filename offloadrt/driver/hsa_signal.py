"""Signals of HSA: completions that know whose they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offloadrt.sim import Actor, Signal, Simulation


class HsaSignal(Signal):
    """A completion; ``stream`` is whose completion it is."""

    __slots__ = ("stream",)

    def __init__(self, sim: Simulation, name: str, stream: object = None) -> None:
        self.sim = sim  # as Signal does: there are many of these
        self.name = name
        self.is_set = False
        self.value: Any = None
        self.waiters: list[Actor] = []
        self.stream = stream
        self._action: Callable[[], None] | None = None
