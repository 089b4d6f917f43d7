"""The compressible Euler equations of a gamma-law gas: the Rusanov update of a batch of patches on device memory.

The kernel does what a team does with its patch, in two phases with a barrier between them:

1. every volume evaluates, for each direction, the numerical flux at its upper face and writes it to the temporaries
   (the volumes of the lower halo layer do so too, for the first face of the patch);
2. every volume reads the two face fluxes of each direction and advances its own unknowns. The result is written without
   halo, packed, to the place that the caller names, which may be the front of the patch's own block.

A volume holds (density, momentum per direction, energy density). Each value is the outcome of one fixed sequence of
IEEE operations, whatever the batch, so that results are compared bit by bit. The arithmetic is written over sequences
of number-likes: the kernel passes arrays (one entry per face), the test that counts operations passes tallies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offloadrt.papers.exahype.program.geometry import HALO, PatchGeometry

GAMMA = 1.4
"""Ratio of specific heats."""

Doubles = NDArray[np.float64]


def pressure(state: Sequence[Any]) -> Any:
    """Compute the pressure of a volume (density, momentum..., energy density)."""
    density, *momentum, energy = state
    squares = momentum[0] * momentum[0]
    for component in momentum[1:]:
        squares = squares + component * component
    return (GAMMA - 1.0) * (energy - 0.5 * squares / density)


def flux_and_speed(state: Sequence[Any], direction: int) -> tuple[list[Any], Any]:
    """Compute the physical flux of each unknown along `direction`, and the largest wave speed |u| + c there."""
    density, *momentum, energy = state
    velocity = momentum[direction] / density
    push = pressure(state)
    flux = [momentum[direction], *(component * velocity for component in momentum), (energy + push) * velocity]
    flux[1 + direction] = flux[1 + direction] + push
    return flux, abs(velocity) + np.sqrt(GAMMA * push / density)


def face_flux(lower: Sequence[Any], upper: Sequence[Any], direction: int) -> list[Any]:
    """Compute Rusanov's numerical flux of each unknown at the face between the volumes `lower` and `upper`."""
    lower_flux, lower_speed = flux_and_speed(lower, direction)
    upper_flux, upper_speed = flux_and_speed(upper, direction)
    half_speed = 0.5 * np.maximum(lower_speed, upper_speed)
    return [0.5 * (lower_flux[i] + upper_flux[i]) - half_speed * (upper[i] - lower[i]) for i in range(len(lower))]


def advance(value: Any, lower_faces: Sequence[Any], upper_faces: Sequence[Any], dt_over_dx: float) -> Any:
    """Advance one unknown of a volume by a step, from the fluxes at its lower and upper face in each direction."""
    divergence = upper_faces[0] - lower_faces[0]
    for direction in range(1, len(lower_faces)):
        divergence = divergence + (upper_faces[direction] - lower_faces[direction])
    return value - dt_over_dx * divergence


def _span(geometry: PatchGeometry, direction: int, along: slice) -> tuple[slice, ...]:
    """Return the index of a batch (axis 0) that is `along` in `direction` and the patch without halo in the others."""
    inner = slice(HALO, HALO + geometry.patch)
    return (slice(None), *(along if axis == direction else inner for axis in range(geometry.dimensions)))


def update_batch(
    geometry: PatchGeometry,
    patches: Sequence[Doubles],
    results: Sequence[Doubles],
    temporaries: Doubles,
    dt_over_dx: float,
) -> None:
    """Advance each of `patches` by one time step: the body of the one kernel of a batch.

    patches: flat views of device memory, `input_values` doubles each. results: flat views of `output_values` doubles
    each, which receive the updated patches; a result may lie over its own patch. temporaries: flat view of
    `temporary_values` doubles per patch, for the face fluxes. dt_over_dx: time step over volume length.
    """
    p, d, n = geometry.patch, geometry.dimensions, geometry.unknowns
    block = np.stack([patch.reshape(geometry.input_shape) for patch in patches])
    fluxes = temporaries.reshape(len(patches), *geometry.temporary_shape)
    for direction in range(d):
        below = block[_span(geometry, direction, slice(0, p + HALO))]
        above = block[_span(geometry, direction, slice(HALO, p + 2 * HALO))]
        faces = fluxes[:, direction][_span(geometry, direction, slice(0, p + HALO))]
        flux = face_flux([below[..., i] for i in range(n)], [above[..., i] for i in range(n)], direction)
        for i in range(n):
            faces[..., i] = flux[i]
    own = block[_span(geometry, 0, slice(HALO, p + HALO))]
    lower = [fluxes[:, k][_span(geometry, k, slice(0, p))] for k in range(d)]
    upper = [fluxes[:, k][_span(geometry, k, slice(HALO, p + HALO))] for k in range(d)]
    new = advance(own, lower, upper, dt_over_dx)
    for result, updated in zip(results, new, strict=True):
        result[:] = updated.reshape(-1)


def largest_speed(states: Doubles, dimensions: int) -> float:
    """Return the largest wave speed in any volume and direction; states: (..., unknowns)."""
    unknowns = [states[..., i] for i in range(states.shape[-1])]
    return max(float(np.max(flux_and_speed(unknowns, k)[1])) for k in range(dimensions))
