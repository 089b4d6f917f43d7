"""CCS-QCD: a linear system of lattice quantum chromodynamics, solved by BiCGStab, after the public OpenACC code.

Its kernels come first, then the order in which they run. Sites are indexed [ix, iy, iz, it], separately for the even
and the odd ones, so `nt` is half of the lattice's extent in time; nx, ny, nz are its extents in space. Directions are
numbered 0 to 3 for x, y, z and t. A link is a complex 3 by 3 matrix: ``u[direction, ix, iy, iz, it, a, b]``. A vector
of the solver (x, r, p, ...) has 12 complex numbers a site, 3 colours for each of 4 spins: ``x[ix, iy, iz, it, s]``.
Links and vectors have a halo, so their first inner site is number 1. `sums` gets the results of reductions.
"""

from __future__ import annotations

import functools
import math
from itertools import product
from typing import Any, Final

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import kernel
from offloadrt.papers.jacc.programs.benchmark import (
    Arrays,
    Benchmark,
    BenchmarkProgram,
    KernelCall,
    Layer,
    Number,
    OnHost,
    ProgramStep,
    Values,
    call,
)

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
    """Multiply links in pairs: at each lattice site, two sides of the square of sites ahead in directions m and n.

    The two links that start at the site give ``w[0, ...]``, the two opposite ones ``w[1, ...]``, each a 3 by 3 matrix.
    u: the links. w: gets the products, [which, ix, iy, iz, it, a, b]. mx, my, mz: the step in x, y, z to the next site
    in direction m. fx, fy, fz: that in direction n. nx, ny, nz: the lattice's sites in x, y and z.
    """
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
    """Multiply links in pairs: at each lattice site, two sides of the square of sites behind it in direction n.

    u: the links. w: gets the products in ``w[2, ...]`` and ``w[3, ...]``. m: the square's other direction. mx, my, mz:
    the step in x, y, z to the next site in direction m. fx, fy, fz: that in direction n. nx, ny, nz: the lattice's
    sites in x, y and z.
    """
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
    """Sum, at each lattice site, two plaquettes that have the site as a corner.

    A plaquette is the product of the four links around a square of sites. w: [4, ix, iy, iz, it, 3, 3], the products of
    pairs of links; elements 0 and 1 give one plaquette, 2 and 3 the other. v: gets the sum, [ix, iy, iz, it, 3, 3].
    """
    for ix, iy, iz, it, a, b in product(range(nx), range(ny), range(nz), range(nt), range(3), range(3)):
        total = 0j
        for leg in range(2):
            for k in range(3):
                near = w[2 * leg, ix + 1, iy + 1, iz + 1, it, a, k]
                total += near * w[2 * leg + 1, ix + 1, iy + 1, iz + 1, it, k, b]
        v[ix, iy, iz, it, a, b] = total


@kernel(collapse=6)
def strength(v: Complex, f: Complex, plane: Any) -> None:
    """Compute the field strength ``f[plane, ix, ...]`` from summed plaquettes v: their antihermitian part over 8i."""
    for ix, iy, iz, it, a, b in product(
        range(v.shape[0]), range(v.shape[1]), range(v.shape[2]), range(v.shape[3]), range(3), range(3)
    ):
        part = v[ix, iy, iz, it, a, b] - v[ix, iy, iz, it, b, a].conjugate()
        f[plane, ix, iy, iz, it, a, b] = -0.125j * part


@kernel(collapse=6)
def block_diagonal_1(f: Complex, a: Complex, factor: Any) -> None:
    """Set the diagonal 3 by 3 blocks of the first 6 by 6 matrix of each lattice site.

    They are 1 + factor (f5 - f0) and 1 + factor (f0 - f5). f: the field strengths; f5 is ``f[5, ix, ...]``, of plane 5.
    a: gets the matrices, [ix, iy, iz, it, 6, 6]. factor: the strength of the clover term.
    """
    for ix, iy, iz, it, i, j in product(
        range(f.shape[1]), range(f.shape[2]), range(f.shape[3]), range(f.shape[4]), range(3), range(3)
    ):
        unit = 1.0 if i == j else 0.0
        part = factor * (f[5, ix, iy, iz, it, i, j] - f[0, ix, iy, iz, it, i, j])
        a[ix, iy, iz, it, i, j] = unit + part
        a[ix, iy, iz, it, i + 3, j + 3] = unit - part


@kernel(collapse=6)
def block_diagonal_2(f: Complex, a: Complex, factor: Any) -> None:
    """Set the diagonal 3 by 3 blocks of the second 6 by 6 matrix of each lattice site.

    They are 1 + factor (f0 + f5) and 1 - factor (f0 + f5). f: the field strengths; f5 is ``f[5, ix, ...]``, of plane 5.
    a: gets the matrices, [ix, iy, iz, it, 6, 6]. factor: the strength of the clover term.
    """
    for ix, iy, iz, it, i, j in product(
        range(f.shape[1]), range(f.shape[2]), range(f.shape[3]), range(f.shape[4]), range(3), range(3)
    ):
        unit = 1.0 if i == j else 0.0
        part = factor * (f[5, ix, iy, iz, it, i, j] + f[0, ix, iy, iz, it, i, j])
        a[ix, iy, iz, it, i, j] = unit + part
        a[ix, iy, iz, it, i + 3, j + 3] = unit - part


@kernel(collapse=6)
def block_off_1(f: Complex, a: Complex, factor: Any) -> None:
    """Set the upper right and lower left 3 by 3 blocks of the first 6 by 6 matrix of each lattice site.

    They are factor (f2 - f3 - i (f1 + f4)) and factor (f2 - f3 + i (f1 + f4)). f: the field strengths; f2 is ``f[2, ix,
    ...]``, of plane 2. a: gets the matrices, [ix, iy, iz, it, 6, 6]. factor: the strength of the clover term.
    """
    for ix, iy, iz, it, i, j in product(
        range(f.shape[1]), range(f.shape[2]), range(f.shape[3]), range(f.shape[4]), range(3), range(3)
    ):
        p = f[2, ix, iy, iz, it, i, j] - f[3, ix, iy, iz, it, i, j]
        q = 1j * (f[1, ix, iy, iz, it, i, j] + f[4, ix, iy, iz, it, i, j])
        a[ix, iy, iz, it, i, j + 3] = factor * (p - q)
        a[ix, iy, iz, it, i + 3, j] = factor * (p + q)


@kernel(collapse=6)
def block_off_2(f: Complex, a: Complex, factor: Any) -> None:
    """Set the upper right and lower left 3 by 3 blocks of the second 6 by 6 matrix of each lattice site.

    They are factor (f3 + f2 + i (f1 - f4)) and factor (f3 + f2 - i (f1 - f4)). f: the field strengths; f2 is ``f[2, ix,
    ...]``, of plane 2. a: gets the matrices, [ix, iy, iz, it, 6, 6]. factor: the strength of the clover term.
    """
    for ix, iy, iz, it, i, j in product(
        range(f.shape[1]), range(f.shape[2]), range(f.shape[3]), range(f.shape[4]), range(3), range(3)
    ):
        p = f[3, ix, iy, iz, it, i, j] + f[2, ix, iy, iz, it, i, j]
        q = 1j * (f[1, ix, iy, iz, it, i, j] - f[4, ix, iy, iz, it, i, j])
        a[ix, iy, iz, it, i, j + 3] = factor * (p + q)
        a[ix, iy, iz, it, i + 3, j] = factor * (p - q)


@kernel(collapse=6)
def begin_inverse(a: Complex, work: Complex, inverse: Complex) -> None:
    """Copy the 6 by 6 matrices `a` of all lattice sites to `work`, and set `inverse` to unit matrices."""
    for ix, iy, iz, it, i, j in product(
        range(a.shape[0]), range(a.shape[1]), range(a.shape[2]), range(a.shape[3]), range(6), range(6)
    ):
        inverse[ix, iy, iz, it, i, j] = 1.0 if i == j else 0.0
        work[ix, iy, iz, it, i, j] = a[ix, iy, iz, it, i, j]


@kernel(collapse=4)
def decompose(a: Complex) -> None:
    """Decompose the 6 by 6 matrices `a` of all lattice sites in place into L D L†: D on the diagonal, L below it."""
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
    """Solve L D L† x = b for each column of the 6 by 6 matrices b, in place; a: D on the diagonal and L below it."""
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
    """Store the lower triangles of both 6 by 6 inverses of each lattice site, times 0.5, as 7 by 3 rectangles.

    upper, lower: the inverses, for the first and the last six numbers of a site's vector. clover: gets the rectangles,
    [which, ix, iy, iz, it, 7, 3]. The triangle of the last three columns fills the free upper part of the rectangle.
    """
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


@kernel(collapse=4)
def hopping(
    y: Complex, out: Complex, ue: Complex, uo: Complex, clover: Complex, nx: Any, ny: Any, nz: Any, nt: Any
) -> None:
    """Sum each lattice site's eight neighbours, spin-projected and multiplied by links; apply the inverse clover.

    y: the vector at the neighbours. out: gets the result. ue: the links that start at the sites. uo: those that start
    at their neighbours. clover: the inverses from `fold`. The links follow one another: ahead and behind in x, in y, in
    z and in t.
    """
    for ix, iy, iz, it in product(range(1, nx + 1), range(1, ny + 1), range(1, nz + 1), range(1, nt + 1)):
        for h in range(2):
            sign = 1.0 - 2.0 * h
            for c in range(3):
                up = 0j
                low = 0j
                for c2 in range(3):
                    u = ue[0, ix, iy, iz, it, c2, c]
                    up += u * (y[ix + 1, iy, iz, it, 3 * h + c2] + 1j * y[ix + 1, iy, iz, it, 9 - 3 * h + c2])
                    low -= 1j * (
                        u * (y[ix + 1, iy, iz, it, 3 - 3 * h + c2] + 1j * y[ix + 1, iy, iz, it, 6 + 3 * h + c2])
                    )
                    u = uo[0, ix - 1, iy, iz, it, c, c2].conjugate()
                    up += u * (y[ix - 1, iy, iz, it, 3 * h + c2] - 1j * y[ix - 1, iy, iz, it, 9 - 3 * h + c2])
                    low += 1j * (
                        u * (y[ix - 1, iy, iz, it, 3 - 3 * h + c2] - 1j * y[ix - 1, iy, iz, it, 6 + 3 * h + c2])
                    )
                    u = ue[1, ix, iy, iz, it, c2, c]
                    up += u * (y[ix, iy + 1, iz, it, 3 * h + c2] + sign * y[ix, iy + 1, iz, it, 9 - 3 * h + c2])
                    low += u * (y[ix, iy + 1, iz, it, 6 + 3 * h + c2] - sign * y[ix, iy + 1, iz, it, 3 - 3 * h + c2])
                    u = uo[1, ix, iy - 1, iz, it, c, c2].conjugate()
                    up += u * (y[ix, iy - 1, iz, it, 3 * h + c2] - sign * y[ix, iy - 1, iz, it, 9 - 3 * h + c2])
                    low += u * (y[ix, iy - 1, iz, it, 6 + 3 * h + c2] + sign * y[ix, iy - 1, iz, it, 3 - 3 * h + c2])
                    u = ue[2, ix, iy, iz, it, c2, c]
                    turned = u * (y[ix, iy, iz + 1, it, 3 * h + c2] + sign * 1j * y[ix, iy, iz + 1, it, 6 + 3 * h + c2])
                    up += turned
                    low -= sign * 1j * turned
                    u = uo[2, ix, iy, iz - 1, it, c, c2].conjugate()
                    turned = u * (y[ix, iy, iz - 1, it, 3 * h + c2] - sign * 1j * y[ix, iy, iz - 1, it, 6 + 3 * h + c2])
                    up += turned
                    low += sign * 1j * turned
                    low += ue[3, ix, iy, iz, it, c2, c] * (2.0 * y[ix, iy, iz, it, 6 + 3 * h + c2])
                    up += uo[3, ix, iy, iz, it - 1, c, c2].conjugate() * (2.0 * y[ix, iy, iz, it - 1, 3 * h + c2])
                out[ix, iy, iz, it, 3 * h + c] = up
                out[ix, iy, iz, it, 6 + 3 * h + c] = low
        for q in range(2):
            v0 = out[ix, iy, iz, it, 6 * q]
            v1 = out[ix, iy, iz, it, 6 * q + 1]
            v2 = out[ix, iy, iz, it, 6 * q + 2]
            v3 = out[ix, iy, iz, it, 6 * q + 3]
            v4 = out[ix, iy, iz, it, 6 * q + 4]
            v5 = out[ix, iy, iz, it, 6 * q + 5]
            for a in range(3):
                total = clover[q, ix - 1, iy - 1, iz - 1, it, a + 1, 0] * v0
                if a >= 1:
                    total += clover[q, ix - 1, iy - 1, iz - 1, it, a + 1, 1] * v1
                else:
                    total += clover[q, ix - 1, iy - 1, iz - 1, it, 2, 0].conjugate() * v1
                corner = clover[q, ix - 1, iy - 1, iz - 1, it, 3, a]
                total += (corner if a >= 2 else corner.conjugate()) * v2
                total += clover[q, ix - 1, iy - 1, iz - 1, it, 4, a].conjugate() * v3
                total += clover[q, ix - 1, iy - 1, iz - 1, it, 5, a].conjugate() * v4
                total += clover[q, ix - 1, iy - 1, iz - 1, it, 6, a].conjugate() * v5
                out[ix, iy, iz, it, 6 * q + a] = total
            for a in range(3):
                total = clover[q, ix - 1, iy - 1, iz - 1, it, a + 4, 0] * v0
                total += clover[q, ix - 1, iy - 1, iz - 1, it, a + 4, 1] * v1
                total += clover[q, ix - 1, iy - 1, iz - 1, it, a + 4, 2] * v2
                total += clover[q, ix - 1, iy - 1, iz - 1, it, 0, a] * v3
                if a >= 1:
                    total += clover[q, ix - 1, iy - 1, iz - 1, it, 1, a] * v4
                else:
                    total += clover[q, ix - 1, iy - 1, iz - 1, it, 0, 1].conjugate() * v4
                corner = clover[q, ix - 1, iy - 1, iz - 1, it, a, 2]
                total += (corner if a >= 2 else corner.conjugate()) * v5
                out[ix, iy, iz, it, 6 * q + 3 + a] = total


@kernel(collapse=4)
def rim_t(y: Complex, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    """Copy the last time slice of the vector y into the halo before the first one, as boundaries are periodic."""
    for ix, iy, iz, s in product(range(1, nx + 1), range(1, ny + 1), range(1, nz + 1), range(12)):
        y[ix, iy, iz, 0, s] = y[ix, iy, iz, nt, s]


@kernel(collapse=4)
def rim_z(y: Complex, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    for ix, iy, it, s in product(range(1, nx + 1), range(1, ny + 1), range(nt + 1), range(12)):
        y[ix, iy, 0, it, s] = y[ix, iy, nz, it, s]
        y[ix, iy, nz + 1, it, s] = y[ix, iy, 1, it, s]


@kernel(collapse=4)
def rim_y(y: Complex, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    for ix, iz, it, s in product(range(1, nx + 1), range(1, nz + 1), range(nt + 1), range(12)):
        y[ix, 0, iz, it, s] = y[ix, ny, iz, it, s]
        y[ix, ny + 1, iz, it, s] = y[ix, 1, iz, it, s]


@kernel(collapse=4)
def rim_x(y: Complex, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    for iy, iz, it, s in product(range(1, ny + 1), range(1, nz + 1), range(nt + 1), range(12)):
        y[0, iy, iz, it, s] = y[nx, iy, iz, it, s]
        y[nx + 1, iy, iz, it, s] = y[1, iy, iz, it, s]


@kernel(collapse=5)
def subtract(y: Complex, hopped: Complex, kappa: Any, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    """Set hopped = y - kappa² hopped at all inner sites of a lattice; both are vectors of the solver."""
    for ix, iy, iz, it, s in product(range(1, nx + 1), range(1, ny + 1), range(1, nz + 1), range(1, nt + 1), range(12)):
        old = hopped[ix, iy, iz, it, s]
        hopped[ix, iy, iz, it, s] = y[ix, iy, iz, it, s] - kappa * kappa * old


@kernel(collapse=5)
def begin(b: Complex, x: Complex, r: Complex, rt: Complex, p: Complex) -> None:
    """Start the solver, BiCGStab: set the solution x = 0 and the vectors r = rt = p = b, halos included."""
    for ix, iy, iz, it, s in product(
        range(b.shape[0]), range(b.shape[1]), range(b.shape[2]), range(b.shape[3]), range(12)
    ):
        x[ix, iy, iz, it, s] = 0.0
        r[ix, iy, iz, it, s] = b[ix, iy, iz, it, s]
        rt[ix, iy, iz, it, s] = b[ix, iy, iz, it, s]
        p[ix, iy, iz, it, s] = b[ix, iy, iz, it, s]


@kernel(collapse=5)
def norm_of_source(b: Complex, sums: Any, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    """Compute <b|b>, the squared norm of the right-hand side; ``sums[0]`` gets the result."""
    total = 0.0
    for ix, iy, iz, it, s in product(range(1, nx + 1), range(1, ny + 1), range(1, nz + 1), range(1, nt + 1), range(12)):
        value = b[ix, iy, iz, it, s]
        total += value.real * value.real + value.imag * value.imag
    sums[0] = total


@kernel(name="product", collapse=5)
def scalar_product(rt: Complex, q: Complex, sums: Any, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    """Compute <rt|q>; ``sums[0]`` gets the real part and ``sums[1]`` the imaginary part."""
    re = 0.0
    im = 0.0
    for ix, iy, iz, it, s in product(range(1, nx + 1), range(1, ny + 1), range(1, nz + 1), range(1, nt + 1), range(12)):
        term = rt[ix, iy, iz, it, s].conjugate() * q[ix, iy, iz, it, s]
        re += term.real
        im += term.imag
    sums[0] = re
    sums[1] = im


@kernel(collapse=5)
def step_alpha(
    x: Complex, r: Complex, p: Complex, q: Complex, sums: Any, alpha: complex, nx: Any, ny: Any, nz: Any, nt: Any
) -> None:
    """Do the first half of a BiCGStab iteration: set x = x + alpha p and r = r - alpha q; ``sums[0]`` gets <r|r>."""
    total = 0.0
    for ix, iy, iz, it, s in product(range(1, nx + 1), range(1, ny + 1), range(1, nz + 1), range(1, nt + 1), range(12)):
        x[ix, iy, iz, it, s] += alpha * p[ix, iy, iz, it, s]
        rest = r[ix, iy, iz, it, s] - alpha * q[ix, iy, iz, it, s]
        r[ix, iy, iz, it, s] = rest
        total += rest.real * rest.real + rest.imag * rest.imag
    sums[0] = total


@kernel(collapse=5)
def products(t: Complex, r: Complex, sums: Any, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    """Compute <t|r> into ``sums[0]`` (real part) and ``sums[1]`` (imaginary), and <t|t> into ``sums[2]``."""
    total = 0.0
    re = 0.0
    im = 0.0
    for ix, iy, iz, it, s in product(range(1, nx + 1), range(1, ny + 1), range(1, nz + 1), range(1, nt + 1), range(12)):
        value = t[ix, iy, iz, it, s]
        term = value.conjugate() * r[ix, iy, iz, it, s]
        total += value.real * value.real + value.imag * value.imag
        re += term.real
        im += term.imag
    sums[0] = re
    sums[1] = im
    sums[2] = total


@kernel(collapse=5)
def step_omega(
    x: Complex,
    r: Complex,
    t: Complex,
    rt: Complex,
    sums: Any,
    omega: complex,
    nx: Any,
    ny: Any,
    nz: Any,
    nt: Any,
) -> None:
    """Set x = x + omega r and r = r - omega t, and compute two scalar products.

    ``sums[0]`` and ``sums[1]`` get the real and imaginary part of <rt|r>, ``sums[2]`` gets <r|r>.
    """
    total = 0.0
    rho_re = 0.0
    rho_im = 0.0
    for ix, iy, iz, it, s in product(range(1, nx + 1), range(1, ny + 1), range(1, nz + 1), range(1, nt + 1), range(12)):
        before = r[ix, iy, iz, it, s]
        x[ix, iy, iz, it, s] += omega * before
        rest = before - omega * t[ix, iy, iz, it, s]
        r[ix, iy, iz, it, s] = rest
        term = rt[ix, iy, iz, it, s].conjugate() * rest
        total += rest.real * rest.real + rest.imag * rest.imag
        rho_re += term.real
        rho_im += term.imag
    sums[0] = rho_re
    sums[1] = rho_im
    sums[2] = total


@kernel(collapse=5)
def direction(
    p: Complex, r: Complex, q: Complex, beta: complex, omega: complex, nx: Any, ny: Any, nz: Any, nt: Any
) -> None:
    """Set p = r + beta (p - omega q), the next search direction of BiCGStab."""
    for ix, iy, iz, it, s in product(range(1, nx + 1), range(1, ny + 1), range(1, nz + 1), range(1, nt + 1), range(12)):
        rest = p[ix, iy, iz, it, s] - omega * q[ix, iy, iz, it, s]
        p[ix, iy, iz, it, s] = r[ix, iy, iz, it, s] + beta * rest


KAPPA: Final = 0.126
CLOVER: Final = 1.0
"""The coefficient of the clover term."""
X, Y, Z, T = (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)
STEPS: Final = (X, Y, Z, T)
"""For each direction, the step in x, y and z; along t a step leads to the other half of the sites."""
PLANES: Final = tuple((m, n) for m in range(3) for n in range(m + 1, 4))
PARITIES: Final = ("e", "o")


@attrs.frozen(eq=False)
class Memory:
    """A program step that copies arrays in (`copyin`), creates others and frees others (`delete`) on the device."""

    copyin: tuple[Any, ...] = ()
    create: tuple[Any, ...] = ()
    delete: tuple[Any, ...] = ()

    async def run(self, layer: Layer) -> None:
        if self.delete:
            await layer.delete(*self.delete)
        if self.copyin:
            await layer.copyin(*self.copyin)
        if self.create:
            await layer.create(*self.create)


@attrs.frozen(eq=False)
class Phases(BenchmarkProgram):
    """A program with `Memory` steps, so that some arrays are on the device in one phase (setup, solver) only."""

    @property
    def nbytes(self) -> int:
        """Return the largest number of bytes that the arrays on the device take at one time."""
        now: int = sum(array.nbytes for array in self.arrays)
        most = now
        for step in (*self.setup, *self.finish):
            if isinstance(step, Memory):
                now -= sum(array.nbytes for array in step.delete)
                now += sum(array.nbytes for array in (*step.copyin, *step.create))
                most = max(most, now)
        return most


def links(inner: tuple[int, ...], seed: int) -> Any:
    """Make the links between lattice sites, 3 by 3 matrices, from random numbers near the unit matrix.

    inner: the number of sites in each direction, without the halo. seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    values = 0.1 * random.normal(size=(4, *inner, 3, 3, 2)).view(np.complex128)[..., 0]
    values[..., range(3), range(3)] += 1.0
    return np.pad(values, ((0, 0), (1, 1), (1, 1), (1, 1), (1, 0), (0, 0), (0, 0)), mode="wrap")


def source_of(inner: tuple[int, ...]) -> Any:
    """Make the equation's right-hand side from random numbers. inner: the sites in each direction, without the halo."""
    values = np.random.default_rng(7).normal(size=(*inner, 12, 2)).view(np.complex128)[..., 0]
    return np.pad(values, ((1, 1), (1, 1), (1, 1), (1, 0), (0, 0)), mode="wrap")


class Lattice:
    """The arrays of a lattice of nx · ny · nz · 2 nt sites (half of them even), and the program's steps on them."""

    def __init__(self, arrays: Arrays, nx: int, ny: int, nz: int, nt: int) -> None:
        self.size = (nx, ny, nz, nt)
        rim = (nx + 2, ny + 2, nz + 2, nt + 1)
        inner = (nx, ny, nz, nt)

        def numbers(name: str, *shape: int, values: Values | None = None) -> Any:
            return arrays(name, shape, np.complex128, values)

        self.u = {
            parity: numbers(f"u{parity}", 4, *rim, 3, 3, values=functools.partial(links, inner, seed))
            for seed, parity in enumerate(PARITIES)
        }
        self.inverse = {parity: numbers(f"fclinv{parity}", 2, nx, ny, nz, nt + 1, 7, 3) for parity in PARITIES}
        self.strength = {parity: numbers(f"ucl{parity}", 6, *inner, 3, 3) for parity in PARITIES}
        self.w = {parity: numbers(f"wc{parity}", 4, *rim, 3, 3) for parity in PARITIES}
        self.v = {parity: numbers(f"v{parity}", *inner, 3, 3) for parity in PARITIES}
        self.blocks = [numbers(f"f{number}cl", *inner, 6, 6) for number in (1, 2)]
        self.inverses = [numbers(f"f{number}clinv", *inner, 6, 6) for number in (1, 2)]
        self.work, self.d = numbers("aa", *inner, 6, 6), arrays("d", inner)
        fields = ("b", "x", "rt", "p", "t", "q", "r", "my")
        source = functools.partial(source_of, inner)
        self.field = {name: numbers(name, *rim, 12, values=source if name == "b" else None) for name in fields}
        self.sums = arrays("sums", 3)
        self.number = {name: Number() for name in ("rho", "alpha", "omega", "beta")}

    # the clover term

    def clover(self) -> tuple[ProgramStep, ...]:
        """Return the steps that compute field strengths from links, then the inverses of 1 - clover term."""
        legs = (*self.w.values(), *self.v.values())
        matrices = (*self.blocks, *self.inverses, self.work, self.d)
        strengths = tuple(self.strength.values())
        inverses = [step for parity in PARITIES for step in self._inverse(parity)]
        return (
            Memory(create=(*strengths, *legs)),
            *(step for plane, (m, n) in enumerate(PLANES) for step in self._plane(plane, m, n)),
            Memory(create=matrices, delete=legs),
            *inverses,
            Memory(delete=(*matrices, *strengths)),
        )

    def _plane(self, plane: int, m: int, n: int) -> list[KernelCall]:
        """Compute the field strength of a plane; each kernel of the public code does the even and the odd sites."""
        nx, ny, nz, nt = self.size
        steps = []
        for parity in PARITIES:
            u, w, v = self.u[parity], self.w[parity], self.v[parity]
            steps += [
                call(legs_ahead, u, w, m, n, *STEPS[m], *STEPS[n], nx, ny, nz),
                call(legs_behind, u, w, m, n, *STEPS[m], *STEPS[n], nx, ny, nz),
                call(leaves, w, v, nx, ny, nz, nt),
                call(strength, v, self.strength[parity], plane),
            ]
        return steps

    def _inverse(self, parity: str) -> list[ProgramStep]:
        f, (first, second) = self.strength[parity], self.blocks
        factor = CLOVER * KAPPA
        steps: list[ProgramStep] = [
            call(block_diagonal_1, f, first, -factor),
            call(block_off_1, f, first, -factor),
            call(block_diagonal_2, f, second, factor),
            call(block_off_2, f, second, factor),
        ]
        for block, inverse in zip(self.blocks, self.inverses, strict=True):
            steps += [
                call(begin_inverse, block, self.work, inverse),
                call(decompose, self.work),
                call(determinant, self.work, self.d),
                call(log_determinant, self.d, self.sums),
                OnHost((self.sums,)),
                call(solve, self.work, inverse),
            ]
        return [*steps, call(fold, *self.inverses, self.inverse[parity])]

    # the solver

    def begin(self) -> tuple[ProgramStep, ...]:
        """Return the steps that start all vectors of the solver from the right-hand side."""
        fields = self.field
        rest = tuple(array for name, array in fields.items() if name != "b")
        vectors_of = (fields[name] for name in ("b", "x", "r", "rt", "p"))
        return (
            Memory(copyin=(fields["b"],), create=rest),
            call(begin, *vectors_of),
            call(norm_of_source, fields["b"], self.sums, *self.size),
            OnHost((self.sums,), self._begin),
        )

    def end(self) -> tuple[ProgramStep, ...]:
        """Return the step that frees all vectors but the solution."""
        return (Memory(delete=tuple(array for name, array in self.field.items() if name != "x")),)

    def iteration(self) -> tuple[ProgramStep, ...]:
        """Return the steps of one iteration of BiCGStab, which applies the operator twice."""
        x, r, rt, p, q, t = (self.field[name] for name in ("x", "r", "rt", "p", "q", "t"))
        number, sums, size = self.number, self.sums, self.size
        alpha, omega, beta = (number[name] for name in ("alpha", "omega", "beta"))
        return (
            *self._operator("p", "q"),
            call(scalar_product, rt, q, sums, *size),
            OnHost((sums,), self._alpha),
            call(step_alpha, x, r, p, q, sums, alpha, *size),
            OnHost((sums,)),
            *self._operator("r", "t"),
            call(products, t, r, sums, *size),
            OnHost((sums,), self._omega),
            call(step_omega, x, r, t, rt, sums, omega, *size),
            OnHost((sums,), self._beta),
            call(direction, p, r, q, beta, omega, *size),
        )

    def _operator(self, source: str, target: str) -> list[ProgramStep]:
        """Apply the operator: even to odd to even, subtracted from the source."""
        y, out, my = (self.field[name] for name in (source, target, "my"))
        even, odd = self.u["e"], self.u["o"]
        return [
            *self._rims(y),
            call(hopping, y, my, odd, even, self.inverse["o"], *self.size),
            *self._rims(my),
            call(hopping, my, out, even, odd, self.inverse["e"], *self.size),
            call(subtract, y, out, KAPPA, *self.size),
        ]

    def _rims(self, y: Any) -> list[KernelCall]:
        return [call(kernel, y, *self.size) for kernel in (rim_t, rim_z, rim_y, rim_x)]

    # what the host computes

    def _sum(self) -> complex:
        return complex(float(self.sums[0]), float(self.sums[1]))

    def _begin(self) -> None:
        self.number["rho"].value = complex(float(self.sums[0]))

    def _alpha(self) -> None:
        self.number["alpha"].value = self.number["rho"].value / self._sum()

    def _omega(self) -> None:
        self.number["omega"].value = self._sum() / float(self.sums[2])

    def _beta(self) -> None:
        rho, number = self._sum(), self.number
        number["beta"].value = rho / number["rho"].value * number["alpha"].value / number["omega"].value
        number["rho"].value = rho


def build(arrays: Arrays, size: tuple[int, ...]) -> BenchmarkProgram:
    """Build the program; `arrays` makes its arrays.

    size: the lattice's sites in x, y, z and t, and how often the operator is applied in all.
    """
    nx, ny, nz, nt, applications = size
    lattice = Lattice(arrays, nx, ny, nz, nt // 2)
    return Phases(
        setup=(*lattice.clover(), *lattice.begin()),
        iteration=lattice.iteration(),
        finish=lattice.end(),
        iterations=applications // 2,
        copyin=tuple(lattice.u.values()),
        create=(*lattice.inverse.values(), lattice.sums),
        results=(lattice.field["x"], *lattice.inverse.values(), lattice.sums),
    )


BENCHMARK = Benchmark(
    name="CCS-QCD",
    dup_s=26.517,
    sizes={"32x32x32x128": (32, 32, 32, 128, 1000), "test": (2, 2, 2, 4, 2)},
    build=build,
)


__all__ = ["BENCHMARK"]
