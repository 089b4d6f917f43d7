"""Geometry of hexahedra whose corners are numbered as in LULESH: face 0 1 2 3 below, 4 5 6 7 above.

Positions of corners are arrays of shape (elements, 8, 3), values at corners (elements, 8). NumPy only.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

SIGNS: Final[Doubles] = np.array(
    [[-1, -1, -1], [1, -1, -1], [1, 1, -1], [-1, 1, -1], [-1, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]], dtype=float
)
"""On which side of the element each corner lies along the element's own axes xi, eta and zeta."""
_NORMAL_FACES: Final = ((0, 1, 2, 3), (0, 4, 5, 1), (1, 5, 6, 2), (2, 6, 7, 3), (3, 7, 4, 0), (4, 7, 6, 5))
_AREA_FACES: Final = ((0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7))
_AROUND: Final = (
    (1, 2, 3, 4, 5, 7), (2, 3, 0, 5, 6, 4), (3, 0, 1, 6, 7, 5), (0, 1, 2, 7, 4, 6),
    (7, 6, 5, 0, 3, 1), (4, 7, 6, 1, 0, 2), (5, 4, 7, 2, 1, 3), (6, 5, 4, 3, 2, 0),
)  # fmt: skip
"""For each corner, the corners on which the volume's derivative by it depends."""
HOURGLASS: Final[Doubles] = np.array(
    [
        [1, 1, -1, -1, -1, -1, 1, 1],
        [1, -1, -1, 1, -1, 1, 1, -1],
        [1, -1, 1, -1, 1, -1, 1, -1],
        [-1, 1, -1, 1, 1, -1, 1, -1],
    ],
    dtype=float,
)
"""The modes of the corners' motion that change no volume."""


def corners(x: Doubles, y: Doubles, z: Doubles, nodelist: NDArray[np.int32]) -> Doubles:
    """Gather the corners of the elements from values at the nodes."""
    nodes = nodelist.reshape(-1, 8)
    return np.stack([x[nodes], y[nodes], z[nodes]], axis=-1)


def shape_derivatives(at: Doubles) -> tuple[Doubles, Doubles]:
    """Return the derivatives of the shape functions, (elements, 8, 3), times the volume, and the volume."""
    axes = 0.125 * np.einsum("eci,ca->eai", at, SIGNS)
    xi, eta, zeta = axes[:, 0], axes[:, 1], axes[:, 2]
    cofactors = np.stack([np.cross(eta, zeta), np.cross(zeta, xi), np.cross(xi, eta)], axis=1)
    volume = 8.0 * np.einsum("ei,ei->e", eta, cofactors[:, 1])
    return np.einsum("ca,eai->eci", SIGNS, cofactors), volume


def node_normals(at: Doubles) -> Doubles:
    """Return a quarter of the normals of the three faces at each corner."""
    normals = np.zeros_like(at)
    for face in _NORMAL_FACES:
        a, b, c, d = (at[:, corner] for corner in face)
        quarter = 0.25 * np.cross(0.5 * (d + c - b - a), 0.5 * (c + b - d - a))
        for corner in face:
            normals[:, corner] += quarter
    return normals


def volume_derivatives(at: Doubles) -> Doubles:
    """Return the derivative of the volume by the position of each corner."""
    derivatives = np.empty_like(at)
    for corner, around in enumerate(_AROUND):
        a, b, c, d, e, f = (at[:, other] for other in around)
        derivatives[:, corner] = (np.cross(b + c, a + b) + np.cross(a + e, d + e) + np.cross(d + f, c + f)) / 12.0
    return derivatives


def volumes(at: Doubles) -> Doubles:
    """Return the volumes of the elements."""

    def d(i: int, j: int) -> Doubles:
        return np.asarray(at[:, i] - at[:, j])

    def triple(a: Doubles, b: Doubles, c: Doubles) -> Doubles:
        return np.asarray(np.einsum("ei,ei->e", a, np.cross(b, c)))

    return (
        triple(d(3, 1) + d(7, 2), d(6, 3), d(2, 0))
        + triple(d(4, 3) + d(5, 7), d(6, 4), d(7, 0))
        + triple(d(1, 4) + d(2, 5), d(6, 1), d(5, 0))
    ) / 12.0


def characteristic_lengths(at: Doubles, volume: Doubles) -> Doubles:
    """Return the volume over the largest face, as LULESH measures it."""
    largest = np.zeros(len(at))
    for face in _AREA_FACES:
        a, b, c, d = (at[:, corner] for corner in face)
        f, g = (c - a) - (d - b), (c - a) + (d - b)
        area = (f * f).sum(1) * (g * g).sum(1) - (f * g).sum(1) ** 2
        largest = np.maximum(largest, area)
    return np.asarray(4.0 * volume / np.sqrt(largest))


def hourglass_forces(
    corner: Doubles, derivatives: Doubles, velocity: Doubles, volume: Doubles, coefficient: Doubles
) -> Doubles:
    """Return the forces at the corners against hourglass modes (Flanagan and Belytschko)."""
    modes = np.einsum("kc,eci->eki", HOURGLASS, corner)
    shape = HOURGLASS.T - np.einsum("eci,eki->eck", derivatives, modes) / volume[:, None, None]
    along = np.einsum("eck,eci->eki", shape, velocity)
    return np.asarray(coefficient[:, None, None] * np.einsum("eck,eki->eci", shape, along))
