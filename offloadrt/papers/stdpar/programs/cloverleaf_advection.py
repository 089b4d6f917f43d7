"""Kernels of CloverLeaf's advection along one axis: volume, mass and energy of cells, then momentum of nodes.

The axis is (y, x): (0, 1) for x and (1, 0) for y. `n` is the number of cells along it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import kernel

Doubles = NDArray[np.float64]


@kernel(collapse=2)
def volumes_of_first_sweep(
    volume: Doubles, flux: Doubles, across: Doubles, pre: Doubles, post: Doubles, ny: int, nx: int, y: int, x: int
) -> None:
    for j in range(ny + 4):
        for i in range(nx + 4):
            other = across[j + x, i + y] - across[j, i]
            post[j, i] = volume[j, i] + other
            pre[j, i] = volume[j, i] + other + flux[j + y, i + x] - flux[j, i]


@kernel(collapse=2)
def volumes_of_second_sweep(
    volume: Doubles, flux: Doubles, pre: Doubles, post: Doubles, ny: int, nx: int, y: int, x: int
) -> None:
    for j in range(ny + 4):
        for i in range(nx + 4):
            post[j, i] = volume[j, i]
            pre[j, i] = volume[j, i] + flux[j + y, i + x] - flux[j, i]


@kernel(collapse=2)
def cell_fluxes(
    d: Doubles,
    density1: Doubles,
    energy1: Doubles,
    pre: Doubles,
    flux: Doubles,
    mass_flux: Doubles,
    energy_flux: Doubles,
    ny: int,
    nx: int,
    y: int,
    x: int,
    n: int,
) -> None:
    """What crosses each face, from the side that the flux comes from, second order where that is monotone."""
    for j in range(2, ny + 2 + 2 * y):
        for i in range(2, nx + 2 + 2 * x):
            place = j * y + i * x
            if flux[j, i] > 0.0:
                mass = density1[j - y, i - x]
                up = mass - density1[j - 2 * y, i - 2 * x]
                down = density1[j, i] - mass
                heat = energy1[j - y, i - x]
                heat_up = heat - energy1[j - 2 * y, i - 2 * x]
                heat_down = energy1[j, i] - heat
                room = pre[j - y, i - x]
                ratio = d[place] / d[place - 1]
            else:
                mass = density1[j, i]
                down = density1[j - y, i - x] - mass
                heat = energy1[j, i]
                heat_down = energy1[j - y, i - x] - heat
                room = pre[j, i]
                up = 0.0
                heat_up = 0.0
                ratio = 1.0
                if place < n + 3:
                    up = mass - density1[j + y, i + x]
                    heat_up = heat - energy1[j + y, i + x]
                    ratio = d[place] / d[place + 1]
            sigma = abs(flux[j, i]) / room
            near = (1.0 + sigma) * ratio
            limiter = 0.0
            if up * down > 0.0:
                wind = -1.0 if down <= 0.0 else 1.0
                slope = min(min(abs(up), abs(down)), (near * abs(up) + (2.0 - sigma) * abs(down)) / 6.0)
                limiter = (1.0 - sigma) * wind * slope
            moved = flux[j, i] * (mass + limiter)
            mass_flux[j, i] = moved
            part = abs(moved) / (mass * room)
            limiter = 0.0
            if heat_up * heat_down > 0.0:
                wind = -1.0 if heat_down <= 0.0 else 1.0
                slope = min(
                    min(abs(heat_up), abs(heat_down)), (near * abs(heat_up) + (2.0 - sigma) * abs(heat_down)) / 6.0
                )
                limiter = (1.0 - part) * wind * slope
            energy_flux[j, i] = moved * (heat + limiter)


@kernel(collapse=2)
def update_cells(
    density1: Doubles,
    energy1: Doubles,
    pre: Doubles,
    flux: Doubles,
    mass_flux: Doubles,
    energy_flux: Doubles,
    ny: int,
    nx: int,
    y: int,
    x: int,
) -> None:
    for j in range(2, ny + 2):
        for i in range(2, nx + 2):
            before = density1[j, i] * pre[j, i]
            after = before + mass_flux[j, i] - mass_flux[j + y, i + x]
            energy1[j, i] = (energy1[j, i] * before + energy_flux[j, i] - energy_flux[j + y, i + x]) / after
            density1[j, i] = after / (pre[j, i] + flux[j, i] - flux[j + y, i + x])


@kernel(collapse=2)
def node_fluxes(mass_flux: Doubles, node_flux: Doubles, ny: int, nx: int, y: int, x: int) -> None:
    for j in range(2 - 2 * y, ny + 3 + y):
        for i in range(2 - 2 * x, nx + 3 + x):
            node_flux[j, i] = 0.25 * (
                mass_flux[j - x, i - y] + mass_flux[j, i] + mass_flux[j - x + y, i - y + x] + mass_flux[j + y, i + x]
            )


@kernel(collapse=2)
def node_masses(
    density1: Doubles,
    post: Doubles,
    node_flux: Doubles,
    mass_post: Doubles,
    mass_pre: Doubles,
    ny: int,
    nx: int,
    y: int,
    x: int,
) -> None:
    for j in range(2 - y, ny + 3 + y):
        for i in range(2 - x, nx + 3 + x):
            mass = 0.25 * (
                density1[j - 1, i] * post[j - 1, i]
                + density1[j, i] * post[j, i]
                + density1[j - 1, i - 1] * post[j - 1, i - 1]
                + density1[j, i - 1] * post[j, i - 1]
            )
            mass_post[j, i] = mass
            mass_pre[j, i] = mass - node_flux[j - y, i - x] + node_flux[j, i]


@kernel(collapse=2)
def momentum_fluxes(
    d: Doubles,
    velocity: Doubles,
    node_flux: Doubles,
    mass_pre: Doubles,
    momentum_flux: Doubles,
    ny: int,
    nx: int,
    y: int,
    x: int,
) -> None:
    for j in range(2 - y, ny + 3):
        for i in range(2 - x, nx + 3):
            place = j * y + i * x
            if node_flux[j, i] < 0.0:
                donor = velocity[j + y, i + x]
                up = donor - velocity[j + 2 * y, i + 2 * x]
                down = velocity[j, i] - donor
                mass = mass_pre[j + y, i + x]
                beyond = d[place + 1]
            else:
                donor = velocity[j, i]
                up = donor - velocity[j - y, i - x]
                down = velocity[j + y, i + x] - donor
                mass = mass_pre[j, i]
                beyond = d[place - 1]
            sigma = abs(node_flux[j, i]) / mass
            limiter = 0.0
            if up * down > 0.0:
                wind = -1.0 if down <= 0.0 else 1.0
                width = d[place]
                slope = width * ((2.0 - sigma) * abs(down) / width + (1.0 + sigma) * abs(up) / beyond) / 6.0
                limiter = wind * min(min(slope, abs(up)), abs(down))
            momentum_flux[j, i] = (donor + (1.0 - sigma) * limiter) * node_flux[j, i]


@kernel(collapse=2)
def update_velocity(
    velocity: Doubles,
    mass_pre: Doubles,
    mass_post: Doubles,
    momentum_flux: Doubles,
    ny: int,
    nx: int,
    y: int,
    x: int,
) -> None:
    for j in range(2, ny + 3):
        for i in range(2, nx + 3):
            velocity[j, i] = (
                velocity[j, i] * mass_pre[j, i] + momentum_flux[j - y, i - x] - momentum_flux[j, i]
            ) / mass_post[j, i]
