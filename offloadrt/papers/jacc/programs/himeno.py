"""Himeno: the Jacobi iteration of a Poisson solver: a 19-point kernel in three dimensions, and one that copies back.

The first kernel adds up the squares of the residual, gosa. The host reads that of the last iteration at the end.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import kernel
from offloadrt.papers.jacc.programs.benchmark import Arrays, Benchmark, BenchmarkProgram, call

Floats = NDArray[np.float32]
OMEGA = 0.8


@kernel(collapse=3)
def jacobi(
    a: Floats,
    b: Floats,
    c: Floats,
    p: Floats,
    bnd: Floats,
    wrk1: Floats,
    wrk2: Floats,
    gosa: Floats,
    imax: int,
    jmax: int,
    kmax: int,
    omega: float,
) -> None:
    """Relax the pressure p once into wrk2, and compute gosa[0] = |residual|²; names are those of the Himeno benchmark.

    The grid has imax by jmax by kmax points. a, b, c: the coefficients of the 19-point stencil, [number, i, j, k];
    other arrays are [i, j, k]. bnd: 1 where a point is relaxed, 0 elsewhere. wrk1: the source. omega: the relaxation
    factor.
    """
    s = 0.0
    for i, j, k in product(range(1, imax - 1), range(1, jmax - 1), range(1, kmax - 1)):
        s0 = (
            a[0, i, j, k] * p[i + 1, j, k]
            + a[1, i, j, k] * p[i, j + 1, k]
            + a[2, i, j, k] * p[i, j, k + 1]
            + b[0, i, j, k] * (p[i + 1, j + 1, k] - p[i + 1, j - 1, k] - p[i - 1, j + 1, k] + p[i - 1, j - 1, k])
            + b[1, i, j, k] * (p[i, j + 1, k + 1] - p[i, j - 1, k + 1] - p[i, j + 1, k - 1] + p[i, j - 1, k - 1])
            + b[2, i, j, k] * (p[i + 1, j, k + 1] - p[i - 1, j, k + 1] - p[i + 1, j, k - 1] + p[i - 1, j, k - 1])
            + c[0, i, j, k] * p[i - 1, j, k]
            + c[1, i, j, k] * p[i, j - 1, k]
            + c[2, i, j, k] * p[i, j, k - 1]
            + wrk1[i, j, k]
        )
        ss = (s0 * a[3, i, j, k] - p[i, j, k]) * bnd[i, j, k]
        s += ss * ss
        wrk2[i, j, k] = p[i, j, k] + omega * ss
    gosa[0] = s


@kernel(collapse=3)
def copy_back(p: Floats, wrk2: Floats, imax: int, jmax: int, kmax: int) -> None:
    """Copy the relaxed pressure from wrk2 back to p, at the inner points of a grid of imax by jmax by kmax."""
    for i, j, k in product(range(1, imax - 1), range(1, jmax - 1), range(1, kmax - 1)):
        p[i, j, k] = wrk2[i, j, k]


def _pressure(shape: tuple[int, int, int]) -> Any:
    """Return a pressure that rises with the square of the distance from the first plane."""
    ramp = (np.arange(shape[0], dtype=np.float32) / np.float32(shape[0] - 1)) ** 2
    return np.broadcast_to(ramp[:, None, None], shape)


def _diagonal(shape: tuple[int, int, int]) -> Any:
    values = np.ones((4, *shape), np.float32)
    values[3] = 1.0 / 6.0
    return values


def build(arrays: Arrays, size: tuple[int, ...]) -> BenchmarkProgram:
    """Build the program with arrays that `arrays` makes. size: the points imax, jmax and kmax, and the iterations."""
    imax, jmax, kmax, iterations = size
    shape = (imax, jmax, kmax)
    f4 = np.float32
    a = arrays("a", (4, *shape), f4, lambda: _diagonal(shape))
    b = arrays("b", (3, *shape), f4)
    c = arrays("c", (3, *shape), f4, lambda: np.ones((3, *shape), f4))
    p = arrays("p", shape, f4, lambda: _pressure(shape))
    bnd = arrays("bnd", shape, f4, lambda: np.ones(shape, f4))
    wrk1 = arrays("wrk1", shape, f4)
    wrk2 = arrays("wrk2", shape, f4)
    gosa = arrays("gosa", 1, f4)
    steps = (call(jacobi, a, b, c, p, bnd, wrk1, wrk2, gosa, *shape, OMEGA), call(copy_back, p, wrk2, *shape))
    return BenchmarkProgram(
        iteration=steps,
        iterations=iterations,
        copyin=(a, b, c, p, bnd, wrk1),
        create=(wrk2, gosa),
        results=(p, gosa),
    )


BENCHMARK = Benchmark(
    name="Himeno",
    dup_s=33.726,
    sizes={"XL": (1024, 512, 512, 1003), "L": (512, 256, 256, 1003), "M": (256, 128, 128, 1003), "test": (18, 9, 8, 8)},
    build=build,
)
