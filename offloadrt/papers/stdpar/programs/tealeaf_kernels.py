"""Kernels of TeaLeaf's conjugate gradient solver: loops over the cells of a grid with a halo of `h` cells."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import kernel

Doubles = NDArray[np.float64]


@kernel
def set_vertices(vertex: Doubles, origin: float, d: float, h: int) -> None:
    for i in range(len(vertex)):
        vertex[i] = origin + d * (i - h)


@kernel(collapse=2)
def set_volume(volume: Doubles, x_area: Doubles, y_area: Doubles, n: int, d: float) -> None:
    for j, k in product(range(n), range(n)):
        volume[j, k] = d * d
        x_area[j, k] = d
        y_area[j, k] = d


@kernel(collapse=2)
def set_background(energy0: Doubles, density: Doubles, n: int, energy: float, mass: float) -> None:
    for j, k in product(range(n), range(n)):
        energy0[j, k] = energy
        density[j, k] = mass


@kernel(collapse=2)
def set_rectangle(
    vertex_x: Doubles,
    vertex_y: Doubles,
    energy0: Doubles,
    density: Doubles,
    u: Doubles,
    n: int,
    energy: float,
    mass: float,
    left: float,
    right: float,
    bottom: float,
    top: float,
) -> None:
    for j, k in product(range(n), range(n)):
        if vertex_x[k + 1] >= left and vertex_x[k] < right and vertex_y[j + 1] >= bottom and vertex_y[j] < top:
            energy0[j, k] = energy
            density[j, k] = mass
        u[j, k] = energy0[j, k] * density[j, k]


@kernel(collapse=2)
def cg_init_u(p: Doubles, r: Doubles, u: Doubles, energy: Doubles, density: Doubles, n: int) -> None:
    for j, k in product(range(n), range(n)):
        p[j, k] = 0.0
        r[j, k] = 0.0
        u[j, k] = energy[j, k] * density[j, k]


@kernel(collapse=2)
def cg_init_w(w: Doubles, density: Doubles, n: int) -> None:
    for j, k in product(range(1, n - 1), range(1, n - 1)):
        w[j, k] = density[j, k]


@kernel(collapse=2)
def cg_init_k(kx: Doubles, ky: Doubles, w: Doubles, n: int, h: int, rate: float) -> None:
    for j, k in product(range(h, n - 1), range(h, n - 1)):
        kx[j, k] = rate * (w[j, k - 1] + w[j, k]) / (2.0 * w[j, k - 1] * w[j, k])
        ky[j, k] = rate * (w[j - 1, k] + w[j, k]) / (2.0 * w[j - 1, k] * w[j, k])


@kernel(collapse=2)
def cg_init_r(
    u: Doubles, w: Doubles, r: Doubles, p: Doubles, kx: Doubles, ky: Doubles, n: int, h: int, total: Doubles
) -> None:
    s = total[0]
    for j, k in product(range(h, n - h), range(h, n - h)):
        applied = (
            (1.0 + (kx[j, k + 1] + kx[j, k]) + (ky[j + 1, k] + ky[j, k])) * u[j, k]
            - (kx[j, k + 1] * u[j, k + 1] + kx[j, k] * u[j, k - 1])
            - (ky[j + 1, k] * u[j + 1, k] + ky[j, k] * u[j - 1, k])
        )
        w[j, k] = applied
        rest = u[j, k] - applied
        r[j, k] = rest
        p[j, k] = rest
        s += rest * rest
    total[0] = s


@kernel(collapse=2)
def cg_calc_w(p: Doubles, w: Doubles, kx: Doubles, ky: Doubles, n: int, h: int, total: Doubles) -> None:
    s = total[0]
    for j, k in product(range(h, n - h), range(h, n - h)):
        applied = (
            (1.0 + (kx[j, k + 1] + kx[j, k]) + (ky[j + 1, k] + ky[j, k])) * p[j, k]
            - (kx[j, k + 1] * p[j, k + 1] + kx[j, k] * p[j, k - 1])
            - (ky[j + 1, k] * p[j + 1, k] + ky[j, k] * p[j - 1, k])
        )
        w[j, k] = applied
        s += applied * p[j, k]
    total[0] = s


@kernel(collapse=2)
def cg_calc_ur(u: Doubles, p: Doubles, r: Doubles, w: Doubles, n: int, h: int, alpha: float, total: Doubles) -> None:
    s = total[0]
    for j, k in product(range(h, n - h), range(h, n - h)):
        u[j, k] = u[j, k] + alpha * p[j, k]
        rest = r[j, k] - alpha * w[j, k]
        r[j, k] = rest
        s += rest * rest
    total[0] = s


@kernel(collapse=2)
def cg_calc_p(p: Doubles, r: Doubles, n: int, h: int, beta: float) -> None:
    for j, k in product(range(h, n - h), range(h, n - h)):
        p[j, k] = beta * p[j, k] + r[j, k]


@kernel(collapse=2)
def copy_interior(source: Doubles, destination: Doubles, n: int, h: int) -> None:
    for j, k in product(range(h, n - h), range(h, n - h)):
        destination[j, k] = source[j, k]


@kernel(collapse=2)
def calculate_residual(u: Doubles, u0: Doubles, r: Doubles, kx: Doubles, ky: Doubles, n: int, h: int) -> None:
    for j, k in product(range(h, n - h), range(h, n - h)):
        applied = (
            (1.0 + (kx[j, k + 1] + kx[j, k]) + (ky[j + 1, k] + ky[j, k])) * u[j, k]
            - (kx[j, k + 1] * u[j, k + 1] + kx[j, k] * u[j, k - 1])
            - (ky[j + 1, k] * u[j + 1, k] + ky[j, k] * u[j - 1, k])
        )
        r[j, k] = u0[j, k] - applied


@kernel(collapse=2)
def norm(r: Doubles, n: int, h: int, total: Doubles) -> None:
    s = total[0]
    for j, k in product(range(h, n - h), range(h, n - h)):
        s += r[j, k] * r[j, k]
    total[0] = s


@kernel(collapse=2)
def finalise(energy: Doubles, density: Doubles, u: Doubles, n: int, h: int) -> None:
    for j, k in product(range(h, n - h), range(h, n - h)):
        energy[j, k] = u[j, k] / density[j, k]


@kernel(collapse=2)
def temperature(volume: Doubles, density: Doubles, u: Doubles, n: int, h: int, total: Doubles) -> None:
    s = total[0]
    for j, k in product(range(h, n - h), range(h, n - h)):
        s += volume[j, k] * density[j, k] * u[j, k]
    total[0] = s


@kernel(collapse=2)
def update_left(field: Doubles, n: int, h: int, depth: int) -> None:
    for j, k in product(range(h, n - h), range(depth)):
        field[j, h - k - 1] = field[j, h + k]


@kernel(collapse=2)
def update_right(field: Doubles, n: int, h: int, depth: int) -> None:
    for j, k in product(range(h, n - h), range(depth)):
        field[j, n - h + k] = field[j, n - h - 1 - k]


@kernel(collapse=2)
def update_top(field: Doubles, n: int, h: int, depth: int) -> None:
    for j, k in product(range(depth), range(h, n - h)):
        field[n - h + j, k] = field[n - h - 1 - j, k]


@kernel(collapse=2)
def update_bottom(field: Doubles, n: int, h: int, depth: int) -> None:
    for j, k in product(range(depth), range(h, n - h)):
        field[h - j - 1, k] = field[h + j, k]
