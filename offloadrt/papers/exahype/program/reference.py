"""The Rusanov update of one patch in plain NumPy: what the kernels on emulated device memory are compared with.

Written apart from `euler`: whole-patch slices of one array, no batch, no temporaries, no device. It keeps the same
order of operations, so that equality is equality of bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GAMMA = 1.4


def rusanov_reference(patch: NDArray[np.float64], dt_over_dx: float) -> NDArray[np.float64]:
    """Return the patch after one step, without halo: shape (p, ..., p, N) from (p + 2, ..., p + 2, N), N = d + 2."""
    dimensions = patch.ndim - 1
    density, energy = patch[..., 0], patch[..., -1]
    kinetic = patch[..., 1] * patch[..., 1]
    for k in range(1, dimensions):
        kinetic = kinetic + patch[..., 1 + k] * patch[..., 1 + k]
    pressure = (GAMMA - 1.0) * (energy - 0.5 * kinetic / density)
    sound = np.sqrt(GAMMA * pressure / density)

    inner = (slice(1, -1),) * dimensions
    change = np.zeros_like(patch[inner])
    for k in range(dimensions):
        velocity = patch[..., 1 + k] / density
        flux = patch * velocity[..., None]
        flux[..., 0] = patch[..., 1 + k]
        flux[..., 1 + k] = flux[..., 1 + k] + pressure
        flux[..., -1] = (energy + pressure) * velocity
        speed = np.abs(velocity) + sound

        lower = tuple(slice(0, -1) if axis == k else slice(1, -1) for axis in range(dimensions))
        upper = tuple(slice(1, None) if axis == k else slice(1, -1) for axis in range(dimensions))
        half = 0.5 * np.maximum(speed[lower], speed[upper])[..., None]
        faces = 0.5 * (flux[lower] + flux[upper]) - half * (patch[upper] - patch[lower])
        difference = np.diff(faces, axis=k)
        change = difference if k == 0 else change + difference
    result: NDArray[np.float64] = patch[inner] - dt_over_dx * change
    return result
