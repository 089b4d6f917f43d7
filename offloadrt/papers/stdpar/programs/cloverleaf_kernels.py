"""Kernels of the C++ version of CloverLeaf alone: the initial state, and the sum that the benchmark checks."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import kernel

Doubles = NDArray[np.float64]


@kernel
def set_cells(width: Doubles, d: float) -> None:
    for i in range(len(width)):
        width[i] = d


@kernel(collapse=2)
def set_areas(volume: Doubles, x_area: Doubles, y_area: Doubles, dx: Doubles, dy: Doubles, ny: int, nx: int) -> None:
    for j, i in product(range(ny + 4), range(nx + 4)):
        volume[j, i] = dx[i] * dy[j]
        x_area[j, i] = dy[j]
        y_area[j, i] = dx[i]


@kernel(collapse=2)
def set_state(density: Doubles, energy: Doubles, top: int, right: int, mass: float, e: float) -> None:
    for j, i in product(range(top), range(right)):
        density[j, i] = mass
        energy[j, i] = e


@kernel(collapse=2)
def kinetic_energy(
    volume: Doubles, density0: Doubles, xvel0: Doubles, yvel0: Doubles, ny: int, nx: int, total: Doubles
) -> None:
    s = total[0]
    for j, i in product(range(2, ny + 2), range(2, nx + 2)):
        square = 0.0
        for node in range(2):
            square += xvel0[j + node, i] ** 2 + yvel0[j + node, i] ** 2
            square += xvel0[j + node, i + 1] ** 2 + yvel0[j + node, i + 1] ** 2
        s += volume[j, i] * density0[j, i] * 0.5 * 0.25 * square
    total[0] = s
