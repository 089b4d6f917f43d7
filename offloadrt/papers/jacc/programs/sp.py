"""SP: scalar pentadiagonal systems along the three directions of a cube.

One source serves the three directions: h runs along the direction of the solver, a and b across it, each from 0 to n -
1. Each line of points has three systems, in ``lhs``, ``lhsp`` and ``lhsm``, all [m, a, h, b], where m = 0 to 4 are the
five diagonals and 2 is the main one. They have the right-hand sides 0 to 2, 3 and 4 of ``rhs[m, a, h, b]``, which the
solution replaces. The kernels' parameters are named as in NPB's SP: n is the number of points a side, rho_i the
density's reciprocal, speed that of sound, v the velocity along the direction, all [a, b, h], and rhon a viscosity [a,
h, b]. t1 and t2 are the time step over the squared and over the double distance of two points.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Final

import numpy as np

from offloadrt.papers.jacc.programs.benchmark import Arrays, Benchmark, BenchmarkProgram, KernelCall, call
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


def transpose(source: Doubles, target: Doubles, n: int) -> None:
    """Copy the five fields of `source` to `target` with the last two dimensions exchanged."""
    for a, h, b in product(range(n), range(n), range(n)):
        for m in FIELDS:
            target[m, a, h, b] = source[m, a, b, h]


def clear_walls(lhs: Doubles, lhsp: Doubles, lhsm: Doubles, n: int) -> None:
    """Make the equations at both ends of each line those of the unit matrix, in three pentadiagonal systems.

    lhs, lhsp, lhsm: the matrices of the three systems, [diagonal, a, h, b], where h runs along the lines.
    """
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for m in range(5):
            lhs[m, a, 0, b] = 0.0
            lhsp[m, a, 0, b] = 0.0
            lhsm[m, a, 0, b] = 0.0
            lhs[m, a, n - 1, b] = 0.0
            lhsp[m, a, n - 1, b] = 0.0
            lhsm[m, a, n - 1, b] = 0.0
        lhs[2, a, 0, b] = 1.0
        lhsp[2, a, 0, b] = 1.0
        lhsm[2, a, 0, b] = 1.0
        lhs[2, a, n - 1, b] = 1.0
        lhsp[2, a, n - 1, b] = 1.0
        lhsm[2, a, n - 1, b] = 1.0


def coefficients(rhon: Doubles, rho_i: Doubles, n: int, c: float) -> None:
    """Compute into rhon at each point the largest of four viscosities. c: factor of rho_i (reciprocal density)."""
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for h in range(n):
            ru = c * rho_i[a, b, h]
            rhon[a, h, b] = max(max(0.75 + ru, 0.7 + ru * 1.4), max(0.75 + ru, 0.75))


def fill(lhs: Doubles, rhon: Doubles, v: Doubles, n: int, t1: float, t2: float) -> None:
    """Fill the matrix lhs, the first of three pentadiagonal systems along lines, from velocity v and viscosity rhon.

    t1, t2: the time step over the squared and over the double distance of two points. n: points along a side.
    """
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for h in range(1, n - 1):
            lhs[0, a, h, b] = 0.0
            lhs[1, a, h, b] = -t2 * v[a, b, h - 1] - t1 * rhon[a, h - 1, b]
            lhs[2, a, h, b] = 1.0 + 2.0 * t1 * rhon[a, h, b]
            lhs[3, a, h, b] = t2 * v[a, b, h + 1] - t1 * rhon[a, h + 1, b]
            lhs[4, a, h, b] = 0.0


def fill_with_coefficients(
    lhs: Doubles, rhon: Doubles, rho_i: Doubles, v: Doubles, n: int, c: float, t1: float, t2: float
) -> None:
    """Compute the viscosity rhon as `coefficients` does, and fill the matrix lhs as `fill` does, in one kernel.

    c: a factor of rho_i, the density's reciprocal. t1, t2: the time step over the squared and over the double distance
    of two points. v: the velocity along the lines.
    """
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for h in range(n):
            ru = c * rho_i[a, b, h]
            rhon[a, h, b] = max(max(0.75 + ru, 0.7 + ru * 1.4), max(0.75 + ru, 0.75))
        for g in range(1, n - 1):
            lhs[0, a, g, b] = 0.0
            lhs[1, a, g, b] = -t2 * v[a, b, g - 1] - t1 * rhon[a, g - 1, b]
            lhs[2, a, g, b] = 1.0 + 2.0 * t1 * rhon[a, g, b]
            lhs[3, a, g, b] = t2 * v[a, b, g + 1] - t1 * rhon[a, g + 1, b]
            lhs[4, a, g, b] = 0.0


def smooth(lhs: Doubles, n: int, first: int, after: int, c: float) -> None:
    """Add `c` times fourth differences to the pentadiagonal matrix lhs, at points `first` to `after` - 1 of lines."""
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for h in range(first, after):
            lhs[0, a, h, b] = lhs[0, a, h, b] + c
            lhs[1, a, h, b] = lhs[1, a, h, b] - 4.0 * c
            lhs[2, a, h, b] = lhs[2, a, h, b] + 6.0 * c
            lhs[3, a, h, b] = lhs[3, a, h, b] - 4.0 * c
            lhs[4, a, h, b] = lhs[4, a, h, b] + c


def fill_others(lhs: Doubles, lhsp: Doubles, lhsm: Doubles, speed: Doubles, n: int, t2: float) -> None:
    """Fill the matrices lhsp and lhsm of the second and third system of equations from lhs, that of the first.

    lhs stands for waves with the fluid's velocity, lhsp and lhsm for those with this velocity plus and minus the speed
    of sound. t2: the time step over the double distance of two points. n: points along a side.
    """
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for h in range(1, n - 1):
            for m in (0, 2, 4):
                lhsp[m, a, h, b] = lhs[m, a, h, b]
                lhsm[m, a, h, b] = lhs[m, a, h, b]
            lhsp[1, a, h, b] = lhs[1, a, h, b] - t2 * speed[a, b, h - 1]
            lhsp[3, a, h, b] = lhs[3, a, h, b] + t2 * speed[a, b, h + 1]
            lhsm[1, a, h, b] = lhs[1, a, h, b] + t2 * speed[a, b, h - 1]
            lhsm[3, a, h, b] = lhs[3, a, h, b] - t2 * speed[a, b, h + 1]


def elimination(fields: tuple[int, ...]) -> Callable[..., None]:
    """Make the kernel that eliminates forward along lines in a pentadiagonal system (Gaussian elimination).

    fields: which of the five fields are right-hand sides. The kernel gets `lhs`, the five diagonals of the matrix,
    `rhs` (the fields), both overwritten, and `n`, the points along a side.
    """

    def eliminate(lhs: Doubles, rhs: Doubles, n: int) -> None:
        for a, b in product(range(1, n - 1), range(1, n - 1)):
            for h in range(n - 2):
                factor = 1.0 / lhs[2, a, h, b]
                lhs[3, a, h, b] = lhs[3, a, h, b] * factor
                lhs[4, a, h, b] = lhs[4, a, h, b] * factor
                for m in fields:
                    rhs[m, a, h, b] = rhs[m, a, h, b] * factor
                lhs[2, a, h + 1, b] = lhs[2, a, h + 1, b] - lhs[1, a, h + 1, b] * lhs[3, a, h, b]
                lhs[3, a, h + 1, b] = lhs[3, a, h + 1, b] - lhs[1, a, h + 1, b] * lhs[4, a, h, b]
                for m in fields:
                    rhs[m, a, h + 1, b] = rhs[m, a, h + 1, b] - lhs[1, a, h + 1, b] * rhs[m, a, h, b]
                lhs[1, a, h + 2, b] = lhs[1, a, h + 2, b] - lhs[0, a, h + 2, b] * lhs[3, a, h, b]
                lhs[2, a, h + 2, b] = lhs[2, a, h + 2, b] - lhs[0, a, h + 2, b] * lhs[4, a, h, b]
                for m in fields:
                    rhs[m, a, h + 2, b] = rhs[m, a, h + 2, b] - lhs[0, a, h + 2, b] * rhs[m, a, h, b]

    return eliminate


eliminate_first, eliminate_other = elimination((0, 1, 2)), elimination((3,))


def last_points(lhs: Doubles, rhs: Doubles, n: int) -> None:
    """Solve the first pentadiagonal system, lhs, for the last two points of each line; rhs gets the solution."""
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        factor = 1.0 / lhs[2, a, n - 2, b]
        lhs[3, a, n - 2, b] = lhs[3, a, n - 2, b] * factor
        lhs[2, a, n - 1, b] = lhs[2, a, n - 1, b] - lhs[1, a, n - 1, b] * lhs[3, a, n - 2, b]
        for m in range(3):
            rhs[m, a, n - 2, b] = rhs[m, a, n - 2, b] * factor
            rhs[m, a, n - 1, b] = (rhs[m, a, n - 1, b] - lhs[1, a, n - 1, b] * rhs[m, a, n - 2, b]) / lhs[
                2, a, n - 1, b
            ]


def last_points_of_others(lhsp: Doubles, lhsm: Doubles, rhs: Doubles, n: int) -> None:
    """Solve the second and third system, lhsp and lhsm, for the last two points of each line; rhs gets the solution."""
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        p = 1.0 / lhsp[2, a, n - 2, b]
        m = 1.0 / lhsm[2, a, n - 2, b]
        lhsp[3, a, n - 2, b] = lhsp[3, a, n - 2, b] * p
        lhsm[3, a, n - 2, b] = lhsm[3, a, n - 2, b] * m
        rhs[3, a, n - 2, b] = rhs[3, a, n - 2, b] * p
        rhs[4, a, n - 2, b] = rhs[4, a, n - 2, b] * m
        rhs[3, a, n - 1, b] = (rhs[3, a, n - 1, b] - lhsp[1, a, n - 1, b] * rhs[3, a, n - 2, b]) * p
        rhs[4, a, n - 1, b] = (rhs[4, a, n - 1, b] - lhsm[1, a, n - 1, b] * rhs[4, a, n - 2, b]) * m


def substitute(lhs: Doubles, lhsp: Doubles, lhsm: Doubles, rhs: Doubles, n: int) -> None:
    """Substitute backward along each line in all three pentadiagonal systems; rhs gets the solution.

    lhs, lhsp, lhsm: their matrices after the elimination. n: points along a side.
    """
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for h in range(n - 3, -1, -1):
            for m in (0, 1, 2):
                rhs[m, a, h, b] = (
                    rhs[m, a, h, b] - lhs[3, a, h, b] * rhs[m, a, h + 1, b] - lhs[4, a, h, b] * rhs[m, a, h + 2, b]
                )
            rhs[3, a, h, b] = (
                rhs[3, a, h, b] - lhsp[3, a, h, b] * rhs[3, a, h + 1, b] - lhsp[4, a, h, b] * rhs[3, a, h + 2, b]
            )
            rhs[4, a, h, b] = (
                rhs[4, a, h, b] - lhsm[3, a, h, b] * rhs[4, a, h + 1, b] - lhsm[4, a, h, b] * rhs[4, a, h + 2, b]
            )


def rotate(rhs: Doubles, v: Doubles, w: Doubles, qs: Doubles, speed: Doubles, n: int, c: float) -> None:
    """Multiply the five fields of rhs at each inner point by a 5 by 5 matrix, which changes the variables.

    The matrix follows from the velocities v and w, the kinetic energy qs, the speed of sound and the constant c.
    """
    for k, j, i in product(range(1, n - 1), range(1, n - 1), range(1, n - 1)):
        first = rhs[0, k, j, i]
        t1 = c * first * v[k, j, i]
        t2 = 0.5 * (rhs[3, k, j, i] + rhs[4, k, j, i]) * w[k, j, i]
        t3 = qs[k, j, i] * (rhs[3, k, j, i] - rhs[4, k, j, i])
        rhs[0, k, j, i] = -rhs[1, k, j, i]
        rhs[1, k, j, i] = first
        rhs[2, k, j, i] = c * t3 / speed[k, j, i]
        rhs[3, k, j, i] = -t1 + t2
        rhs[4, k, j, i] = t1 + t2


RHS: Final = {
    "primitives": named("primitives", primitives),
    "forcing": named("forcing", copy_fields),
    **{f"flux_{axis}": named(f"flux_{axis}", flux) for axis in AXES},
    **{
        f"{name}_{axis}": named(f"{name}_{axis}", function)
        for axis in AXES
        for name, function in (
            ("first_wall", dissipation_at_walls),
            ("next_to_first", dissipation_at_walls),
            ("dissipation", dissipation),
            ("next_to_last", dissipation_at_walls),
            ("last_wall", dissipation_at_walls),
        )
    },
    "scale": named("scale", scale_fields),
}
SOLVERS: Final = {
    axis: {
        name: named(f"{name}_{axis}", function, collapse)
        for name, function, collapse in (
            ("transpose", transpose, 3),
            ("clear_walls", clear_walls, 2),
            ("coefficients", coefficients, 2),
            ("fill", fill if axis == "z" else fill_with_coefficients, 2),
            ("smooth_first", smooth, 2),
            ("smooth", smooth, 2),
            ("smooth_last", smooth, 2),
            ("fill_others", fill_others, 2),
            ("eliminate", eliminate_first, 2),
            ("last_points", last_points, 2),
            ("eliminate_plus", eliminate_other, 2),
            ("eliminate_minus", eliminate_other, 2),
            ("last_points_of_others", last_points_of_others, 2),
            ("substitute", substitute, 2),
            ("transpose_back", transpose, 3),
        )
    }
    for axis in AXES
}
POINTS: Final = {name: named(name, rotate) for name in ("txinvr", "ninvr", "pinvr", "tzetar")}
ADD: Final = named("add", add_fields)


def build(arrays: Arrays, size: tuple[int, ...]) -> BenchmarkProgram:
    """Build the program with arrays that `arrays` makes. size: the points n along a side, the number of iterations."""
    n, iterations = size
    cube = (n, n, n)
    fields = (5, *cube)
    u, forcing = (arrays(name, fields, np.float64, between(name, fields, 1.0, 1.1)) for name in ("u", "forcing"))
    rhs, rhs_x = arrays("rhs", fields), arrays("rhsX", fields)
    speed = arrays("speed", cube, np.float64, between("speed", cube, 1.0, 1.1))
    names = ("rho_i", "us", "vs", "ws", "square", "qs", "rhon")
    rho_i, us, vs, ws, square, qs, rhon = (arrays(name, cube) for name in names)
    lhs, lhsp, lhsm = (arrays(name, (5, *cube)) for name in ("lhs", "lhsp", "lhsm"))
    velocity = {"x": us, "y": vs, "z": ws}

    def right_hand_side(axis: str) -> tuple[KernelCall, ...]:
        step = AXES[axis]
        back = tuple(-offset for offset in step)
        return (
            call(RHS[f"flux_{axis}"], rhs, u, velocity[axis], square, qs, rho_i, *cube, *step, 0.1, 0.2),
            call(RHS[f"first_wall_{axis}"], rhs, u, *inside(axis, n, 1, 2), *step, 0.25),
            call(RHS[f"next_to_first_{axis}"], rhs, u, *inside(axis, n, 2, 3), *step, 0.25),
            call(RHS[f"dissipation_{axis}"], rhs, u, *inside(axis, n, 3, n - 3), *step, 0.25),
            call(RHS[f"next_to_last_{axis}"], rhs, u, *inside(axis, n, n - 3, n - 2), *back, 0.25),
            call(RHS[f"last_wall_{axis}"], rhs, u, *inside(axis, n, n - 2, n - 1), *back, 0.25),
        )

    def solve(axis: str) -> tuple[KernelCall, ...]:
        kernels, right = SOLVERS[axis], rhs_x if axis == "x" else rhs
        filled = (
            (call(kernels["coefficients"], rhon, rho_i, n, 0.1), call(kernels["fill"], lhs, rhon, ws, n, 0.1, 0.2))
            if axis == "z"
            else (call(kernels["fill"], lhs, rhon, rho_i, velocity[axis], n, 0.1, 0.1, 0.2),)
        )
        steps = (
            call(kernels["clear_walls"], lhs, lhsp, lhsm, n),
            *filled,
            call(kernels["smooth_first"], lhs, n, 1, 3, 0.25),
            call(kernels["smooth"], lhs, n, 3, n - 3, 0.25),
            call(kernels["smooth_last"], lhs, n, n - 3, n - 1, 0.25),
            call(kernels["fill_others"], lhs, lhsp, lhsm, speed, n, 0.2),
            call(kernels["eliminate"], lhs, right, n),
            call(kernels["last_points"], lhs, right, n),
            call(kernels["eliminate_plus"], lhsp, right, n),
            call(kernels["eliminate_minus"], lhsm, right, n),
            call(kernels["last_points_of_others"], lhsp, lhsm, right, n),
            call(kernels["substitute"], lhs, lhsp, lhsm, right, n),
        )
        if axis != "x":
            return steps
        return (call(kernels["transpose"], rhs, rhs_x, n), *steps, call(kernels["transpose_back"], rhs_x, rhs, n))

    def point(name: str) -> KernelCall:
        return call(POINTS[name], rhs, us, vs, qs, speed, n, 0.7)

    return BenchmarkProgram(
        iteration=(
            call(RHS["primitives"], u, rho_i, us, vs, ws, square, qs, *cube),
            call(RHS["forcing"], forcing, rhs, *cube),
            *(kernel_call for axis in AXES for kernel_call in right_hand_side(axis)),
            call(RHS["scale"], rhs, *cube, 0.001),
            point("txinvr"),
            *solve("x"),
            point("ninvr"),
            *solve("y"),
            point("pinvr"),
            *solve("z"),
            point("tzetar"),
            call(ADD, u, rhs, *cube),
        ),
        iterations=iterations,
        copyin=(u, forcing, speed),
        create=(rhs, rho_i, us, vs, ws, square, qs, rhs_x, rhon, lhs, lhsp, lhsm),
        results=(u,),
    )


BENCHMARK = Benchmark(
    name="SP",
    dup_s=27.809,
    sizes={"C": (162, 400), "test": (8, 2)},
    build=build,
)
