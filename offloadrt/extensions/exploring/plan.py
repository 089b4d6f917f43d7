"""How the schedules of an exploration are made: the strategy as the user names it, and the case of each run."""

from __future__ import annotations

from typing import Final

import attrs

from offloadrt.extensions.exploring.case import ScheduleCase, drawn
from offloadrt.machine.profile import units
from offloadrt.study.errors import UserError, did_you_mean

_NUMBERS: Final = {"fifo": 0, "random": 0, "pct": 2, "delay": 2, "dfs": 2, "costs": 1}
"""The strategies, and how many numbers each takes at most."""
_DEFAULT_BOUND: Final = {"pct": 3, "delay": 2, "dfs": 2}


@attrs.frozen
class SchedulePlan:
    """A strategy: `random`, `pct:DEPTH[:LENGTH]`, `delay:BOUND[:LENGTH]`, `dfs:BOUND[:LENGTH]`, `costs[:JITTER]`.

    LENGTH is a virtual time (`20us`): for pct how late an actor may be at a time, for delay the longest delay, for dfs
    how long an actor is held back. By default pct and delay take as long as the program takes, and dfs 0: it
    enumerates the orders of what happens at one instant.
    """

    text: str
    kind: str
    bound: int = 0
    length: float | None = None
    jitter: float = 0.0
    steps: int = 1000
    keys: tuple[str, ...] = ()
    """The entries that `costs` draws."""
    first_seed: int = 0

    @classmethod
    def parse(cls, text: str, first_seed: int = 0) -> SchedulePlan:
        """Read the text. Raises UserError."""
        kind, *numbers = text.split(":")
        if kind not in _NUMBERS:
            raise UserError(f"--strategy {text}: there are {', '.join(_NUMBERS)}{did_you_mean(kind, _NUMBERS)}")
        if len(numbers) > _NUMBERS[kind]:
            raise UserError(f"--strategy {text}: {kind} takes {_NUMBERS[kind] or 'no'} numbers at most")
        if kind == "costs":
            return cls(text, kind, jitter=_fraction(text, numbers[0]) if numbers else 0.0, first_seed=first_seed)
        bound = _DEFAULT_BOUND.get(kind, 0)
        if numbers:
            if not numbers[0].isascii() or not numbers[0].isdigit() or not 1 <= int(numbers[0]) <= 1000:
                raise UserError(f"--strategy {text}: {numbers[0]!r} is no number from 1 to 1000")
            bound = int(numbers[0])
        length = _seconds(text, numbers[1]) if len(numbers) > 1 else (0.0 if kind == "dfs" else None)
        return cls(text, kind, bound, length, first_seed=first_seed)

    def fitted(self, duration: float, steps: int, keys: tuple[str, ...]) -> SchedulePlan:
        """Return the plan for a program that takes so long in virtual time, and has so many choices."""
        length = duration if self.length is None and self.kind in ("pct", "delay") else self.length
        return attrs.evolve(self, length=length, steps=max(steps, 1), keys=keys)

    def case(self, number: int) -> ScheduleCase:
        """Return the case of one run, counted from 0; all but dfs, whose cases follow from earlier runs."""
        seed = self.first_seed + number
        if self.kind == "costs":
            return ScheduleCase("random", seed, costs=drawn(self.keys, seed), jitter=self.jitter)
        if self.kind in ("pct", "delay"):
            return ScheduleCase(self.kind, seed, self.bound, self.steps, self.length or 0.0)
        return ScheduleCase(self.kind, seed)


def _seconds(text: str, given: str) -> float:
    try:
        value, dimension = units.quantity(given)
    except units.UnitError as error:
        raise UserError(f"--strategy {text}: {error}") from None
    if value < 0 or value == float("inf") or (dimension != "time" and value != 0):
        raise UserError(f"--strategy {text}: {given!r} is no time, as 20us is")
    return value


def _fraction(text: str, given: str) -> float:
    try:
        value = float(given)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise UserError(f"--strategy {text}: {given!r} is no fraction from 0 to 1")
    return value
