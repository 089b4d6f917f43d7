"""CloverLeaf's kernels at the edges of the grid, four for each field, and those that make the initial state."""

from __future__ import annotations

from itertools import product
from typing import Any

from offloadrt.kernels import Kernel, kernel
from offloadrt.papers.cloverleaf.halo import bottom, left, reflections, right, top
from offloadrt.papers.jacc.programs.benchmark import KernelCall, call

FIELDS = (
    *("density0", "density1", "energy0", "energy1", "pressure", "viscosity", "soundspeed"),
    *("xvel0", "xvel1", "yvel0", "yvel1", "vol_flux_x", "vol_flux_y", "mass_flux_x", "mass_flux_y"),
)


HALO: dict[tuple[str, str], Kernel] = {
    (field, side.__name__): kernel(name=f"halo_{field}_{side.__name__}", collapse=2)(side)
    for field in FIELDS
    for side in (bottom, top, left, right)
}
"""A kernel for each field and side, as JACC counts them."""


def halo(field: str, array: Any, depth: int, nx: int, ny: int) -> list[KernelCall]:
    """Reflect a field at the four edges of the grid, so many cells deep."""
    return [
        call(HALO[field, side.__name__], array, *arguments) for side, arguments in reflections(field, nx, ny, depth)
    ]


def vertices(vertex: Any, first: Any, step: Any) -> None:
    for j in range(len(vertex)):
        vertex[j] = first + step * (j - 2)


def centres(centre: Any, vertex: Any) -> None:
    for j in range(len(centre)):
        centre[j] = 0.5 * (vertex[j] + vertex[j + 1])


def lengths(length: Any, step: Any) -> None:
    for j in range(len(length)):
        length[j] = step


def plane(array: Any, value: Any) -> None:
    for k, j in product(range(array.shape[0]), range(array.shape[1])):
        array[k, j] = value


INITIALISE: dict[str, Kernel] = {
    **{name: kernel(name=f"initialise_{name}")(vertices) for name in ("vertexx", "vertexy")},
    **{name: kernel(name=f"initialise_{name}")(centres) for name in ("cellx", "celly")},
    **{name: kernel(name=f"initialise_{name}")(lengths) for name in ("vertexdx", "vertexdy", "celldx", "celldy")},
    **{name: kernel(name=f"initialise_{name}", collapse=2)(plane) for name in ("volume", "xarea", "yarea")},
}
"""The kernels that initialise an array, by the array's name."""
BACKGROUND: dict[str, Kernel] = {
    name: kernel(name=f"generate_{name}", collapse=2)(plane) for name in ("density0", "energy0", "xvel0", "yvel0")
}


@kernel(collapse=2)
def generate_state(
    cellx: Any, celly: Any, density0: Any, energy0: Any, density: Any, energy: Any, width: Any, height: Any
) -> None:
    """Set the state of another gas in a rectangle from the origin."""
    for k, j in product(range(density0.shape[0]), range(density0.shape[1])):
        if cellx[j] < width and celly[k] < height:
            density0[k, j] = density
            energy0[k, j] = energy
