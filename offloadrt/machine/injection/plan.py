"""All faults of a run: a pure policy that says whether an event is struck."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import attrs

from offloadrt.machine.injection.fault import BadFault, FaultKind, InjectedFault

RATE: Final = 0.01
"""The part of all events that a random plan strikes, unless it names another."""
_RANDOM_KINDS: Final = ("call", "kernel", "page_fault", "doorbell", "interrupt", "stuck")


@attrs.frozen
class RandomFaults:
    """Strikes each event with probability ``rate``; the seed and the event's number decide, and nothing else."""

    seed: int
    rate: float = RATE

    def strike(self, kind: FaultKind, name: str, number: int) -> InjectedFault | None:
        """Return a fault for the event of this kind and number, or None."""
        if kind not in _RANDOM_KINDS or random.Random(f"{self.seed} {kind} {number}").random() >= self.rate:
            return None
        written = f"{kind}:{name}:{number}" if kind == "stuck" else f"{kind}:{number}"
        return InjectedFault(kind, name if kind == "stuck" else "", number, text=f"random:{self.seed}, {written}")


@attrs.frozen
class FaultPlan:
    """The faults of a run, in the order in which they were written; ``at_random`` adds more."""

    faults: tuple[InjectedFault, ...] = ()
    at_random: tuple[RandomFaults, ...] = ()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> FaultPlan:
        """Read faults, each written as `FORMS` says. Raises BadFault."""
        drawn = [text for text in texts if text.partition(":")[0] == "random"]
        return cls(
            tuple(InjectedFault.parse(text) for text in texts if text not in drawn), tuple(map(_parse_random, drawn))
        )

    def __bool__(self) -> bool:
        return bool(self.faults or self.at_random)


def _parse_random(text: str) -> RandomFaults:
    _, *numbers = text.split(":")
    try:
        seed, rate = int(numbers[0]), float(numbers[1]) if len(numbers) > 1 else RATE
    except (ValueError, IndexError):
        seed, rate = -1, 0.0
    if len(numbers) > 2 or seed < 0 or not 0.0 < rate <= 1.0:
        raise BadFault(f"{text}: it is written random:SEED or random:SEED:RATE, with a rate above 0 and at most 1")
    return RandomFaults(seed, rate)
