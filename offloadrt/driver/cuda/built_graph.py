"""A graph that a program builds node by node, without a stream (cudaGraphCreate, cudaGraphAddKernelNode, …)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from offloadrt.driver.cuda.capture import CapturedGraph, GraphNode, NodeWork


@attrs.define(eq=False)
class BuiltGraph:
    """A graph under construction (cudaGraph_t); a node is known by its place, so that edges lead forward.

    A launch puts nodes into streams.  The driver's way to divide a graph among streams is not documented.  Here a node
    joins the lane whose last node it comes after (of several, the one named first in ``after``), and otherwise opens a
    lane of its own.
    """

    number: int
    device: int
    nodes: list[GraphNode] = attrs.field(factory=list)
    uses: list[tuple[str, Any]] = attrs.field(factory=list)
    """As in `CapturedGraph`."""
    _last: list[int] = attrs.field(factory=list)
    """The place of each lane's last node."""

    def add(self, work: NodeWork, after: Sequence[int]) -> int:
        """Put in a node that comes after others; return its place."""
        place = len(self.nodes)
        free = [lane for lane, last in enumerate(self._last) if last in after]
        if free:
            lane = min(free, key=lambda lane: [*after].index(self._last[lane]))
            self._last[lane] = place
        else:
            lane = len(self._last)
            self._last.append(place)
        self.nodes.append(GraphNode(work, lane, tuple(sorted({*after}))))
        return place

    def finished(self) -> CapturedGraph:
        """Return what can be made executable: the graph as it is now."""
        followed = {place for node in self.nodes for place in node.after}
        tail = tuple(place for place in range(len(self.nodes)) if place not in followed)
        priorities = tuple(0 for _ in self._last) or (0,)
        return CapturedGraph(self.number, self.device, tuple(self.nodes), tail, priorities, tuple(self.uses))
