"""Kernels on cells and nodes that stay where they are: equation of state, time step, Lagrangian step, copies."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

from offloadrt.kernels import kernel

SMALL = 1.0e-16
BIG = 1.0e21
GAMMA = 1.4
"""The ratio of specific heats of an ideal gas."""
SAFETY = 0.7
"""How much of the time step that the sound speed allows is used; velocities allow half of theirs."""


@kernel(collapse=2)
def ideal_gas(density: Any, energy: Any, pressure: Any, soundspeed: Any, nx: Any, ny: Any) -> None:
    for k, j in product(range(2, ny + 2), range(2, nx + 2)):
        volume = 1.0 / density[k, j]
        p = (GAMMA - 1.0) * density[k, j] * energy[k, j]
        pressure[k, j] = p
        by_energy = (GAMMA - 1.0) * density[k, j]
        by_volume = -density[k, j] * p
        soundspeed[k, j] = math.sqrt(volume * volume * (p * by_energy - by_volume))


@kernel(collapse=2)
def viscous_pressure(
    celldx: Any, celldy: Any, density0: Any, pressure: Any, viscosity: Any, xvel0: Any, yvel0: Any, nx: Any, ny: Any
) -> None:
    for k, j in product(range(2, ny + 2), range(2, nx + 2)):
        ugrad = (xvel0[k, j + 1] + xvel0[k + 1, j + 1]) - (xvel0[k, j] + xvel0[k + 1, j])
        vgrad = (yvel0[k + 1, j] + yvel0[k + 1, j + 1]) - (yvel0[k, j] + yvel0[k, j + 1])
        div = celldx[j] * ugrad + celldy[k] * vgrad
        across = xvel0[k + 1, j] + xvel0[k + 1, j + 1] - xvel0[k, j] - xvel0[k, j + 1]
        along = yvel0[k, j + 1] + yvel0[k + 1, j + 1] - yvel0[k, j] - yvel0[k + 1, j]
        strain = 0.5 * across / celldy[k] + 0.5 * along / celldx[j]
        px = (pressure[k, j + 1] - pressure[k, j - 1]) / (celldx[j] + celldx[j + 1])
        py = (pressure[k + 1, j] - pressure[k - 1, j]) / (celldy[k] + celldy[k + 1])
        squares = (0.5 * ugrad / celldx[j]) * px * px + (0.5 * vgrad / celldy[k]) * py * py
        limiter = (squares + strain * px * py) / max(px * px + py * py, SMALL)
        if limiter > 0.0 or div >= 0.0:
            viscosity[k, j] = 0.0
        else:
            gx = max(SMALL, abs(px))
            gy = max(SMALL, abs(py))
            gradient = math.sqrt(gx * gx + gy * gy)
            length = min(abs(celldx[j] * gradient / gx), abs(celldy[k] * gradient / gy))
            viscosity[k, j] = 2.0 * density0[k, j] * length * length * limiter * limiter


@kernel(collapse=2)
def calc_dt(
    xarea: Any,
    yarea: Any,
    celldx: Any,
    celldy: Any,
    volume: Any,
    density0: Any,
    viscosity: Any,
    soundspeed: Any,
    xvel0: Any,
    yvel0: Any,
    nx: Any,
    ny: Any,
    dt_min: Any,
) -> None:
    smallest = BIG
    for k, j in product(range(2, ny + 2), range(2, nx + 2)):
        square = soundspeed[k, j] * soundspeed[k, j] + 2.0 * viscosity[k, j] / density0[k, j]
        by_sound = SAFETY * min(celldx[j], celldy[k]) / max(math.sqrt(square), SMALL)
        left = (xvel0[k, j] + xvel0[k + 1, j]) * xarea[k, j]
        right = (xvel0[k, j + 1] + xvel0[k + 1, j + 1]) * xarea[k, j + 1]
        by_x = 0.5 * 2.0 * volume[k, j] / max(abs(left), abs(right), SMALL * volume[k, j])
        bottom = (yvel0[k, j] + yvel0[k, j + 1]) * yarea[k, j]
        top = (yvel0[k + 1, j] + yvel0[k + 1, j + 1]) * yarea[k + 1, j]
        by_y = 0.5 * 2.0 * volume[k, j] / max(abs(bottom), abs(top), SMALL * volume[k, j])
        div = (right - left + top - bottom) / (2.0 * volume[k, j])
        by_div = -SAFETY / div if div < -SMALL else BIG
        smallest = min(smallest, min(min(by_sound, by_x), min(by_y, by_div)))
    dt_min[0] = smallest


@kernel(collapse=2)
def pdv_predict(
    dt: Any,
    xarea: Any,
    yarea: Any,
    volume: Any,
    density0: Any,
    density1: Any,
    energy0: Any,
    energy1: Any,
    pressure: Any,
    viscosity: Any,
    xvel0: Any,
    yvel0: Any,
    nx: Any,
    ny: Any,
) -> None:
    for k, j in product(range(2, ny + 2), range(2, nx + 2)):
        left = xarea[k, j] * 2.0 * (xvel0[k, j] + xvel0[k + 1, j]) * 0.125 * dt
        right = xarea[k, j + 1] * 2.0 * (xvel0[k, j + 1] + xvel0[k + 1, j + 1]) * 0.125 * dt
        bottom = yarea[k, j] * 2.0 * (yvel0[k, j] + yvel0[k, j + 1]) * 0.125 * dt
        top = yarea[k + 1, j] * 2.0 * (yvel0[k + 1, j] + yvel0[k + 1, j + 1]) * 0.125 * dt
        total = right - left + top - bottom
        change = (pressure[k, j] + viscosity[k, j]) / density0[k, j] * total / volume[k, j]
        energy1[k, j] = energy0[k, j] - change
        density1[k, j] = density0[k, j] * volume[k, j] / (volume[k, j] + total)


@kernel(collapse=2)
def pdv(
    dt: Any,
    xarea: Any,
    yarea: Any,
    volume: Any,
    density0: Any,
    density1: Any,
    energy0: Any,
    energy1: Any,
    pressure: Any,
    viscosity: Any,
    xvel0: Any,
    xvel1: Any,
    yvel0: Any,
    yvel1: Any,
    nx: Any,
    ny: Any,
) -> None:
    for k, j in product(range(2, ny + 2), range(2, nx + 2)):
        left = xarea[k, j] * (xvel0[k, j] + xvel0[k + 1, j] + xvel1[k, j] + xvel1[k + 1, j]) * 0.25 * dt
        east = xvel0[k, j + 1] + xvel0[k + 1, j + 1] + xvel1[k, j + 1] + xvel1[k + 1, j + 1]
        right = xarea[k, j + 1] * east * 0.25 * dt
        bottom = yarea[k, j] * (yvel0[k, j] + yvel0[k, j + 1] + yvel1[k, j] + yvel1[k, j + 1]) * 0.25 * dt
        north = yvel0[k + 1, j] + yvel0[k + 1, j + 1] + yvel1[k + 1, j] + yvel1[k + 1, j + 1]
        top = yarea[k + 1, j] * north * 0.25 * dt
        total = right - left + top - bottom
        change = (pressure[k, j] + viscosity[k, j]) / density0[k, j] * total / volume[k, j]
        energy1[k, j] = energy0[k, j] - change
        density1[k, j] = density0[k, j] * volume[k, j] / (volume[k, j] + total)


@kernel(collapse=2)
def accelerate(
    dt: Any,
    xarea: Any,
    yarea: Any,
    volume: Any,
    density0: Any,
    pressure: Any,
    viscosity: Any,
    xvel0: Any,
    yvel0: Any,
    xvel1: Any,
    yvel1: Any,
    nx: Any,
    ny: Any,
) -> None:
    for k, j in product(range(2, ny + 3), range(2, nx + 3)):
        below = density0[k - 1, j - 1] * volume[k - 1, j - 1] + density0[k - 1, j] * volume[k - 1, j]
        above = density0[k, j] * volume[k, j] + density0[k, j - 1] * volume[k, j - 1]
        step = 0.5 * dt / ((below + above) * 0.25)
        upper = pressure[k, j] - pressure[k, j - 1] + viscosity[k, j] - viscosity[k, j - 1]
        lower = pressure[k - 1, j] - pressure[k - 1, j - 1] + viscosity[k - 1, j] - viscosity[k - 1, j - 1]
        xvel1[k, j] = xvel0[k, j] - step * (xarea[k, j] * upper + xarea[k - 1, j] * lower)
        east = pressure[k, j] - pressure[k - 1, j] + viscosity[k, j] - viscosity[k - 1, j]
        west = pressure[k, j - 1] - pressure[k - 1, j - 1] + viscosity[k, j - 1] - viscosity[k - 1, j - 1]
        yvel1[k, j] = yvel0[k, j] - step * (yarea[k, j] * east + yarea[k, j - 1] * west)


@kernel(collapse=2)
def flux_calc(
    dt: Any,
    xarea: Any,
    yarea: Any,
    xvel0: Any,
    yvel0: Any,
    xvel1: Any,
    yvel1: Any,
    vol_flux_x: Any,
    vol_flux_y: Any,
    nx: Any,
    ny: Any,
) -> None:
    for k, j in product(range(2, ny + 3), range(2, nx + 3)):
        x = xvel0[k, j] + xvel0[k + 1, j] + xvel1[k, j] + xvel1[k + 1, j]
        vol_flux_x[k, j] = 0.25 * dt * xarea[k, j] * x
        y = yvel0[k, j] + yvel0[k, j + 1] + yvel1[k, j] + yvel1[k, j + 1]
        vol_flux_y[k, j] = 0.25 * dt * yarea[k, j] * y


def copy_cells(density: Any, density_to: Any, energy: Any, energy_to: Any, nx: Any, ny: Any) -> None:
    for k, j in product(range(2, ny + 2), range(2, nx + 2)):
        density_to[k, j] = density[k, j]
        energy_to[k, j] = energy[k, j]


revert = kernel(name="revert", collapse=2)(copy_cells)
"""Start the second half of the step from the old state again."""
reset_cells = kernel(name="reset_cells", collapse=2)(copy_cells)
"""Make the new state of the cells the old one of the next step."""


@kernel(collapse=2)
def reset_nodes(xvel1: Any, xvel0: Any, yvel1: Any, yvel0: Any, nx: Any, ny: Any) -> None:
    for k, j in product(range(2, ny + 3), range(2, nx + 3)):
        xvel0[k, j] = xvel1[k, j]
        yvel0[k, j] = yvel1[k, j]
