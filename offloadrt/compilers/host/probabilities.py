"""How control goes through a host function: which side of a branch it takes, how often it comes round a loop.

As LLVM's BranchProbabilityInfo has it, a side of a branch has a weight, and is taken with its share of the weights:
4 for a side that surely leaves the innermost loop (``if c: break``), 124 for one that stays in it, 0 for one that
surely raises, and equal weights outside of loops. So a loop goes round again with 31/32 (its own test), and less where
other branches leave it: ``while True`` with one ``if c: break`` runs 32 times, as ``while c`` does, and a loop with
both 1 / (1 - (31/32)²). Loops over as many elements as the source says are unrolled before: a branch that leaves one of
them is as any other. Numbers given with `expect`, also for the test of a ``while``, and constants decide.

Not followed: that a name in two tests is the same, that a call does not return, that an exception comes out of one.
The test of a ``while`` counts as one, and holds the first time, unless it is a constant or a number is given for it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

import attrs

from offloadrt.kernels.accesses.frequency import BRANCH, UNKNOWN_LOOP
from offloadrt.kernels.source.function_source import range_of
from offloadrt.kernels.source.subset import literal

NEVER: Final = 0
LEAVES: Final = 4
STAYS: Final = 124
"""Weights of the sides of a branch."""

Loop = ast.For | ast.AsyncFor | ast.While


@attrs.frozen
class Ends:
    """With which probability control leaves a piece of a function that it has come to, by each way out."""

    falls: float = 0.0
    """It goes on behind."""
    breaks: float = 0.0
    continues: float = 0.0
    returns: float = 0.0
    raises: float = 0.0

    @property
    def total(self) -> float:
        """1, but for what runs for ever."""
        return self.falls + self.breaks + self.continues + self.returns + self.raises

    def scaled(self, by: float) -> Ends:
        """For a piece that control comes to with this probability."""
        ways = (self.falls, self.breaks, self.continues, self.returns, self.raises)
        return Ends(*(way * by for way in ways))

    def __add__(self, other: Ends) -> Ends:
        """Of two pieces of which control comes to one."""
        return Ends(
            self.falls + other.falls,
            self.breaks + other.breaks,
            self.continues + other.continues,
            self.returns + other.returns,
            self.raises + other.raises,
        )

    def then(self, after: Ends) -> Ends:
        """Of this piece and the one behind it."""
        return attrs.evolve(self, falls=0.0) + after.scaled(self.falls)


THROUGH: Final = Ends(falls=1.0)


@attrs.frozen
class Rounds:
    """How often a loop runs that control has come to."""

    body: float
    tests: float
    """Of a ``while``."""
    exhausted: float
    """With which probability it ends by itself, and not by a jump."""

    @classmethod
    def written(cls, count: int, body: Ends) -> Rounds:
        """At most so often."""
        again = body.falls + body.continues
        starts = float(count) if again == 1.0 else (1.0 - again**count) / (1.0 - again)
        return cls(starts, starts, again**count)

    @classmethod
    def unknown(cls, body: Ends, holds: float | None = None) -> Rounds:
        """A loop over data; or a ``while`` whose test holds with this probability, where that is known."""
        again = body.falls + body.continues
        if holds is None:
            starts = 1.0 / (1.0 - (1.0 - 1.0 / UNKNOWN_LOOP) * again)
            return cls(starts, starts, starts * again / UNKNOWN_LOOP)
        starts = holds / (1.0 - holds * again) if holds * again < 1.0 else UNKNOWN_LOOP
        tests = 1.0 + starts * again
        return cls(starts, tests, tests * (1.0 - holds))


@attrs.frozen
class Ways:
    """Weights of the jumps out of a block."""

    returned: int = STAYS
    broken: int = NEVER
    continued: int = NEVER

    def of_loop(self, node: Loop, count: int | None, after: int) -> tuple[Ways, int]:
        """Those of a loop's body, and the weight of coming to its end; `after` is that of what follows the loop."""
        if count is None:
            return Ways(LEAVES, LEAVES, STAYS), STAYS
        last = weight(node.orelse, after, self)
        inner = attrs.evolve(self, broken=after)
        again = max(last, weight(node.body, NEVER, inner))
        return attrs.evolve(inner, continued=again), again


def weight(statements: Sequence[ast.stmt], after: int, ways: Ways) -> int:
    """The largest weight among the ways that control can take from here; `after` is that of coming to the end."""
    for node in reversed(statements):
        match node:
            case ast.Return():
                after = ways.returned
            case ast.Raise():
                after = NEVER
            case ast.Break():
                after = ways.broken
            case ast.Continue():
                after = ways.continued
            case ast.If(body=then, orelse=other):
                after = max(weight(then, after, ways), weight(other, after, ways))
            case ast.Match():
                after = max(weight(block, after, ways) for block in case_blocks(node))
            case ast.With(body=body) | ast.AsyncWith(body=body):
                after = weight(body, after, ways)
            case ast.Try() | ast.TryStar():
                after = weight([*node.body, *node.orelse, *node.finalbody], after, ways)
            case ast.For() | ast.AsyncFor() | ast.While():
                endless = isinstance(node, ast.While) and known(node.test) == 1.0
                ended = ways.returned if endless else weight(node.orelse, after, ways)
                inside = attrs.evolve(ways, broken=after, continued=NEVER)
                after = max(ended, weight(node.body, NEVER, inside))
    return after


def case_blocks(node: ast.Match) -> list[list[ast.stmt]]:
    """What each case does, and nothing where none may fit."""
    blocks = [case.body for case in node.cases]
    last = node.cases[-1]
    always = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None
    return blocks if always else [*blocks, []]


def shares(weights: Sequence[int]) -> list[float]:
    """The probability of each side."""
    total = sum(weights)
    return [one / total if total else 1.0 / len(weights) for one in weights]


def known(test: ast.expr) -> float | None:
    """The probability of a condition that is a constant, or of which `expect` tells it as a number."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            found = known(operand)
            return None if found is None else 1.0 - found
        case ast.Constant(value=value):
            return float(bool(value))
        case ast.Call(func=ast.Name(id="expect"), keywords=[ast.keyword(arg="probability", value=value)]):
            hint = literal(value)
            return None if hint is None else float(hint)
    return None


def probability(test: ast.expr, then: int = STAYS, other: int = STAYS) -> float:
    """Of a condition, with the weights of what is done when it holds and when not; each part of ``and`` and ``or`` is
    a branch of its own.
    """
    found = known(test)
    if found is not None:
        return found
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


def count(node: ast.expr) -> int | None:
    """Iterations of a loop over this, where the source says them."""
    call = range_of(node)
    if call is not None:
        whole = [bound for bound in map(literal, call.args) if isinstance(bound, int)]
        return len(range(*whole)) if len(whole) == len(call.args) else None
    if isinstance(node, ast.Tuple | ast.List) and not any(isinstance(one, ast.Starred) for one in node.elts):
        return len(node.elts)
    return None
