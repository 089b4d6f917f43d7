"""BT: block-tridiagonal systems along the three directions of a cube, solved point by point.

One source serves the three directions: h runs along the direction of the solver, a and b across it, each from 0 to n -
1. The kernels' parameters are named as in NPB's BT. ``lhs[m, q, c, a, h, b]`` are the matrices: element (m, q) of the 5
by 5 block that couples a point to the one before it (c = 0), to itself (1) and to the one after it (2). ``u[m, a, b,
h]`` are the five fields, ``rhs[m, a, b, h]`` the right-hand sides, which the solution replaces. `rho_i`, `qs` and
`square` [a, b, h] are the density's reciprocal and the kinetic energy per mass and per volume. n is the number of
points a side. In the public code the indices of u and rhs are permuted. The elimination is one kernel over all lines,
the substitution back one for each plane.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Final

import numpy as np

from offloadrt.papers.jacc.programs.benchmark import (
    Arrays,
    Benchmark,
    BenchmarkProgram,
    KernelCall,
    Number,
    OnHost,
    ProgramStep,
    RepeatedSteps,
    call,
)
from offloadrt.papers.jacc.programs.fields import (
    AXES,
    FIELDS,
    Doubles,
    add_fields,
    between,
    copy_fields,
    dissipation,
    dissipation_at_walls,
    flux,
    inside,
    named,
    primitives,
    scale_fields,
)

OFF_DIAGONAL: Final = tuple((m, q) for m in FIELDS for q in FIELDS if m != q)


def jacobian(
    f: Doubles, u: Doubles, rho_i: Doubles, qs: Doubles, square: Doubles, n: int, c1: float, c2: float
) -> None:
    """Compute into `f` the derivatives (Jacobians) of the convective fluxes by the five fields at each point.

    The fields are density, three momenta and energy. f: [m, q, a, h, b], the derivative of flux m by field q; h runs
    along the direction of the solver, a and b across it. u: the fields. rho_i: the density's reciprocal. qs, square:
    the kinetic energy per mass and per volume. n: points along a side. c1, c2: the ratio of specific heats, and that
    minus 1.
    """
    for a, h, b in product(range(1, n - 1), range(n), range(1, n - 1)):
        t = rho_i[a, b, h]
        v1 = u[1, a, b, h] * t
        v2 = u[2, a, b, h] * t
        v3 = u[3, a, b, h] * t
        e = c1 * u[4, a, b, h] * t
        q = qs[a, b, h]
        s = c2 * 2.0 * square[a, b, h] * t
        for m, p in ((0, 0), (0, 2), (0, 3), (0, 4), (2, 3), (2, 4), (3, 2), (3, 4)):
            f[m, p, a, h, b] = 0.0
        f[0, 1, a, h, b] = 1.0
        f[1, 0, a, h, b] = c2 * q - v1 * v1
        f[1, 1, a, h, b] = (2.0 - c2) * v1
        f[1, 2, a, h, b] = -c2 * v2
        f[1, 3, a, h, b] = -c2 * v3
        f[1, 4, a, h, b] = c2
        f[2, 0, a, h, b] = -v1 * v2
        f[2, 1, a, h, b] = v2
        f[2, 2, a, h, b] = v1
        f[3, 0, a, h, b] = -v1 * v3
        f[3, 1, a, h, b] = v3
        f[3, 3, a, h, b] = v1
        f[4, 0, a, h, b] = (s - e) * v1
        f[4, 1, a, h, b] = e - c2 * (v1 * v1 + q)
        f[4, 2, a, h, b] = -c2 * v1 * v2
        f[4, 3, a, h, b] = -c2 * v1 * v3
        f[4, 4, a, h, b] = c1 * v1


def viscous_jacobian(f: Doubles, u: Doubles, rho_i: Doubles, n: int, c1: float, c2: float) -> None:
    """Compute into `f` the derivatives (Jacobians) of the viscous fluxes by the five fields at each point.

    The fields are density, three momenta and energy. f: [m, q, a, h, b], the derivative of flux m by field q; h runs
    along the direction of the solver, a and b across it. u: the fields. rho_i: the density's reciprocal. n: points
    along a side. c1: the viscosity for the momentum along the direction and for the energy. c2: that for the two other
    momenta.
    """
    for a, h, b in product(range(1, n - 1), range(n), range(1, n - 1)):
        t = rho_i[a, b, h]
        v1 = u[1, a, b, h] * t * t
        v2 = u[2, a, b, h] * t * t
        v3 = u[3, a, b, h] * t * t
        e = u[4, a, b, h] * t * t
        for q in FIELDS:
            f[0, q, a, h, b] = 0.0
        for m, q in ((1, 2), (1, 3), (1, 4), (2, 1), (2, 3), (2, 4), (3, 1), (3, 2), (3, 4)):
            f[m, q, a, h, b] = 0.0
        f[1, 0, a, h, b] = -c1 * v1
        f[1, 1, a, h, b] = c1 * t
        f[2, 0, a, h, b] = -c2 * v2
        f[2, 2, a, h, b] = c2 * t
        f[3, 0, a, h, b] = -c2 * v3
        f[3, 3, a, h, b] = c2 * t
        f[4, 0, a, h, b] = -c1 * v1 * v1 - c2 * v2 * v2 - c2 * v3 * v3 - c1 * e
        f[4, 1, a, h, b] = c1 * v1
        f[4, 2, a, h, b] = c2 * v2
        f[4, 3, a, h, b] = c2 * v3
        f[4, 4, a, h, b] = c1 * t


def clear_walls(lhs: Doubles, n: int) -> None:
    """Set the 5 by 5 blocks of the matrix `lhs` at both ends of each line of `n` points to zero."""
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for m in range(5):
            for q in range(5):
                for c in range(3):
                    lhs[m, q, c, a, 0, b] = 0.0
                    lhs[m, q, c, a, n - 1, b] = 0.0


def unit_walls(lhs: Doubles, n: int) -> None:
    """Set the diagonal of the middle 5 by 5 block of the matrix `lhs` to 1 at both ends of each line of `n` points."""
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for m in FIELDS:
            lhs[m, m, 1, a, 0, b] = 1.0
            lhs[m, m, 1, a, n - 1, b] = 1.0


def blocks(lhs: Doubles, f: Doubles, g: Doubles, n: int, t1: float, t2: float, d: float) -> None:
    """Compute into `lhs` the three 5 by 5 blocks of each inner point from the Jacobians there and at both neighbours.

    f, g: [m, q, a, h, b], the Jacobians of the convective and of the viscous fluxes. n: points along a side. t1, t2:
    the time step over the squared and over the double distance of two points. d: artificial diffusion.
    """
    for a, h, b in product(range(1, n - 1), range(1, n - 1), range(1, n - 1)):
        for m, q in OFF_DIAGONAL:
            lhs[m, q, 0, a, h, b] = -t2 * f[m, q, a, h - 1, b] - t1 * g[m, q, a, h - 1, b]
            lhs[m, q, 1, a, h, b] = t1 * 2.0 * g[m, q, a, h, b]
            lhs[m, q, 2, a, h, b] = t2 * f[m, q, a, h + 1, b] - t1 * g[m, q, a, h + 1, b]
        for m in FIELDS:
            lhs[m, m, 0, a, h, b] = -t2 * f[m, m, a, h - 1, b] - t1 * g[m, m, a, h - 1, b] - t1 * d
            lhs[m, m, 1, a, h, b] = t1 * 2.0 * g[m, m, a, h, b] + 1.0 + t1 * 2.0 * d
            lhs[m, m, 2, a, h, b] = t2 * f[m, m, a, h + 1, b] - t1 * g[m, m, a, h + 1, b] - t1 * d


def unit_block(last: int) -> Callable[..., None]:
    """Make the kernel that turns the middle block at one end of each line into the unit matrix (Gauss-Jordan).

    last: 0 for the first point of a line, 1 for the last. The kernel changes the matrix `lhs` and the right-hand sides
    `rhs`; n: points along a side.
    """

    def unit_block(lhs: Doubles, rhs: Doubles, n: int) -> None:
        for a, b in product(range(1, n - 1), range(1, n - 1)):
            for p in range(5):
                pivot = 1.0 / lhs[p, p, 1, a, last * (n - 1), b]
                lhs[p, p, 1, a, last * (n - 1), b] = 1.0
                rhs[p, a, b, last * (n - 1)] = rhs[p, a, b, last * (n - 1)] * pivot
                for q in range(5):
                    lhs[p, q, 1, a, last * (n - 1), b] = lhs[p, q, 1, a, last * (n - 1), b] * pivot
                    lhs[p, q, 2, a, last * (n - 1), b] = lhs[p, q, 2, a, last * (n - 1), b] * pivot
                for m in range(5):
                    if m != p:
                        f = lhs[m, p, 1, a, last * (n - 1), b]
                        rhs[m, a, b, last * (n - 1)] = rhs[m, a, b, last * (n - 1)] - f * rhs[p, a, b, last * (n - 1)]
                        for q in range(5):
                            for c in (1, 2):
                                lhs[m, q, c, a, last * (n - 1), b] = (
                                    lhs[m, q, c, a, last * (n - 1), b] - f * lhs[p, q, c, a, last * (n - 1), b]
                                )

    return unit_block


def eliminate(lhs: Doubles, rhs: Doubles, n: int) -> None:
    """Eliminate forward along lines, so that each point's equations are coupled only to itself and the point after it.

    From each point's 5 by 5 blocks in `lhs` and from `rhs`, the part of the point before is subtracted; then the middle
    block is made the unit matrix. n: points along a side.
    """
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for h in range(1, n - 1):
            for m in range(5):
                for q in range(5):
                    rhs[m, a, b, h] = rhs[m, a, b, h] - lhs[m, q, 0, a, h, b] * rhs[q, a, b, h - 1]
            for m in range(5):
                for q in range(5):
                    for p in range(5):
                        lhs[m, q, 1, a, h, b] = (
                            lhs[m, q, 1, a, h, b] - lhs[m, p, 0, a, h, b] * lhs[p, q, 2, a, h - 1, b]
                        )
            for p in range(5):
                pivot = 1.0 / lhs[p, p, 1, a, h, b]
                lhs[p, p, 1, a, h, b] = 1.0
                rhs[p, a, b, h] = rhs[p, a, b, h] * pivot
                for q in range(5):
                    lhs[p, q, 1, a, h, b] = lhs[p, q, 1, a, h, b] * pivot
                    lhs[p, q, 2, a, h, b] = lhs[p, q, 2, a, h, b] * pivot
                for m in range(5):
                    if m != p:
                        coefficient = lhs[m, p, 1, a, h, b]
                        rhs[m, a, b, h] = rhs[m, a, b, h] - coefficient * rhs[p, a, b, h]
                        for q in range(5):
                            lhs[m, q, 1, a, h, b] = lhs[m, q, 1, a, h, b] - coefficient * lhs[p, q, 1, a, h, b]
                            lhs[m, q, 2, a, h, b] = lhs[m, q, 2, a, h, b] - coefficient * lhs[p, q, 2, a, h, b]


def last_vector(lhs: Doubles, rhs: Doubles, n: int) -> None:
    """Subtract from the right-hand side `rhs` at the last point of each line what couples it to the point before."""
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for m in range(5):
            for q in range(5):
                rhs[m, a, b, n - 1] = rhs[m, a, b, n - 1] - lhs[m, q, 0, a, n - 1, b] * rhs[q, a, b, n - 2]


def last_block(lhs: Doubles, n: int) -> None:
    """Subtract from the middle block of `lhs` at the last point of each line what couples it to the point before."""
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for m in range(5):
            for q in range(5):
                for p in range(5):
                    lhs[m, q, 1, a, n - 1, b] = (
                        lhs[m, q, 1, a, n - 1, b] - lhs[m, p, 0, a, n - 1, b] * lhs[p, q, 2, a, n - 2, b]
                    )


def substitute(lhs: Doubles, rhs: Doubles, n: int, h: int) -> None:
    """Compute the solution in the plane of points with index h from that in plane h + 1 (back substitution).

    lhs: the blocks after elimination. rhs: the right-hand sides, which the solution replaces. n: points along a side.
    """
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for m in range(5):
            for q in range(5):
                rhs[m, a, b, h] = rhs[m, a, b, h] - lhs[m, q, 2, a, h, b] * rhs[q, a, b, h + 1]


SOLVERS: Final = {
    axis: {
        name: named(f"{name}_{axis}", function, collapse)
        for name, function, collapse in (
            ("jacobian", jacobian, 3),
            ("viscous_jacobian", viscous_jacobian, 3),
            ("clear_walls", clear_walls, 2),
            ("unit_walls", unit_walls, 2),
            ("blocks", blocks, 3),
            ("first_point", unit_block(0), 2),
            ("eliminate", eliminate, 2),
            ("last_vector", last_vector, 2),
            ("last_block", last_block, 2),
            ("last_point", unit_block(1), 2),
            ("substitute", substitute, 2),
        )
    }
    for axis in AXES
}


RHS: Final = {
    "primitives": named("primitives", primitives),
    "forcing": named("forcing", copy_fields),
    **{f"flux_{axis}": named(f"flux_{axis}", flux) for axis in AXES},
    **{f"walls_{axis}": named(f"walls_{axis}", dissipation_at_walls) for axis in AXES},
    **{f"dissipation_{axis}": named(f"dissipation_{axis}", dissipation) for axis in AXES},
    "scale": named("scale", scale_fields),
}
ADD: Final = named("add", add_fields)


def build(arrays: Arrays, size: tuple[int, ...]) -> BenchmarkProgram:
    """Build the program; `arrays` makes its arrays. size: (points n along a side, number of iterations).

    One of the iterations is the public code's warm-up.
    """
    n, iterations = size
    cube = (n, n, n)
    fields = (5, *cube)
    u, forcing = (arrays(name, fields, np.float64, between(name, fields, 1.0, 1.1)) for name in ("u", "forcing"))
    rhs = arrays("rhs", fields)
    rho_i, us, vs, ws, square, qs = (arrays(name, cube) for name in ("rho_i", "us", "vs", "ws", "square", "qs"))
    f, g = arrays("fjac", (5, 5, *cube)), arrays("njac", (5, 5, *cube))
    lhs = arrays("lhs", (5, 5, 3, *cube))
    velocity = {"x": us, "y": vs, "z": ws}
    plane = Number(0)

    def last_plane() -> None:
        plane.value = 0 if u.phantom else n - 2

    def next_plane() -> None:
        plane.value -= 0 if u.phantom else 1

    def right_hand_side(axis: str) -> tuple[KernelCall, ...]:
        step = AXES[axis]
        return (
            call(RHS[f"flux_{axis}"], rhs, u, velocity[axis], square, qs, rho_i, *cube, *step, 0.1, 0.2),
            call(RHS[f"walls_{axis}"], rhs, u, *inside(axis, n, 1, 3), *step, 0.25),
            call(RHS[f"dissipation_{axis}"], rhs, u, *inside(axis, n, 3, n - 3), *step, 0.25),
        )

    def solve(axis: str) -> tuple[ProgramStep, ...]:
        kernels = SOLVERS[axis]
        return (
            call(kernels["jacobian"], f, u, rho_i, qs, square, n, 1.4, 0.4),
            call(kernels["viscous_jacobian"], g, u, rho_i, n, 0.13, 0.1),
            call(kernels["clear_walls"], lhs, n),
            call(kernels["unit_walls"], lhs, n),
            call(kernels["blocks"], lhs, f, g, n, 0.1, 0.2, 0.75),
            call(kernels["first_point"], lhs, rhs, n),
            call(kernels["eliminate"], lhs, rhs, n),
            call(kernels["last_vector"], lhs, rhs, n),
            call(kernels["last_block"], lhs, n),
            call(kernels["last_point"], lhs, rhs, n),
            OnHost((), last_plane),
            RepeatedSteps(n - 1, (call(kernels["substitute"], lhs, rhs, n, plane), OnHost((), next_plane))),
        )

    return BenchmarkProgram(
        iteration=(
            call(RHS["primitives"], u, rho_i, us, vs, ws, square, qs, *cube),
            call(RHS["forcing"], forcing, rhs, *cube),
            *(kernel_call for axis in AXES for kernel_call in right_hand_side(axis)),
            call(RHS["scale"], rhs, *cube, 0.001),
            *(step for axis in AXES for step in solve(axis)),
            call(ADD, u, rhs, *cube),
        ),
        iterations=iterations,
        copyin=(u, forcing),
        create=(rhs, rho_i, us, vs, ws, square, qs, f, g, lhs),
        results=(u,),
    )


BENCHMARK = Benchmark(
    name="BT",
    dup_s=88.715,
    sizes={"C": (162, 201), "test": (8, 2)},
    build=build,
)
