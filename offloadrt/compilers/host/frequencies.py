"""How often control comes to each node of a host function's graph, for each run of the function.

As LLVM's BlockFrequencyInfo does it: the mass of what comes to a loop or a function is spread over the nodes in it in
the order of the source, and a loop's nodes are then multiplied by the number of its rounds. An inlined call is assumed
to return, whatever is raised in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from offloadrt.compilers.host.flow_graph import HostLoop, Node, Piece
from offloadrt.compilers.host.probabilities import LEAVES, NEVER, STAYS, Rounds, known, probability, shares

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
