"""The kernels that BT, SP and LU share in their right-hand sides, over five fields of a cube of points.

Fields are ``u[m, k, j, i]``: density, three momenta and energy at point (k, j, i); `rhs` has the same shape, other
arrays are [k, j, i]. nk, nj, ni are the numbers of points in each dimension. One source serves the three directions:
(dk, dj, di) is the step to the next point, such as (0, 0, 1). The public codes have a statement for each of the five
fields, and so have these, as loops over `FIELDS` are unrolled. Parameters are named as in NPB's BT and SP.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import product
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import Kernel, kernel

Doubles = NDArray[np.float64]
AXES = {"x": (0, 0, 1), "y": (0, 1, 0), "z": (1, 0, 0)}
"""The step along each axis."""
FIELDS = (0, 1, 2, 3, 4)


def inside(axis: str, n: int, low: int, high: int) -> tuple[int, ...]:
    """Return the bounds k0, k1, j0, j1, i0, i1 of three nested loops over the points of a cube, i the innermost.

    Along `axis` (x is i, y is j, z is k) the loop runs from `low` to `high` - 1, along the two others from 1 to n - 2.
    """
    return tuple(bound for step in AXES[axis] for bound in ((low, high) if step else (1, n - 1)))


def between(name: str, shape: tuple[int, ...], low: float, high: float) -> Callable[[], Doubles]:
    """Return a function that makes an array of random values from low to high, always the same for the same name."""
    return lambda: np.random.default_rng([*name.encode()]).uniform(low, high, shape)


@functools.cache
def _read(function: Callable[..., Any], collapse: int) -> Kernel:
    return kernel(collapse=collapse)(function)


def named(name: str, function: Callable[..., Any], collapse: int = 3) -> Kernel:
    """Make a kernel of this name from a function that several kernels share; `collapse` loops are distributed."""
    return attrs.evolve(_read(function, collapse), name=name)


def primitives(
    u: Doubles,
    rho_i: Doubles,
    us: Doubles,
    vs: Doubles,
    ws: Doubles,
    square: Doubles,
    qs: Doubles,
    nk: int,
    nj: int,
    ni: int,
) -> None:
    """Compute from the fields u at each point the density's reciprocal rho_i, the velocities and the kinetic energy.

    us, vs, ws: get the velocities. square, qs: get the kinetic energy per volume and per mass.
    """
    for k, j, i in product(range(nk), range(nj), range(ni)):
        inverse = 1.0 / u[0, k, j, i]
        rho_i[k, j, i] = inverse
        us[k, j, i] = u[1, k, j, i] * inverse
        vs[k, j, i] = u[2, k, j, i] * inverse
        ws[k, j, i] = u[3, k, j, i] * inverse
        energy = (
            0.5
            * inverse
            * (u[1, k, j, i] * u[1, k, j, i] + u[2, k, j, i] * u[2, k, j, i] + u[3, k, j, i] * u[3, k, j, i])
        )
        square[k, j, i] = energy
        qs[k, j, i] = energy * inverse


def copy_fields(source: Doubles, target: Doubles, nk: int, nj: int, ni: int) -> None:
    """Copy all five fields (density, momenta, energy) from `source` to `target`. nk, nj, ni: their points."""
    for k, j, i in product(range(nk), range(nj), range(ni)):
        for m in FIELDS:
            target[m, k, j, i] = source[m, k, j, i]


def scale_fields(target: Doubles, nk: int, nj: int, ni: int, factor: float) -> None:
    """Multiply the five fields in `target` (density, momenta, energy) by `factor` at the inner points."""
    for k, j, i in product(range(1, nk - 1), range(1, nj - 1), range(1, ni - 1)):
        for m in FIELDS:
            target[m, k, j, i] = target[m, k, j, i] * factor


def add_fields(target: Doubles, source: Doubles, nk: int, nj: int, ni: int) -> None:
    """Add the five fields in `source` (density, momenta, energy) to those in `target` at the inner points."""
    for k, j, i in product(range(1, nk - 1), range(1, nj - 1), range(1, ni - 1)):
        for m in FIELDS:
            target[m, k, j, i] = target[m, k, j, i] + source[m, k, j, i]


def flux(
    rhs: Doubles,
    u: Doubles,
    v: Doubles,
    square: Doubles,
    qs: Doubles,
    rho_i: Doubles,
    nk: int,
    nj: int,
    ni: int,
    dk: int,
    dj: int,
    di: int,
    c: float,
    d: float,
) -> None:
    """Add second differences and the convection along one direction to the right-hand side at all inner points.

    rhs: the right-hand side, [field, k, j, i], changed in place. u: the five fields, of the same shape. The other
    inputs are [k, j, i]: v, the velocity along the direction; square and qs, the kinetic energy per volume and per
    mass; rho_i, the density's reciprocal. nk, nj, ni: points in each dimension. dk, dj, di: the step to the next point,
    such as 0, 0, 1. c: the factor of second differences. d: the factor of central differences.
    """
    for k, j, i in product(range(1, nk - 1), range(1, nj - 1), range(1, ni - 1)):
        ahead = v[k + dk, j + dj, i + di]
        here = v[k, j, i]
        behind = v[k - dk, j - dj, i - di]
        heat = qs[k + dk, j + dj, i + di] - 2.0 * qs[k, j, i] + qs[k - dk, j - dj, i - di]
        heat = heat + ahead * ahead - 2.0 * here * here + behind * behind
        heat = heat + rho_i[k + dk, j + dj, i + di] - 2.0 * rho_i[k, j, i] + rho_i[k - dk, j - dj, i - di]
        press = square[k + dk, j + dj, i + di] - square[k - dk, j - dj, i - di]
        rhs[0, k, j, i] = (
            rhs[0, k, j, i]
            + c * (u[0, k + dk, j + dj, i + di] - 2.0 * u[0, k, j, i] + u[0, k - dk, j - dj, i - di])
            - d * (u[0, k + dk, j + dj, i + di] * ahead - u[0, k - dk, j - dj, i - di] * behind)
        )
        for m in (1, 2, 3):
            rhs[m, k, j, i] = (
                rhs[m, k, j, i]
                + c * (u[m, k + dk, j + dj, i + di] - 2.0 * u[m, k, j, i] + u[m, k - dk, j - dj, i - di])
                - d * (u[m, k + dk, j + dj, i + di] * ahead - u[m, k - dk, j - dj, i - di] * behind)
                + d * press
            )
        rhs[4, k, j, i] = (
            rhs[4, k, j, i]
            + c * (u[4, k + dk, j + dj, i + di] - 2.0 * u[4, k, j, i] + u[4, k - dk, j - dj, i - di])
            - d * (u[4, k + dk, j + dj, i + di] * ahead - u[4, k - dk, j - dj, i - di] * behind)
            + c * heat
        )


def dissipation(
    rhs: Doubles,
    u: Doubles,
    k0: int,
    k1: int,
    j0: int,
    j1: int,
    i0: int,
    i1: int,
    dk: int,
    dj: int,
    di: int,
    d: float,
) -> None:
    """Subtract `d` times the fourth differences of u along one direction from rhs, in a box of points off the walls.

    A fourth difference at a point uses two points on each side. u, rhs: the five fields and their right-hand sides,
    [field, k, j, i]. k0 to i1: the box, with k from k0 to k1 - 1, and so on. (dk, dj, di): the step to the next point.
    """
    for k, j, i in product(range(k0, k1), range(j0, j1), range(i0, i1)):
        for m in FIELDS:
            rhs[m, k, j, i] = rhs[m, k, j, i] - d * (
                u[m, k - 2 * dk, j - 2 * dj, i - 2 * di]
                - 4.0 * u[m, k - dk, j - dj, i - di]
                + 6.0 * u[m, k, j, i]
                - 4.0 * u[m, k + dk, j + dj, i + di]
                + u[m, k + 2 * dk, j + 2 * dj, i + 2 * di]
            )


def dissipation_at_walls(
    rhs: Doubles,
    u: Doubles,
    k0: int,
    k1: int,
    j0: int,
    j1: int,
    i0: int,
    i1: int,
    dk: int,
    dj: int,
    di: int,
    d: float,
) -> None:
    """Subtract `d` times the fourth differences of u from rhs next to a wall, without the terms that lie outside.

    u, rhs: the five fields and their right-hand sides, [field, k, j, i]. k0 to i1: the box of points, with k from k0 to
    k1 - 1, and so on. (dk, dj, di): the step to the next point away from the wall.
    """
    for k, j, i in product(range(k0, k1), range(j0, j1), range(i0, i1)):
        for m in FIELDS:
            rhs[m, k, j, i] = rhs[m, k, j, i] - d * (
                5.0 * u[m, k, j, i] - 4.0 * u[m, k + dk, j + dj, i + di] + u[m, k + 2 * dk, j + 2 * dj, i + 2 * di]
            )
