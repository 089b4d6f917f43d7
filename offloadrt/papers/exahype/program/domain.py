"""A periodic box of patches with real numbers: initial state, halo exchange, time step, conserved mass.

ExaHyPE's host exchanges halos and scatters the patches over main memory; the device sees single patches. Here the state
of the whole box is one array, from which every patch is cut with its halo and to which every updated patch returns. The
box exists only when the data are real (`phantom=false`); it takes no virtual time, as host calculations are disabled in
the paper's measurements (section 3).
"""

from __future__ import annotations

import math

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.papers.exahype.program.euler import GAMMA, largest_speed
from offloadrt.papers.exahype.program.geometry import HALO, PatchGeometry

Doubles = NDArray[np.float64]


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
