"""A graph of the paths through a function, built in the order of its source."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from offloadrt.compilers.stdpar.elision import Operation


@attrs.define(eq=False)
class Node:
    """A place in the flow; one where paths meet has no operation."""

    operation: Operation | None = None
    next: list[Node] = attrs.field(factory=list, repr=False)
    plain: bool = False
    """Is it plain Python, which a run does not see?"""

    def reachable(self) -> Iterator[Node]:
        """This one and all behind it, each once."""
        seen: set[int] = set()
        waiting = [self]
        while waiting:
            node = waiting.pop()
            if id(node) not in seen:
                seen.add(id(node))
                yield node
                waiting.extend(node.next)


@attrs.define(eq=False)
class FlowGraph:
    """What has been built so far. ends: the nodes after which the next place comes; none where nothing can come."""

    entry: Node = attrs.field(factory=Node)
    ends: list[Node] = attrs.field(init=False)
    places: list[Node] = attrs.field(factory=list)
    """Those with an operation, in the order of the source."""
    unresolved: list[Operation] = attrs.field(factory=list)
    """Algorithms that are taken from the thread, but called by another name, if at all."""
    loops: list[tuple[Node, Node]] = attrs.field(factory=list)
    """Of the loops that are being built, where the next iteration begins and where ``break`` leads."""

    def __attrs_post_init__(self) -> None:
        self.ends = [self.entry]

    def reach(self, node: Node) -> None:
        """Go on at `node`."""
        if node.operation is not None:
            self.places.append(node)
        self.jump(node)
        self.ends = [node]

    def jump(self, node: Node) -> None:
        """Go to `node`; nothing comes behind."""
        for end in self.ends:
            end.next.append(node)
        self.ends = []

    def alternatives(self, *branches: Callable[[], None]) -> None:
        """Paths that part here and meet behind."""
        before, ends = self.ends, list[Node]()
        for branch in branches:
            self.ends = list(before)
            branch()
            ends += self.ends
        self.ends = ends

    def loop(
        self, head: Callable[[], None], body: Callable[[], None], otherwise: Callable[[], None], endless: bool
    ) -> None:
        """`head` before each iteration and when there is none left, then `otherwise`; endless: only ``break`` leads
        out.
        """
        start, after = Node(), Node()
        self.reach(start)
        head()
        left = [] if endless else list(self.ends)
        self.loops.append((start, after))
        body()
        self.loops.pop()
        self.jump(start)
        self.ends = left
        otherwise()
        self.reach(after)
