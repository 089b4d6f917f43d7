"""With which probability control takes each side of a branch, and how often a loop goes round.

As LLVM's BranchProbabilityInfo has it, a side of a branch has a weight, and is taken with its share of the weights:
4 for a side that surely leaves the innermost loop (``if c: break``), 124 for one that stays in it, 0 for one that
surely raises, and equal weights outside of loops. So a loop goes round again with 31/32 (its own test), and less where
other branches leave it: ``while True`` with one ``if c: break`` runs 32 times, as ``while c`` does, and a loop with
both 1 / (1 - (31/32)²). Numbers given with `expect`, also for the test of a ``while``, and constants decide.

Approximations: the tests of two branches are independent; the test of a ``while`` counts as one, and holds the first
time, unless it is a constant or a number is given for it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

import attrs

from offloadrt.kernels.accesses import BRANCH, UNKNOWN_LOOP
from offloadrt.kernels.source import literal, range_of

NEVER: Final = 0
LEAVES: Final = 4
STAYS: Final = 124
"""Weights of the sides of a branch."""


@attrs.frozen
class Rounds:
    """How often a loop runs that control has come to once."""

    body: float
    tests: float
    """How often the test of a ``while`` is evaluated."""
    exhausted: float
    """The probability that the loop ends by itself, and not by a jump."""

    @classmethod
    def written(cls, count: int, again: float) -> Rounds:
        """Run at most `count` rounds, each of which leads to the next one with the probability `again`."""
        starts = float(count) if again == 1.0 else (1.0 - again**count) / (1.0 - again)
        return cls(starts, starts, again**count)

    @classmethod
    def unknown(cls, again: float, holds: float | None = None) -> Rounds:
        """Run a loop over data; or a ``while`` whose test holds with this probability, where that is known."""
        if holds is None:
            starts = 1.0 / (1.0 - (1.0 - 1.0 / UNKNOWN_LOOP) * again)
            return cls(starts, starts, starts * again / UNKNOWN_LOOP)
        starts = holds / (1.0 - holds * again) if holds * again < 1.0 else UNKNOWN_LOOP
        tests = 1.0 + starts * again
        return cls(starts, tests, tests * (1.0 - holds))


def case_blocks(node: ast.Match) -> list[list[ast.stmt]]:
    """List what each case does, and nothing where none may fit."""
    blocks = [case.body for case in node.cases]
    last = node.cases[-1]
    always = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None
    return blocks if always else [*blocks, []]


def shares(weights: Sequence[int]) -> list[float]:
    """Divide one among the sides of a branch by their weights."""
    total = sum(weights)
    return [weight / total if total else 1.0 / len(weights) for weight in weights]


def known(test: ast.expr | None) -> float | None:
    """Tell the probability of a condition that is a constant, or for which `expect` gives a number."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            holds = known(operand)
            return None if holds is None else 1.0 - holds
        case ast.Constant(value=value):
            return float(bool(value))
        case ast.Call(func=ast.Name(id="expect"), keywords=[ast.keyword(arg="probability", value=value)]):
            hint = literal(value)
            return None if hint is None else float(hint)
    return None


def probability(test: ast.expr, then: int = STAYS, other: int = STAYS) -> float:
    """Tell the probability of a condition from the weights of what is done when it holds and when not.

    Each part of ``and`` and ``or`` is a branch of its own.
    """
    holds = known(test)
    if holds is not None:
        return holds
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return 1.0 - probability(operand, other, then)
        case ast.BoolOp(op=op, values=[*values, last]):
            conjunction, onward, product = isinstance(op, ast.And), max(then, other), 1.0
            for value in values:
                taken = probability(value, onward, other) if conjunction else probability(value, then, onward)
                product *= taken if conjunction else 1.0 - taken
            taken = probability(last, then, other)
            return product * taken if conjunction else 1.0 - product * (1.0 - taken)
    return BRANCH if then == other else shares((then, other))[0]


def iterations(node: ast.expr) -> int | None:
    """Count the iterations of a loop over this, where the source says them."""
    call = range_of(node)
    if call is not None:
        bounds = [bound for bound in map(literal, call.args) if isinstance(bound, int)]
        return len(range(*bounds)) if len(bounds) == len(call.args) else None
    if isinstance(node, ast.Tuple | ast.List) and not any(isinstance(part, ast.Starred) for part in node.elts):
        return len(node.elts)
    return None
