"""LU: lower and upper triangular systems of a cube, solved by hyperplanes on which i + j + k is constant.

The points of a plane do not depend on each other; ``indxp[plane, number]`` and ``jndxp`` list each point's j and i. A
phantom has planes of the mean number of points only. The kernels' parameters are named as in NPB's LU: u are the five
fields, rsd the residual, frct the forcing and flux the fluxes, all [field, k, j, i]; rho_i is the density's reciprocal
and qs the kinetic energy per volume [k, j, i]; a, b, c, d are 5 by 5 blocks [m, q, number] of a plane's points. For a
kernel that works on the whole cube, n is the number of points a side; (dk, dj, di) is the step to the next point.
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
from offloadrt.papers.jacc.programs.fields import (
    AXES,
    FIELDS,
    Doubles,
    between,
    dissipation,
    dissipation_at_walls,
    inside,
    named,
)

Ints = NDArray[np.int32]


def clear_blocks(a: Doubles, b: Doubles, c: Doubles, d: Doubles, points: int) -> None:
    """Set the 5 by 5 blocks a, b, c and d of `points` points to zero, before the first plane of points is solved."""
    for n in range(points):
        for m in range(5):
            for q in range(5):
                a[m, q, n] = 0.0
                b[m, q, n] = 0.0
                c[m, q, n] = 0.0
                d[m, q, n] = 0.0


def jacobians(
    a: Doubles,
    b: Doubles,
    c: Doubles,
    d: Doubles,
    u: Doubles,
    rho_i: Doubles,
    qs: Doubles,
    indxp: Ints,
    jndxp: Ints,
    plane: int,
    points: int,
    side: int,
    t: float,
) -> None:
    """Compute the 5 by 5 blocks of a plane's points (d) and of each point's three neighbours in k, j and i (a, b, c).

    The blocks are the Jacobians of the fluxes, by which LU solves for all points of a diagonal plane, where k + j + i
    is `plane` + 3. u: the five fields (density, momenta, energy). rho_i: the density's reciprocal. qs: the kinetic
    energy per volume. indxp, jndxp: the j and the i of each point, by plane. points: how many the plane has. side: 1
    for the neighbours with the smaller indices k, j and i, -1 for those with the larger ones. t: the time step.
    """
    for n in range(points):
        j = indxp[plane, n]
        i = jndxp[plane, n]
        k = plane + 3 - i - j
        r = rho_i[k, j, i]
        e = qs[k, j, i]
        for m in range(5):
            for q in range(5):
                v = u[m, k, j, i] * u[q, k, j, i] * r
                d[m, q, n] = 1.0 + t * (v + e)
                a[m, q, n] = -t * u[m, k - side, j, i] * u[q, k - side, j, i] * rho_i[k - side, j, i]
                b[m, q, n] = -t * u[m, k, j - side, i] * u[q, k, j - side, i] * rho_i[k, j - side, i]
                c[m, q, n] = -t * u[m, k, j, i - side] * u[q, k, j, i - side] * rho_i[k, j, i - side]


def neighbours(
    tv: Doubles,
    a: Doubles,
    b: Doubles,
    c: Doubles,
    rsd: Doubles,
    indxp: Ints,
    jndxp: Ints,
    plane: int,
    points: int,
    side: int,
    omega: float,
) -> None:
    """Add up, for each point of a plane, what three neighbours add to its five equations, into ``tv[m, number]``.

    a, b, c: the 5 by 5 blocks of the neighbours in k, j and i. rsd: the residual at them. points: the points of plane
    number `plane`. indxp, jndxp: the j and the i of each point. side: 1 for the neighbours with the smaller indices, -1
    for those with the larger ones. omega: the relaxation factor.
    """
    for n in range(points):
        j = indxp[plane, n]
        i = jndxp[plane, n]
        k = plane + 3 - i - j
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        s3 = 0.0
        s4 = 0.0
        for q in range(5):
            before = rsd[q, k - side, j, i]
            under = rsd[q, k, j - side, i]
            left = rsd[q, k, j, i - side]
            s0 = s0 + a[0, q, n] * before + b[0, q, n] * under + c[0, q, n] * left
            s1 = s1 + a[1, q, n] * before + b[1, q, n] * under + c[1, q, n] * left
            s2 = s2 + a[2, q, n] * before + b[2, q, n] * under + c[2, q, n] * left
            s3 = s3 + a[3, q, n] * before + b[3, q, n] * under + c[3, q, n] * left
            s4 = s4 + a[4, q, n] * before + b[4, q, n] * under + c[4, q, n] * left
        tv[0, n] = omega * s0
        tv[1, n] = omega * s1
        tv[2, n] = omega * s2
        tv[3, n] = omega * s3
        tv[4, n] = omega * s4


def solve_points(
    tmat: Doubles,
    tv: Doubles,
    d: Doubles,
    rsd: Doubles,
    indxp: Ints,
    jndxp: Ints,
    plane: int,
    points: int,
) -> None:
    """Solve the five equations of each point in a plane, d x = rsd - tv; the solution replaces tv and the residual rsd.

    d: the 5 by 5 block of each point. tmat: scratch blocks. tv: what neighbours contribute. points: the points of plane
    number `plane`. indxp, jndxp: the j and the i of each point.
    """
    for n in range(points):
        j = indxp[plane, n]
        i = jndxp[plane, n]
        k = plane + 3 - i - j
        for m in range(5):
            tv[m, n] = rsd[m, k, j, i] - tv[m, n]
            for q in range(5):
                tmat[m, q, n] = d[m, q, n]
        for p in range(5):
            pivot = 1.0 / tmat[p, p, n]
            for m in range(p + 1, 5):
                factor = pivot * tmat[m, p, n]
                tv[m, n] = tv[m, n] - factor * tv[p, n]
                for q in range(p + 1, 5):
                    tmat[m, q, n] = tmat[m, q, n] - factor * tmat[p, q, n]
        for back in range(5):
            s = tv[4 - back, n]
            for q in range(5 - back, 5):
                s = s - tmat[4 - back, q, n] * tv[q, n]
            tv[4 - back, n] = s / tmat[4 - back, 4 - back, n]
            rsd[4 - back, k, j, i] = s / tmat[4 - back, 4 - back, n]


def points_of(n: int) -> tuple[list[int], Any, Any]:
    """Return the points of each hyperplane of a cube of n points a side: their number, and their j and i.

    j and i are arrays [plane, number of the point].
    """
    inside = np.arange(1, n - 1)
    k, j, i = np.meshgrid(inside, inside, inside, indexing="ij")
    plane = (k + j + i - 3).ravel()
    planes = 3 * (n - 3) + 1
    counts = [int(np.count_nonzero(plane == number)) for number in range(planes)]
    js, is_ = (np.zeros((planes, n * n), np.int32) for _ in range(2))
    for number in range(planes):
        js[number, : counts[number]], is_[number, : counts[number]] = (
            j.ravel()[plane == number],
            i.ravel()[plane == number],
        )
    return counts, js, is_


PLANES: Final = {
    "jacld": named("jacld", jacobians, 1),
    "blts_neighbours": named("blts_neighbours", neighbours, 1),
    "blts_points": named("blts_points", solve_points, 1),
    "jacu": named("jacu", jacobians, 1),
    "buts_neighbours": named("buts_neighbours", neighbours, 1),
    "buts_points": named("buts_points", solve_points, 1),
}


def start(rsd: Doubles, frct: Doubles, u: Doubles, rho_i: Doubles, qs: Doubles, n: int) -> None:
    """Set the residual rsd to -frct, the forcing; compute the density's reciprocal rho_i and the kinetic energy qs.

    u: the five fields (density, momenta, energy). n: points along a side.
    """
    for k, j, i in product(range(n), range(n), range(n)):
        for m in FIELDS:
            rsd[m, k, j, i] = -frct[m, k, j, i]
        inverse = 1.0 / u[0, k, j, i]
        rho_i[k, j, i] = inverse
        qs[k, j, i] = (
            0.5
            * inverse
            * (u[1, k, j, i] * u[1, k, j, i] + u[2, k, j, i] * u[2, k, j, i] + u[3, k, j, i] * u[3, k, j, i])
        )


def point_flux(flux: Doubles, u: Doubles, rho_i: Doubles, qs: Doubles, n: int) -> None:
    """Compute the convective flux of each point along the last axis (i), with the velocity of the first momentum.

    flux: as u, the five fields by [field, k, j, i]. u: density, momenta and energy. rho_i: the density's reciprocal.
    qs: the kinetic energy per volume. n: points along a side.
    """
    for k, j, i in product(range(1, n - 1), range(1, n - 1), range(n)):
        v = u[1, k, j, i] * rho_i[k, j, i]
        p = 0.4 * (u[4, k, j, i] - qs[k, j, i])
        flux[0, k, j, i] = u[1, k, j, i]
        flux[1, k, j, i] = u[1, k, j, i] * v + p
        flux[2, k, j, i] = u[2, k, j, i] * v
        flux[3, k, j, i] = u[3, k, j, i] * v
        flux[4, k, j, i] = (1.4 * u[4, k, j, i] - 0.4 * qs[k, j, i]) * v


def difference(rsd: Doubles, flux: Doubles, n: int, dk: int, dj: int, di: int, t: float) -> None:
    """Subtract from the residual rsd `t` times the difference of the fluxes ahead of and behind each point.

    (dk, dj, di): the step to the point ahead. n: points along a side.
    """
    for k, j, i in product(range(1, n - 1), range(1, n - 1), range(1, n - 1)):
        for m in FIELDS:
            rsd[m, k, j, i] = rsd[m, k, j, i] - t * (flux[m, k + dk, j + dj, i + di] - flux[m, k - dk, j - dj, i - di])


def viscous_flux(flux: Doubles, u: Doubles, rho_i: Doubles, n: int, dk: int, dj: int, di: int, t: float) -> None:
    """Compute from u and rho_i the viscous flux, times `t`, between each point and that behind, along (dk, dj, di).

    u: the five fields. rho_i: the density's reciprocal. n: points along a side.
    """
    for k, j, i in product(range(1, n), range(1, n), range(1, n)):
        here = rho_i[k, j, i]
        behind = rho_i[k - dk, j - dj, i - di]
        d1 = here * u[1, k, j, i] - behind * u[1, k - dk, j - dj, i - di]
        d2 = here * u[2, k, j, i] - behind * u[2, k - dk, j - dj, i - di]
        d3 = here * u[3, k, j, i] - behind * u[3, k - dk, j - dj, i - di]
        d4 = here * u[4, k, j, i] - behind * u[4, k - dk, j - dj, i - di]
        flux[1, k, j, i] = t * 4.0 / 3.0 * d1
        flux[2, k, j, i] = t * d2
        flux[3, k, j, i] = t * d3
        flux[4, k, j, i] = t * (0.5 * (d1 * d1 + d2 * d2 + d3 * d3) + d4)


def second_difference(
    rsd: Doubles, u: Doubles, flux: Doubles, n: int, dk: int, dj: int, di: int, c: float, t: float
) -> None:
    """Add to rsd, along (dk, dj, di), `c` times second differences of u and `t` times differences of viscous fluxes.

    rsd: the residual. u: the five fields. flux: the viscous fluxes. n: points along a side.
    """
    for k, j, i in product(range(1, n - 1), range(1, n - 1), range(1, n - 1)):
        rsd[0, k, j, i] = rsd[0, k, j, i] + c * (
            u[0, k - dk, j - dj, i - di] - 2.0 * u[0, k, j, i] + u[0, k + dk, j + dj, i + di]
        )
        for m in (1, 2, 3, 4):
            rsd[m, k, j, i] = (
                rsd[m, k, j, i]
                + c * (u[m, k - dk, j - dj, i - di] - 2.0 * u[m, k, j, i] + u[m, k + dk, j + dj, i + di])
                + t * (flux[m, k + dk, j + dj, i + di] - flux[m, k, j, i])
            )


def gather(utmp: Doubles, u: Doubles, rho_i: Doubles, n: int) -> None:
    """Copy the fields to ``utmp[field, j, i, k]``, with k last; its sixth field is the density's reciprocal rho_i."""
    for j, i, k in product(range(1, n - 1), range(1, n - 1), range(n)):
        for m in FIELDS:
            utmp[m, j, i, k] = u[m, k, j, i]
        utmp[5, j, i, k] = rho_i[k, j, i]


def _right_hand_side(prefix: str) -> dict[str, Any]:
    """Make 23 kernels: one to start with, seven for each direction, and one that gathers the third direction."""
    steps = (
        ("flux", point_flux),
        ("difference", difference),
        ("viscous", viscous_flux),
        ("second", second_difference),
        ("first_walls", dissipation_at_walls),
        ("dissipation", dissipation),
        ("last_walls", dissipation_at_walls),
    )
    kernels = {"start": named(f"{prefix}_start", start), "gather": named(f"{prefix}_gather", gather)}
    return kernels | {
        f"{name}_{axis}": named(f"{prefix}_{name}_{axis}", function) for axis in AXES for name, function in steps
    }


ERHS: Final = _right_hand_side("erhs")
RHS: Final = _right_hand_side("rhs")


def scale_residual(rsd: Doubles, n: int, dt: float) -> None:
    """Multiply the residual rsd at all inner points by the time step `dt`. n: points along a side."""
    for k, j, i in product(range(1, n - 1), range(1, n - 1), range(1, n - 1)):
        for m in FIELDS:
            rsd[m, k, j, i] = dt * rsd[m, k, j, i]


def add_solution(u: Doubles, rsd: Doubles, n: int, t: float) -> None:
    """Add `t` times the solved changes, which rsd holds, to the fields u."""
    for k, j, i in product(range(1, n - 1), range(1, n - 1), range(1, n - 1)):
        for m in FIELDS:
            u[m, k, j, i] = u[m, k, j, i] + t * rsd[m, k, j, i]


def clear_norms(norms: Doubles) -> None:
    """Set the norms of the five fields (density, momenta, energy) to zero."""
    for m in range(5):
        norms[m] = 0.0


def add_norms(norms: Doubles, rsd: Doubles, n: int) -> None:
    """Add the squares of each of the five fields in rsd at all points to ``norms[field]``. n: points along a side."""
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
    """Divide the accumulated norms of the five fields by the number of grid points. n: points along a side."""
    for m in range(5):
        norms[m] = norms[m] / (n * n * n)


def root_norms(norms: Doubles) -> None:
    """Replace the norms of the five fields by their square roots."""
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
    """Build the program with arrays that `arrays` makes. size: the points n along a side, the number of iterations."""
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
