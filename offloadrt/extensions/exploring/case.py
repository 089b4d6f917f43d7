"""A case: all that decides a run besides the program, its parameters and its machine."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from offloadrt.machine import MachineSpec
from offloadrt.sim.strategies import Choice, Delay, Fifo, Hold, Pct, Random, Schedule, Strategy
from offloadrt.sim.strategies.schedule import Departure


@attrs.frozen
class ScheduleCase:
    """One schedule: a strategy with its numbers, or departures that were written down; and the costs of the run."""

    kind: str = "fifo"
    """fifo, random, pct, delay or schedule."""
    seed: int = 0
    bound: int = 0
    """The depth of pct, the number of delays."""
    steps: int = 0
    """Among how many steps the places of changes and delays are drawn."""
    length: float = 0.0
    """Virtual seconds: the reach of pct and of a schedule, the longest delay."""
    departures: tuple[Departure, ...] = ()
    costs: tuple[tuple[str, float], ...] = ()
    """Entries of the machine with a range, and their places in it; the others are at the mean."""
    jitter: float = 0.0
    """How far each single cost of the host varies, as a fraction; 0 is what the machine says."""
    faults: tuple[str, ...] = ()
    """Faults that are injected, besides those of the program's own options."""

    @property
    def strategy(self) -> Strategy:
        """Return a new strategy object for one run."""
        return _STRATEGIES[self.kind](self)

    @property
    def range_end(self) -> Mapping[str, str | float]:
        return dict(self.costs)

    @property
    def overrides(self) -> Mapping[str, str]:
        return {"jitter": repr(self.jitter)} if self.jitter else {}

    @property
    def size(self) -> int:
        """Return how many departures and drawn costs it has."""
        return len(self.departures) + len(self.costs)


_STRATEGIES: Final[dict[str, Callable[[ScheduleCase], Strategy]]] = {
    "fifo": lambda case: Fifo(),
    "random": lambda case: Random(case.seed),
    "pct": lambda case: Pct(case.seed, case.bound, case.steps, case.length),
    "delay": lambda case: Delay(case.seed, case.bound, case.steps, case.length),
    "schedule": lambda case: Schedule(case.departures, case.length),
}


def packed(case: ScheduleCase) -> list[Any]:
    """Return a case as lists of plain values, for a token."""
    departures = [
        [one.step, one.place] if isinstance(one, Choice) else [one.actor, one.time, one.seconds]
        for one in case.departures
    ]
    costs = [list(pair) for pair in case.costs]
    row = [case.kind, case.seed, case.bound, case.steps, case.length, departures, costs, case.jitter]
    return [*row, list(case.faults)] if case.faults else row


def unpacked(row: Sequence[Any]) -> ScheduleCase:
    """Return the case that `packed` made a list of. Raises ValueError, TypeError or KeyError for another one."""
    kind, seed, bound, steps, length, departures, costs, jitter, *faults = row
    case = ScheduleCase(
        str(kind),
        int(seed),
        int(bound),
        int(steps),
        float(length),
        tuple(
            Choice(int(one[0]), int(one[1])) if len(one) == 2 else Hold(int(one[0]), int(one[1]), float(one[2]))
            for one in departures
        ),
        tuple((str(key), float(place)) for key, place in costs),
        float(jitter),
        tuple(str(fault) for fault in faults[0]) if faults else (),
    )
    _STRATEGIES[case.kind]
    return case


def drawn(keys: tuple[str, ...], seed: int) -> tuple[tuple[str, float], ...]:
    """Draw a place in its range for each entry, equally likely; `seed` alone decides, on every Python."""
    draw = random.Random(seed).random
    return tuple((key, round(draw(), 4)) for key in keys)


def costs_with_a_range(spec: MachineSpec) -> tuple[str, ...]:
    """Return the entries that are costs or rates and have a range; sizes and counts are no costs."""
    keys = []
    for key in spec.ranges():
        unit = spec.entries[key].unit
        if unit is not None and not unit.is_count and unit.dimension != "data":
            keys.append(key)
    return tuple(sorted(keys))
