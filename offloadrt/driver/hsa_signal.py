"""Signals of HSA: completions on which the driver library can act."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offloadrt.sim import Actor, Signal, Simulation


class HsaSignal(Signal):
    """A completion with at most one ``action`` that is taken when it is set; ``stream`` is whose completion it is."""

    __slots__ = ("_action", "stream")

    def __init__(self, sim: Simulation, name: str, stream: object = None) -> None:
        self.sim = sim  # as Signal does: there are many of these
        self.name = name
        self.is_set = False
        self.value: Any = None
        self.waiters: list[Actor] = []
        self.stream = stream
        self._action: Callable[[], None] | None = None

    def when_set(self, action: Callable[[], None]) -> None:
        """Take an action when it is set, or now.  RuntimeError for a second one."""
        if self._action is not None:
            raise RuntimeError(f"signal {self.name!r} has an action already")
        self._action = action
        if self.is_set:
            action()

    def set(self, value: Any = None) -> None:
        """The thing has completed."""
        Signal.set(self, value)
        if self._action is not None:
            self._action()
