"""How often a basic block runs, as a compiler estimates it that knows the source only.

The two rules are LLVM's (BranchProbabilityInfo, from which BlockFrequencyInfo derives frequencies): a branch goes
either way with probability 0.5, and a loop's back edge is taken with 31/32, so that a loop of unknown trip count runs
32 times. Each ``and``, ``or`` and conditional expression is a branch. A loop whose bounds are written as numbers runs
as often as they say (such loops are unrolled before). A probability given with `expect` as a number counts.

LLVM's further heuristics (pointers, comparisons with zero, calls that do not return) are not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import attrs

from offloadrt.kernels.algebra import Polynomial

BRANCH = 0.5
"""Probability of a branch of which nothing is known."""

UNKNOWN_LOOP = 32.0
"""Iterations of a loop of which nothing is known: 1 / (1 - 124/128)."""

Hint = float | str | None
"""A number, the name of a scalar parameter, or nothing."""


@attrs.frozen(eq=False)
class Loop:
    """A loop over a range; start and stop are None when they depend on the content of arrays, or have no form."""

    symbol: str
    """Its variable's name in polynomials, which no other loop shares."""
    name: str
    line: int
    start: Polynomial | None
    stop: Polynomial | None
    step: int = 1
    trips: Hint = None
    distributed: bool = False

    @property
    def literal_trips(self) -> int | None:
        """Return how often it runs, where its bounds are written as numbers; None elsewhere."""
        start = None if self.start is None else self.start.constant
        stop = None if self.stop is None else self.stop.constant
        return None if start is None or stop is None else len(range(start, stop, self.step))


@attrs.frozen
class Within:
    """The condition ``low <= index <= high``, whose bounds no loop changes; a bound that is None excludes nothing."""

    low: Polynomial | None
    index: Polynomial | None
    """None: read from data."""
    high: Polynomial | None
    among: Polynomial | None = None
    """How many values an index from data can have: n of ``data % n``."""


@attrs.frozen(eq=False)
class Probability:
    """The probability that a condition holds, as a tree over its branches."""

    kind: Literal["branch", "not", "and", "or"] = "branch"
    parts: tuple[Probability, ...] = ()
    hint: Hint = None
    within: tuple[Within, ...] = ()
    """The ranges that decide the branch, where ranges do: all of them hold. A launch knows how often they do."""

    def value(self, of_branch: Callable[[Hint], float]) -> float:
        """Return the number, when each branch has the probability that `of_branch` makes of its hint."""
        if self.kind == "branch":
            return of_branch(self.hint)
        product = 1.0
        for part in self.parts:
            holds = part.value(of_branch)
            product *= 1.0 - holds if self.kind in ("not", "or") else holds
        return 1.0 - product if self.kind == "or" else product

    @property
    def plain(self) -> tuple[Probability, bool]:
        """Return the condition without the `not` before it, and whether there was one."""
        if self.kind != "not":
            return self, False
        plain, negated = self.parts[0].plain
        return plain, not negated

    def hints(self) -> Iterable[Hint]:
        """Yield the hints of its branches."""
        if self.kind == "branch":
            yield self.hint
        for part in self.parts:
            yield from part.hints()

    @property
    def guessed(self) -> bool:
        """Tell whether one of its branches is neither a range nor hinted at."""
        if self.kind == "branch":
            return self.hint is None and not self.within
        return any(part.guessed for part in self.parts)

    @property
    def exact(self) -> bool:
        """Tell whether each of its branches is a range."""
        return bool(self.within) if self.kind == "branch" else all(part.exact for part in self.parts)

    def ranges(self) -> Iterable[Within]:
        """Yield the ranges among its branches."""
        yield from self.within
        for part in self.parts:
            yield from part.ranges()


def negated(holds: Probability) -> Probability:
    """Return the probability that a condition does not hold."""
    return Probability("not", (holds,))


@attrs.frozen(eq=False)
class Branch:
    """One side of an `if`; or, right behind a loop, what else ends its range."""

    probability: Probability
    line: int
    of_loop: bool = False

    @property
    def symbols(self) -> set[str]:
        """Return what its ranges are over, loop variables among them."""
        indices = [within.index for within in self.probability.ranges()]
        return {symbol for index in indices if index is not None for symbol in index.symbols}


Path = tuple[Loop | Branch, ...]
"""What a block is nested in, from the outside in."""


def loops_of(path: Path) -> tuple[Loop, ...]:
    """Return the loops around a block, from the outside in."""
    return tuple([part for part in path if isinstance(part, Loop)])


def guessed_branch(line: int) -> str:
    """Say what is assumed of a branch of which nothing is known."""
    return f"line {line}: the branch is taken with probability {BRANCH}"


def guessed_loop(loop: Loop) -> str:
    """Say what is assumed of a loop over data."""
    return f"line {loop.line}: the loop over {loop.name} runs {UNKNOWN_LOOP:g} times"


def static_trips(loop: Loop) -> float:
    """Return the iterations that a compiler assumes for a loop."""
    known = loop.literal_trips
    return UNKNOWN_LOOP if known is None else float(known)


def static_probability(hint: Hint) -> float:
    """Return the probability that a compiler assumes for a branch."""
    return float(hint) if isinstance(hint, int | float) else BRANCH


def static_frequency(path: Path, distributed: Iterable[Loop], shared: Callable[[Loop], bool] | None = None) -> float:
    """Return how often a block runs for each iteration of the distributed loops, by a compiler's rules.

    What stands outside of these loops runs once in a launch. `shared` names loops that do not count.
    """
    frequency = 1.0
    for part in path:
        if isinstance(part, Branch):
            frequency *= part.probability.value(static_probability)
        elif not part.distributed and not (shared is not None and shared(part)):
            frequency *= static_trips(part)
    for loop in distributed:
        if loop not in path or (shared is not None and shared(loop)):
            frequency /= max(1.0, static_trips(loop))
    return frequency
