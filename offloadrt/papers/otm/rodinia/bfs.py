"""BFS: every level is a kernel that expands the frontier and one that makes the next, each over all nodes.

The host clears a flag before a level and looks at it afterwards: it is set when the level has reached a node.
"""

from __future__ import annotations

import functools
from contextlib import nullcontext
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import expect, kernel
from offloadrt.models import openmp as omp
from offloadrt.papers.otm.rodinia.inputs import ALIGNMENT, THREADS, Structure

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


Flags = NDArray[np.bool_]


@kernel(threads_per_team=THREADS)
def expand(
    mask: Flags,
    nodes: Ints,
    edges: Ints,
    visited: Flags,
    cost: Ints,
    updating: Flags,
    n: int,
    active: float,
    degree: float,
    fresh: float,
) -> None:
    """Give the frontier's neighbours that were not visited their cost, and mark them to be visited."""
    for node in range(n):
        if expect(mask[node], probability=active):
            mask[node] = False
            for e in expect(range(nodes[node, 0], nodes[node, 0] + nodes[node, 1]), trips=degree, near=1):
                # The loop of the C source looks at the bounds again before each trip, as `range` does not.
                if expect(e < nodes[node, 0] + nodes[node, 1], probability=1):
                    neighbour = edges[e]
                    if expect(not visited[neighbour], probability=fresh):
                        cost[neighbour] = cost[node] + 1
                        updating[neighbour] = True


@kernel(threads_per_team=THREADS)
def advance(updating: Flags, mask: Flags, visited: Flags, stop: Flags, n: int, reached: float) -> None:
    """Make what was reached the next frontier; `stop` is set when there is any."""
    for node in range(n):
        if expect(updating[node], probability=reached):
            mask[node] = True
            visited[node] = True
            stop[0] = True
            updating[node] = False


@attrs.frozen(eq=False)
class Bfs:
    """A search of `count` nodes; `graph` is given when it has values."""

    count: int
    frontier: Frontier
    graph: Graph | None = None
    structure: Structure = "data"

    BYTES = 8 + 3 + 4 + 4 * DEGREE
    """Bytes of all arrays for each node."""

    @classmethod
    def of(cls, nbytes: int, *, phantom: bool, seed: int = 0, structure: Structure = "data") -> Bfs:
        """Make a search of as many nodes as fit, a multiple of three; a graph with values has its own levels."""
        count = max(3, nbytes // cls.BYTES // 3 * 3)
        if phantom:
            return cls(count, sampled(seed), None, structure)
        graph = Graph.random(count, seed)
        return cls(count, Frontier.of(graph), graph, structure)

    @property
    def steps(self) -> int:
        """Return the number of levels."""
        return len(self.frontier.levels)

    def _fill(self, start: Any, source: Any) -> Any:
        """Fill an array with a constant, except for node 0."""
        if self.graph is None:
            return start
        values = np.full(self.count, start)
        values[0] = source
        return values

    async def run(self, t: omp.HostThread) -> list[omp.HostArray]:
        """Run the whole program on one host thread; return its arrays, after the host has looked at the costs."""
        n, graph, levels = self.count, self.graph, self.frontier.levels
        firsts, ends = (0, 0) if graph is None else (graph.nodes, graph.edges)
        nodes = t.array("nodes", (n, 2), np.int32, fill=firsts, align=ALIGNMENT)
        mask = t.array("mask", n, np.bool_, fill=self._fill(False, True), align=ALIGNMENT)
        updating = t.array("updating", n, np.bool_, fill=False, align=ALIGNMENT)
        visited = t.array("visited", n, np.bool_, fill=self._fill(False, True), align=ALIGNMENT)
        edges = t.array("edges", n * DEGREE, np.int32, fill=ends, align=ALIGNMENT)
        cost = t.array("cost", n, np.int32, fill=self._fill(-1, 0), align=ALIGNMENT)
        stop = t.array("stop", 1, np.bool_, fill=False, align=ALIGNMENT)
        around = t.target_data(omp.map(to=[mask, nodes, edges, visited, updating], tofrom=cost))
        async with around if self.structure == "data" else nullcontext():
            going_on, depth = True, 0
            while going_on:
                level = levels[depth]
                await t.host_access(stop)
                if graph is not None:
                    stop[0] = False
                await t.target(
                    expand, mask, nodes, edges, visited, cost, updating, n, level.active, level.degree, level.fresh
                )
                await t.target(advance, updating, mask, visited, stop, n, level.reached, maps=omp.map(tofrom=stop))
                await t.host_access(stop)
                depth += 1
                going_on = bool(stop[0]) if graph is not None else depth < len(levels)
        await t.host_access(cost)
        return [nodes, mask, updating, visited, edges, cost, stop]
