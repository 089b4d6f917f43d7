"""CCS-QCD's kernels before the solver: the clover term of the gauge field, and the inverse of its blocks.

Links [direction, x, y, z, t, colour, colour, part] have a ring of halo sites; what is made from them has none: products
of two links w [leg, …], leaves v, field strengths f [plane, …], blocks of 6 by 6 a [x, y, z, t, row, column, part],
and their inverses as `solver.hopping` reads them: [chirality, x, y, z, t, 7, 3, part], a triangle folded into a
rectangle.
A plane of directions (m, n) is given by both directions and the steps in x, y and z that they mean.
"""

from __future__ import annotations

import math
from typing import Any

from offloadrt.kernels import kernel


@kernel(collapse=6)
def legs_ahead(
    u: Any, w: Any, m: Any, n: Any, mx: Any, my: Any, mz: Any, fx: Any, fy: Any, fz: Any, nx: Any, ny: Any, nz: Any
) -> None:
    """The two products of links that meet at a site and across it."""
    for ix in range(nx + 1):
        for iy in range(ny + 1):
            for iz in range(nz + 1):
                for it in range(u.shape[4]):
                    for a in range(3):
                        for b in range(3):
                            near_re = 0.0
                            near_im = 0.0
                            far_re = 0.0
                            far_im = 0.0
                            for k in range(3):
                                p_re = u[n, ix, iy, iz, it, k, a, 0]
                                p_im = u[n, ix, iy, iz, it, k, a, 1]
                                q_re = u[m, ix, iy, iz, it, k, b, 0]
                                q_im = u[m, ix, iy, iz, it, k, b, 1]
                                near_re += p_re * q_re + p_im * q_im
                                near_im += p_re * q_im - p_im * q_re
                                p_re = u[n, ix + mx, iy + my, iz + mz, it, a, k, 0]
                                p_im = u[n, ix + mx, iy + my, iz + mz, it, a, k, 1]
                                q_re = u[m, ix + fx, iy + fy, iz + fz, it, b, k, 0]
                                q_im = u[m, ix + fx, iy + fy, iz + fz, it, b, k, 1]
                                far_re += p_re * q_re + p_im * q_im
                                far_im += p_im * q_re - p_re * q_im
                            w[0, ix, iy, iz, it, a, b, 0] = near_re
                            w[0, ix, iy, iz, it, a, b, 1] = near_im
                            w[1, ix, iy, iz, it, a, b, 0] = far_re
                            w[1, ix, iy, iz, it, a, b, 1] = far_im


@kernel(collapse=6)
def legs_behind(
    u: Any, w: Any, m: Any, n: Any, mx: Any, my: Any, mz: Any, fx: Any, fy: Any, fz: Any, nx: Any, ny: Any, nz: Any
) -> None:
    """The same on the other side of the direction n."""
    for ix in range(1, nx + 1):
        for iy in range(1, ny + 1):
            for iz in range(1, nz + 1):
                for it in range(u.shape[4]):
                    for a in range(3):
                        for b in range(3):
                            near_re = 0.0
                            near_im = 0.0
                            far_re = 0.0
                            far_im = 0.0
                            for k in range(3):
                                p_re = u[m, ix, iy, iz, it, k, a, 0]
                                p_im = u[m, ix, iy, iz, it, k, a, 1]
                                q_re = u[n, ix - fx, iy - fy, iz - fz, it, b, k, 0]
                                q_im = u[n, ix - fx, iy - fy, iz - fz, it, b, k, 1]
                                near_re += p_re * q_re - p_im * q_im
                                near_im -= p_re * q_im + p_im * q_re
                                p_re = u[m, ix - fx, iy - fy, iz - fz, it, a, k, 0]
                                p_im = u[m, ix - fx, iy - fy, iz - fz, it, a, k, 1]
                                q_re = u[n, ix - fx + mx, iy - fy + my, iz - fz + mz, it, k, b, 0]
                                q_im = u[n, ix - fx + mx, iy - fy + my, iz - fz + mz, it, k, b, 1]
                                far_re += p_re * q_re - p_im * q_im
                                far_im += p_re * q_im + p_im * q_re
                            w[2, ix, iy, iz, it, a, b, 0] = near_re
                            w[2, ix, iy, iz, it, a, b, 1] = near_im
                            w[3, ix, iy, iz, it, a, b, 0] = far_re
                            w[3, ix, iy, iz, it, a, b, 1] = far_im


@kernel(collapse=6)
def leaves(w: Any, v: Any, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    """Products of legs, which close to plaquettes: both that have the site as a corner on one side."""
    for ix in range(nx):
        for iy in range(ny):
            for iz in range(nz):
                for it in range(nt):
                    for a in range(3):
                        for b in range(3):
                            re = 0.0
                            im = 0.0
                            for leg in range(2):
                                for k in range(3):
                                    p_re = w[2 * leg, ix + 1, iy + 1, iz + 1, it, a, k, 0]
                                    p_im = w[2 * leg, ix + 1, iy + 1, iz + 1, it, a, k, 1]
                                    q_re = w[2 * leg + 1, ix + 1, iy + 1, iz + 1, it, k, b, 0]
                                    q_im = w[2 * leg + 1, ix + 1, iy + 1, iz + 1, it, k, b, 1]
                                    re += p_re * q_re - p_im * q_im
                                    im += p_re * q_im + p_im * q_re
                            v[ix, iy, iz, it, a, b, 0] = re
                            v[ix, iy, iz, it, a, b, 1] = im


@kernel(collapse=6)
def strength(v: Any, f: Any, plane: Any) -> None:
    """The hermitian part of the leaves, over 8i."""
    for ix in range(v.shape[0]):
        for iy in range(v.shape[1]):
            for iz in range(v.shape[2]):
                for it in range(v.shape[3]):
                    for a in range(3):
                        for b in range(3):
                            re = v[ix, iy, iz, it, a, b, 1] + v[ix, iy, iz, it, b, a, 1]
                            im = v[ix, iy, iz, it, b, a, 0] - v[ix, iy, iz, it, a, b, 0]
                            f[plane, ix, iy, iz, it, a, b, 0] = 0.125 * re
                            f[plane, ix, iy, iz, it, a, b, 1] = 0.125 * im


@kernel(collapse=6)
def block_diagonal_1(f: Any, a: Any, factor: Any) -> None:
    """1 + factor (f5 - f0) and 1 + factor (f0 - f5)."""
    for ix in range(f.shape[1]):
        for iy in range(f.shape[2]):
            for iz in range(f.shape[3]):
                for it in range(f.shape[4]):
                    for i in range(3):
                        for j in range(3):
                            one = 1.0 if i == j else 0.0
                            re = factor * (f[5, ix, iy, iz, it, i, j, 0] - f[0, ix, iy, iz, it, i, j, 0])
                            im = factor * (f[5, ix, iy, iz, it, i, j, 1] - f[0, ix, iy, iz, it, i, j, 1])
                            a[ix, iy, iz, it, i, j, 0] = one + re
                            a[ix, iy, iz, it, i, j, 1] = im
                            a[ix, iy, iz, it, i + 3, j + 3, 0] = one - re
                            a[ix, iy, iz, it, i + 3, j + 3, 1] = -im


@kernel(collapse=6)
def block_diagonal_2(f: Any, a: Any, factor: Any) -> None:
    """1 + factor (f0 + f5) and 1 - factor (f0 + f5)."""
    for ix in range(f.shape[1]):
        for iy in range(f.shape[2]):
            for iz in range(f.shape[3]):
                for it in range(f.shape[4]):
                    for i in range(3):
                        for j in range(3):
                            one = 1.0 if i == j else 0.0
                            re = factor * (f[5, ix, iy, iz, it, i, j, 0] + f[0, ix, iy, iz, it, i, j, 0])
                            im = factor * (f[5, ix, iy, iz, it, i, j, 1] + f[0, ix, iy, iz, it, i, j, 1])
                            a[ix, iy, iz, it, i, j, 0] = one + re
                            a[ix, iy, iz, it, i, j, 1] = im
                            a[ix, iy, iz, it, i + 3, j + 3, 0] = one - re
                            a[ix, iy, iz, it, i + 3, j + 3, 1] = -im


@kernel(collapse=6)
def block_off_1(f: Any, a: Any, factor: Any) -> None:
    """factor (f2 - f3 - i (f1 + f4)) above the diagonal, with + i below."""
    for ix in range(f.shape[1]):
        for iy in range(f.shape[2]):
            for iz in range(f.shape[3]):
                for it in range(f.shape[4]):
                    for i in range(3):
                        for j in range(3):
                            p_re = f[2, ix, iy, iz, it, i, j, 0] - f[3, ix, iy, iz, it, i, j, 0]
                            p_im = f[2, ix, iy, iz, it, i, j, 1] - f[3, ix, iy, iz, it, i, j, 1]
                            q_re = f[1, ix, iy, iz, it, i, j, 0] + f[4, ix, iy, iz, it, i, j, 0]
                            q_im = f[1, ix, iy, iz, it, i, j, 1] + f[4, ix, iy, iz, it, i, j, 1]
                            a[ix, iy, iz, it, i, j + 3, 0] = factor * (p_re + q_im)
                            a[ix, iy, iz, it, i, j + 3, 1] = factor * (p_im - q_re)
                            a[ix, iy, iz, it, i + 3, j, 0] = factor * (p_re - q_im)
                            a[ix, iy, iz, it, i + 3, j, 1] = factor * (p_im + q_re)


@kernel(collapse=6)
def block_off_2(f: Any, a: Any, factor: Any) -> None:
    """factor (f3 + f2 - i (f1 - f4)) below the diagonal, with + i above."""
    for ix in range(f.shape[1]):
        for iy in range(f.shape[2]):
            for iz in range(f.shape[3]):
                for it in range(f.shape[4]):
                    for i in range(3):
                        for j in range(3):
                            p_re = f[3, ix, iy, iz, it, i, j, 0] + f[2, ix, iy, iz, it, i, j, 0]
                            p_im = f[3, ix, iy, iz, it, i, j, 1] + f[2, ix, iy, iz, it, i, j, 1]
                            q_re = f[1, ix, iy, iz, it, i, j, 0] - f[4, ix, iy, iz, it, i, j, 0]
                            q_im = f[1, ix, iy, iz, it, i, j, 1] - f[4, ix, iy, iz, it, i, j, 1]
                            a[ix, iy, iz, it, i, j + 3, 0] = factor * (p_re - q_im)
                            a[ix, iy, iz, it, i, j + 3, 1] = factor * (p_im + q_re)
                            a[ix, iy, iz, it, i + 3, j, 0] = factor * (p_re + q_im)
                            a[ix, iy, iz, it, i + 3, j, 1] = factor * (p_im - q_re)


@kernel(collapse=6)
def begin_inverse(a: Any, work: Any, inverse: Any) -> None:
    """A copy to decompose, and the unit matrix to solve for."""
    for ix in range(a.shape[0]):
        for iy in range(a.shape[1]):
            for iz in range(a.shape[2]):
                for it in range(a.shape[3]):
                    for i in range(6):
                        for j in range(6):
                            inverse[ix, iy, iz, it, i, j, 0] = 1.0 if i == j else 0.0
                            inverse[ix, iy, iz, it, i, j, 1] = 0.0
                            work[ix, iy, iz, it, i, j, 0] = a[ix, iy, iz, it, i, j, 0]
                            work[ix, iy, iz, it, i, j, 1] = a[ix, iy, iz, it, i, j, 1]


@kernel(collapse=4)
def decompose(a: Any) -> None:
    """L D L†, in place: D on the diagonal, L below it."""
    for ix in range(a.shape[0]):
        for iy in range(a.shape[1]):
            for iz in range(a.shape[2]):
                for it in range(a.shape[3]):
                    for i in range(6):
                        d = a[ix, iy, iz, it, i, i, 0]
                        for k in range(i):
                            l_re = a[ix, iy, iz, it, i, k, 0]
                            l_im = a[ix, iy, iz, it, i, k, 1]
                            d -= (l_re * l_re + l_im * l_im) * a[ix, iy, iz, it, k, k, 0]
                        a[ix, iy, iz, it, i, i, 0] = d
                        a[ix, iy, iz, it, i, i, 1] = 0.0
                        for j in range(i + 1, 6):
                            re = a[ix, iy, iz, it, i, j, 0]
                            im = a[ix, iy, iz, it, i, j, 1]
                            for k in range(i):
                                p_re = a[ix, iy, iz, it, i, k, 0] * a[ix, iy, iz, it, k, k, 0]
                                p_im = a[ix, iy, iz, it, i, k, 1] * a[ix, iy, iz, it, k, k, 0]
                                q_re = a[ix, iy, iz, it, j, k, 0]
                                q_im = a[ix, iy, iz, it, j, k, 1]
                                re -= p_re * q_re + p_im * q_im
                                im -= p_im * q_re - p_re * q_im
                            a[ix, iy, iz, it, j, i, 0] = re / d
                            a[ix, iy, iz, it, j, i, 1] = -im / d


@kernel(collapse=4)
def determinant(a: Any, d: Any) -> None:
    for ix in range(a.shape[0]):
        for iy in range(a.shape[1]):
            for iz in range(a.shape[2]):
                for it in range(a.shape[3]):
                    product = 1.0
                    for i in range(6):
                        product *= a[ix, iy, iz, it, i, i, 0]
                    d[ix, iy, iz, it] = product


@kernel(collapse=4)
def log_determinant(d: Any, sums: Any) -> None:
    total = 0.0
    for ix in range(d.shape[0]):
        for iy in range(d.shape[1]):
            for iz in range(d.shape[2]):
                for it in range(d.shape[3]):
                    total += math.log(d[ix, iy, iz, it])
    sums[0] = total


@kernel(collapse=4)
def solve(a: Any, b: Any) -> None:
    """Forward, by D, and backward, in place."""
    for ix in range(a.shape[0]):
        for iy in range(a.shape[1]):
            for iz in range(a.shape[2]):
                for it in range(a.shape[3]):
                    for i in range(1, 6):
                        for j in range(6):
                            re = b[ix, iy, iz, it, i, j, 0]
                            im = b[ix, iy, iz, it, i, j, 1]
                            for k in range(i):
                                l_re = a[ix, iy, iz, it, i, k, 0]
                                l_im = a[ix, iy, iz, it, i, k, 1]
                                re -= l_re * b[ix, iy, iz, it, k, j, 0] - l_im * b[ix, iy, iz, it, k, j, 1]
                                im -= l_re * b[ix, iy, iz, it, k, j, 1] + l_im * b[ix, iy, iz, it, k, j, 0]
                            b[ix, iy, iz, it, i, j, 0] = re
                            b[ix, iy, iz, it, i, j, 1] = im
                    for back in range(6):
                        for j in range(6):
                            re = b[ix, iy, iz, it, 5 - back, j, 0] / a[ix, iy, iz, it, 5 - back, 5 - back, 0]
                            im = b[ix, iy, iz, it, 5 - back, j, 1] / a[ix, iy, iz, it, 5 - back, 5 - back, 0]
                            for k in range(6 - back, 6):
                                l_re = a[ix, iy, iz, it, k, 5 - back, 0]
                                l_im = -a[ix, iy, iz, it, k, 5 - back, 1]
                                re -= l_re * b[ix, iy, iz, it, k, j, 0] - l_im * b[ix, iy, iz, it, k, j, 1]
                                im -= l_re * b[ix, iy, iz, it, k, j, 1] + l_im * b[ix, iy, iz, it, k, j, 0]
                            b[ix, iy, iz, it, 5 - back, j, 0] = re
                            b[ix, iy, iz, it, 5 - back, j, 1] = im


@kernel(collapse=4)
def fold(upper: Any, lower: Any, clover: Any) -> None:
    """Half of both inverses, each lower triangle as a rectangle: what stands right of column 2 is folded up."""
    for ix in range(upper.shape[0]):
        for iy in range(upper.shape[1]):
            for iz in range(upper.shape[2]):
                for it in range(upper.shape[3]):
                    for j in range(3):
                        for i in range(j, 6):
                            for r in range(2):
                                clover[0, ix, iy, iz, it + 1, i + 1, j, r] = 0.5 * upper[ix, iy, iz, it, i, j, r]
                                clover[1, ix, iy, iz, it + 1, i + 1, j, r] = 0.5 * lower[ix, iy, iz, it, i, j, r]
                        for i in range(j + 1):
                            for r in range(2):
                                clover[0, ix, iy, iz, it + 1, i, j, r] = 0.5 * upper[ix, iy, iz, it, j + 3, i + 3, r]
                                clover[1, ix, iy, iz, it + 1, i, j, r] = 0.5 * lower[ix, iy, iz, it, j + 3, i + 3, r]
