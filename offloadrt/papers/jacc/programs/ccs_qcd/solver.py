"""CCS-QCD's kernels in the BiCGStab solver: the hopping term of Wilson's operator with its clover term, halos, sums.

Fields are indexed [x, y, z, t, component, part] (component: 3 spin + colour) with a ring of halo sites in x, y and z,
on the even or the odd half of the sites; links [direction, x, y, z, t, colour, colour, part]; part 0 is real, 1
imaginary. Half of the sites are a checkerboard: the public code shifts t by the parity of x + y + z, which is left out
here, as it changes neither what is moved nor how it is computed.
"""

from __future__ import annotations

from typing import Any

from offloadrt.kernels import kernel


@kernel(collapse=4)
def hopping(y: Any, out: Any, ue: Any, uo: Any, clover: Any, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    """Sum over the eight neighbours, each projected in spin and turned by its link; then the inverse clover term."""
    for ix in range(1, nx + 1):
        for iy in range(1, ny + 1):
            for iz in range(1, nz + 1):
                for it in range(1, nt + 1):
                    for h in range(2):
                        sign = 1.0 - 2.0 * h
                        for c in range(3):
                            up_re = 0.0
                            up_im = 0.0
                            low_re = 0.0
                            low_im = 0.0
                            for c2 in range(3):
                                u_re = ue[0, ix, iy, iz, it, c2, c, 0]
                                u_im = ue[0, ix, iy, iz, it, c2, c, 1]
                                h_re = y[ix + 1, iy, iz, it, 3 * h + c2, 0] - y[ix + 1, iy, iz, it, 9 - 3 * h + c2, 1]
                                h_im = y[ix + 1, iy, iz, it, 3 * h + c2, 1] + y[ix + 1, iy, iz, it, 9 - 3 * h + c2, 0]
                                up_re += u_re * h_re - u_im * h_im
                                up_im += u_re * h_im + u_im * h_re
                                h_re = (
                                    y[ix + 1, iy, iz, it, 3 - 3 * h + c2, 0] - y[ix + 1, iy, iz, it, 6 + 3 * h + c2, 1]
                                )
                                h_im = (
                                    y[ix + 1, iy, iz, it, 3 - 3 * h + c2, 1] + y[ix + 1, iy, iz, it, 6 + 3 * h + c2, 0]
                                )
                                low_re += u_re * h_im + u_im * h_re
                                low_im -= u_re * h_re - u_im * h_im
                                u_re = uo[0, ix - 1, iy, iz, it, c, c2, 0]
                                u_im = -uo[0, ix - 1, iy, iz, it, c, c2, 1]
                                h_re = y[ix - 1, iy, iz, it, 3 * h + c2, 0] + y[ix - 1, iy, iz, it, 9 - 3 * h + c2, 1]
                                h_im = y[ix - 1, iy, iz, it, 3 * h + c2, 1] - y[ix - 1, iy, iz, it, 9 - 3 * h + c2, 0]
                                up_re += u_re * h_re - u_im * h_im
                                up_im += u_re * h_im + u_im * h_re
                                h_re = (
                                    y[ix - 1, iy, iz, it, 3 - 3 * h + c2, 0] + y[ix - 1, iy, iz, it, 6 + 3 * h + c2, 1]
                                )
                                h_im = (
                                    y[ix - 1, iy, iz, it, 3 - 3 * h + c2, 1] - y[ix - 1, iy, iz, it, 6 + 3 * h + c2, 0]
                                )
                                low_re -= u_re * h_im + u_im * h_re
                                low_im += u_re * h_re - u_im * h_im
                                u_re = ue[1, ix, iy, iz, it, c2, c, 0]
                                u_im = ue[1, ix, iy, iz, it, c2, c, 1]
                                h_re = (
                                    y[ix, iy + 1, iz, it, 3 * h + c2, 0]
                                    + sign * y[ix, iy + 1, iz, it, 9 - 3 * h + c2, 0]
                                )
                                h_im = (
                                    y[ix, iy + 1, iz, it, 3 * h + c2, 1]
                                    + sign * y[ix, iy + 1, iz, it, 9 - 3 * h + c2, 1]
                                )
                                up_re += u_re * h_re - u_im * h_im
                                up_im += u_re * h_im + u_im * h_re
                                h_re = (
                                    y[ix, iy + 1, iz, it, 6 + 3 * h + c2, 0]
                                    - sign * y[ix, iy + 1, iz, it, 3 - 3 * h + c2, 0]
                                )
                                h_im = (
                                    y[ix, iy + 1, iz, it, 6 + 3 * h + c2, 1]
                                    - sign * y[ix, iy + 1, iz, it, 3 - 3 * h + c2, 1]
                                )
                                low_re += u_re * h_re - u_im * h_im
                                low_im += u_re * h_im + u_im * h_re
                                u_re = uo[1, ix, iy - 1, iz, it, c, c2, 0]
                                u_im = -uo[1, ix, iy - 1, iz, it, c, c2, 1]
                                h_re = (
                                    y[ix, iy - 1, iz, it, 3 * h + c2, 0]
                                    - sign * y[ix, iy - 1, iz, it, 9 - 3 * h + c2, 0]
                                )
                                h_im = (
                                    y[ix, iy - 1, iz, it, 3 * h + c2, 1]
                                    - sign * y[ix, iy - 1, iz, it, 9 - 3 * h + c2, 1]
                                )
                                up_re += u_re * h_re - u_im * h_im
                                up_im += u_re * h_im + u_im * h_re
                                h_re = (
                                    y[ix, iy - 1, iz, it, 6 + 3 * h + c2, 0]
                                    + sign * y[ix, iy - 1, iz, it, 3 - 3 * h + c2, 0]
                                )
                                h_im = (
                                    y[ix, iy - 1, iz, it, 6 + 3 * h + c2, 1]
                                    + sign * y[ix, iy - 1, iz, it, 3 - 3 * h + c2, 1]
                                )
                                low_re += u_re * h_re - u_im * h_im
                                low_im += u_re * h_im + u_im * h_re
                                u_re = ue[2, ix, iy, iz, it, c2, c, 0]
                                u_im = ue[2, ix, iy, iz, it, c2, c, 1]
                                h_re = (
                                    y[ix, iy, iz + 1, it, 3 * h + c2, 0]
                                    - sign * y[ix, iy, iz + 1, it, 6 + 3 * h + c2, 1]
                                )
                                h_im = (
                                    y[ix, iy, iz + 1, it, 3 * h + c2, 1]
                                    + sign * y[ix, iy, iz + 1, it, 6 + 3 * h + c2, 0]
                                )
                                up_re += u_re * h_re - u_im * h_im
                                up_im += u_re * h_im + u_im * h_re
                                low_re += sign * (u_re * h_im + u_im * h_re)
                                low_im -= sign * (u_re * h_re - u_im * h_im)
                                u_re = uo[2, ix, iy, iz - 1, it, c, c2, 0]
                                u_im = -uo[2, ix, iy, iz - 1, it, c, c2, 1]
                                h_re = (
                                    y[ix, iy, iz - 1, it, 3 * h + c2, 0]
                                    + sign * y[ix, iy, iz - 1, it, 6 + 3 * h + c2, 1]
                                )
                                h_im = (
                                    y[ix, iy, iz - 1, it, 3 * h + c2, 1]
                                    - sign * y[ix, iy, iz - 1, it, 6 + 3 * h + c2, 0]
                                )
                                up_re += u_re * h_re - u_im * h_im
                                up_im += u_re * h_im + u_im * h_re
                                low_re -= sign * (u_re * h_im + u_im * h_re)
                                low_im += sign * (u_re * h_re - u_im * h_im)
                                u_re = ue[3, ix, iy, iz, it, c2, c, 0]
                                u_im = ue[3, ix, iy, iz, it, c2, c, 1]
                                h_re = 2.0 * y[ix, iy, iz, it, 6 + 3 * h + c2, 0]
                                h_im = 2.0 * y[ix, iy, iz, it, 6 + 3 * h + c2, 1]
                                low_re += u_re * h_re - u_im * h_im
                                low_im += u_re * h_im + u_im * h_re
                                u_re = uo[3, ix, iy, iz, it - 1, c, c2, 0]
                                u_im = -uo[3, ix, iy, iz, it - 1, c, c2, 1]
                                h_re = 2.0 * y[ix, iy, iz, it - 1, 3 * h + c2, 0]
                                h_im = 2.0 * y[ix, iy, iz, it - 1, 3 * h + c2, 1]
                                up_re += u_re * h_re - u_im * h_im
                                up_im += u_re * h_im + u_im * h_re
                            out[ix, iy, iz, it, 3 * h + c, 0] = up_re
                            out[ix, iy, iz, it, 3 * h + c, 1] = up_im
                            out[ix, iy, iz, it, 6 + 3 * h + c, 0] = low_re
                            out[ix, iy, iz, it, 6 + 3 * h + c, 1] = low_im
                    for q in range(2):
                        v0_re = out[ix, iy, iz, it, 6 * q, 0]
                        v0_im = out[ix, iy, iz, it, 6 * q, 1]
                        v1_re = out[ix, iy, iz, it, 6 * q + 1, 0]
                        v1_im = out[ix, iy, iz, it, 6 * q + 1, 1]
                        v2_re = out[ix, iy, iz, it, 6 * q + 2, 0]
                        v2_im = out[ix, iy, iz, it, 6 * q + 2, 1]
                        v3_re = out[ix, iy, iz, it, 6 * q + 3, 0]
                        v3_im = out[ix, iy, iz, it, 6 * q + 3, 1]
                        v4_re = out[ix, iy, iz, it, 6 * q + 4, 0]
                        v4_im = out[ix, iy, iz, it, 6 * q + 4, 1]
                        v5_re = out[ix, iy, iz, it, 6 * q + 5, 0]
                        v5_im = out[ix, iy, iz, it, 6 * q + 5, 1]
                        for a in range(3):
                            last = 1.0 if a >= 2 else -1.0
                            re = 0.0
                            im = 0.0
                            m_re = clover[q, ix - 1, iy - 1, iz - 1, it, a + 1, 0, 0]
                            m_im = clover[q, ix - 1, iy - 1, iz - 1, it, a + 1, 0, 1]
                            re += m_re * v0_re - m_im * v0_im
                            im += m_re * v0_im + m_im * v0_re
                            if a >= 1:
                                m_re = clover[q, ix - 1, iy - 1, iz - 1, it, a + 1, 1, 0]
                                m_im = clover[q, ix - 1, iy - 1, iz - 1, it, a + 1, 1, 1]
                            else:
                                m_re = clover[q, ix - 1, iy - 1, iz - 1, it, 2, 0, 0]
                                m_im = -clover[q, ix - 1, iy - 1, iz - 1, it, 2, 0, 1]
                            re += m_re * v1_re - m_im * v1_im
                            im += m_re * v1_im + m_im * v1_re
                            m_re = clover[q, ix - 1, iy - 1, iz - 1, it, 3, a, 0]
                            m_im = last * clover[q, ix - 1, iy - 1, iz - 1, it, 3, a, 1]
                            re += m_re * v2_re - m_im * v2_im
                            im += m_re * v2_im + m_im * v2_re
                            m_re = clover[q, ix - 1, iy - 1, iz - 1, it, 4, a, 0]
                            m_im = -clover[q, ix - 1, iy - 1, iz - 1, it, 4, a, 1]
                            re += m_re * v3_re - m_im * v3_im
                            im += m_re * v3_im + m_im * v3_re
                            m_re = clover[q, ix - 1, iy - 1, iz - 1, it, 5, a, 0]
                            m_im = -clover[q, ix - 1, iy - 1, iz - 1, it, 5, a, 1]
                            re += m_re * v4_re - m_im * v4_im
                            im += m_re * v4_im + m_im * v4_re
                            m_re = clover[q, ix - 1, iy - 1, iz - 1, it, 6, a, 0]
                            m_im = -clover[q, ix - 1, iy - 1, iz - 1, it, 6, a, 1]
                            re += m_re * v5_re - m_im * v5_im
                            im += m_re * v5_im + m_im * v5_re
                            out[ix, iy, iz, it, 6 * q + a, 0] = re
                            out[ix, iy, iz, it, 6 * q + a, 1] = im
                        for a in range(3):
                            last = 1.0 if a >= 2 else -1.0
                            re = 0.0
                            im = 0.0
                            m_re = clover[q, ix - 1, iy - 1, iz - 1, it, a + 4, 0, 0]
                            m_im = clover[q, ix - 1, iy - 1, iz - 1, it, a + 4, 0, 1]
                            re += m_re * v0_re - m_im * v0_im
                            im += m_re * v0_im + m_im * v0_re
                            m_re = clover[q, ix - 1, iy - 1, iz - 1, it, a + 4, 1, 0]
                            m_im = clover[q, ix - 1, iy - 1, iz - 1, it, a + 4, 1, 1]
                            re += m_re * v1_re - m_im * v1_im
                            im += m_re * v1_im + m_im * v1_re
                            m_re = clover[q, ix - 1, iy - 1, iz - 1, it, a + 4, 2, 0]
                            m_im = clover[q, ix - 1, iy - 1, iz - 1, it, a + 4, 2, 1]
                            re += m_re * v2_re - m_im * v2_im
                            im += m_re * v2_im + m_im * v2_re
                            m_re = clover[q, ix - 1, iy - 1, iz - 1, it, 0, a, 0]
                            m_im = clover[q, ix - 1, iy - 1, iz - 1, it, 0, a, 1]
                            re += m_re * v3_re - m_im * v3_im
                            im += m_re * v3_im + m_im * v3_re
                            if a >= 1:
                                m_re = clover[q, ix - 1, iy - 1, iz - 1, it, 1, a, 0]
                                m_im = clover[q, ix - 1, iy - 1, iz - 1, it, 1, a, 1]
                            else:
                                m_re = clover[q, ix - 1, iy - 1, iz - 1, it, 0, 1, 0]
                                m_im = -clover[q, ix - 1, iy - 1, iz - 1, it, 0, 1, 1]
                            re += m_re * v4_re - m_im * v4_im
                            im += m_re * v4_im + m_im * v4_re
                            m_re = clover[q, ix - 1, iy - 1, iz - 1, it, a, 2, 0]
                            m_im = last * clover[q, ix - 1, iy - 1, iz - 1, it, a, 2, 1]
                            re += m_re * v5_re - m_im * v5_im
                            im += m_re * v5_im + m_im * v5_re
                            out[ix, iy, iz, it, 6 * q + 3 + a, 0] = re
                            out[ix, iy, iz, it, 6 * q + 3 + a, 1] = im


@kernel(collapse=5)
def rim_t(y: Any, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    """The first slice in time stands before the last one."""
    for ix in range(1, nx + 1):
        for iy in range(1, ny + 1):
            for iz in range(1, nz + 1):
                for s in range(12):
                    for r in range(2):
                        y[ix, iy, iz, 0, s, r] = y[ix, iy, iz, nt, s, r]


@kernel(collapse=5)
def rim_z(y: Any, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    for ix in range(1, nx + 1):
        for iy in range(1, ny + 1):
            for it in range(nt + 1):
                for s in range(12):
                    for r in range(2):
                        y[ix, iy, 0, it, s, r] = y[ix, iy, nz, it, s, r]
                        y[ix, iy, nz + 1, it, s, r] = y[ix, iy, 1, it, s, r]


@kernel(collapse=5)
def rim_y(y: Any, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    for ix in range(1, nx + 1):
        for iz in range(1, nz + 1):
            for it in range(nt + 1):
                for s in range(12):
                    for r in range(2):
                        y[ix, 0, iz, it, s, r] = y[ix, ny, iz, it, s, r]
                        y[ix, ny + 1, iz, it, s, r] = y[ix, 1, iz, it, s, r]


@kernel(collapse=5)
def rim_x(y: Any, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    for iy in range(1, ny + 1):
        for iz in range(1, nz + 1):
            for it in range(nt + 1):
                for s in range(12):
                    for r in range(2):
                        y[0, iy, iz, it, s, r] = y[nx, iy, iz, it, s, r]
                        y[nx + 1, iy, iz, it, s, r] = y[1, iy, iz, it, s, r]


@kernel(collapse=6)
def subtract(y: Any, hopped: Any, kappa: Any, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    """hopped = y - kappa² hopped."""
    for ix in range(1, nx + 1):
        for iy in range(1, ny + 1):
            for iz in range(1, nz + 1):
                for it in range(1, nt + 1):
                    for s in range(12):
                        for r in range(2):
                            old = hopped[ix, iy, iz, it, s, r]
                            hopped[ix, iy, iz, it, s, r] = y[ix, iy, iz, it, s, r] - kappa * kappa * old
