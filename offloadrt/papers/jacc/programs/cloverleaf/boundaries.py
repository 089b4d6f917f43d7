"""CloverLeaf's kernels at the rim of the grid, and those that make the grid and the initial state.

The halo of a field is mirrored from its inside, four kernels a field: the rim of a cell array lies beside the mirror,
that of a node or face array around it; what points through the rim changes its sign.
"""

from __future__ import annotations

from typing import Any

from offloadrt.kernels import Kernel, kernel
from offloadrt.papers.jacc.programs.benchmark import Call, call

STAGGERED_X = ("xvel0", "xvel1", "yvel0", "yvel1", "vol_flux_x", "mass_flux_x")
STAGGERED_Y = ("xvel0", "xvel1", "yvel0", "yvel1", "vol_flux_y", "mass_flux_y")
ODD_X = ("xvel0", "xvel1", "vol_flux_x", "mass_flux_x")
ODD_Y = ("yvel0", "yvel1", "vol_flux_y", "mass_flux_y")
FIELDS = (
    *("density0", "density1", "energy0", "energy1", "pressure", "viscosity", "soundspeed"),
    *("xvel0", "xvel1", "yvel0", "yvel1", "vol_flux_x", "vol_flux_y", "mass_flux_x", "mass_flux_y"),
)


def bottom(field: Any, sign: Any, mirror: Any, depth: Any, columns: Any) -> None:
    for j in range(2 - depth, columns + depth):
        for d in range(1, depth + 1):
            field[2 - d, j] = sign * field[mirror + d, j]


def top(field: Any, sign: Any, rim: Any, mirror: Any, depth: Any, columns: Any) -> None:
    for j in range(2 - depth, columns + depth):
        for d in range(1, depth + 1):
            field[rim + d, j] = sign * field[mirror - d, j]


def left(field: Any, sign: Any, mirror: Any, depth: Any, rows: Any) -> None:
    for k in range(2 - depth, rows + depth):
        for d in range(1, depth + 1):
            field[k, 2 - d] = sign * field[k, mirror + d]


def right(field: Any, sign: Any, rim: Any, mirror: Any, depth: Any, rows: Any) -> None:
    for k in range(2 - depth, rows + depth):
        for d in range(1, depth + 1):
            field[k, rim + d] = sign * field[k, mirror - d]


HALO: dict[tuple[str, str], Kernel] = {
    (field, side.__name__): kernel(name=f"halo_{field}_{side.__name__}", collapse=2)(side)
    for field in FIELDS
    for side in (bottom, top, left, right)
}
"""By field and side."""


def halo(field: str, array: Any, depth: int, nx: int, ny: int) -> list[Call]:
    """The halo of a field, so many cells deep."""
    x, y = int(field in STAGGERED_X), int(field in STAGGERED_Y)
    odd_x, odd_y = (-1.0 if field in odd else 1.0 for odd in (ODD_X, ODD_Y))
    columns, rows = nx + 2 + x, ny + 2 + y
    return [
        call(HALO[field, "bottom"], array, odd_y, 1 + y, depth, columns),
        call(HALO[field, "top"], array, odd_y, ny + 1 + y, ny + 2, depth, columns),
        call(HALO[field, "left"], array, odd_x, 1 + x, depth, rows),
        call(HALO[field, "right"], array, odd_x, nx + 1 + x, nx + 2, depth, rows),
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
    for k in range(array.shape[0]):
        for j in range(array.shape[1]):
            array[k, j] = value


INITIALISE: dict[str, Kernel] = {
    **{name: kernel(name=f"initialise_{name}")(vertices) for name in ("vertexx", "vertexy")},
    **{name: kernel(name=f"initialise_{name}")(centres) for name in ("cellx", "celly")},
    **{name: kernel(name=f"initialise_{name}")(lengths) for name in ("vertexdx", "vertexdy", "celldx", "celldy")},
    **{name: kernel(name=f"initialise_{name}", collapse=2)(plane) for name in ("volume", "xarea", "yarea")},
}
"""By what they make."""
BACKGROUND: dict[str, Kernel] = {
    name: kernel(name=f"generate_{name}", collapse=2)(plane) for name in ("density0", "energy0", "xvel0", "yvel0")
}


@kernel(collapse=2)
def generate_state(
    cellx: Any, celly: Any, density0: Any, energy0: Any, density: Any, energy: Any, width: Any, height: Any
) -> None:
    """A rectangle from the origin, of another gas."""
    for k in range(density0.shape[0]):
        for j in range(density0.shape[1]):
            if cellx[j] < width and celly[k] < height:
                density0[k, j] = density
                energy0[k, j] = energy
