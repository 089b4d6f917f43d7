"""Breadth-first search of an R-MAT graph in managed memory, whose frontier goes to and fro between host and device.

What each level does is found by searching a graph with NumPy. Of a graph of more than 2**SAMPLED_SCALE vertices, one of
that scale is searched in its place: R-MAT decides the leading bits of a vertex' number by the same draws at any scale,
so that a vertex of the sample stands for those of the large graph that begin with its bits. The large graph has more
duplicates of edges left and about as many levels.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import expect, kernel
from offloadrt.models import cuda
from offloadrt.models.host.arrays import section
from offloadrt.papers.independent.programs.managed import BLOCK, KernelLoop

Ints = NDArray[np.int64]
Flags = NDArray[np.int32]

QUADRANTS: Final = (0.57, 0.19, 0.19, 0.05)
EDGES_A_VERTEX: Final = 16
SAMPLED_SCALE: Final = 17
PAGE_ROWS: Final = 4096 // 8


@kernel(threads_per_team=BLOCK)
def expand(
    frontier: Ints,
    rows: Ints,
    targets: Ints,
    visited: Flags,
    following: Ints,
    counter: Ints,
    size: int,
    degree: float,
    fresh: float,
) -> None:
    """Visit the neighbours of the frontier, a thread a vertex; those that are new are appended to the next one."""
    for k in range(size):
        vertex = frontier[k]
        for e in expect(range(rows[vertex], rows[vertex + 1]), trips=degree):
            neighbour = targets[e]
            if expect(visited[neighbour] == 0, probability=fresh):
                visited[neighbour] = 1
                following[expect(counter[0], near=1)] = neighbour
                counter[0] = counter[0] + 1


@attrs.frozen(eq=False)
class RmatGraph:
    """A directed graph in compressed rows, without duplicates of edges."""

    rows: Ints
    targets: Ints

    @classmethod
    def random(cls, scale: int, seed: int) -> RmatGraph:
        """Draw a graph of 2**scale vertices (Chakrabarti, Zhan, Faloutsos, R-MAT, SDM 2004)."""
        rng, count = np.random.default_rng(seed), 1 << scale
        a, b, c, _ = QUADRANTS
        edges = np.zeros(count * EDGES_A_VERTEX, np.int64)
        for bit in range(scale):
            drawn = rng.random(edges.size)
            edges |= (drawn >= a + b).astype(np.int64) << (scale + bit)
            edges |= (((drawn >= a) & (drawn < a + b)) | (drawn >= a + b + c)).astype(np.int64) << bit
        edges = np.unique(edges)
        source, target = edges >> scale, edges & (count - 1)
        rows = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(source, minlength=count), out=rows[1:])
        return cls(rows, target)


@attrs.frozen(eq=False)
class RmatLevel:
    """One level of a search of a graph."""

    frontier: Ints
    """The vertices whose neighbours are visited."""
    edges: int
    """Their edges."""
    reached: Ints
    """The vertices that are new, in the order of their numbers."""


def search(graph: RmatGraph, start: int) -> list[RmatLevel]:
    """Search a graph from a vertex, level by level; in the last one nothing new is reached."""
    visited = np.zeros(graph.rows.size - 1, np.bool_)
    visited[start] = True
    frontier, levels = np.array([start], np.int64), list[RmatLevel]()
    while frontier.size:
        first, degrees = graph.rows[frontier], graph.rows[frontier + 1] - graph.rows[frontier]
        total = int(degrees.sum())
        ends = graph.targets[np.repeat(first - np.cumsum(degrees) + degrees, degrees) + np.arange(total)]
        reached = np.unique(ends[~visited[ends]])
        visited[reached] = True
        levels.append(RmatLevel(frontier, total, reached))
        frontier = reached
    return levels


@functools.lru_cache(maxsize=2)
def sampled(scale: int, seed: int) -> tuple[RmatGraph, tuple[RmatLevel, ...]]:
    """Return a graph of this scale and its levels, searched from the vertex with most edges."""
    graph = RmatGraph.random(scale, seed)
    return graph, tuple(search(graph, int(np.argmax(np.diff(graph.rows)))))


async def bfs(t: cuda.HostThread, loop: KernelLoop, scale: int, seed: int) -> dict[str, int]:
    """Search a graph of 2**scale vertices that this thread has written; return how many levels and vertices it took."""
    graph, levels = sampled(min(scale, SAMPLED_SCALE), seed)
    times, count = 1 << max(0, scale - SAMPLED_SCALE), 1 << scale
    edges = graph.targets.size * times
    arrays = {
        "rows": await t.malloc_managed("rows", count + 1, np.int64, written=True),
        "targets": await t.malloc_managed("targets", edges, np.int64, written=True),
        "visited": await t.malloc_managed("visited", count, np.int32, written=True),
    }
    frontiers = [await t.malloc_managed(name, count, np.int64, written=True) for name in ("frontier", "following")]
    counter = await t.malloc_managed("counter", 1, np.int64, written=True)
    reached = 1
    async with loop.timed():
        for depth, level in enumerate(levels):
            size, new = (level.frontier.size * times if depth else 1), level.reached.size * times
            fresh = min(1.0, level.reached.size / max(level.edges, 1))
            degree = level.edges / level.frontier.size
            frontier, following = frontiers
            await t.host_access(counter)
            appended = attrs.evolve(following, shape=(max(new, 1),))
            await t.launch(
                expand, frontier, *arrays.values(), appended, counter, size, degree, fresh,
                grid=-(-size // BLOCK), block=BLOCK,
            )  # fmt: skip
            await t.device_synchronize()
            await t.host_access(counter)
            if new:
                await t.host_access(section(following, 0, new))
                await _walk(t, arrays["rows"], level.reached, times)
            reached += new
            frontiers.reverse()
    return {"levels": len(levels), "reached": reached}


async def _walk(t: cuda.HostThread, rows: Any, reached: Ints, times: int) -> None:
    """Read the row pointers of the vertices that were reached, each page once."""
    pages = np.unique(reached * times // PAGE_ROWS)
    ends = np.flatnonzero(np.diff(pages, append=pages[-1] + 2) > 1)
    first = 0
    for last in ends.tolist():
        low = int(pages[first]) * PAGE_ROWS
        await t.host_access(section(rows, low, min((int(pages[last]) + 1) * PAGE_ROWS, len(rows)) - low))
        first = last + 1
