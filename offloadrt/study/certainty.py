"""How sure an answer is, as results say it: how much that may cost, and variants in the order of most draws.

`uncertainty()` gives the functions that draw places in ranges (`extensions/certainty`), where they are installed.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import Any, Final

import attrs

from offloadrt.registry import NotInstalled, Registry
from offloadrt.study.errors import UserError
from offloadrt.study.reporting.results import Interval

MOST: Final = 64
"""The most draws that are made unasked: a power of two, for which the sequence is balanced."""
LEAST: Final = 8
"""Draws without which no interval is given unasked."""
SURE: Final = 0.9
"""The share of the draws in which an order has to hold for two variants to be told apart."""
_CERTAINTY: Final = Registry[Any]("part that draws places in ranges", "offloadrt.certainty")


def uncertainty() -> Any:
    """Return the functions that draw places in uncertain ranges. Raises UserError where they are not installed."""
    try:
        return _CERTAINTY.load("draws")
    except NotInstalled as error:
        raise UserError(str(error)) from None


def clock_of(jobs: int) -> Callable[[], float]:
    """Return the clock of a budget: of this process where it makes all runs, which a busy machine does not disturb."""
    return time.process_time if jobs == 1 else time.monotonic


@attrs.frozen
class Effort:
    """How much certainty may cost: so many draws, or as many as fit into a budget of real time."""

    draws: int | None = None
    """None: as the budget allows, up to `most`; 0: none."""
    budget_s: float = math.inf
    most: int = MOST

    @classmethod
    def of(cls, draws: int | None, budget_s: float | None, usual_s: float, most: int) -> Effort:
        """Return what was asked for: without a word at most so many draws, within the usual budget.

        Draws that are asked for are all made, unless a budget is given too; a budget that is given allows 64. Raises
        UserError for a number below 0.
        """
        if draws is not None and draws < 0:
            raise UserError(f"draws {draws}: it cannot be negative")
        if not draws:
            try:
                uncertainty()
            except UserError:
                return cls(0)  # nobody has asked for what is not installed
        if budget_s is None:
            return cls(draws, usual_s if draws is None else math.inf, most)
        return cls(draws, budget_s)

    def is_hopeless(self, draw_s: float) -> bool:
        """Tell whether too few draws fit into the budget where one takes so long."""
        return self.draws is None and LEAST * draw_s > self.budget_s


NO_DRAWS: Final = Effort(draws=0)


@attrs.frozen
class Decider:
    """An uncertain entry that decides an order: what it is today, what its range does, and what measures it."""

    entry: str
    machine: str
    today: str
    """Its range, and what kind of source that has."""
    factor: float
    """By how much its range changes the quotient of the two times, as a factor of at least 1."""
    turns: bool
    """Whether an end of the range turns the order round by itself."""
    command: str
    """What measures it; empty where nothing of this project does."""

    def __str__(self) -> str:
        turned = ", and an end of its range turns the order round" if self.turns else ""
        how = f"; to measure it: {self.command}" if self.command else "; nothing here measures it"
        return f"{self.entry} of {self.machine}, {self.today}: a factor of {self.factor:.3g}{turned}{how}"


@attrs.frozen
class RankedVariant:
    """A variant among others at the same draws."""

    number: int
    """Its place among the variants as they are compared, the baseline first."""
    parameters: dict[str, Any]
    elapsed: Interval
    ratio: Interval
    """The baseline's time over this one's, draw by draw."""
    ahead: float
    """The share of the draws in which it is faster than the next one; ties count half. 1 for the last."""
    beside: int
    """The draws that it has in common with the next one: what has won or lost against all others is drawn no more."""

    @property
    def is_told_apart(self) -> bool:
        """Tell whether it is sure that it is faster than the next one."""
        return self.ahead >= SURE


@attrs.frozen
class Ranking:
    """Variants, the fastest first, as they are in most draws."""

    draws: int
    seed: int
    entries: int
    """How many uncertain entries were drawn together."""
    failed: int
    """Draws that do not count, since a run ended there with an error."""
    ranked: list[RankedVariant]
    shares: list[list[float]]
    """The share of the draws in which the variant of the row is faster than that of the column, in the order of
    `ranked`; ties count half.
    """
    deciders: list[Decider] = attrs.field(factory=list)
    """What to measure next: the entries whose uncertainty decides between the two that are nearest to each other."""
    screened: str = ""
    """What was looked at to find them, and what was left out."""
    idle: int = 0
    """How many of the entries were not drawn, since neither end of their ranges changes a run."""
    order_effects: list[str] = attrs.field(factory=list)
    """Neighbours that the draws turn round, and entries that make a run slower where they take less."""

    def are_told_apart(self, one: int, other: int) -> bool:
        """Tell whether it is sure which of two places of the ranking is faster."""
        return max(self.shares[one][other], self.shares[other][one]) >= SURE

    def nearest(self) -> tuple[int, int] | None:
        """Return the neighbours that are hardest to tell apart; None where no draw turns an order round."""
        pairs = enumerate(itertools.pairwise(self.ranked))
        unsure = [(a.ahead, rank) for rank, (a, b) in pairs if a.ahead < 1.0 and a.elapsed.values != b.elapsed.values]
        return (min(unsure)[1], min(unsure)[1] + 1) if unsure else None


def over(base: float, own: float) -> float:
    return base / own if own else math.inf if base else 1.0
