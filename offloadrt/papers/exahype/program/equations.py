"""The systems of equations that ExaHyPE's patches hold: unknowns, dimensions and the patch sizes of the paper.

Sources: Wille, Weinzierl, Brito Gadeschi, Bader, "Efficient GPU Offloading with OpenMP for a Hyperbolic Finite Volume
Solver on Dynamically Adaptive Meshes", section 2 (Euler: d + 2 unknowns; CCZ4: 59 unknowns, d = 3 only, no conservative
flux but non-conservative products in every direction and a source term) and sections 3 and 5 (patch sizes).
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

from offloadrt.papers.exahype.program.geometry import PatchGeometry

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
