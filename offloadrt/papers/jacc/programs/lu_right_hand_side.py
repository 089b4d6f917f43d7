"""LU's right-hand side, and its forcing: fluxes and dissipation in the three directions."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

from offloadrt.papers.jacc.programs.fields import AXES, FIELDS, Doubles, dissipation, dissipation_at_walls, named


def start(rsd: Doubles, frct: Doubles, u: Doubles, rho_i: Doubles, qs: Doubles, n: int) -> None:
    """Start the residual with the forcing, and compute the reciprocal of the density and the kinetic energy."""
    for k, j, i in product(range(n), range(n), range(n)):
        for m in FIELDS:
            rsd[m, k, j, i] = -frct[m, k, j, i]
        inverse = 1.0 / u[0, k, j, i]
        rho_i[k, j, i] = inverse
        qs[k, j, i] = (
            0.5
            * inverse
            * (u[1, k, j, i] * u[1, k, j, i] + u[2, k, j, i] * u[2, k, j, i] + u[3, k, j, i] * u[3, k, j, i])
        )


def point_flux(flux: Doubles, u: Doubles, rho_i: Doubles, qs: Doubles, n: int) -> None:
    """Compute the convective flux of each point."""
    for k, j, i in product(range(1, n - 1), range(1, n - 1), range(n)):
        v = u[1, k, j, i] * rho_i[k, j, i]
        p = 0.4 * (u[4, k, j, i] - qs[k, j, i])
        flux[0, k, j, i] = u[1, k, j, i]
        flux[1, k, j, i] = u[1, k, j, i] * v + p
        flux[2, k, j, i] = u[2, k, j, i] * v
        flux[3, k, j, i] = u[3, k, j, i] * v
        flux[4, k, j, i] = (1.4 * u[4, k, j, i] - 0.4 * qs[k, j, i]) * v


def difference(rsd: Doubles, flux: Doubles, n: int, dk: int, dj: int, di: int, t: float) -> None:
    """Subtract central differences of the flux."""
    for k, j, i in product(range(1, n - 1), range(1, n - 1), range(1, n - 1)):
        for m in FIELDS:
            rsd[m, k, j, i] = rsd[m, k, j, i] - t * (flux[m, k + dk, j + dj, i + di] - flux[m, k - dk, j - dj, i - di])


def viscous_flux(flux: Doubles, u: Doubles, rho_i: Doubles, n: int, dk: int, dj: int, di: int, t: float) -> None:
    """Compute the viscous flux between a point and the previous one."""
    for k, j, i in product(range(1, n), range(1, n), range(1, n)):
        here = rho_i[k, j, i]
        behind = rho_i[k - dk, j - dj, i - di]
        d1 = here * u[1, k, j, i] - behind * u[1, k - dk, j - dj, i - di]
        d2 = here * u[2, k, j, i] - behind * u[2, k - dk, j - dj, i - di]
        d3 = here * u[3, k, j, i] - behind * u[3, k - dk, j - dj, i - di]
        d4 = here * u[4, k, j, i] - behind * u[4, k - dk, j - dj, i - di]
        flux[1, k, j, i] = t * 4.0 / 3.0 * d1
        flux[2, k, j, i] = t * d2
        flux[3, k, j, i] = t * d3
        flux[4, k, j, i] = t * (0.5 * (d1 * d1 + d2 * d2 + d3 * d3) + d4)


def second_difference(
    rsd: Doubles, u: Doubles, flux: Doubles, n: int, dk: int, dj: int, di: int, c: float, t: float
) -> None:
    """Add second differences of the fields and of the viscous fluxes."""
    for k, j, i in product(range(1, n - 1), range(1, n - 1), range(1, n - 1)):
        rsd[0, k, j, i] = rsd[0, k, j, i] + c * (
            u[0, k - dk, j - dj, i - di] - 2.0 * u[0, k, j, i] + u[0, k + dk, j + dj, i + di]
        )
        for m in (1, 2, 3, 4):
            rsd[m, k, j, i] = (
                rsd[m, k, j, i]
                + c * (u[m, k - dk, j - dj, i - di] - 2.0 * u[m, k, j, i] + u[m, k + dk, j + dj, i + di])
                + t * (flux[m, k + dk, j + dj, i + di] - flux[m, k, j, i])
            )


def gather(utmp: Doubles, u: Doubles, rho_i: Doubles, n: int) -> None:
    """Store the fields with the third direction last."""
    for j, i, k in product(range(1, n - 1), range(1, n - 1), range(n)):
        for m in FIELDS:
            utmp[m, j, i, k] = u[m, k, j, i]
        utmp[5, j, i, k] = rho_i[k, j, i]


def _right_hand_side(prefix: str) -> dict[str, Any]:
    """Make 23 kernels: one to start with, seven for each direction, and one that gathers the third direction."""
    steps = (
        ("flux", point_flux),
        ("difference", difference),
        ("viscous", viscous_flux),
        ("second", second_difference),
        ("first_walls", dissipation_at_walls),
        ("dissipation", dissipation),
        ("last_walls", dissipation_at_walls),
    )
    kernels = {"start": named(f"{prefix}_start", start), "gather": named(f"{prefix}_gather", gather)}
    return kernels | {
        f"{name}_{axis}": named(f"{prefix}_{name}_{axis}", function) for axis in AXES for name, function in steps
    }


ERHS: Final = _right_hand_side("erhs")
RHS: Final = _right_hand_side("rhs")
