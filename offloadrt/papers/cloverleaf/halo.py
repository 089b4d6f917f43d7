"""Reflection of fields at the edges of the grid: what points along an axis turns round at the ends of that axis."""

from __future__ import annotations

from typing import Any, Final

import attrs

RINGS: Final = 2
"""Rings of halo cells around the grid."""


@attrs.frozen
class Staggering:
    """How a field lies along one axis, as offsets from the number of cells or from the edge.

    The public source reflects a field of faces at the ends of the other axis around the first row inside, unlike a
    field of cells, which it reflects around the edge itself.
    """

    low_mirror: int
    """One below the row from which the first ring of the halo at the low end comes."""
    high_rim: int
    """One below the first ring of the halo at the high end, beside the number of cells."""
    high_mirror: int
    """One above the row from which that ring comes, beside the number of cells."""
    more: int
    """Rows more than there are cells."""


CELL: Final = Staggering(1, 1, 2, 0)
NODE: Final = Staggering(2, 2, 2, 1)
FACE: Final = Staggering(2, 1, 1, 0)
"""Along an axis, a field of the faces of the other axis."""

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
"""For each field, how it lies along y and along x."""


def signs(field: str) -> tuple[float, float]:
    """Return the factors by which a field is multiplied when it is reflected at the ends of y and of x."""
    return (
        -1.0 if field.startswith("yvel") or field in Y_FACES else 1.0,
        -1.0 if field.startswith("xvel") or field in X_FACES else 1.0,
    )


def bottom(field: Any, sign: Any, mirror: Any, depth: Any, columns: Any) -> None:
    """Reflect a field at the low end of y."""
    for j in range(2 - depth, columns + depth):
        for d in range(1, depth + 1):
            field[2 - d, j] = sign * field[mirror + d, j]


def top(field: Any, sign: Any, rim: Any, mirror: Any, depth: Any, columns: Any) -> None:
    """Reflect a field at the high end of y."""
    for j in range(2 - depth, columns + depth):
        for d in range(1, depth + 1):
            field[rim + d, j] = sign * field[mirror - d, j]


def left(field: Any, sign: Any, mirror: Any, depth: Any, rows: Any) -> None:
    """Reflect a field at the low end of x."""
    for k in range(2 - depth, rows + depth):
        for d in range(1, depth + 1):
            field[k, 2 - d] = sign * field[k, mirror + d]


def right(field: Any, sign: Any, rim: Any, mirror: Any, depth: Any, rows: Any) -> None:
    """Reflect a field at the high end of x."""
    for k in range(2 - depth, rows + depth):
        for d in range(1, depth + 1):
            field[k, rim + d] = sign * field[k, mirror - d]


def reflections(field: str, nx: int, ny: int, depth: int) -> list[tuple[Any, tuple[Any, ...]]]:
    """List the four functions above with their arguments, without the array, for `depth` rings of a field's halo."""
    (along_y, along_x), (sign_y, sign_x) = STAGGERED[field], signs(field)
    columns, rows = nx + RINGS + along_x.more, ny + RINGS + along_y.more
    return [
        (bottom, (sign_y, along_y.low_mirror, depth, columns)),
        (top, (sign_y, ny + along_y.high_rim, ny + along_y.high_mirror, depth, columns)),
        (left, (sign_x, along_x.low_mirror, depth, rows)),
        (right, (sign_x, nx + along_x.high_rim, nx + along_x.high_mirror, depth, rows)),
    ]
