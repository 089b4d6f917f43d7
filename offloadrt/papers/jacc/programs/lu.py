"""LU: lower and upper triangular systems of a cube, solved by hyperplanes on which i + j + k is constant.

The points of a plane do not depend on each other; lists give the points of each plane. A phantom has planes of the mean
number of points only.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

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
from offloadrt.papers.jacc.programs.fields import AXES, FIELDS, Doubles, between, inside, named
from offloadrt.papers.jacc.programs.lu_planes import PLANES, clear_blocks, points_of
from offloadrt.papers.jacc.programs.lu_right_hand_side import ERHS, RHS

Ints = NDArray[np.int32]


def scale_residual(rsd: Doubles, n: int, dt: float) -> None:
    """Scale the residual by the time step."""
    for k, j, i in product(range(1, n - 1), range(1, n - 1), range(1, n - 1)):
        for m in FIELDS:
            rsd[m, k, j, i] = dt * rsd[m, k, j, i]


def add_solution(u: Doubles, rsd: Doubles, n: int, t: float) -> None:
    """Add the solution to the fields."""
    for k, j, i in product(range(1, n - 1), range(1, n - 1), range(1, n - 1)):
        for m in FIELDS:
            u[m, k, j, i] = u[m, k, j, i] + t * rsd[m, k, j, i]


def clear_norms(norms: Doubles) -> None:
    """Clear the norms of the five fields."""
    for m in range(5):
        norms[m] = 0.0


def add_norms(norms: Doubles, rsd: Doubles, n: int) -> None:
    """Add up the squares of the fields."""
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    s3 = 0.0
    s4 = 0.0
    for k, j, i in product(range(1, n - 1), range(1, n - 1), range(1, n - 1)):
        s0 += rsd[0, k, j, i] * rsd[0, k, j, i]
        s1 += rsd[1, k, j, i] * rsd[1, k, j, i]
        s2 += rsd[2, k, j, i] * rsd[2, k, j, i]
        s3 += rsd[3, k, j, i] * rsd[3, k, j, i]
        s4 += rsd[4, k, j, i] * rsd[4, k, j, i]
    norms[0] = s0
    norms[1] = s1
    norms[2] = s2
    norms[3] = s3
    norms[4] = s4


def mean_norms(norms: Doubles, n: int) -> None:
    """Divide the accumulated norms by the number of grid points."""
    for m in range(5):
        norms[m] = norms[m] / (n * n * n)


def root_norms(norms: Doubles) -> None:
    """Take the square roots of the norms."""
    for m in range(5):
        norms[m] = math.sqrt(norms[m])


OTHERS: Final = {
    "clear_blocks": named("clear_blocks", clear_blocks, 1),
    "scale_residual": named("scale_residual", scale_residual),
    "add_solution": named("add_solution", add_solution),
}
NORMS: Final = {
    "clear_norms": named("clear_norms", clear_norms, 1),
    "add_norms": named("add_norms", add_norms),
    "mean_norms": named("mean_norms", mean_norms, 1),
    "root_norms": named("root_norms", root_norms, 1),
}


def build(arrays: Arrays, size: tuple[int, ...]) -> BenchmarkProgram:
    """Build the program on a cube of n points a side, with a number of iterations."""
    n, iterations = size
    cube = (n, n, n)
    fields = (5, *cube)
    u, frct = (arrays(name, fields, np.float64, between(name, fields, 1.0, 1.1)) for name in ("u", "frct"))
    rsd, flux = arrays("rsd", fields), arrays("flux", fields)
    qs, rho_i = arrays("qs", cube), arrays("rho_i", cube)
    a, b, c, d = (arrays(name, (5, 5, n * n)) for name in "abcd")
    tmat, tv = arrays("tmat", (5, 5, n * n * 3 // 4)), arrays("tv", (5, n * n * 3 // 4))
    utmp, rtmp = arrays("utmp", (6, *cube)), arrays("rtmp", (5, *cube))
    planes = 3 * (n - 3) + 1
    real = not u.phantom
    counts, js, is_ = points_of(n) if real else ([], None, None)
    indxp = arrays("indxp", (planes, n * n), np.int32, lambda: js)
    jndxp = arrays("jndxp", (planes, n * n), np.int32, lambda: is_)
    norms = arrays("rsdnm", 5)
    # A phantom runs every plane with the mean number of points, as no value changes in it. Times that grow with the
    # points add up to the same; that small planes use less of a device, and the largest ones more, is averaged away.
    plane, points = Number(0), Number(round((n - 2) ** 3 / planes))

    def go_to(number: int) -> None:
        if real:
            plane.value, points.value = number, counts[number]

    def direction(kernels: dict[str, Any], axis: str) -> tuple[KernelCall, ...]:
        step = AXES[axis]
        back = tuple(-offset for offset in step)
        return (
            call(kernels[f"flux_{axis}"], flux, u, rho_i, qs, n),
            call(kernels[f"difference_{axis}"], rsd, flux, n, *step, 0.2),
            call(kernels[f"viscous_{axis}"], flux, u, rho_i, n, *step, 0.1),
            call(kernels[f"second_{axis}"], rsd, u, flux, n, *step, 0.1, 0.2),
            call(kernels[f"first_walls_{axis}"], rsd, u, *inside(axis, n, 1, 3), *step, 0.25),
            call(kernels[f"dissipation_{axis}"], rsd, u, *inside(axis, n, 3, n - 3), *step, 0.25),
            call(kernels[f"last_walls_{axis}"], rsd, u, *inside(axis, n, n - 3, n - 1), *back, 0.25),
        )

    def right_hand_side(kernels: dict[str, Any]) -> tuple[KernelCall, ...]:
        return (
            call(kernels["start"], rsd, frct, u, rho_i, qs, n),
            *direction(kernels, "x"),
            *direction(kernels, "y"),
            call(kernels["gather"], utmp, u, rho_i, n),
            *direction(kernels, "z"),
        )

    def sweep(jacobian: str, system: str, first: int, step: int) -> tuple[ProgramStep, ...]:
        side = step

        def advance() -> None:
            if 0 <= plane.value + step < planes:
                go_to(int(plane.value) + step)

        return (
            OnHost((), lambda: go_to(first)),
            RepeatedSteps(
                planes,
                (
                    call(PLANES[jacobian], a, b, c, d, u, rho_i, qs, indxp, jndxp, plane, points, side, 0.1),
                    call(PLANES[f"{system}_neighbours"], tv, a, b, c, rsd, indxp, jndxp, plane, points, side, 1.2),
                    call(PLANES[f"{system}_points"], tmat, tv, d, rsd, indxp, jndxp, plane, points),
                    OnHost((), advance),
                ),
            ),
        )

    norm = (
        call(NORMS["clear_norms"], norms),
        call(NORMS["add_norms"], norms, rsd, n),
        call(NORMS["mean_norms"], norms, n),
        call(NORMS["root_norms"], norms),
        OnHost((norms,)),
    )
    return BenchmarkProgram(
        setup=(
            *right_hand_side(ERHS),
            call(OTHERS["clear_blocks"], a, b, c, d, n * n),
            *right_hand_side(RHS),
            *norm,
        ),
        iteration=(
            call(OTHERS["scale_residual"], rsd, n, 0.5),
            *sweep("jacld", "blts", 0, 1),
            *sweep("jacu", "buts", planes - 1, -1),
            call(OTHERS["add_solution"], u, rsd, n, 0.7),
            *right_hand_side(RHS),
        ),
        finish=norm,
        iterations=iterations,
        copyin=(u, frct, indxp, jndxp),
        create=(rsd, flux, qs, rho_i, a, b, c, d, tmat, tv, utmp, rtmp, norms),
        results=(u,),
    )


BENCHMARK = Benchmark(
    name="LU",
    dup_s=76.325,
    sizes={"C": (162, 251), "test": (7, 2)},
    build=build,
)
