"""CloverLeaf's advection: van Leer's upwind scheme, one direction after the other, for cells and for node momentum.

Each kernel is written for sweeps along the rows (x) and along the columns (y), as in the public code. The mass flux of
a face one further than the last one is left to the halo, which overwrites it anyway.
"""

from __future__ import annotations

from typing import Any

from offloadrt.kernels import kernel

SIXTH = 1.0 / 6.0


@kernel(collapse=2)
def cell_volumes_x1(volume: Any, flux_x: Any, flux_y: Any, pre_vol: Any, post_vol: Any, nx: Any, ny: Any) -> None:
    for k in range(ny + 4):
        for j in range(nx + 4):
            x = flux_x[k, j + 1] - flux_x[k, j]
            y = flux_y[k + 1, j] - flux_y[k, j]
            pre_vol[k, j] = volume[k, j] + (x + y)
            post_vol[k, j] = volume[k, j] + y


@kernel(collapse=2)
def cell_volumes_x2(volume: Any, flux_x: Any, pre_vol: Any, post_vol: Any, nx: Any, ny: Any) -> None:
    for k in range(ny + 4):
        for j in range(nx + 4):
            pre_vol[k, j] = volume[k, j] + flux_x[k, j + 1] - flux_x[k, j]
            post_vol[k, j] = volume[k, j]


@kernel(collapse=2)
def cell_volumes_y1(volume: Any, flux_x: Any, flux_y: Any, pre_vol: Any, post_vol: Any, nx: Any, ny: Any) -> None:
    for k in range(ny + 4):
        for j in range(nx + 4):
            x = flux_x[k, j + 1] - flux_x[k, j]
            y = flux_y[k + 1, j] - flux_y[k, j]
            pre_vol[k, j] = volume[k, j] + (x + y)
            post_vol[k, j] = volume[k, j] + x


@kernel(collapse=2)
def cell_volumes_y2(volume: Any, flux_y: Any, pre_vol: Any, post_vol: Any, nx: Any, ny: Any) -> None:
    for k in range(ny + 4):
        for j in range(nx + 4):
            pre_vol[k, j] = volume[k, j] + flux_y[k + 1, j] - flux_y[k, j]
            post_vol[k, j] = volume[k, j]


@kernel(collapse=2)
def cell_flux_x(
    vertexdx: Any,
    density1: Any,
    energy1: Any,
    vol_flux: Any,
    pre_vol: Any,
    mass_flux: Any,
    ener_flux: Any,
    nx: Any,
    ny: Any,
) -> None:
    for k in range(2, ny + 2):
        for j in range(2, nx + 3):
            flux = vol_flux[k, j]
            pre_before = pre_vol[k, j - 1]
            pre_here = pre_vol[k, j]
            d_far = density1[k, j - 2]
            d_before = density1[k, j - 1]
            d_here = density1[k, j]
            d_after = density1[k, j + 1]
            e_far = energy1[k, j - 2]
            e_before = energy1[k, j - 1]
            e_here = energy1[k, j]
            e_after = energy1[k, j + 1]
            if flux > 0.0:
                donor_vol = pre_before
                ratio = vertexdx[j] / vertexdx[j - 1]
                density = d_before
                density_up = d_before - d_far
                density_down = d_here - d_before
                energy = e_before
                energy_up = e_before - e_far
                energy_down = e_here - e_before
            else:
                donor_vol = pre_here
                ratio = vertexdx[j] / vertexdx[j + 1]
                density = d_here
                density_up = d_here - d_after
                density_down = d_before - d_here
                energy = e_here
                energy_up = e_here - e_after
                energy_down = e_before - e_here
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


@kernel(collapse=2)
def cell_flux_y(
    vertexdy: Any,
    density1: Any,
    energy1: Any,
    vol_flux: Any,
    pre_vol: Any,
    mass_flux: Any,
    ener_flux: Any,
    nx: Any,
    ny: Any,
) -> None:
    for k in range(2, ny + 3):
        for j in range(2, nx + 2):
            flux = vol_flux[k, j]
            pre_before = pre_vol[k - 1, j]
            pre_here = pre_vol[k, j]
            d_far = density1[k - 2, j]
            d_before = density1[k - 1, j]
            d_here = density1[k, j]
            d_after = density1[k + 1, j]
            e_far = energy1[k - 2, j]
            e_before = energy1[k - 1, j]
            e_here = energy1[k, j]
            e_after = energy1[k + 1, j]
            if flux > 0.0:
                donor_vol = pre_before
                ratio = vertexdy[k] / vertexdy[k - 1]
                density = d_before
                density_up = d_before - d_far
                density_down = d_here - d_before
                energy = e_before
                energy_up = e_before - e_far
                energy_down = e_here - e_before
            else:
                donor_vol = pre_here
                ratio = vertexdy[k] / vertexdy[k + 1]
                density = d_here
                density_up = d_here - d_after
                density_down = d_before - d_here
                energy = e_here
                energy_up = e_here - e_after
                energy_down = e_before - e_here
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


@kernel(collapse=2)
def cell_update_x(
    density1: Any, energy1: Any, vol_flux: Any, mass_flux: Any, ener_flux: Any, pre_vol: Any, nx: Any, ny: Any
) -> None:
    for k in range(2, ny + 2):
        for j in range(2, nx + 2):
            pre_mass = density1[k, j] * pre_vol[k, j]
            post_mass = pre_mass + mass_flux[k, j] - mass_flux[k, j + 1]
            energy1[k, j] = (energy1[k, j] * pre_mass + ener_flux[k, j] - ener_flux[k, j + 1]) / post_mass
            density1[k, j] = post_mass / (pre_vol[k, j] + vol_flux[k, j] - vol_flux[k, j + 1])


@kernel(collapse=2)
def cell_update_y(
    density1: Any, energy1: Any, vol_flux: Any, mass_flux: Any, ener_flux: Any, pre_vol: Any, nx: Any, ny: Any
) -> None:
    for k in range(2, ny + 2):
        for j in range(2, nx + 2):
            pre_mass = density1[k, j] * pre_vol[k, j]
            post_mass = pre_mass + mass_flux[k, j] - mass_flux[k + 1, j]
            energy1[k, j] = (energy1[k, j] * pre_mass + ener_flux[k, j] - ener_flux[k + 1, j]) / post_mass
            density1[k, j] = post_mass / (pre_vol[k, j] + vol_flux[k, j] - vol_flux[k + 1, j])


@kernel(collapse=2)
def mom_volumes_1(volume: Any, flux_x: Any, flux_y: Any, pre_vol: Any, post_vol: Any, nx: Any, ny: Any) -> None:
    """First sweep along x."""
    for k in range(ny + 4):
        for j in range(nx + 4):
            post = volume[k, j] + flux_y[k + 1, j] - flux_y[k, j]
            post_vol[k, j] = post
            pre_vol[k, j] = post + flux_x[k, j + 1] - flux_x[k, j]


@kernel(collapse=2)
def mom_volumes_2(volume: Any, flux_x: Any, flux_y: Any, pre_vol: Any, post_vol: Any, nx: Any, ny: Any) -> None:
    """First sweep along y."""
    for k in range(ny + 4):
        for j in range(nx + 4):
            post = volume[k, j] + flux_x[k, j + 1] - flux_x[k, j]
            post_vol[k, j] = post
            pre_vol[k, j] = post + flux_y[k + 1, j] - flux_y[k, j]


@kernel(collapse=2)
def mom_volumes_3(volume: Any, flux_y: Any, pre_vol: Any, post_vol: Any, nx: Any, ny: Any) -> None:
    """Second sweep, along x."""
    for k in range(ny + 4):
        for j in range(nx + 4):
            post_vol[k, j] = volume[k, j]
            pre_vol[k, j] = volume[k, j] + flux_y[k + 1, j] - flux_y[k, j]


@kernel(collapse=2)
def mom_volumes_4(volume: Any, flux_x: Any, pre_vol: Any, post_vol: Any, nx: Any, ny: Any) -> None:
    """Second sweep, along y."""
    for k in range(ny + 4):
        for j in range(nx + 4):
            post_vol[k, j] = volume[k, j]
            pre_vol[k, j] = volume[k, j] + flux_x[k, j + 1] - flux_x[k, j]


@kernel(collapse=2)
def node_flux_x(mass_flux: Any, node_flux: Any, nx: Any, ny: Any) -> None:
    for k in range(2, ny + 3):
        for j in range(nx + 4):
            right = mass_flux[k - 1, j + 1] + mass_flux[k, j + 1]
            node_flux[k, j] = 0.25 * (mass_flux[k - 1, j] + mass_flux[k, j] + right)


@kernel(collapse=2)
def node_flux_y(mass_flux: Any, node_flux: Any, nx: Any, ny: Any) -> None:
    for k in range(ny + 4):
        for j in range(2, nx + 3):
            above = mass_flux[k + 1, j - 1] + mass_flux[k + 1, j]
            node_flux[k, j] = 0.25 * (mass_flux[k, j - 1] + mass_flux[k, j] + above)


@kernel(collapse=2)
def node_mass_x(density1: Any, post_vol: Any, node_flux: Any, mass_post: Any, mass_pre: Any, nx: Any, ny: Any) -> None:
    for k in range(2, ny + 3):
        for j in range(1, nx + 4):
            below = density1[k - 1, j] * post_vol[k - 1, j] + density1[k - 1, j - 1] * post_vol[k - 1, j - 1]
            above = density1[k, j] * post_vol[k, j] + density1[k, j - 1] * post_vol[k, j - 1]
            mass = 0.25 * (below + above)
            mass_post[k, j] = mass
            mass_pre[k, j] = mass - node_flux[k, j - 1] + node_flux[k, j]


@kernel(collapse=2)
def node_mass_y(density1: Any, post_vol: Any, node_flux: Any, mass_post: Any, mass_pre: Any, nx: Any, ny: Any) -> None:
    for k in range(1, ny + 4):
        for j in range(2, nx + 3):
            below = density1[k - 1, j] * post_vol[k - 1, j] + density1[k - 1, j - 1] * post_vol[k - 1, j - 1]
            above = density1[k, j] * post_vol[k, j] + density1[k, j - 1] * post_vol[k, j - 1]
            mass = 0.25 * (below + above)
            mass_post[k, j] = mass
            mass_pre[k, j] = mass - node_flux[k - 1, j] + node_flux[k, j]


@kernel(collapse=2)
def mom_flux_x(node_flux: Any, mass_pre: Any, vel: Any, celldx: Any, mom_flux: Any, nx: Any, ny: Any) -> None:
    for k in range(2, ny + 3):
        for j in range(1, nx + 3):
            flux = node_flux[k, j]
            mass_here = mass_pre[k, j]
            mass_after = mass_pre[k, j + 1]
            v_before = vel[k, j - 1]
            v_here = vel[k, j]
            v_after = vel[k, j + 1]
            v_far = vel[k, j + 2]
            if flux < 0.0:
                sigma = -flux / mass_after
                other = celldx[j + 1]
                donor = v_after
                up = v_after - v_far
                down = v_here - v_after
            else:
                sigma = flux / mass_here
                other = celldx[j - 1]
                donor = v_here
                up = v_here - v_before
                down = v_after - v_here
            limiter = 0.0
            if up * down > 0.0:
                wind = -1.0 if down <= 0.0 else 1.0
                width = celldx[j]
                third = width * ((2.0 - sigma) * abs(down) / width + (1.0 + sigma) * abs(up) / other) * SIXTH
                limiter = wind * min(third, abs(up), abs(down))
            mom_flux[k, j] = (donor + (1.0 - sigma) * limiter) * flux


@kernel(collapse=2)
def mom_flux_y(node_flux: Any, mass_pre: Any, vel: Any, celldy: Any, mom_flux: Any, nx: Any, ny: Any) -> None:
    for k in range(1, ny + 3):
        for j in range(2, nx + 3):
            flux = node_flux[k, j]
            mass_here = mass_pre[k, j]
            mass_after = mass_pre[k + 1, j]
            v_before = vel[k - 1, j]
            v_here = vel[k, j]
            v_after = vel[k + 1, j]
            v_far = vel[k + 2, j]
            if flux < 0.0:
                sigma = -flux / mass_after
                other = celldy[k + 1]
                donor = v_after
                up = v_after - v_far
                down = v_here - v_after
            else:
                sigma = flux / mass_here
                other = celldy[k - 1]
                donor = v_here
                up = v_here - v_before
                down = v_after - v_here
            limiter = 0.0
            if up * down > 0.0:
                wind = -1.0 if down <= 0.0 else 1.0
                width = celldy[k]
                third = width * ((2.0 - sigma) * abs(down) / width + (1.0 + sigma) * abs(up) / other) * SIXTH
                limiter = wind * min(third, abs(up), abs(down))
            mom_flux[k, j] = (donor + (1.0 - sigma) * limiter) * flux


@kernel(collapse=2)
def mom_update_x(vel: Any, mass_pre: Any, mass_post: Any, mom_flux: Any, nx: Any, ny: Any) -> None:
    for k in range(2, ny + 3):
        for j in range(2, nx + 3):
            vel[k, j] = (vel[k, j] * mass_pre[k, j] + mom_flux[k, j - 1] - mom_flux[k, j]) / mass_post[k, j]


@kernel(collapse=2)
def mom_update_y(vel: Any, mass_pre: Any, mass_post: Any, mom_flux: Any, nx: Any, ny: Any) -> None:
    for k in range(2, ny + 3):
        for j in range(2, nx + 3):
            vel[k, j] = (vel[k, j] * mass_pre[k, j] + mom_flux[k - 1, j] - mom_flux[k, j]) / mass_post[k, j]
