"""LU's solver: the points of one hyperplane after the other, found by lists."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from offloadrt.papers.jacc.programs.fields import Doubles, named

Ints = NDArray[np.int32]


def clear_blocks(a: Doubles, b: Doubles, c: Doubles, d: Doubles, points: int) -> None:
    """Clear the blocks before the first plane."""
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
    """Compute the blocks of the points of a plane and of their three neighbours on one side."""
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
    """Add up what the neighbours on one side contribute."""
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
    """Solve the five equations of each point of a plane."""
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
    """List, for each plane, the number of its points and their j and i."""
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
