"""Advection along one axis: volume, mass and energy of cells, then momentum of nodes, by van Leer's upwind scheme.

The public source has each kernel twice, for sweeps along x and along y. Here one function makes both: it closes over
the axis, so each is a kernel of its own with constant offsets, as a compiler sees it. As in the public source, the sign
of the flux decides which cells are loaded, so these loads wait for that of the flux.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import attrs

from offloadrt.kernels import Kernel, kernel

SIXTH = 1.0 / 6.0


@attrs.frozen
class AxisKernels:
    """The kernels of a sweep along one axis.

    The volumes of cells and of momentum differ in the second sweep only: those of cells change by the flux along this
    axis, those of nodes by the flux across it.
    """

    cell_volumes_first: Kernel
    cell_volumes_second: Kernel
    momentum_volumes_first: Kernel
    momentum_volumes_second: Kernel
    cell_flux: Kernel
    cell_update: Kernel
    node_flux: Kernel
    node_mass: Kernel
    momentum_flux: Kernel
    momentum_update: Kernel


def _volumes_second(y: int, x: int) -> Callable[..., None]:
    def volumes_second(volume: Any, flux: Any, pre_vol: Any, post_vol: Any, nx: Any, ny: Any) -> None:
        for k, j in product(range(ny + 4), range(nx + 4)):
            pre_vol[k, j] = volume[k, j] + flux[k + y, j + x] - flux[k, j]
            post_vol[k, j] = volume[k, j]

    return volumes_second


def kernels_along(name: str, y: int, x: int) -> AxisKernels:
    """Make the kernels of a sweep along x, where (y, x) is (0, 1), or along y, where it is (1, 0)."""

    def volumes_first(volume: Any, flux: Any, across: Any, pre_vol: Any, post_vol: Any, nx: Any, ny: Any) -> None:
        for k, j in product(range(ny + 4), range(nx + 4)):
            other = across[k + x, j + y] - across[k, j]
            post_vol[k, j] = volume[k, j] + other
            pre_vol[k, j] = volume[k, j] + other + flux[k + y, j + x] - flux[k, j]

    def cell_flux(
        vertexd: Any,
        density1: Any,
        energy1: Any,
        vol_flux: Any,
        pre_vol: Any,
        mass_flux: Any,
        ener_flux: Any,
        nx: Any,
        ny: Any,
    ) -> None:
        for k, j in product(range(2, ny + 2 + y), range(2, nx + 2 + x)):
            flux = vol_flux[k, j]
            if flux > 0.0:
                donor_vol = pre_vol[k - y, j - x]
                ratio = vertexd[k * y + j * x] / vertexd[k * y + j * x - 1]
                density = density1[k - y, j - x]
                density_up = density - density1[k - 2 * y, j - 2 * x]
                density_down = density1[k, j] - density
                energy = energy1[k - y, j - x]
                energy_up = energy - energy1[k - 2 * y, j - 2 * x]
                energy_down = energy1[k, j] - energy
            else:
                donor_vol = pre_vol[k, j]
                ratio = vertexd[k * y + j * x] / vertexd[k * y + j * x + 1]
                density = density1[k, j]
                density_up = density - density1[k + y, j + x]
                density_down = density1[k - y, j - x] - density
                energy = energy1[k, j]
                energy_up = energy - energy1[k + y, j + x]
                energy_down = energy1[k - y, j - x] - energy
            sigma = abs(flux) / donor_vol
            near = (1.0 + sigma) * ratio
            far = 2.0 - sigma
            limiter = 0.0
            if density_up * density_down > 0.0:
                wind = -1.0 if density_down <= 0.0 else 1.0
                third = SIXTH * (near * abs(density_up) + far * abs(density_down))
                limiter = (1.0 - sigma) * wind * min(abs(density_up), abs(density_down), third)
            mass = flux * (density + limiter)
            mass_flux[k, j] = mass
            sigma = abs(mass) / (density * donor_vol)
            limiter = 0.0
            if energy_up * energy_down > 0.0:
                wind = -1.0 if energy_down <= 0.0 else 1.0
                third = SIXTH * (near * abs(energy_up) + far * abs(energy_down))
                limiter = (1.0 - sigma) * wind * min(abs(energy_up), abs(energy_down), third)
            ener_flux[k, j] = mass * (energy + limiter)

    def cell_update(
        density1: Any, energy1: Any, vol_flux: Any, mass_flux: Any, ener_flux: Any, pre_vol: Any, nx: Any, ny: Any
    ) -> None:
        for k, j in product(range(2, ny + 2), range(2, nx + 2)):
            pre_mass = density1[k, j] * pre_vol[k, j]
            post_mass = pre_mass + mass_flux[k, j] - mass_flux[k + y, j + x]
            energy1[k, j] = (energy1[k, j] * pre_mass + ener_flux[k, j] - ener_flux[k + y, j + x]) / post_mass
            density1[k, j] = post_mass / (pre_vol[k, j] + vol_flux[k, j] - vol_flux[k + y, j + x])

    def node_flux(mass_flux: Any, node_flux: Any, nx: Any, ny: Any) -> None:
        for k, j in product(range(2 - 2 * y, ny + 3 + y), range(2 - 2 * x, nx + 3 + x)):
            after = mass_flux[k - x + y, j - y + x] + mass_flux[k + y, j + x]
            node_flux[k, j] = 0.25 * (mass_flux[k - x, j - y] + mass_flux[k, j] + after)

    def node_mass(
        density1: Any, post_vol: Any, node_flux: Any, mass_post: Any, mass_pre: Any, nx: Any, ny: Any
    ) -> None:
        for k, j in product(range(2 - y, ny + 3 + y), range(2 - x, nx + 3 + x)):
            below = density1[k - 1, j] * post_vol[k - 1, j] + density1[k - 1, j - 1] * post_vol[k - 1, j - 1]
            above = density1[k, j] * post_vol[k, j] + density1[k, j - 1] * post_vol[k, j - 1]
            mass = 0.25 * (below + above)
            mass_post[k, j] = mass
            mass_pre[k, j] = mass - node_flux[k - y, j - x] + node_flux[k, j]

    def momentum_flux(node_flux: Any, mass_pre: Any, vel: Any, celld: Any, mom_flux: Any, nx: Any, ny: Any) -> None:
        for k, j in product(range(2 - y, ny + 3), range(2 - x, nx + 3)):
            flux = node_flux[k, j]
            if flux < 0.0:
                donor = vel[k + y, j + x]
                up = donor - vel[k + 2 * y, j + 2 * x]
                down = vel[k, j] - donor
                sigma = -flux / mass_pre[k + y, j + x]
                other = celld[k * y + j * x + 1]
            else:
                donor = vel[k, j]
                up = donor - vel[k - y, j - x]
                down = vel[k + y, j + x] - donor
                sigma = flux / mass_pre[k, j]
                other = celld[k * y + j * x - 1]
            limiter = 0.0
            if up * down > 0.0:
                wind = -1.0 if down <= 0.0 else 1.0
                width = celld[k * y + j * x]
                third = width * ((2.0 - sigma) * abs(down) / width + (1.0 + sigma) * abs(up) / other) * SIXTH
                limiter = wind * min(third, abs(up), abs(down))
            mom_flux[k, j] = (donor + (1.0 - sigma) * limiter) * flux

    def momentum_update(vel: Any, mass_pre: Any, mass_post: Any, mom_flux: Any, nx: Any, ny: Any) -> None:
        for k, j in product(range(2, ny + 3), range(2, nx + 3)):
            update = vel[k, j] * mass_pre[k, j] + mom_flux[k - y, j - x] - mom_flux[k, j]
            vel[k, j] = update / mass_post[k, j]

    def along(body: Callable[..., None], title: str) -> Kernel:
        return kernel(name=f"{title}_{name}", collapse=2)(body)

    return AxisKernels(
        cell_volumes_first=along(volumes_first, "cell_volumes_first"),
        cell_volumes_second=along(_volumes_second(y, x), "cell_volumes_second"),
        momentum_volumes_first=along(volumes_first, "momentum_volumes_first"),
        momentum_volumes_second=along(_volumes_second(x, y), "momentum_volumes_second"),
        cell_flux=along(cell_flux, "cell_flux"),
        cell_update=along(cell_update, "cell_update"),
        node_flux=along(node_flux, "node_flux"),
        node_mass=along(node_mass, "node_mass"),
        momentum_flux=along(momentum_flux, "momentum_flux"),
        momentum_update=along(momentum_update, "momentum_update"),
    )


SWEEPS = {"x": kernels_along("x", 0, 1), "y": kernels_along("y", 1, 0)}
"""The kernels along each axis."""
