"""CCS-QCD's kernels on whole fields: the vector operations and scalar products of BiCGStab.

A field is a vector of complex numbers: [x, y, z, t, component, part]. The host gets the sums.
"""

from __future__ import annotations

from typing import Any

from offloadrt.kernels import kernel


@kernel(collapse=6)
def begin(b: Any, x: Any, r: Any, rt: Any, p: Any) -> None:
    """x = 0; r = rt = p = b, halos included."""
    for ix in range(b.shape[0]):
        for iy in range(b.shape[1]):
            for iz in range(b.shape[2]):
                for it in range(b.shape[3]):
                    for s in range(12):
                        for part in range(2):
                            x[ix, iy, iz, it, s, part] = 0.0
                            r[ix, iy, iz, it, s, part] = b[ix, iy, iz, it, s, part]
                            rt[ix, iy, iz, it, s, part] = b[ix, iy, iz, it, s, part]
                            p[ix, iy, iz, it, s, part] = b[ix, iy, iz, it, s, part]


@kernel(collapse=6)
def norm_of_source(b: Any, sums: Any, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    total = 0.0
    for ix in range(1, nx + 1):
        for iy in range(1, ny + 1):
            for iz in range(1, nz + 1):
                for it in range(1, nt + 1):
                    for s in range(12):
                        for part in range(2):
                            total += b[ix, iy, iz, it, s, part] * b[ix, iy, iz, it, s, part]
    sums[0] = total


@kernel(collapse=5)
def product(rt: Any, q: Any, sums: Any, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    """<rt|q>."""
    re = 0.0
    im = 0.0
    for ix in range(1, nx + 1):
        for iy in range(1, ny + 1):
            for iz in range(1, nz + 1):
                for it in range(1, nt + 1):
                    for s in range(12):
                        a_re = rt[ix, iy, iz, it, s, 0]
                        a_im = rt[ix, iy, iz, it, s, 1]
                        b_re = q[ix, iy, iz, it, s, 0]
                        b_im = q[ix, iy, iz, it, s, 1]
                        re += a_re * b_re + a_im * b_im
                        im += a_re * b_im - a_im * b_re
    sums[0] = re
    sums[1] = im


@kernel(collapse=5)
def step_alpha(
    x: Any, r: Any, p: Any, q: Any, sums: Any, alpha_re: Any, alpha_im: Any, nx: Any, ny: Any, nz: Any, nt: Any
) -> None:
    """x = x + alpha p; r = r - alpha q; <r|r>."""
    total = 0.0
    for ix in range(1, nx + 1):
        for iy in range(1, ny + 1):
            for iz in range(1, nz + 1):
                for it in range(1, nt + 1):
                    for s in range(12):
                        p_re = p[ix, iy, iz, it, s, 0]
                        p_im = p[ix, iy, iz, it, s, 1]
                        q_re = q[ix, iy, iz, it, s, 0]
                        q_im = q[ix, iy, iz, it, s, 1]
                        x[ix, iy, iz, it, s, 0] += alpha_re * p_re - alpha_im * p_im
                        x[ix, iy, iz, it, s, 1] += alpha_re * p_im + alpha_im * p_re
                        re = r[ix, iy, iz, it, s, 0] - (alpha_re * q_re - alpha_im * q_im)
                        im = r[ix, iy, iz, it, s, 1] - (alpha_re * q_im + alpha_im * q_re)
                        r[ix, iy, iz, it, s, 0] = re
                        r[ix, iy, iz, it, s, 1] = im
                        total += re * re + im * im
    sums[0] = total


@kernel(collapse=5)
def products(t: Any, r: Any, sums: Any, nx: Any, ny: Any, nz: Any, nt: Any) -> None:
    """<t|t> and <t|r>."""
    total = 0.0
    re = 0.0
    im = 0.0
    for ix in range(1, nx + 1):
        for iy in range(1, ny + 1):
            for iz in range(1, nz + 1):
                for it in range(1, nt + 1):
                    for s in range(12):
                        t_re = t[ix, iy, iz, it, s, 0]
                        t_im = t[ix, iy, iz, it, s, 1]
                        r_re = r[ix, iy, iz, it, s, 0]
                        r_im = r[ix, iy, iz, it, s, 1]
                        total += t_re * t_re + t_im * t_im
                        re += t_re * r_re + t_im * r_im
                        im += t_re * r_im - t_im * r_re
    sums[0] = re
    sums[1] = im
    sums[2] = total


@kernel(collapse=5)
def step_omega(
    x: Any,
    r: Any,
    t: Any,
    rt: Any,
    sums: Any,
    omega_re: Any,
    omega_im: Any,
    nx: Any,
    ny: Any,
    nz: Any,
    nt: Any,
) -> None:
    """x = x + omega r; r = r - omega t; <r|r> and <rt|r>."""
    total = 0.0
    rho_re = 0.0
    rho_im = 0.0
    for ix in range(1, nx + 1):
        for iy in range(1, ny + 1):
            for iz in range(1, nz + 1):
                for it in range(1, nt + 1):
                    for s in range(12):
                        r_re = r[ix, iy, iz, it, s, 0]
                        r_im = r[ix, iy, iz, it, s, 1]
                        t_re = t[ix, iy, iz, it, s, 0]
                        t_im = t[ix, iy, iz, it, s, 1]
                        rt_re = rt[ix, iy, iz, it, s, 0]
                        rt_im = rt[ix, iy, iz, it, s, 1]
                        x[ix, iy, iz, it, s, 0] += omega_re * r_re - omega_im * r_im
                        x[ix, iy, iz, it, s, 1] += omega_re * r_im + omega_im * r_re
                        re = r_re - (omega_re * t_re - omega_im * t_im)
                        im = r_im - (omega_re * t_im + omega_im * t_re)
                        r[ix, iy, iz, it, s, 0] = re
                        r[ix, iy, iz, it, s, 1] = im
                        total += re * re + im * im
                        rho_re += rt_re * re + rt_im * im
                        rho_im += rt_re * im - rt_im * re
    sums[0] = rho_re
    sums[1] = rho_im
    sums[2] = total


@kernel(collapse=5)
def direction(
    p: Any,
    r: Any,
    q: Any,
    beta_re: Any,
    beta_im: Any,
    omega_re: Any,
    omega_im: Any,
    nx: Any,
    ny: Any,
    nz: Any,
    nt: Any,
) -> None:
    """p = r + beta (p - omega q)."""
    for ix in range(1, nx + 1):
        for iy in range(1, ny + 1):
            for iz in range(1, nz + 1):
                for it in range(1, nt + 1):
                    for s in range(12):
                        q_re = q[ix, iy, iz, it, s, 0]
                        q_im = q[ix, iy, iz, it, s, 1]
                        re = p[ix, iy, iz, it, s, 0] - (omega_re * q_re - omega_im * q_im)
                        im = p[ix, iy, iz, it, s, 1] - (omega_re * q_im + omega_im * q_re)
                        p[ix, iy, iz, it, s, 0] = r[ix, iy, iz, it, s, 0] + beta_re * re - beta_im * im
                        p[ix, iy, iz, it, s, 1] = r[ix, iy, iz, it, s, 1] + beta_re * im + beta_im * re
