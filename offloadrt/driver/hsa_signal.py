"""Signals of HSA: completions on which the driver library can act."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from offloadrt.sim import Signal, Simulation


class HsaSignal(Signal):
    """A completion with at most one ``action`` that is taken when it is set; ``stream`` is whose completion it is."""

    __slots__ = ("_action", "stream")

    def __init__(self, sim: Simulation, name: str, stream: object = None) -> None:
        super().__init__(sim, name)
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
        super().set(value)
        if self._action is not None:
            self._action()
