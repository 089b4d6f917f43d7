"""CCS-QCD's kernels on whole fields: the vector operations and scalar products of BiCGStab.

A field is a vector of complex numbers: [x, y, z, t, component]. The host gets the sums, as real numbers.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from offloadrt.kernels import kernel
from offloadrt.papers.jacc.programs.ccs_qcd.clover import Complex


@kernel(collapse=5)
def begin(b: Complex, x: Complex, r: Complex, rt: Complex, p: Complex) -> None:
    """Set x = 0 and r = rt = p = b, halos included."""
    for ix, iy, iz, it, s in product(
        range(b.shape[0]), range(b.shape[1]), range(b.shape[2]), range(b.shape[3]), range(12)
    ):
        x[ix, iy, iz, it, s] = 0.0
        r[ix, iy, iz, it, s] = b[ix, iy, iz, it, s]
        rt[ix, iy, iz, it, s] = b[ix, iy, iz, it, s]
        p[ix, iy, iz, it, s] = b[ix, iy, iz, it, s]


@kernel(collapse=5)
def norm_of_source(b: Complex, sums: Any, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    """Compute <b|b>."""
    total = 0.0
    for ix, iy, iz, it, s in product(range(1, nx + 1), range(1, ny + 1), range(1, nz + 1), range(1, nt + 1), range(12)):
        value = b[ix, iy, iz, it, s]
        total += value.real * value.real + value.imag * value.imag
    sums[0] = total


@kernel(name="product", collapse=5)
def scalar_product(rt: Complex, q: Complex, sums: Any, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    """Compute <rt|q>."""
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
    """Set x = x + alpha p and r = r - alpha q, and compute <r|r>."""
    total = 0.0
    for ix, iy, iz, it, s in product(range(1, nx + 1), range(1, ny + 1), range(1, nz + 1), range(1, nt + 1), range(12)):
        x[ix, iy, iz, it, s] += alpha * p[ix, iy, iz, it, s]
        rest = r[ix, iy, iz, it, s] - alpha * q[ix, iy, iz, it, s]
        r[ix, iy, iz, it, s] = rest
        total += rest.real * rest.real + rest.imag * rest.imag
    sums[0] = total


@kernel(collapse=5)
def products(t: Complex, r: Complex, sums: Any, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    """Compute <t|t> and <t|r>."""
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
    """Set x = x + omega r and r = r - omega t, and compute <r|r> and <rt|r>."""
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
    """Set p = r + beta (p - omega q)."""
    for ix, iy, iz, it, s in product(range(1, nx + 1), range(1, ny + 1), range(1, nz + 1), range(1, nt + 1), range(12)):
        rest = p[ix, iy, iz, it, s] - omega * q[ix, iy, iz, it, s]
        p[ix, iy, iz, it, s] = r[ix, iy, iz, it, s] + beta * rest
