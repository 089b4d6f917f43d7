"""A patch: p volumes per dimension, one halo layer, an array of structures of doubles.

The paper keeps the data of a patch en bloc and scatters the patches over main memory (section 3). The finite-volume
Rusanov update needs one halo layer, so a patch goes to the device with (p + 2)^d volumes and comes back with p^d.
"""

from __future__ import annotations

import math

import attrs

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
