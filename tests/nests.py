"""Loop nests that several tests look at, as plain functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import expect

GAMMA = 1.4


def axpy(a: float, x: Any, y: Any) -> None:
    for i in range(len(x)):
        y[i] = a * x[i] + y[i]


def every_other(a: Any, b: Any, n: int) -> None:
    for i in range(0, n, 2):
        b[i] = a[i + 1] - a[i]


def backwards(a: Any, n: int) -> None:
    for i in range(n - 1, 0, -1):
        a[i] = a[i - 1]


def records(a: Any, out: Any, n: int) -> None:
    for i in range(n):
        for k in range(4):
            out[i] += a[4 * i + k]


def jacobi(u: Any, v: Any, n: int, m: int) -> None:
    for i in range(1, n - 1):
        for j in range(1, m - 1):
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


def triangle(a: Any, x: Any, n: int) -> None:
    for i in range(n):
        for j in range(i, n):
            x[i] += a[i * n + j]


def product(a: Any, b: Any, c: Any, n: int) -> None:
    for i in range(n):
        for j in range(n):
            c[i, j] = 0.0
            for k in range(n):
                c[i, j] += a[i, k] * b[k, j]


def dot(a: Any, b: Any, out: Any) -> None:
    s = 0.0
    for i in range(a.size):
        s += a[i] * b[i]
    out[0] = s


def largest(a: Any, out: Any, n: int) -> None:
    for i in range(n):
        out[0] = max(out[0], a[i])


def fluxes(state: NDArray[np.float32], around: Any, out: NDArray[np.float32], n: int) -> None:
    for i in range(n):
        pressure = (GAMMA - 1.0) * state[i]
        total = 0.0
        for k in range(4):
            other = around[i * 4 + k]
            total += state[other] * math.sqrt(abs(pressure)) if other >= 0 else pressure
        out[i] = total


def expand(nodes: Any, edges: Any, mask: Any, updating: Any, visited: Any, cost: Any, n: int) -> None:
    """Rodinia's BFS, first kernel."""
    for tid in range(n):
        if mask[tid]:
            mask[tid] = False
            for e in range(nodes[tid, 0], nodes[tid, 0] + nodes[tid, 1]):
                neighbour = edges[e]
                if not visited[neighbour]:
                    cost[neighbour] = cost[tid] + 1
                    updating[neighbour] = True


def hinted(nodes: Any, edges: Any, mask: Any, visited: Any, found: Any, n: int, frontier: float, degree: float) -> None:
    for tid in range(n):
        if expect(mask[tid], probability=frontier):
            for e in expect(range(nodes[tid, 0], nodes[tid, 0] + nodes[tid, 1]), trips=degree):
                if not expect(visited[edges[e]], probability=0.25):
                    found[edges[e]] = True


def diffuse(image: Any, north: Any, down: Any, c: Any, rows: int, cols: int, q0: float) -> None:
    """The shape of Rodinia's SRAD, first kernel."""
    for i in range(rows):
        for j in range(cols):
            k = i * cols + j
            here = image[k]
            down[k] = image[north[i] * cols + j] - here
            ratio = down[k] * down[k] / (here * here)
            c[k] = min(max(1.0 / (1.0 + ratio * q0), 0.0), 1.0)


def graph(n: int, degree: int, seed: int = 0) -> list[Any]:
    """Arguments of `expand`: a random graph of which every fourth node is in the frontier."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 2 * degree + 1, n)
    nodes = np.stack([np.cumsum(counts) - counts, counts], axis=1)
    edges = rng.integers(0, n, int(counts.sum()))
    mask, visited = rng.random(n) < 0.25, rng.random(n) < 0.5
    return [nodes, edges, mask, np.zeros(n, np.bool_), visited, np.zeros(n, np.int32), n]


def floats(*shape: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=shape)


AFFINE: list[tuple[Any, list[Any]]] = [
    (axpy, [2.0, floats(37), floats(37)]),
    (every_other, [floats(41), floats(41), 40]),
    (backwards, [floats(23), 23]),
    (records, [floats(44), floats(11), 11]),
    (jacobi, [floats(9, 13), floats(9, 13), 9, 13]),
    (triangle, [floats(144), floats(12), 12]),
    (product, [floats(7, 7), floats(7, 7), floats(7, 7), 7]),
    (dot, [floats(19), floats(19), floats(1)]),
    (largest, [floats(29), floats(1), 29]),
]
"""Kernels whose every index and bound is affine, with arguments."""

REAL: list[tuple[Any, list[Any]]] = [
    *AFFINE,
    (
        fluxes,
        [
            floats(50).astype(np.float32),
            np.random.default_rng(1).integers(-1, 50, 200).astype(np.int32),
            np.zeros(50, np.float32),
            50,
        ],
    ),
    (expand, graph(60, 4)),
    (
        diffuse,
        [
            floats(12 * 17).astype(np.float32),
            np.maximum(np.arange(12) - 1, 0).astype(np.int32),
            *(np.zeros(12 * 17, np.float32) for _ in range(2)),
            12,
            17,
            0.3,
        ],
    ),
]
"""All that run on data."""
