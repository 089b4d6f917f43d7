"""A mesh for CFD: elements in a sheet with four faces each, which at the rim belong to a wing or to the far field."""

from __future__ import annotations

import math
from typing import Final

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.papers.otm.rodinia.inputs import Mesh

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

WING: Final = -1
FAR: Final = -2


@attrs.frozen
class Sheet:
    """A sheet of `length` by `width` elements; `numbering` says whether neighbours have numbers that lie near."""

    length: int
    width: int
    numbering: Mesh = "ordered"

    @classmethod
    def of(cls, elements: int, numbering: Mesh = "ordered") -> Sheet:
        """Make a nearly square sheet of at most `elements` elements."""
        width = max(1, math.isqrt(elements))
        return cls(max(1, elements // width), width, numbering)

    @property
    def elements(self) -> int:
        return self.length * self.width

    @property
    def interior(self) -> float:
        """Return the part of the faces behind which there is an element."""
        return 1.0 - (self.length + self.width) / (2.0 * self.elements)

    def neighbours(self, rng: np.random.Generator) -> Ints:
        """Return [face, element]: the element behind each face, `WING` in front and behind, `FAR` at the sides."""
        number = np.arange(self.elements)
        if self.numbering == "random":
            number = rng.permutation(self.elements)
        around = np.full((self.length + 2, self.width + 2), FAR)
        around[0], around[-1] = WING, WING
        around[1:-1, 1:-1] = number.reshape(self.length, self.width)
        faces = [around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, :-2], around[1:-1, 2:]]
        neighbours = np.empty((4, self.elements), np.int32)
        neighbours[:, number] = [face.ravel() for face in faces]
        return neighbours

    def normals(self, rng: np.random.Generator) -> Floats:
        """Draw [direction, face, element]: outward, of different lengths, not quite in the sheet."""
        outward = np.array([[-1, 1, 0, 0], [0, 0, -1, 1], [0, 0, 0, 0]], np.float64)
        return (outward[:, :, np.newaxis] + 0.1 * rng.random((3, 4, self.elements))).astype(np.float32)
