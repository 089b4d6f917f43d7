"""CloverLeaf's kernels, and the order in which a step launches them.

CloverLeaf solves Euler's equations on a staggered grid: a Lagrangian step, advection along one axis
after the other, and the reflection of every field at the edges of the grid. Arrays are
indexed [row, column] and have two rings of halo cells; an array of nodes has a row and a column more, an array of faces
one of the two. `step` has the order of launches; the arrays and the initial state are each program's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final

import attrs

from offloadrt.kernels import Kernel, kernel

SIXTH = 1.0 / 6.0


@attrs.frozen
class AxisKernels:
    """The kernels of a sweep, which moves mass, energy and momentum through the grid along one axis (advection).

    A time step has two sweeps, one along each axis. Mass and energy belong to cells, momentum to nodes (the corners of
    cells). Only in the second sweep do the volumes for cells and for nodes differ: those for cells change by the flux
    along this axis, those for nodes by the flux along the other axis.
    """

    cell_volumes_first: Kernel
    """Computes the cells' volumes before and after the sweep, if it is the first of the time step."""
    cell_volumes_second: Kernel
    """Computes the cells' volumes before and after the sweep, if it is the second of the time step."""
    momentum_volumes_first: Kernel
    """Computes the volumes that the nodes' masses need, if the sweep is the first of the time step."""
    momentum_volumes_second: Kernel
    """Computes the volumes that the nodes' masses need, if the sweep is the second of the time step."""
    cell_flux: Kernel
    """Computes the mass and the energy that flow through the faces between cells."""
    cell_update: Kernel
    """Computes the density and the energy of each cell after the sweep."""
    node_flux: Kernel
    """Computes the mass that flows between nodes, as the mean of the mass that flows through four faces."""
    node_mass: Kernel
    """Computes the mass of each node before and after the sweep."""
    momentum_flux: Kernel
    """Computes the momentum that flows between nodes."""
    momentum_update: Kernel
    """Computes the velocity of each node after the sweep."""


def _volumes_second(y: int, x: int) -> Callable[..., None]:
    def volumes_second(volume: Any, flux: Any, pre_vol: Any, post_vol: Any, nx: Any, ny: Any) -> None:
        for k, j in product(range(ny + 4), range(nx + 4)):
            pre_vol[k, j] = volume[k, j] + flux[k + y, j + x] - flux[k, j]
            post_vol[k, j] = volume[k, j]

    return volumes_second


def kernels_along(name: str, y: int, x: int) -> AxisKernels:
    """Make the kernels of a sweep along one axis: along x if (y, x) is (0, 1), along y if (y, x) is (1, 0).

    name: the axis, which ends the names of the kernels.
    """

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


RINGS: Final = 2
"""Rings of halo cells around the grid."""


@attrs.frozen
class Staggering:
    """Says how a field lies along one axis of a grid of n cells: which rows are halo, and which are mirrored into it.

    A field has one value for each cell, each corner (node) or each face. The halo at an end of the axis is filled by
    reflection. Values of cells are mirrored about the edge of the grid; those of faces that are parallel to the axis
    about the first row inside, as in the public source.
    """

    low_mirror: int
    """The halo row that is d rows outside the low end (d = 1, 2, ...) is copied from row `low_mirror` + d."""
    high_rim: int
    """The halo row that is d rows outside the high end is row n + `high_rim` + d."""
    high_mirror: int
    """The halo row that is d rows outside the high end is copied from row n + `high_mirror` - d."""
    more: int
    """How many more rows than cells the field has along this axis."""


CELL: Final = Staggering(1, 1, 2, 0)
NODE: Final = Staggering(2, 2, 2, 1)
FACE: Final = Staggering(2, 1, 1, 0)
"""How a field of faces lies along an axis that the faces are parallel to."""

CELLS: Final = ("density0", "density1", "energy0", "energy1", "pressure", "viscosity", "soundspeed", "volume")
NODES: Final = ("xvel0", "xvel1", "yvel0", "yvel1")
X_FACES: Final = ("vol_flux_x", "mass_flux_x", "xarea")
Y_FACES: Final = ("vol_flux_y", "mass_flux_y", "yarea")

STAGGERED: Final = {
    **dict.fromkeys(CELLS, (CELL, CELL)),
    **dict.fromkeys(NODES, (NODE, NODE)),
    **dict.fromkeys(X_FACES, (FACE, NODE)),
    **dict.fromkeys(Y_FACES, (NODE, FACE)),
}
"""How each field lies along y and along x."""


def signs(field: str) -> tuple[float, float]:
    """Return the factors (1.0 or -1.0) by which a field is multiplied when it is reflected at the ends of y, and of x.

    field: its name.
    """
    return (
        -1.0 if field.startswith("yvel") or field in Y_FACES else 1.0,
        -1.0 if field.startswith("xvel") or field in X_FACES else 1.0,
    )


def bottom(field: Any, sign: Any, mirror: Any, depth: Any, columns: Any) -> None:
    """Fill a field's halo below the grid by reflection: row 2 - d becomes `sign` times row `mirror` + d.

    This is done for d = 1 to `depth`. columns: the number of the first column behind the inner ones.
    """
    for j in range(2 - depth, columns + depth):
        for d in range(1, depth + 1):
            field[2 - d, j] = sign * field[mirror + d, j]


def top(field: Any, sign: Any, rim: Any, mirror: Any, depth: Any, columns: Any) -> None:
    """Fill a field's halo above the grid by reflection: row `rim` + d becomes `sign` times row `mirror` - d.

    This is done for d = 1 to `depth`. columns: the number of the first column behind the inner ones.
    """
    for j in range(2 - depth, columns + depth):
        for d in range(1, depth + 1):
            field[rim + d, j] = sign * field[mirror - d, j]


def left(field: Any, sign: Any, mirror: Any, depth: Any, rows: Any) -> None:
    """Fill a field's halo on the left by reflection: column 2 - d becomes `sign` times column `mirror` + d.

    This is done for d = 1 to `depth`. rows: the number of the first row behind the inner ones.
    """
    for k in range(2 - depth, rows + depth):
        for d in range(1, depth + 1):
            field[k, 2 - d] = sign * field[k, mirror + d]


def right(field: Any, sign: Any, rim: Any, mirror: Any, depth: Any, rows: Any) -> None:
    """Fill a field's halo on the right by reflection: column `rim` + d becomes `sign` times column `mirror` - d.

    This is done for d = 1 to `depth`. rows: the number of the first row behind the inner ones.
    """
    for k in range(2 - depth, rows + depth):
        for d in range(1, depth + 1):
            field[k, rim + d] = sign * field[k, mirror - d]


def reflections(field: str, nx: int, ny: int, depth: int) -> list[tuple[Any, tuple[Any, ...]]]:
    """Return (kernel, arguments) for `bottom`, `top`, `left` and `right`, to fill `depth` rings of a field's halo.

    field: the field's name. nx, ny: the grid's cells. The arguments are those after the array.
    """
    (along_y, along_x), (sign_y, sign_x) = STAGGERED[field], signs(field)
    columns, rows = nx + RINGS + along_x.more, ny + RINGS + along_y.more
    return [
        (bottom, (sign_y, along_y.low_mirror, depth, columns)),
        (top, (sign_y, ny + along_y.high_rim, ny + along_y.high_mirror, depth, columns)),
        (left, (sign_x, along_x.low_mirror, depth, rows)),
        (right, (sign_x, nx + along_x.high_rim, nx + along_x.high_mirror, depth, rows)),
    ]


SMALL = 1.0e-16
BIG = 1.0e21
GAMMA = 1.4
"""The ratio of specific heats of an ideal gas."""
SAFETY = 0.7
"""The fraction that is used of the longest time step that the sound speed allows; of that for velocities, half is."""


@kernel(collapse=2)
def ideal_gas(density: Any, energy: Any, pressure: Any, soundspeed: Any, nx: Any, ny: Any) -> None:
    for k, j in product(range(2, ny + 2), range(2, nx + 2)):
        volume = 1.0 / density[k, j]
        p = (GAMMA - 1.0) * density[k, j] * energy[k, j]
        pressure[k, j] = p
        by_energy = (GAMMA - 1.0) * density[k, j]
        by_volume = -density[k, j] * p
        soundspeed[k, j] = math.sqrt(volume * volume * (p * by_energy - by_volume))


@kernel(collapse=2)
def viscous_pressure(
    celldx: Any, celldy: Any, density0: Any, pressure: Any, viscosity: Any, xvel0: Any, yvel0: Any, nx: Any, ny: Any
) -> None:
    for k, j in product(range(2, ny + 2), range(2, nx + 2)):
        ugrad = (xvel0[k, j + 1] + xvel0[k + 1, j + 1]) - (xvel0[k, j] + xvel0[k + 1, j])
        vgrad = (yvel0[k + 1, j] + yvel0[k + 1, j + 1]) - (yvel0[k, j] + yvel0[k, j + 1])
        div = celldx[j] * ugrad + celldy[k] * vgrad
        across = xvel0[k + 1, j] + xvel0[k + 1, j + 1] - xvel0[k, j] - xvel0[k, j + 1]
        along = yvel0[k, j + 1] + yvel0[k + 1, j + 1] - yvel0[k, j] - yvel0[k + 1, j]
        strain = 0.5 * across / celldy[k] + 0.5 * along / celldx[j]
        px = (pressure[k, j + 1] - pressure[k, j - 1]) / (celldx[j] + celldx[j + 1])
        py = (pressure[k + 1, j] - pressure[k - 1, j]) / (celldy[k] + celldy[k + 1])
        squares = (0.5 * ugrad / celldx[j]) * px * px + (0.5 * vgrad / celldy[k]) * py * py
        limiter = (squares + strain * px * py) / max(px * px + py * py, SMALL)
        if limiter > 0.0 or div >= 0.0:
            viscosity[k, j] = 0.0
        else:
            gx = max(SMALL, abs(px))
            gy = max(SMALL, abs(py))
            gradient = math.sqrt(gx * gx + gy * gy)
            length = min(abs(celldx[j] * gradient / gx), abs(celldy[k] * gradient / gy))
            viscosity[k, j] = 2.0 * density0[k, j] * length * length * limiter * limiter


@kernel(collapse=2)
def calc_dt(
    xarea: Any,
    yarea: Any,
    celldx: Any,
    celldy: Any,
    volume: Any,
    density0: Any,
    viscosity: Any,
    soundspeed: Any,
    xvel0: Any,
    yvel0: Any,
    nx: Any,
    ny: Any,
    dt_min: Any,
) -> None:
    smallest = BIG
    for k, j in product(range(2, ny + 2), range(2, nx + 2)):
        square = soundspeed[k, j] * soundspeed[k, j] + 2.0 * viscosity[k, j] / density0[k, j]
        by_sound = SAFETY * min(celldx[j], celldy[k]) / max(math.sqrt(square), SMALL)
        left = (xvel0[k, j] + xvel0[k + 1, j]) * xarea[k, j]
        right = (xvel0[k, j + 1] + xvel0[k + 1, j + 1]) * xarea[k, j + 1]
        by_x = 0.5 * 2.0 * volume[k, j] / max(abs(left), abs(right), SMALL * volume[k, j])
        bottom = (yvel0[k, j] + yvel0[k, j + 1]) * yarea[k, j]
        top = (yvel0[k + 1, j] + yvel0[k + 1, j + 1]) * yarea[k + 1, j]
        by_y = 0.5 * 2.0 * volume[k, j] / max(abs(bottom), abs(top), SMALL * volume[k, j])
        div = (right - left + top - bottom) / (2.0 * volume[k, j])
        by_div = -SAFETY / div if div < -SMALL else BIG
        smallest = min(smallest, min(min(by_sound, by_x), min(by_y, by_div)))
    dt_min[0] = smallest


@kernel(collapse=2)
def pdv_predict(
    dt: Any,
    xarea: Any,
    yarea: Any,
    volume: Any,
    density0: Any,
    density1: Any,
    energy0: Any,
    energy1: Any,
    pressure: Any,
    viscosity: Any,
    xvel0: Any,
    yvel0: Any,
    nx: Any,
    ny: Any,
) -> None:
    for k, j in product(range(2, ny + 2), range(2, nx + 2)):
        left = xarea[k, j] * 2.0 * (xvel0[k, j] + xvel0[k + 1, j]) * 0.125 * dt
        right = xarea[k, j + 1] * 2.0 * (xvel0[k, j + 1] + xvel0[k + 1, j + 1]) * 0.125 * dt
        bottom = yarea[k, j] * 2.0 * (yvel0[k, j] + yvel0[k, j + 1]) * 0.125 * dt
        top = yarea[k + 1, j] * 2.0 * (yvel0[k + 1, j] + yvel0[k + 1, j + 1]) * 0.125 * dt
        total = right - left + top - bottom
        change = (pressure[k, j] + viscosity[k, j]) / density0[k, j] * total / volume[k, j]
        energy1[k, j] = energy0[k, j] - change
        density1[k, j] = density0[k, j] * volume[k, j] / (volume[k, j] + total)


@kernel(collapse=2)
def pdv(
    dt: Any,
    xarea: Any,
    yarea: Any,
    volume: Any,
    density0: Any,
    density1: Any,
    energy0: Any,
    energy1: Any,
    pressure: Any,
    viscosity: Any,
    xvel0: Any,
    xvel1: Any,
    yvel0: Any,
    yvel1: Any,
    nx: Any,
    ny: Any,
) -> None:
    for k, j in product(range(2, ny + 2), range(2, nx + 2)):
        left = xarea[k, j] * (xvel0[k, j] + xvel0[k + 1, j] + xvel1[k, j] + xvel1[k + 1, j]) * 0.25 * dt
        east = xvel0[k, j + 1] + xvel0[k + 1, j + 1] + xvel1[k, j + 1] + xvel1[k + 1, j + 1]
        right = xarea[k, j + 1] * east * 0.25 * dt
        bottom = yarea[k, j] * (yvel0[k, j] + yvel0[k, j + 1] + yvel1[k, j] + yvel1[k, j + 1]) * 0.25 * dt
        north = yvel0[k + 1, j] + yvel0[k + 1, j + 1] + yvel1[k + 1, j] + yvel1[k + 1, j + 1]
        top = yarea[k + 1, j] * north * 0.25 * dt
        total = right - left + top - bottom
        change = (pressure[k, j] + viscosity[k, j]) / density0[k, j] * total / volume[k, j]
        energy1[k, j] = energy0[k, j] - change
        density1[k, j] = density0[k, j] * volume[k, j] / (volume[k, j] + total)


@kernel(collapse=2)
def accelerate(
    dt: Any,
    xarea: Any,
    yarea: Any,
    volume: Any,
    density0: Any,
    pressure: Any,
    viscosity: Any,
    xvel0: Any,
    yvel0: Any,
    xvel1: Any,
    yvel1: Any,
    nx: Any,
    ny: Any,
) -> None:
    for k, j in product(range(2, ny + 3), range(2, nx + 3)):
        below = density0[k - 1, j - 1] * volume[k - 1, j - 1] + density0[k - 1, j] * volume[k - 1, j]
        above = density0[k, j] * volume[k, j] + density0[k, j - 1] * volume[k, j - 1]
        step = 0.5 * dt / ((below + above) * 0.25)
        upper = pressure[k, j] - pressure[k, j - 1] + viscosity[k, j] - viscosity[k, j - 1]
        lower = pressure[k - 1, j] - pressure[k - 1, j - 1] + viscosity[k - 1, j] - viscosity[k - 1, j - 1]
        xvel1[k, j] = xvel0[k, j] - step * (xarea[k, j] * upper + xarea[k - 1, j] * lower)
        east = pressure[k, j] - pressure[k - 1, j] + viscosity[k, j] - viscosity[k - 1, j]
        west = pressure[k, j - 1] - pressure[k - 1, j - 1] + viscosity[k, j - 1] - viscosity[k - 1, j - 1]
        yvel1[k, j] = yvel0[k, j] - step * (yarea[k, j] * east + yarea[k, j - 1] * west)


@kernel(collapse=2)
def flux_calc(
    dt: Any,
    xarea: Any,
    yarea: Any,
    xvel0: Any,
    yvel0: Any,
    xvel1: Any,
    yvel1: Any,
    vol_flux_x: Any,
    vol_flux_y: Any,
    nx: Any,
    ny: Any,
) -> None:
    for k, j in product(range(2, ny + 3), range(2, nx + 3)):
        x = xvel0[k, j] + xvel0[k + 1, j] + xvel1[k, j] + xvel1[k + 1, j]
        vol_flux_x[k, j] = 0.25 * dt * xarea[k, j] * x
        y = yvel0[k, j] + yvel0[k, j + 1] + yvel1[k, j] + yvel1[k, j + 1]
        vol_flux_y[k, j] = 0.25 * dt * yarea[k, j] * y


def copy_cells(density: Any, density_to: Any, energy: Any, energy_to: Any, nx: Any, ny: Any) -> None:
    for k, j in product(range(2, ny + 2), range(2, nx + 2)):
        density_to[k, j] = density[k, j]
        energy_to[k, j] = energy[k, j]


revert = kernel(name="revert", collapse=2)(copy_cells)
"""Start the second half of the step from the old state again."""
reset_cells = kernel(name="reset_cells", collapse=2)(copy_cells)
"""Make the new state of the cells the old one of the next step."""


@kernel(collapse=2)
def reset_nodes(xvel1: Any, xvel0: Any, yvel1: Any, yvel0: Any, nx: Any, ny: Any) -> None:
    for k, j in product(range(2, ny + 3), range(2, nx + 3)):
        xvel0[k, j] = xvel1[k, j]
        yvel0[k, j] = yvel1[k, j]


Call = tuple[Kernel, tuple[str, ...]]
"""A kernel and the names of its arguments (fields, `dt`, widths of vertices or cells); the grid's size comes last."""


@attrs.frozen
class Function:
    """The calls of kernels that one function of CloverLeaf's public source makes one after the other."""

    calls: tuple[Call, ...]


@attrs.frozen
class Halos:
    """A step that fills the halos of fields at all edges of the grid by reflection, `depth` rings deep."""

    fields: tuple[str, ...]
    depth: int


Steps = Sequence[Function | Halos]


def _alone(kernel: Kernel, *names: str) -> Function:
    return Function(((kernel, names),))


def equation_of_state(stage: int) -> Function:
    """Return the step that computes pressure and sound speed. stage: 0 before the Lagrangian step, 1 after it."""
    return _alone(ideal_gas, f"density{stage}", f"energy{stage}", "pressure", "soundspeed")


BEFORE_TIME_STEP: Final[Steps] = (
    equation_of_state(0),
    Halos(("pressure", "energy0", "density0", "xvel0", "yvel0"), 1),
    _alone(viscous_pressure, "celldx", "celldy", "density0", "pressure", "viscosity", "xvel0", "yvel0"),
    Halos(("viscosity",), 1),
)
TIME_STEP: Final[Call] = (
    calc_dt,
    ("xarea", "yarea", "celldx", "celldy", "volume", "density0", "viscosity", "soundspeed", "xvel0", "yvel0"),
)
"""Finds the smallest of the time steps that the cells allow; the host then chooses the length of the step."""
_WORKED_ON: Final = (
    *("dt", "xarea", "yarea", "volume"),
    *("density0", "density1", "energy0", "energy1", "pressure", "viscosity"),
)
_LAGRANGIAN: Final[Steps] = (
    _alone(pdv_predict, *_WORKED_ON, "xvel0", "yvel0"),
    equation_of_state(1),
    Halos(("pressure",), 1),
    _alone(revert, "density0", "density1", "energy0", "energy1"),
    _alone(
        accelerate,
        *("dt", "xarea", "yarea", "volume", "density0", "pressure", "viscosity"),
        *("xvel0", "yvel0", "xvel1", "yvel1"),
    ),
    _alone(pdv, *_WORKED_ON, *NODES),
    _alone(flux_calc, "dt", "xarea", "yarea", "xvel0", "yvel0", "xvel1", "yvel1", "vol_flux_x", "vol_flux_y"),
    Halos(("energy1", "density1", "vol_flux_x", "vol_flux_y"), 2),
)
_RESET: Final = Function(
    (
        (reset_cells, ("density1", "density0", "energy1", "energy0")),
        (reset_nodes, ("xvel1", "xvel0", "yvel1", "yvel0")),
    )
)


def step(axes: str) -> Steps:
    """List in order what runs in a time step whose length has been chosen. axes: the order of the sweeps, xy or yx."""
    steps: list[Function | Halos] = [*_LAGRANGIAN]
    for first, axis in zip((True, False), axes, strict=True):
        across = "y" if axis == "x" else "x"
        steps.append(_cells(axis, across, first))
        steps.append(Halos(("density1", "energy1", "xvel1", "yvel1", "mass_flux_x", "mass_flux_y"), 2))
        steps += [_momentum(axis, across, first, velocity) for velocity in ("xvel1", "yvel1")]
    return (*steps, _RESET)


def _cells(axis: str, across: str, first: bool) -> Function:
    """Move volume, mass and energy of the cells along an axis."""
    kernels, flux, mass = SWEEPS[axis], f"vol_flux_{axis}", f"mass_flux_{axis}"
    volumes: Call = (kernels.cell_volumes_second, ("volume", flux, "work1", "work2"))
    if first:
        volumes = (kernels.cell_volumes_first, ("volume", flux, f"vol_flux_{across}", "work1", "work2"))
    return Function(
        (
            volumes,
            (kernels.cell_flux, (f"vertexd{axis}", "density1", "energy1", flux, "work1", mass, "work7")),
            (kernels.cell_update, ("density1", "energy1", flux, mass, "work7", "work1")),
        )
    )


def _momentum(axis: str, across: str, first: bool, velocity: str) -> Function:
    """Move the momentum of one velocity. The first velocity computes fluxes and masses of nodes for both."""
    kernels, flux = SWEEPS[axis], f"vol_flux_{across}"
    volumes: Call = (kernels.momentum_volumes_second, ("volume", flux, "work5", "work6"))
    if first:
        volumes = (kernels.momentum_volumes_first, ("volume", f"vol_flux_{axis}", flux, "work5", "work6"))
    nodes: tuple[Call, ...] = (
        (kernels.node_flux, (f"mass_flux_{axis}", "work1")),
        (kernels.node_mass, ("density1", "work6", "work1", "work2", "work3")),
    )
    return Function(
        (
            volumes,
            *(nodes if velocity == "xvel1" else ()),
            (kernels.momentum_flux, ("work1", "work3", velocity, f"celld{axis}", "work4")),
            (kernels.momentum_update, (velocity, "work3", "work2", "work4")),
        )
    )
