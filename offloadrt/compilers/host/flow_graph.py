"""A host function as a graph of the paths through it: operations, branches, loops and inlined calls.

`Node` and its successors are the graph. The same nodes stand, in the order of the source, in nested pieces: a
`HostLoop` holds those of its rounds, an `InlinedCall` those of the function called. `flow_builder.py` builds both.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Generic, TypeAlias, TypeVar

import attrs

Op = TypeVar("Op")
"""What a pass makes of a call or an access."""


@attrs.frozen(eq=False)
class HostBranch:
    """How control chooses among the successors of a node."""

    test: ast.expr | None = None
    """Leads to the first of two successors where it holds. None: of a ``match``, or of handlers of exceptions."""
    is_weighted: bool = True
    """Whether the weights of the sides count; all handlers of exceptions are equally likely."""


@attrs.define(eq=False)
class Node(Generic[Op]):
    """A place in the flow of control. Where paths only part or meet it has no operation."""

    operation: Op | None = None
    branch: HostBranch | None = None
    raises: bool = False
    """Whether it is a ``raise``, which leads to the handlers of its exception, if to anything."""
    origin: tuple[int, ...] = ()
    """A key that all copies of one place share: a ``finally`` is copied for each way out of its ``try``."""
    next: list[Node[Op]] = attrs.field(factory=list, repr=False)


@attrs.define(eq=False)
class HostLoop(Generic[Op]):
    """A loop. `head` is done before each round, and once more when there is none left; then `body` or what follows."""

    test: ast.expr | None
    """The test of a ``while``; None for other loops."""
    count: int | None
    """Rounds, where the source says them."""
    start: Node[Op] = attrs.field(factory=Node)
    """Where a round begins."""
    turn: Node[Op] = attrs.field(factory=Node)
    """Leads to the body and, unless the loop is endless, to what follows it. Nowhere in code that nothing comes to."""
    head: list[Piece[Op]] = attrs.field(factory=list)
    body: list[Piece[Op]] = attrs.field(factory=list)


@attrs.define(eq=False)
class InlinedCall(Generic[Op]):
    """A function that stands in the place of its call."""

    start: Node[Op] = attrs.field(factory=Node)
    after: Node[Op] = attrs.field(factory=Node)
    """Where it returns to."""
    body: list[Piece[Op]] = attrs.field(factory=list)


Piece: TypeAlias = Node[Op] | HostLoop[Op] | InlinedCall[Op]


def nodes_of(pieces: Iterable[Piece[Op]]) -> Iterator[Node[Op]]:
    """Go through all nodes in the order of the source."""
    for piece in pieces:
        if isinstance(piece, Node):
            yield piece
        else:
            yield from nodes_of([*piece.head, *piece.body] if isinstance(piece, HostLoop) else piece.body)
