"""Kernels of CloverLeaf's Lagrangian step: loops over the cells or nodes of a grid of `ny` by `nx` cells, whose arrays
have a halo of two cells.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import kernel

Doubles = NDArray[np.float64]
SMALL = 1e-16
BIG = 1e21
GAMMA = 1.4


@kernel
def set_cells(width: Doubles, d: float) -> None:
    for i in range(len(width)):
        width[i] = d


@kernel(collapse=2)
def set_areas(volume: Doubles, x_area: Doubles, y_area: Doubles, dx: Doubles, dy: Doubles, ny: int, nx: int) -> None:
    for j in range(ny + 4):
        for i in range(nx + 4):
            volume[j, i] = dx[i] * dy[j]
            x_area[j, i] = dy[j]
            y_area[j, i] = dx[i]


@kernel(collapse=2)
def set_state(density: Doubles, energy: Doubles, top: int, right: int, mass: float, e: float) -> None:
    for j in range(top):
        for i in range(right):
            density[j, i] = mass
            energy[j, i] = e


@kernel(collapse=2)
def ideal_gas(density: Doubles, energy: Doubles, pressure: Doubles, sound_speed: Doubles, ny: int, nx: int) -> None:
    for j in range(2, ny + 2):
        for i in range(2, nx + 2):
            v = 1.0 / density[j, i]
            p = (GAMMA - 1.0) * density[j, i] * energy[j, i]
            pressure[j, i] = p
            sound_speed[j, i] = math.sqrt(v * v * (p * (GAMMA - 1.0) * density[j, i] + density[j, i] * p))


@kernel(collapse=2)
def viscosity(
    dx: Doubles,
    dy: Doubles,
    density0: Doubles,
    pressure: Doubles,
    q: Doubles,
    xvel0: Doubles,
    yvel0: Doubles,
    ny: int,
    nx: int,
) -> None:
    for j in range(2, ny + 2):
        for i in range(2, nx + 2):
            ugrad = (xvel0[j, i + 1] + xvel0[j + 1, i + 1]) - (xvel0[j, i] + xvel0[j + 1, i])
            vgrad = (yvel0[j + 1, i] + yvel0[j + 1, i + 1]) - (yvel0[j, i] + yvel0[j, i + 1])
            div = dx[i] * ugrad + dy[j] * vgrad
            strain = (
                0.5 * (xvel0[j + 1, i] + xvel0[j + 1, i + 1] - xvel0[j, i] - xvel0[j, i + 1]) / dy[j]
                + 0.5 * (yvel0[j, i + 1] + yvel0[j + 1, i + 1] - yvel0[j, i] - yvel0[j + 1, i]) / dx[i]
            )
            px = (pressure[j, i + 1] - pressure[j, i - 1]) / (dx[i] + dx[i + 1])
            py = (pressure[j + 1, i] - pressure[j - 1, i]) / (dy[j] + dy[j + 2])
            limiter = (0.5 * ugrad / dx[i] * px * px + 0.5 * vgrad / dy[j] * py * py + strain * px * py) / max(
                px * px + py * py, SMALL
            )
            if limiter > 0.0 or div >= 0.0:
                q[j, i] = 0.0
            else:
                px = (-1.0 if px < 0.0 else 1.0) * max(SMALL, abs(px))
                py = (-1.0 if px < 0.0 else 1.0) * max(SMALL, abs(py))
                gradient = math.sqrt(px * px + py * py)
                length = min(abs(dx[i] * gradient / px), abs(dy[j] * gradient / py))
                q[j, i] = 2.0 * density0[j, i] * length * length * limiter * limiter


@kernel(collapse=2)
def calc_dt(
    dx: Doubles,
    dy: Doubles,
    volume: Doubles,
    x_area: Doubles,
    y_area: Doubles,
    density0: Doubles,
    q: Doubles,
    sound_speed: Doubles,
    xvel0: Doubles,
    yvel0: Doubles,
    ny: int,
    nx: int,
    dt: Doubles,
) -> None:
    least = dt[0]
    for j in range(2, ny + 2):
        for i in range(2, nx + 2):
            cc = sound_speed[j, i] * sound_speed[j, i] + 2.0 * q[j, i] / density0[j, i]
            sound = 0.7 * min(dx[i], dy[j]) / max(math.sqrt(cc), SMALL)
            left = (xvel0[j, i] + xvel0[j + 1, i]) * x_area[j, i]
            right = (xvel0[j, i + 1] + xvel0[j + 1, i + 1]) * x_area[j, i + 1]
            x = 0.5 * 2.0 * volume[j, i] / max(max(abs(left), abs(right)), SMALL * volume[j, i])
            bottom = (yvel0[j, i] + yvel0[j, i + 1]) * y_area[j, i]
            top = (yvel0[j + 1, i] + yvel0[j + 1, i + 1]) * y_area[j + 1, i]
            y = 0.5 * 2.0 * volume[j, i] / max(max(abs(bottom), abs(top)), SMALL * volume[j, i])
            div = (right - left + top - bottom) / (2.0 * volume[j, i])
            divergence = 0.7 * (-1.0 / div) if div < -SMALL else BIG
            least = min(least, min(sound, min(x, min(y, divergence))))
    dt[0] = least


@kernel(collapse=2)
def pdv_predict(
    x_area: Doubles,
    y_area: Doubles,
    volume: Doubles,
    density0: Doubles,
    density1: Doubles,
    energy0: Doubles,
    energy1: Doubles,
    pressure: Doubles,
    q: Doubles,
    xvel0: Doubles,
    yvel0: Doubles,
    ny: int,
    nx: int,
    dt: float,
) -> None:
    for j in range(2, ny + 2):
        for i in range(2, nx + 2):
            left = x_area[j, i] * 2.0 * (xvel0[j, i] + xvel0[j + 1, i])
            right = x_area[j, i + 1] * 2.0 * (xvel0[j, i + 1] + xvel0[j + 1, i + 1])
            bottom = y_area[j, i] * 2.0 * (yvel0[j, i] + yvel0[j, i + 1])
            top = y_area[j + 1, i] * 2.0 * (yvel0[j + 1, i] + yvel0[j + 1, i + 1])
            flux = (right - left + top - bottom) * 0.25 * dt * 0.5
            energy1[j, i] = energy0[j, i] - (pressure[j, i] + q[j, i]) / density0[j, i] * flux / volume[j, i]
            density1[j, i] = density0[j, i] * volume[j, i] / (volume[j, i] + flux)


@kernel(collapse=2)
def pdv_correct(
    x_area: Doubles,
    y_area: Doubles,
    volume: Doubles,
    density0: Doubles,
    density1: Doubles,
    energy0: Doubles,
    energy1: Doubles,
    pressure: Doubles,
    q: Doubles,
    xvel0: Doubles,
    xvel1: Doubles,
    yvel0: Doubles,
    yvel1: Doubles,
    ny: int,
    nx: int,
    dt: float,
) -> None:
    for j in range(2, ny + 2):
        for i in range(2, nx + 2):
            left = x_area[j, i] * (xvel0[j, i] + xvel0[j + 1, i] + xvel1[j, i] + xvel1[j + 1, i])
            right = x_area[j, i + 1] * (xvel0[j, i + 1] + xvel0[j + 1, i + 1] + xvel1[j, i + 1] + xvel1[j + 1, i + 1])
            bottom = y_area[j, i] * (yvel0[j, i] + yvel0[j, i + 1] + yvel1[j, i] + yvel1[j, i + 1])
            top = y_area[j + 1, i] * (yvel0[j + 1, i] + yvel0[j + 1, i + 1] + yvel1[j + 1, i] + yvel1[j + 1, i + 1])
            flux = (right - left + top - bottom) * 0.25 * dt
            energy1[j, i] = energy0[j, i] - (pressure[j, i] + q[j, i]) / density0[j, i] * flux / volume[j, i]
            density1[j, i] = density0[j, i] * volume[j, i] / (volume[j, i] + flux)


@kernel(collapse=2)
def copy_cells(density: Doubles, density_to: Doubles, energy: Doubles, energy_to: Doubles, ny: int, nx: int) -> None:
    for j in range(2, ny + 2):
        for i in range(2, nx + 2):
            density_to[j, i] = density[j, i]
            energy_to[j, i] = energy[j, i]


@kernel(collapse=2)
def copy_nodes(xvel1: Doubles, xvel0: Doubles, yvel1: Doubles, yvel0: Doubles, ny: int, nx: int) -> None:
    for j in range(2, ny + 3):
        for i in range(2, nx + 3):
            xvel0[j, i] = xvel1[j, i]
            yvel0[j, i] = yvel1[j, i]


@kernel(collapse=2)
def accelerate(
    x_area: Doubles,
    y_area: Doubles,
    volume: Doubles,
    density0: Doubles,
    pressure: Doubles,
    q: Doubles,
    xvel0: Doubles,
    yvel0: Doubles,
    xvel1: Doubles,
    yvel1: Doubles,
    ny: int,
    nx: int,
    dt: float,
) -> None:
    for j in range(2, ny + 3):
        for i in range(2, nx + 3):
            mass = 0.25 * (
                density0[j - 1, i - 1] * volume[j - 1, i - 1]
                + density0[j, i - 1] * volume[j, i - 1]
                + density0[j, i] * volume[j, i]
                + density0[j - 1, i] * volume[j - 1, i]
            )
            step = 0.5 * dt / mass
            xvel1[j, i] = xvel0[j, i] - step * (
                x_area[j, i] * (pressure[j, i] - pressure[j, i - 1] + q[j, i] - q[j, i - 1])
                + x_area[j - 1, i] * (pressure[j - 1, i] - pressure[j - 1, i - 1] + q[j - 1, i] - q[j - 1, i - 1])
            )
            yvel1[j, i] = yvel0[j, i] - step * (
                y_area[j, i] * (pressure[j, i] - pressure[j - 1, i] + q[j, i] - q[j - 1, i])
                + y_area[j, i - 1] * (pressure[j, i - 1] - pressure[j - 1, i - 1] + q[j, i - 1] - q[j - 1, i - 1])
            )


@kernel(collapse=2)
def flux_calc(
    x_area: Doubles,
    y_area: Doubles,
    xvel0: Doubles,
    yvel0: Doubles,
    xvel1: Doubles,
    yvel1: Doubles,
    flux_x: Doubles,
    flux_y: Doubles,
    ny: int,
    nx: int,
    dt: float,
) -> None:
    for j in range(2, ny + 3):
        for i in range(2, nx + 3):
            flux_x[j, i] = 0.25 * dt * x_area[j, i] * (xvel0[j, i] + xvel0[j + 1, i] + xvel1[j, i] + xvel1[j + 1, i])
            flux_y[j, i] = 0.25 * dt * y_area[j, i] * (yvel0[j, i] + yvel0[j, i + 1] + yvel1[j, i] + yvel1[j, i + 1])


@kernel(collapse=2)
def kinetic_energy(
    volume: Doubles, density0: Doubles, xvel0: Doubles, yvel0: Doubles, ny: int, nx: int, total: Doubles
) -> None:
    s = total[0]
    for j in range(2, ny + 2):
        for i in range(2, nx + 2):
            square = 0.0
            for node in range(2):
                square += xvel0[j + node, i] ** 2 + yvel0[j + node, i] ** 2
                square += xvel0[j + node, i + 1] ** 2 + yvel0[j + node, i + 1] ** 2
            s += volume[j, i] * density0[j, i] * 0.5 * 0.25 * square
    total[0] = s


@kernel
def update_bottom(field: Doubles, begin: int, end: int, source: int, sign: float, depth: int) -> None:
    for i in range(begin, end):
        for k in range(depth):
            field[1 - k, i] = sign * field[source + k, i]


@kernel
def update_top(field: Doubles, begin: int, end: int, edge: int, source: int, sign: float, depth: int) -> None:
    for i in range(begin, end):
        for k in range(depth):
            field[edge + k, i] = sign * field[source - k, i]


@kernel
def update_left(field: Doubles, begin: int, end: int, source: int, sign: float, depth: int) -> None:
    for j in range(begin, end):
        for k in range(depth):
            field[j, 1 - k] = sign * field[j, source + k]


@kernel
def update_right(field: Doubles, begin: int, end: int, edge: int, source: int, sign: float, depth: int) -> None:
    for j in range(begin, end):
        for k in range(depth):
            field[j, edge + k] = sign * field[j, source - k]
