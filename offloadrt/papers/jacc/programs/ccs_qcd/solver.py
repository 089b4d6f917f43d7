"""CCS-QCD's kernels in the BiCGStab solver: the hopping term of Wilson's operator with its clover term, halos, sums.

Fields are indexed [x, y, z, t, component] (component: 3 spin + colour) with a ring of halo sites in x, y and z, on the
even or the odd half of the sites; links [direction, x, y, z, t, colour, colour]. All are complex. Half of the sites are
a checkerboard: the public code shifts t by the parity of x + y + z, which is left out here, because it changes neither
what is moved nor how it is computed.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from offloadrt.kernels import kernel
from offloadrt.papers.jacc.programs.ccs_qcd.clover import Complex


@kernel(collapse=4)
def hopping(
    y: Complex, out: Complex, ue: Complex, uo: Complex, clover: Complex, nx: Any, ny: Any, nz: Any, nt: Any
) -> None:
    """Sum over the eight neighbours, each projected in spin and turned by its link; then apply the inverse clover term.

    The links follow one another: ahead and behind in x, in y, in z and in t.
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
    """Copy the last slice in time before the first one."""
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
    """Set hopped = y - kappa² hopped."""
    for ix, iy, iz, it, s in product(range(1, nx + 1), range(1, ny + 1), range(1, nz + 1), range(1, nt + 1), range(12)):
        old = hopped[ix, iy, iz, it, s]
        hopped[ix, iy, iz, it, s] = y[ix, iy, iz, it, s] - kappa * kappa * old
