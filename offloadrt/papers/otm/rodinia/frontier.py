"""Random graphs as Rodinia's generator makes them, and what each level of a breadth-first search does on one.

A node chooses 2, 3 or 4 others at random, and each such pair is an edge in both directions, so that a node has 6 edges
on average; there may be loops and double edges. A search of a large graph without values does in each level what the
search of a smaller one of this kind does, by nodes and edges in proportion.
"""

from __future__ import annotations

import functools
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]

CHOICES: Final = (2, 3, 4)
DEGREE: Final = 2 * sum(CHOICES) // len(CHOICES)
"""The mean number of edges of a node; it is exact when the number of nodes is a multiple of three."""
SAMPLE: Final = 3 << 17
"""The number of nodes of the graph whose levels stand for those of larger graphs."""


@attrs.frozen(eq=False)
class Graph:
    """`nodes[k]` is (first, count): the edges of node k are `edges[first : first + count]`, the nodes they lead to."""

    nodes: Ints
    edges: Ints

    @classmethod
    def random(cls, count: int, seed: int) -> Graph:
        """Draw a graph of `count` nodes."""
        rng = np.random.default_rng(seed)
        chosen = np.asarray(CHOICES, np.int32)[rng.permutation(count) % len(CHOICES)]
        source = np.repeat(np.arange(count, dtype=np.int32), chosen)
        target = rng.integers(0, count, source.size, dtype=np.int32)
        begin, end = np.concatenate([source, target]), np.concatenate([target, source])
        degrees = np.bincount(begin, minlength=count).astype(np.int32)
        first = (np.cumsum(degrees) - degrees).astype(np.int32)
        # The edges of a node stay in their order. numpy sorts numbers faster than it finds their order.
        order = np.sort((begin.astype(np.int64) << 32) + np.arange(begin.size)) & 0xFFFFFFFF
        return cls(np.stack([first, degrees], axis=1), end[order])


@attrs.frozen
class SearchLevel:
    """One level of a search, as parts of the whole."""

    active: float
    """The part of the nodes that are in the frontier."""
    degree: float
    """The mean number of edges of a node in the frontier."""
    fresh: float
    """The part of these edges that lead to nodes which were not visited before this level."""
    reached: float
    """The part of the nodes that are in the next frontier."""


@attrs.frozen
class Frontier:
    """All levels of a search from node 0; in the last one nothing new is reached."""

    levels: tuple[SearchLevel, ...]

    @classmethod
    def of(cls, graph: Graph) -> Frontier:
        """Search a graph level by level."""
        count = len(graph.nodes)
        visited = np.zeros(count, np.bool_)
        visited[0] = True
        frontier = np.zeros(1, np.int64)
        levels = []
        while frontier.size:
            first, degrees = graph.nodes[frontier].T.astype(np.int64)
            total = int(degrees.sum())
            offsets = np.arange(total) - np.repeat(np.cumsum(degrees) - degrees, degrees)
            ends = graph.edges[np.repeat(first, degrees) + offsets]
            fresh = ends[~visited[ends]]
            before = visited.copy()
            visited[fresh] = True
            reached = np.flatnonzero(visited & ~before)
            levels.append(
                SearchLevel(
                    frontier.size / count, total / frontier.size, fresh.size / max(total, 1), reached.size / count
                )
            )
            frontier = reached
        return cls(tuple(levels))


@functools.lru_cache(maxsize=4)
def sampled(seed: int) -> Frontier:
    """Return the levels that stand for those of any larger graph; the first call takes about half a second."""
    # A larger graph has about one level more for each factor of four in nodes (seed 0: 11 levels at this size, 12 and
    # 13 at 4 and 16 times as many nodes). Its search here lacks these levels, in which hardly any node is active: each
    # would only sweep over the two masks, 2 of the 39 bytes of a node.
    return Frontier.of(Graph.random(SAMPLE, seed))
