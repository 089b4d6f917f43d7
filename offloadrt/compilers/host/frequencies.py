"""How often control comes to each node of a host function's graph, for each run of the function.

As LLVM's BlockFrequencyInfo does it: the mass of what comes to a loop or a function is spread over the nodes in it in
the order of the source, and a loop's nodes are then multiplied by the number of its rounds. An inlined call is assumed
to return, whatever is raised in it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

from offloadrt.compilers.host.flow import HostLoop, Node, Piece
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


Weights = defaultdict[Node[Any], int]
"""The largest weight among the paths from a node: those that leave the innermost loop have the default."""


def frequencies(pieces: Sequence[Piece[Any]], entry: Node[Any]) -> dict[Node[Any], float]:
    """Tell how often control comes to each node of a function; nodes that nothing leads to may be missing."""
    sides: dict[Node[Any], list[int]] = {}
    _weigh(pieces, defaultdict(lambda: STAYS), STAYS, sides)
    return _spread(pieces, {entry: 1.0}, 1.0, sides)


def _weigh(pieces: Sequence[Piece[Any]], weights: Weights, returned: int, sides: dict[Node[Any], list[int]]) -> None:
    """Weigh the paths from each of these nodes, and so the sides of each branch; `returned` is the weight of a return.

    Loops with a written number of rounds do not count as such: a branch that leaves one of them is as any other.
    """
    for piece in reversed(pieces):
        if isinstance(piece, Node):
            paths = [weights[node] for node in piece.next]
            if piece.branch is not None:
                sides[piece] = paths
            weights[piece] = NEVER if piece.raises else max(paths, default=NEVER)
        elif not isinstance(piece, HostLoop):
            _weigh(piece.body, defaultdict(lambda: STAYS), STAYS, sides)
            weights[piece.start] = weights[piece.after]
        elif piece.turn.next:
            first, *out = piece.turn.next
            # Seen from outside, going round leads nowhere, and an endless loop ends as a return does.
            through = weights.copy()
            through[piece.start] = NEVER
            _weigh(piece.body, through, returned, sides)
            ended = returned if known(piece.test) == 1.0 else weights[out[0]]
            weights[piece.start] = max(ended, through[first])
            # Seen from inside, it is what the loop does.
            inner: Weights = weights.copy() if piece.count is not None else defaultdict(lambda: LEAVES)
            if piece.count is None:
                inner[piece.start] = STAYS
            _weigh(piece.body, inner, returned if piece.count is not None else LEAVES, sides)


def _spread(
    pieces: Iterable[Piece[Any]], mass: dict[Node[Any], float], times: float, sides: dict[Node[Any], list[int]]
) -> dict[Node[Any], float]:
    """Spread the mass that has come to some nodes; control comes to the place with mass 1 so many times.

    What is left in `mass` has come to nodes elsewhere.
    """
    comes: dict[Node[Any], float] = {}

    def move(node: Node[Any], part: float) -> None:
        mass[node] = mass.get(node, 0.0) + part

    for piece in pieces:
        if isinstance(piece, Node):
            here = mass.pop(piece, 0.0)
            comes[piece] = times * here
            for node, taken in zip(piece.next, _probabilities(piece, sides), strict=True):
                move(node, here * taken)
            continue
        here = mass.pop(piece.start, 0.0)
        if not isinstance(piece, HostLoop):
            comes.update(_spread(piece.body, {piece.start: 1.0}, times * here, sides))
            move(piece.after, here)
        elif piece.turn.next:
            first, *out = piece.turn.next
            leaves = {first: 1.0}
            head = _spread(piece.head, {piece.start: 1.0}, times * here, sides)
            body = _spread(piece.body, leaves, times * here, sides)
            again = leaves.pop(piece.start, 0.0)
            rounds = (
                Rounds.unknown(again, known(piece.test)) if piece.count is None else Rounds.written(piece.count, again)
            )
            comes.update({node: often * rounds.tests for node, often in head.items()})
            comes.update({node: often * rounds.body for node, often in body.items()})
            for node, part in leaves.items():
                move(node, here * (part * rounds.body))
            for node in out:
                move(node, here * rounds.exhausted)
    return comes


def _probabilities(node: Node[Any], sides: dict[Node[Any], list[int]]) -> list[float]:
    """Tell with which probability control goes on to each successor."""
    branch, number = node.branch, len(node.next)
    if branch is None or not number:
        return [1.0] * number
    weights = sides[node] if node in sides and branch.is_weighted else [STAYS] * number
    if branch.test is None:
        return shares(weights)
    holds = probability(branch.test, *weights)
    return [holds, 1.0 - holds]
