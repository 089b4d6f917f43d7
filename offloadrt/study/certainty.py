"""How sure an answer is: the effort to spend on draws, and the ranking of variants by many draws.

A draw takes a random value in each range of a machine's profile. `uncertainty()` returns the module that makes draws.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import Any, Final

import attrs

from offloadrt.registry import Registry
from offloadrt.study.errors import UserError, installed
from offloadrt.study.reporting.results import Interval
from offloadrt.study.spec import MOST_RUNS

MOST: Final = 64
"""Largest default number of draws. It is a power of two, for which the Sobol sequence is balanced."""
LEAST: Final = 8
"""Smallest number of draws for which an interval is given by default."""
SURE: Final = 0.9
"""Fraction of the draws in which one variant must be faster than another to call it faster."""
_CERTAINTY: Final = Registry[Any]("part that draws places in ranges", "offloadrt.certainty")


def uncertainty() -> Any:
    """Return the module `extensions.certainty.draws` (`sample`, `banded`, ...). UserError if it is not installed."""
    return installed(_CERTAINTY, "draws")


def clock_of(jobs: int) -> Callable[[], float]:
    """Return the clock, in seconds, for a budget: CPU time for one job, unaffected by other load, else real time."""
    return time.process_time if jobs == 1 else time.monotonic


@attrs.frozen
class Effort:
    """Says how many draws (random samples of the uncertain costs) to run: a number, or what fits in a budget.

    budget_s: real seconds. most: the largest number of draws.
    """

    draws: int | None = None
    """Number of draws; None: as many as the budget allows, up to `most`; 0: none."""
    budget_s: float = math.inf
    most: int = MOST

    @classmethod
    def of(cls, draws: int | None, budget_s: float | None, usual_s: float, most: int) -> Effort:
        """Return the effort for what the user asked for: `draws`, `budget_s`, both, or neither (None).

        A draw is a run with a random sample of the uncertain costs. By default there are up to `most` draws within
        `usual_s` seconds. A given number of draws without a budget has no time limit. A given budget without a number
        allows up to 64 draws, whatever `most` is. Raises UserError for negative or too many `draws`; 0 means no draws.
        """
        if draws is not None and not 0 <= draws <= MOST_RUNS:
            raise UserError(f"draws {draws}: it can be 0 to {MOST_RUNS:,}")
        if not draws:
            try:
                uncertainty()
            except UserError:
                return cls(0)  # nobody has asked for what is not installed
        if budget_s is None:
            return cls(draws, usual_s if draws is None else math.inf, most)
        return cls(draws, budget_s)

    def is_hopeless(self, draw_s: float) -> bool:
        """Tell whether the budget is too small for `LEAST` draws (runs with random costs) of `draw_s` seconds each."""
        return self.draws is None and LEAST * draw_s > self.budget_s


NO_DRAWS: Final = Effort(draws=0)


@attrs.frozen
class Decider:
    """A profile entry of a machine whose uncertain value decides which of two variants (compared runs) is faster."""

    entry: str
    machine: str
    today: str
    """The entry's present range, and the kind of its source, as a text."""
    factor: float
    """The factor, at least 1, by which the two variants' ratio of times differs between the ends of the range."""
    turns: bool
    """Whether taking only this entry at an end of its range reverses the order."""
    command: str
    """The command that measures the entry on a real machine; empty where this project has none."""

    def __str__(self) -> str:
        turned = ", and an end of its range turns the order round" if self.turns else ""
        how = f"; to measure it: {self.command}" if self.command else "; nothing here measures it"
        return f"{self.entry} of {self.machine}, {self.today}: a factor of {self.factor:.3g}{turned}{how}"


@attrs.frozen
class RankedVariant:
    """A variant in a ranking; `elapsed`: its time. A draw runs each variant with the same random sample of costs."""

    number: int
    """The variant's index among the compared variants, the baseline first."""
    parameters: dict[str, Any]
    elapsed: Interval
    ratio: Interval
    """The baseline's time over this variant's time, draw by draw."""
    ahead: float
    """The share of the draws in which this variant is faster than the next one; ties count half. 1 for the last."""
    beside: int
    """Number of draws in which both this variant and the next were run; a variant far from all others has fewer."""

    @property
    def is_told_apart(self) -> bool:
        """Tell whether this variant beats the next one in the fraction `SURE` of the draws (runs with random costs)."""
        return self.ahead >= SURE


@attrs.frozen
class Ranking:
    """Ranks variants of a run, the fastest first, by the order that holds in most draws.

    `draws` draws were made: each runs all variants with one random sample of the uncertain costs, decided by `seed`.
    """

    draws: int
    seed: int
    entries: int
    """Number of the profile's entries with a range, which were drawn together."""
    failed: int
    """Number of draws that are left out, because a run in them ended with an error."""
    ranked: list[RankedVariant]
    shares: list[list[float]]
    """A matrix with rows and columns in the order of `ranked`: the fraction of the draws in which the row's variant is
    faster than the column's; ties count half.
    """
    deciders: list[Decider] = attrs.field(factory=list)
    """The entries to measure next: their uncertainty decides between the two variants nearest to each other."""
    screened: str = ""
    """A text for the report: how `deciders` were searched for, and which entries were left out."""
    idle: int = 0
    """Number of entries that were not drawn, because neither end of their ranges changes a run."""
    order_effects: list[str] = attrs.field(factory=list)
    """Texts about neighbours whose order changes in some draws, and entries that slow a run when they cost less."""
    beyond: str = ""
    """A text: why draws cannot settle the order of variants on different machines; empty if all are on one machine."""

    def nearest(self) -> tuple[int, int] | None:
        """Return the ranks of the neighbours whose order is least sure; None if their order is always the same."""
        pairs = enumerate(itertools.pairwise(self.ranked))
        unsure = [(a.ahead, rank) for rank, (a, b) in pairs if a.ahead < 1.0 and a.elapsed.values != b.elapsed.values]
        return (min(unsure)[1], min(unsure)[1] + 1) if unsure else None


def over(base: float, own: float) -> float:
    """Return the ratio `base` / `own` of two times; infinity if only `own` is 0, and 1 if both are 0."""
    return base / own if own else math.inf if base else 1.0
