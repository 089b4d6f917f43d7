"""CCS-QCD's kernels before the solver: the clover term of the gauge field, and the inverse of its blocks.

Links [direction, x, y, z, t, colour, colour] are complex and have a ring of halo sites. What is made from them has no
halo: products of two links w [leg, ...], leaves v, field strengths f [plane, ...], blocks of 6 by 6 a [x, y, z, t, row,
column], and their inverses as `solver.hopping` reads them: [chirality, x, y, z, t, 7, 3], a triangle folded into a
rectangle. A plane of directions (m, n) is given by both directions and the steps in x, y and z that they mean.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import kernel

Complex = NDArray[np.complex128]


@kernel(collapse=6)
def legs_ahead(
    u: Complex,
    w: Complex,
    m: Any,
    n: Any,
    mx: Any,
    my: Any,
    mz: Any,
    fx: Any,
    fy: Any,
    fz: Any,
    nx: Any,
    ny: Any,
    nz: Any,
) -> None:
    """Multiply the two pairs of links that meet at a site and across it."""
    for ix, iy, iz, it, a, b in product(
        range(nx + 1), range(ny + 1), range(nz + 1), range(u.shape[4]), range(3), range(3)
    ):
        near = 0j
        far = 0j
        for k in range(3):
            near += u[n, ix, iy, iz, it, k, a].conjugate() * u[m, ix, iy, iz, it, k, b]
            across = u[m, ix + fx, iy + fy, iz + fz, it, b, k]
            far += u[n, ix + mx, iy + my, iz + mz, it, a, k] * across.conjugate()
        w[0, ix, iy, iz, it, a, b] = near
        w[1, ix, iy, iz, it, a, b] = far


@kernel(collapse=6)
def legs_behind(
    u: Complex,
    w: Complex,
    m: Any,
    n: Any,
    mx: Any,
    my: Any,
    mz: Any,
    fx: Any,
    fy: Any,
    fz: Any,
    nx: Any,
    ny: Any,
    nz: Any,
) -> None:
    """Multiply the same pairs on the other side of the direction n."""
    for ix, iy, iz, it, a, b in product(
        range(1, nx + 1), range(1, ny + 1), range(1, nz + 1), range(u.shape[4]), range(3), range(3)
    ):
        near = 0j
        far = 0j
        for k in range(3):
            near += u[m, ix, iy, iz, it, k, a] * u[n, ix - fx, iy - fy, iz - fz, it, b, k]
            across = u[n, ix - fx + mx, iy - fy + my, iz - fz + mz, it, k, b]
            far += u[m, ix - fx, iy - fy, iz - fz, it, a, k] * across
        w[2, ix, iy, iz, it, a, b] = near.conjugate()
        w[3, ix, iy, iz, it, a, b] = far


@kernel(collapse=6)
def leaves(w: Complex, v: Complex, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    """Close legs to plaquettes: both that have the site as a corner on one side."""
    for ix, iy, iz, it, a, b in product(range(nx), range(ny), range(nz), range(nt), range(3), range(3)):
        total = 0j
        for leg in range(2):
            for k in range(3):
                near = w[2 * leg, ix + 1, iy + 1, iz + 1, it, a, k]
                total += near * w[2 * leg + 1, ix + 1, iy + 1, iz + 1, it, k, b]
        v[ix, iy, iz, it, a, b] = total


@kernel(collapse=6)
def strength(v: Complex, f: Complex, plane: Any) -> None:
    """Take the antihermitian part of the leaves, over 8i."""
    for ix, iy, iz, it, a, b in product(
        range(v.shape[0]), range(v.shape[1]), range(v.shape[2]), range(v.shape[3]), range(3), range(3)
    ):
        part = v[ix, iy, iz, it, a, b] - v[ix, iy, iz, it, b, a].conjugate()
        f[plane, ix, iy, iz, it, a, b] = -0.125j * part


@kernel(collapse=6)
def block_diagonal_1(f: Complex, a: Complex, factor: Any) -> None:
    """Set 1 + factor (f5 - f0) and 1 + factor (f0 - f5)."""
    for ix, iy, iz, it, i, j in product(
        range(f.shape[1]), range(f.shape[2]), range(f.shape[3]), range(f.shape[4]), range(3), range(3)
    ):
        unit = 1.0 if i == j else 0.0
        part = factor * (f[5, ix, iy, iz, it, i, j] - f[0, ix, iy, iz, it, i, j])
        a[ix, iy, iz, it, i, j] = unit + part
        a[ix, iy, iz, it, i + 3, j + 3] = unit - part


@kernel(collapse=6)
def block_diagonal_2(f: Complex, a: Complex, factor: Any) -> None:
    """Set 1 + factor (f0 + f5) and 1 - factor (f0 + f5)."""
    for ix, iy, iz, it, i, j in product(
        range(f.shape[1]), range(f.shape[2]), range(f.shape[3]), range(f.shape[4]), range(3), range(3)
    ):
        unit = 1.0 if i == j else 0.0
        part = factor * (f[5, ix, iy, iz, it, i, j] + f[0, ix, iy, iz, it, i, j])
        a[ix, iy, iz, it, i, j] = unit + part
        a[ix, iy, iz, it, i + 3, j + 3] = unit - part


@kernel(collapse=6)
def block_off_1(f: Complex, a: Complex, factor: Any) -> None:
    """Set factor (f2 - f3 - i (f1 + f4)) above the diagonal, with + i below."""
    for ix, iy, iz, it, i, j in product(
        range(f.shape[1]), range(f.shape[2]), range(f.shape[3]), range(f.shape[4]), range(3), range(3)
    ):
        p = f[2, ix, iy, iz, it, i, j] - f[3, ix, iy, iz, it, i, j]
        q = 1j * (f[1, ix, iy, iz, it, i, j] + f[4, ix, iy, iz, it, i, j])
        a[ix, iy, iz, it, i, j + 3] = factor * (p - q)
        a[ix, iy, iz, it, i + 3, j] = factor * (p + q)


@kernel(collapse=6)
def block_off_2(f: Complex, a: Complex, factor: Any) -> None:
    """Set factor (f3 + f2 - i (f1 - f4)) below the diagonal, with + i above."""
    for ix, iy, iz, it, i, j in product(
        range(f.shape[1]), range(f.shape[2]), range(f.shape[3]), range(f.shape[4]), range(3), range(3)
    ):
        p = f[3, ix, iy, iz, it, i, j] + f[2, ix, iy, iz, it, i, j]
        q = 1j * (f[1, ix, iy, iz, it, i, j] - f[4, ix, iy, iz, it, i, j])
        a[ix, iy, iz, it, i, j + 3] = factor * (p + q)
        a[ix, iy, iz, it, i + 3, j] = factor * (p - q)


@kernel(collapse=6)
def begin_inverse(a: Complex, work: Complex, inverse: Complex) -> None:
    """Copy the blocks to decompose, and set the unit matrix to solve for."""
    for ix, iy, iz, it, i, j in product(
        range(a.shape[0]), range(a.shape[1]), range(a.shape[2]), range(a.shape[3]), range(6), range(6)
    ):
        inverse[ix, iy, iz, it, i, j] = 1.0 if i == j else 0.0
        work[ix, iy, iz, it, i, j] = a[ix, iy, iz, it, i, j]


@kernel(collapse=4)
def decompose(a: Complex) -> None:
    """Decompose the blocks in place into L D L†: D on the diagonal, L below it."""
    for ix, iy, iz, it in product(range(a.shape[0]), range(a.shape[1]), range(a.shape[2]), range(a.shape[3])):
        for i in range(6):
            d = a[ix, iy, iz, it, i, i].real
            for k in range(i):
                factor = a[ix, iy, iz, it, i, k]
                square = factor.real * factor.real + factor.imag * factor.imag
                d -= square * a[ix, iy, iz, it, k, k].real
            a[ix, iy, iz, it, i, i] = d
            for j in range(i + 1, 6):
                element = a[ix, iy, iz, it, i, j]
                for k in range(i):
                    scaled = a[ix, iy, iz, it, i, k] * a[ix, iy, iz, it, k, k].real
                    element -= scaled * a[ix, iy, iz, it, j, k].conjugate()
                a[ix, iy, iz, it, j, i] = element.conjugate() / d


@kernel(collapse=4)
def determinant(a: Complex, d: Any) -> None:
    for ix, iy, iz, it in product(range(a.shape[0]), range(a.shape[1]), range(a.shape[2]), range(a.shape[3])):
        value = 1.0
        for i in range(6):
            value *= a[ix, iy, iz, it, i, i].real
        d[ix, iy, iz, it] = value


@kernel(collapse=4)
def log_determinant(d: Any, sums: Any) -> None:
    total = 0.0
    for ix, iy, iz, it in product(range(d.shape[0]), range(d.shape[1]), range(d.shape[2]), range(d.shape[3])):
        total += math.log(d[ix, iy, iz, it])
    sums[0] = total


@kernel(collapse=4)
def solve(a: Complex, b: Complex) -> None:
    """Solve for the columns of b in place: forward by L, by D, and backward by L†."""
    for ix, iy, iz, it in product(range(a.shape[0]), range(a.shape[1]), range(a.shape[2]), range(a.shape[3])):
        for i in range(1, 6):
            for j in range(6):
                element = b[ix, iy, iz, it, i, j]
                for k in range(i):
                    element -= a[ix, iy, iz, it, i, k] * b[ix, iy, iz, it, k, j]
                b[ix, iy, iz, it, i, j] = element
        for back in range(6):
            for j in range(6):
                element = b[ix, iy, iz, it, 5 - back, j] / a[ix, iy, iz, it, 5 - back, 5 - back].real
                for k in range(6 - back, 6):
                    element -= a[ix, iy, iz, it, k, 5 - back].conjugate() * b[ix, iy, iz, it, k, j]
                b[ix, iy, iz, it, 5 - back, j] = element


@kernel(collapse=4)
def fold(upper: Complex, lower: Complex, clover: Complex) -> None:
    """Store half of both inverses, each lower triangle as a rectangle: what stands right of column 2 is folded up."""
    for ix, iy, iz, it in product(
        range(upper.shape[0]), range(upper.shape[1]), range(upper.shape[2]), range(upper.shape[3])
    ):
        for j in range(3):
            for i in range(j, 6):
                clover[0, ix, iy, iz, it + 1, i + 1, j] = 0.5 * upper[ix, iy, iz, it, i, j]
                clover[1, ix, iy, iz, it + 1, i + 1, j] = 0.5 * lower[ix, iy, iz, it, i, j]
            for i in range(j + 1):
                clover[0, ix, iy, iz, it + 1, i, j] = 0.5 * upper[ix, iy, iz, it, j + 3, i + 3]
                clover[1, ix, iy, iz, it + 1, i, j] = 0.5 * lower[ix, iy, iz, it, j + 3, i + 3]
