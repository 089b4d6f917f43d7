"""The sizes of the NiO performance test: atoms, electrons, orbitals, and how many walkers fit.

Source: QMCPACK, tests/performance/NiO (README, CMakeLists.txt) at 78340fd6, the version that the paper ran: Sn has 4n
atoms, 48n electrons and 24n of each spin; preset numbers of walkers; guide values of the memory for the splines and for
one walker. The paper does not say how many walkers it ran.
"""

from __future__ import annotations

import attrs

DOUBLE = 8
SINGLE = 4

_WALKERS = {1: 1024, 2: 512, 4: 256, 8: 128, 16: 64, 24: 32, 32: 16, 48: 16, 64: 16, 128: 16}
"""The preset walkers of CMakeLists.txt, by n."""

_SPLINE_GB = {1: 0.6, 2: 0.7, 4: 0.9, 8: 1.3, 16: 2.1, 24: 2.85, 32: 3.6, 48: 5.4, 64: 7.2, 128: 14.3}
"""The guide's memory for the spline table, by n; below 8 it is extrapolated, at 24 and 48 interpolated."""

_WALKER_GB = 18e-3 / 64
"""The guide's memory for one walker over n squared (18 MB at S8, 4.5 GB at S128)."""

CAPACITY = 128 * (1 << 30)
"""Bytes of the paper's machine, which bound the walkers: host and device copies of everything have to fit."""


@attrs.frozen
class Size:
    """One problem size, Sn."""

    n: int

    @property
    def name(self) -> str:
        """Return the size's name in the paper."""
        return f"S{self.n}"

    @property
    def atoms(self) -> int:
        """Return the ions of the supercell."""
        return 4 * self.n

    @property
    def electrons(self) -> int:
        """Return the electrons of both spins; one step moves each of them once."""
        return 48 * self.n

    @property
    def orbitals(self) -> int:
        """Return the electrons of one spin: rows and columns of a Slater matrix."""
        return 24 * self.n

    @property
    def matrix_bytes(self) -> int:
        """Return the bytes of the inverse of one Slater matrix, in doubles."""
        return DOUBLE * self.orbitals**2

    @property
    def spline_bytes(self) -> int:
        """Return the bytes of the table of spline coefficients that all walkers share."""
        return int(_SPLINE_GB[self.n] * 1e9)

    def walkers(self) -> int:
        """Return the preset number, as far as twice the memory fits into nine tenths of the machine; at least 8."""
        walker_bytes = _WALKER_GB * 1e9 * self.n**2
        fitting = int((0.9 * CAPACITY / 2 - self.spline_bytes) / walker_bytes) // 8 * 8
        return max(8, min(_WALKERS[self.n], fitting))


SIZES = {f"S{n}": Size(n) for n in _WALKERS}
"""The sizes by name."""
