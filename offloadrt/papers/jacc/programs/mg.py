"""MG: a Poisson equation by V-cycles over nine grids, the finest of 512 points a side.

Each grid has arrays of its own, with one more point on both sides. Every operator works in scratch arrays of the size
of its grid and ends with an exchange of opposite walls, by one kernel for each direction. The kernels' parameters are
named as in NPB's MG: u is the solution or, on a coarser grid, its correction, r the residual, v the right-hand side,
all [k, j, i]; t1 and t2 are sums of neighbours. n is the number of points a side with the two outer ones, m that of the
coarser of two grids. The operator A has the weights a0, a2, a3 for neighbours at the distances 0, √2 and √3, the
smoother C the weights c0, c1, c2 for 0, 1 and √2.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any, Final

import numpy as np

from offloadrt.kernels import Kernel
from offloadrt.papers.jacc.programs.benchmark import (
    Arrays,
    Benchmark,
    BenchmarkProgram,
    KernelCall,
    OnHost,
    ProgramStep,
    call,
)
from offloadrt.papers.jacc.programs.fields import Doubles, named


def walls_i(u: Doubles, n: int) -> None:
    """Copy the outermost inner points of the last dimension to the opposite halos, as boundaries are periodic."""
    for k, j in product(range(1, n - 1), range(1, n - 1)):
        u[k, j, 0] = u[k, j, n - 2]
        u[k, j, n - 1] = u[k, j, 1]


def walls_j(u: Doubles, n: int) -> None:
    """Copy the outermost inner points of the second dimension to the opposite halos, as boundaries are periodic."""
    for k, i in product(range(1, n - 1), range(n)):
        u[k, 0, i] = u[k, n - 2, i]
        u[k, n - 1, i] = u[k, 1, i]


def walls_k(u: Doubles, n: int) -> None:
    """Copy the outermost inner points of the first dimension to the opposite halos, as boundaries are periodic."""
    for j, i in product(range(n), range(n)):
        u[0, j, i] = u[n - 2, j, i]
        u[n - 1, j, i] = u[1, j, i]


def clear(u: Doubles, n: int) -> None:
    """Set the correction u at all points of a coarser grid to zero. n: points along a side, halo included."""
    for k, j, i in product(range(n), range(n), range(n)):
        u[k, j, i] = 0.0


def neighbours(t1: Doubles, t2: Doubles, u: Doubles, n: int) -> None:
    """Add up neighbours of each point of u in the plane across the last dimension: 4 nearest (t1), 4 diagonal (t2)."""
    for k, j, i in product(range(1, n - 1), range(1, n - 1), range(n)):
        t1[k, j, i] = u[k, j - 1, i] + u[k, j + 1, i] + u[k - 1, j, i] + u[k + 1, j, i]
        t2[k, j, i] = u[k - 1, j - 1, i] + u[k - 1, j + 1, i] + u[k + 1, j - 1, i] + u[k + 1, j + 1, i]


def smooth(u: Doubles, r: Doubles, t1: Doubles, t2: Doubles, n: int, c0: float, c1: float, c2: float) -> None:
    """Smooth the correction u by the residual: u = u + C r, where the operator C adds up weighted neighbours.

    c0, c1, c2: the weights of the point itself and of neighbours at the distances 1 and √2. t1, t2: sums of r's
    neighbours, from `neighbours`. n: points along a side, halo included.
    """
    for k, j, i in product(range(1, n - 1), range(1, n - 1), range(1, n - 1)):
        u[k, j, i] = (
            u[k, j, i]
            + c0 * r[k, j, i]
            + c1 * (r[k, j, i - 1] + r[k, j, i + 1] + t1[k, j, i])
            + c2 * (t2[k, j, i] + t1[k, j, i - 1] + t1[k, j, i + 1])
        )


def subtract(
    r: Doubles, u: Doubles, v: Doubles, t1: Doubles, t2: Doubles, n: int, a0: float, a2: float, a3: float
) -> None:
    """Compute the residual r = v - A u, where the operator A adds up weighted neighbours. v: the right-hand side.

    a0, a2, a3: the weights of the point itself and of neighbours at the distances √2 and √3. t1, t2: sums of u's
    neighbours, from `neighbours`. n: points along a side, halo included.
    """
    for k, j, i in product(range(1, n - 1), range(1, n - 1), range(1, n - 1)):
        r[k, j, i] = (
            v[k, j, i]
            - a0 * u[k, j, i]
            - a2 * (t2[k, j, i] + t1[k, j, i - 1] + t1[k, j, i + 1])
            - a3 * (t2[k, j, i - 1] + t2[k, j, i + 1])
        )


def residual_in_place(
    r: Doubles, u: Doubles, t1: Doubles, t2: Doubles, n: int, a0: float, a2: float, a3: float
) -> None:
    """Compute the residual on a coarser grid in place: r = r - A u, where the operator A adds up weighted neighbours.

    a0, a2, a3: the weights of the point itself and of neighbours at the distances √2 and √3. t1, t2: sums of u's
    neighbours, from `neighbours`. n: points along a side, halo included.
    """
    for k, j, i in product(range(1, n - 1), range(1, n - 1), range(1, n - 1)):
        r[k, j, i] = (
            r[k, j, i]
            - a0 * u[k, j, i]
            - a2 * (t2[k, j, i] + t1[k, j, i - 1] + t1[k, j, i + 1])
            - a3 * (t2[k, j, i - 1] + t2[k, j, i + 1])
        )


def fine_neighbours(x1: Doubles, y1: Doubles, r: Doubles, m: int) -> None:
    """Add up, for each point of the coarse grid, neighbours of the fine grid's r: 4 nearest (x1), 4 diagonal (y1).

    The neighbours lie in the plane across the last dimension. m: points along a side of the coarse grid, halo included.
    """
    for k, j, i in product(range(1, m - 1), range(1, m - 1), range(1, m)):
        x1[k, j, 2 * i - 1] = (
            r[2 * k, 2 * j - 1, 2 * i - 1]
            + r[2 * k, 2 * j + 1, 2 * i - 1]
            + r[2 * k - 1, 2 * j, 2 * i - 1]
            + r[2 * k + 1, 2 * j, 2 * i - 1]
        )
        y1[k, j, 2 * i - 1] = (
            r[2 * k - 1, 2 * j - 1, 2 * i - 1]
            + r[2 * k + 1, 2 * j - 1, 2 * i - 1]
            + r[2 * k - 1, 2 * j + 1, 2 * i - 1]
            + r[2 * k + 1, 2 * j + 1, 2 * i - 1]
        )


def project(s: Doubles, r: Doubles, x1: Doubles, y1: Doubles, m: int) -> None:
    """Project the residual r of the fine grid to s on the coarse grid, by weighted means of neighbours.

    x1, y1: the sums of `fine_neighbours`. m: points along a side of the coarse grid, halo included.
    """
    for k, j, i in product(range(1, m - 1), range(1, m - 1), range(1, m - 1)):
        around = (
            r[2 * k, 2 * j - 1, 2 * i]
            + r[2 * k, 2 * j + 1, 2 * i]
            + r[2 * k - 1, 2 * j, 2 * i]
            + r[2 * k + 1, 2 * j, 2 * i]
        )
        s[k, j, i] = (
            0.5 * r[2 * k, 2 * j, 2 * i]
            + 0.25 * (r[2 * k, 2 * j, 2 * i - 1] + r[2 * k, 2 * j, 2 * i + 1] + around)
            + 0.125 * (x1[k, j, 2 * i - 1] + x1[k, j, 2 * i + 1])
            + 0.0625 * (y1[k, j, 2 * i - 1] + y1[k, j, 2 * i + 1])
        )


def coarse_sums(z1: Doubles, z2: Doubles, z3: Doubles, z: Doubles, m: int) -> None:
    """Add up neighbours of the coarse correction z, to be interpolated: pairs along j (z1) and k (z2), fours (z3).

    m: points along a side of the coarse grid, halo included.
    """
    for k, j, i in product(range(m - 1), range(m - 1), range(m)):
        z1[k, j, i] = z[k, j + 1, i] + z[k, j, i]
        z2[k, j, i] = z[k + 1, j, i] + z[k, j, i]
        z3[k, j, i] = z[k + 1, j + 1, i] + z[k + 1, j, i] + z[k, j + 1, i] + z[k, j, i]


def add_at(u: Doubles, z: Doubles, m: int, dk: int, dj: int, c: float) -> None:
    """Add `c` times z to the points of the fine grid's u that lie (dk, dj) beside coarse ones.

    z: the coarse correction, or its `coarse_sums`. Between coarse points along the last dimension, the mean is added.
    """
    for k, j, i in product(range(m - 1), range(m - 1), range(m - 1)):
        u[2 * k + dk, 2 * j + dj, 2 * i] = u[2 * k + dk, 2 * j + dj, 2 * i] + c * z[k, j, i]
        u[2 * k + dk, 2 * j + dj, 2 * i + 1] = u[2 * k + dk, 2 * j + dj, 2 * i + 1] + 0.5 * c * (
            z[k, j, i + 1] + z[k, j, i]
        )


def norm(total: Doubles, r: Doubles, n: int) -> None:
    """Compute total[0], the root of the sum of squares of r, and total[1], its largest absolute value."""
    s = 0.0
    largest = 0.0
    for k, j, i in product(range(1, n - 1), range(1, n - 1), range(1, n - 1)):
        s += r[k, j, i] * r[k, j, i]
        largest = max(largest, abs(r[k, j, i]))
    total[0] = math.sqrt(s)
    total[1] = largest


KERNELS: Final[dict[str, Kernel]] = {
    name: named(name, function, collapse)
    for name, function, collapse in (
        ("zero3", clear, 3),
        ("comm3_i", walls_i, 2),
        ("comm3_j", walls_j, 2),
        ("comm3_k", walls_k, 2),
        ("psinv_sums", neighbours, 3),
        ("psinv", smooth, 3),
        ("resid_sums", neighbours, 3),
        ("resid", subtract, 3),
        ("rprj3_sums", fine_neighbours, 3),
        ("rprj3", project, 3),
        ("interp_sums", coarse_sums, 3),
        ("interp_00", add_at, 3),
        ("interp_01", add_at, 3),
        ("interp_10", add_at, 3),
        ("interp_11", add_at, 3),
        ("norm2u3", norm, 3),
    )
}
IN_PLACE: Final = named("resid", residual_in_place)


def build(arrays: Arrays, size: tuple[int, ...]) -> BenchmarkProgram:
    """Build the program with arrays that `arrays` makes. size: (grids, iterations); the finest has 2**grids points."""
    grids, iterations = size
    sides = [(1 << level) + 2 for level in range(grids + 1)]
    levels = range(1, grids + 1)

    def of_levels(name: str, last: int) -> dict[int, Any]:
        return {level: arrays(f"{name}{level}", (sides[level],) * 3) for level in levels if level <= last}

    u, r, t1, t2 = (of_levels(name, grids) for name in ("u", "r", "t1_", "t2_"))
    t3 = of_levels("t3_", grids - 1)
    v = arrays("v", (sides[grids],) * 3, np.float64, lambda: _charges(sides[grids]))
    total = arrays("total", 2)

    def walls(array: Any, level: int) -> tuple[KernelCall, ...]:
        return tuple(call(KERNELS[f"comm3_{axis}"], array, sides[level]) for axis in "ijk")

    def psinv(level: int) -> tuple[KernelCall, ...]:
        n = sides[level]
        return (
            call(KERNELS["psinv_sums"], t1[level], t2[level], r[level], n),
            call(KERNELS["psinv"], u[level], r[level], t1[level], t2[level], n, -3 / 17, 1 / 33, -1 / 61),
            *walls(u[level], level),
        )

    def resid(level: int) -> tuple[KernelCall, ...]:
        n = sides[level]
        scratch = (t1[level], t2[level], n, -8 / 3, 1 / 6, 1 / 12)
        return (
            call(KERNELS["resid_sums"], t1[level], t2[level], u[level], n),
            call(KERNELS["resid"], r[level], u[level], v, *scratch)
            if level == grids
            else call(IN_PLACE, r[level], u[level], *scratch),
            *walls(r[level], level),
        )

    def rprj3(level: int) -> tuple[KernelCall, ...]:
        """Project to the next coarser grid."""
        m = sides[level - 1]
        return (
            call(KERNELS["rprj3_sums"], t1[level], t2[level], r[level], m),
            call(KERNELS["rprj3"], r[level - 1], r[level], t1[level], t2[level], m),
            *walls(r[level - 1], level - 1),
        )

    def interp(level: int) -> tuple[KernelCall, ...]:
        """Interpolate from the next coarser grid."""
        below, m = level - 1, sides[level - 1]
        return (
            call(KERNELS["interp_sums"], t1[below], t2[below], t3[below], u[below], m),
            call(KERNELS["interp_00"], u[level], u[below], m, 0, 0, 1.0),
            call(KERNELS["interp_01"], u[level], t1[below], m, 0, 1, 0.5),
            call(KERNELS["interp_10"], u[level], t2[below], m, 1, 0, 0.5),
            call(KERNELS["interp_11"], u[level], t3[below], m, 1, 1, 0.25),
        )

    def zero3(level: int) -> KernelCall:
        return call(KERNELS["zero3"], u[level], sides[level])

    def norm2u3() -> tuple[ProgramStep, ...]:
        return call(KERNELS["norm2u3"], total, r[grids], sides[grids]), OnHost((total,))

    return BenchmarkProgram(
        setup=(zero3(grids), *resid(grids), *norm2u3()),
        iteration=(
            *(kernel_call for level in range(grids, 1, -1) for kernel_call in rprj3(level)),
            zero3(1),
            *psinv(1),
            *(
                kernel_call
                for level in range(2, grids)
                for kernel_call in (zero3(level), *interp(level), *resid(level), *psinv(level))
            ),
            *interp(grids),
            *resid(grids),
            *psinv(grids),
            *resid(grids),
        ),
        finish=norm2u3(),
        iterations=iterations,
        copyin=(v,),
        create=(*u.values(), *r.values(), *t1.values(), *t2.values(), *t3.values(), total),
        results=(u[grids], total),
    )


def _charges(side: int) -> Any:
    """Place charges +1 and -1 at ten points each, with equal values in opposite walls."""
    inside = side - 2
    values = np.zeros((inside,) * 3)
    places = np.random.default_rng(314159265).choice(inside**3, 20, replace=False)
    values.ravel()[places[:10]], values.ravel()[places[10:]] = 1.0, -1.0
    return np.pad(values, 1, mode="wrap")


BENCHMARK = Benchmark(
    name="MG",
    dup_s=83.586,
    sizes={"C": (9, 1000), "test": (3, 2)},
    build=build,
)
