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

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import attrs
import numpy as np
from numpy.typing import NDArray

HALO = 1
"""Halo layers of the finite-volume Rusanov scheme."""

DOUBLE = 8
"""Bytes of an unknown."""


@attrs.frozen
class PatchGeometry:
    """Shapes and sizes of one patch."""

    dimensions: int
    patch: int
    """Volumes per dimension."""
    unknowns: int
    temporary_fields: int

    @property
    def volumes(self) -> int:
        """Return the volumes that one update of the patch advances."""
        return int(self.patch**self.dimensions)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Return the shape of the patch with halo; the unknowns of a volume are neighbours in memory."""
        return (self.patch + 2 * HALO,) * self.dimensions + (self.unknowns,)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Return the shape of the updated patch without halo."""
        return (self.patch,) * self.dimensions + (self.unknowns,)

    @property
    def temporary_shape(self) -> tuple[int, ...]:
        """Return the shape of the temporaries of one patch: the fields, each on the patch with halo."""
        return (self.temporary_fields, *self.input_shape)

    @property
    def input_values(self) -> int:
        """Return the doubles of the patch with halo."""
        return math.prod(self.input_shape)

    @property
    def output_values(self) -> int:
        """Return the doubles of the updated patch."""
        return math.prod(self.output_shape)

    @property
    def temporary_values(self) -> int:
        """Return the doubles of the temporaries of one patch."""
        return math.prod(self.temporary_shape)

    @property
    def input_bytes(self) -> int:
        """Return the bytes that go to the device per patch."""
        return DOUBLE * self.input_values

    @property
    def output_bytes(self) -> int:
        """Return the bytes that come back per patch."""
        return DOUBLE * self.output_values

    @property
    def temporary_bytes(self) -> int:
        """Return the bytes of device memory that the kernel keeps per patch besides the patch."""
        return DOUBLE * self.temporary_values

    @property
    def faces(self) -> int:
        """Return the faces at which the update evaluates a numerical flux, over all directions."""
        return int(self.dimensions * (self.patch + 1) * self.patch ** (self.dimensions - 1))


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


Name: TypeAlias = Literal["euler2d", "euler3d", "ccz4"]


@attrs.frozen
class Equations:
    """One system of equations as the skeleton needs it."""

    name: str
    dimensions: int
    unknowns: int
    patch_sizes: tuple[int, ...]
    """Volumes per dimension of a patch that the paper ran, the default first."""
    temporary_fields: int
    """Fields of `unknowns` doubles on the halo-extended patch that a kernel keeps per patch."""
    phantom_only: bool
    """True when only sizes and work are modelled, so that no real numbers can be computed."""

    def geometry(self, patch: int | None = None) -> PatchGeometry:
        """Return the geometry of a patch of `patch` volumes per dimension (None: the default of these equations).

        Raises ValueError when the paper has no such patch for these equations.
        """
        chosen = self.patch_sizes[0] if patch is None else patch
        if chosen not in self.patch_sizes:
            sizes = " or ".join(str(size) for size in self.patch_sizes)
            raise ValueError(f"{chosen}: {self.name} runs with patches of {sizes} volumes per dimension")
        return PatchGeometry(self.dimensions, chosen, self.unknowns, self.temporary_fields)


EQUATIONS: dict[str, Equations] = {
    # Rusanov's numerical fluxes are kept per face: one field per direction.
    "euler2d": Equations("euler2d", 2, 4, (17,), temporary_fields=2, phantom_only=False),
    "euler3d": Equations("euler3d", 3, 5, (5, 9), temporary_fields=3, phantom_only=False),
    # Non-conservative products in three directions and the source term (section 5 of the paper).
    "ccz4": Equations("ccz4", 3, 59, (5, 9), temporary_fields=4, phantom_only=True),
}

CASES_3D: dict[str, tuple[Name, int]] = {
    "euler3d-5": ("euler3d", 5),
    "euler3d-9": ("euler3d", 9),
    "ccz4-5": ("ccz4", 5),
}
"""The three-dimensional cases of the paper's Figures 2 to 4: equations and volumes per dimension of a patch."""


def grid_of(patches: int, dimensions: int) -> tuple[int, ...]:
    """Split `patches` into one factor per dimension, as near to a cube as divisors allow."""
    grid: list[int] = []
    left = patches
    for axis in range(dimensions, 1, -1):
        side = next(n for n in range(_root(left, axis), 0, -1) if left % n == 0)
        grid.append(side)
        left //= side
    return (left, *reversed(grid))


def _root(value: int, degree: int) -> int:
    """Return the largest whole number whose power of `degree` does not exceed `value`."""
    root = 1
    while (root + 1) ** degree <= value:
        root += 1
    return root


def _initial_state(grid: tuple[int, ...], geometry: PatchGeometry) -> Doubles:
    """Return a smooth, periodic bump in density and velocity under uniform pressure, by additions and products only."""
    shape = tuple(n * geometry.patch for n in grid)
    centres = [(np.arange(n, dtype=np.float64) + 0.5) / n for n in shape]
    bump = np.ones(shape)
    for axis, x in enumerate(centres):
        along = 4.0 * x * (1.0 - x)
        bump = bump * along.reshape([-1 if k == axis else 1 for k in range(len(shape))])
    state = np.empty((*shape, geometry.unknowns))
    density = 1.0 + 0.5 * bump
    squares = np.zeros(shape)
    state[..., 0] = density
    for k in range(geometry.dimensions):
        velocity = (0.3 - 0.1 * k) * bump
        state[..., 1 + k] = density * velocity
        squares = squares + velocity * velocity
    state[..., -1] = 1.0 / (GAMMA - 1.0) + 0.5 * density * squares
    return state


@attrs.define
class PatchDomain:
    """The state of a periodic box of equal patches; volumes have length one over those along the first dimension."""

    geometry: PatchGeometry
    grid: tuple[int, ...]
    state: Doubles
    """Volumes of the whole box in each dimension, then the unknowns."""

    @classmethod
    def with_patches(cls, geometry: PatchGeometry, patches: int) -> PatchDomain:
        """Make a box of `patches` patches with the initial state."""
        grid = grid_of(patches, geometry.dimensions)
        return cls(geometry, grid, _initial_state(grid, geometry))

    @property
    def patches(self) -> int:
        """Return the number of patches of the box."""
        return math.prod(self.grid)

    def dt_over_dx(self, cfl: float) -> float:
        """Return the time step over volume length that the CFL number `cfl`, between 0 and 1, allows now."""
        if not 0.0 < cfl < 1.0:
            raise ValueError(f"cfl={cfl}: the CFL number lies between 0 and 1")
        return cfl / (self.geometry.dimensions * largest_speed(self.state, self.geometry.dimensions))

    def with_halos(self) -> list[Doubles]:
        """Return every patch with its halo, flat, as a new array: the halo exchange over the periodic box."""
        p, d = self.geometry.patch, self.geometry.dimensions
        padded = np.pad(self.state, [(HALO, HALO)] * d + [(0, 0)], mode="wrap")
        cut: list[Doubles] = []
        for position in np.ndindex(*self.grid):
            box = tuple(slice(k * p, k * p + p + 2 * HALO) for k in position)
            cut.append(np.ascontiguousarray(padded[box]).reshape(-1))
        return cut

    def take(self, results: list[Doubles]) -> None:
        """Store the updated patches, given flat and without halo in the order of `with_halos`."""
        p = self.geometry.patch
        for position, result in zip(np.ndindex(*self.grid), results, strict=True):
            box = tuple(slice(k * p, k * p + p) for k in position)
            self.state[box] = result.reshape(self.geometry.output_shape)

    @property
    def mass(self) -> float:
        """Return the density summed over all volumes, correctly rounded."""
        return math.fsum(self.state[..., 0].flat)
