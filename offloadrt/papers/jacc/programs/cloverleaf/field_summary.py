"""CloverLeaf's sums over the grid."""

from __future__ import annotations

from itertools import product
from typing import Any

from offloadrt.kernels import kernel


@kernel(collapse=2)
def field_summary(
    volume: Any, density0: Any, energy0: Any, pressure: Any, xvel0: Any, yvel0: Any, sums: Any, nx: Any, ny: Any
) -> None:
    total = 0.0
    mass = 0.0
    internal = 0.0
    kinetic = 0.0
    press = 0.0
    for k, j in product(range(2, ny + 2), range(2, nx + 2)):
        squares = 0.0
        for kv in range(2):
            for jv in range(2):
                squares += 0.25 * (xvel0[k + kv, j + jv] ** 2 + yvel0[k + kv, j + jv] ** 2)
        total += volume[k, j]
        mass += volume[k, j] * density0[k, j]
        internal += volume[k, j] * density0[k, j] * energy0[k, j]
        kinetic += volume[k, j] * density0[k, j] * 0.5 * squares
        press += volume[k, j] * pressure[k, j]
    sums[0] = total
    sums[1] = mass
    sums[2] = internal
    sums[3] = kinetic
    sums[4] = press
