"""A small Monte Carlo program of QMCPACK's shape, with real numbers: Slater matrices kept inverted on the device.

Crowds of walkers move one electron after another: a kernel evaluates orbitals and ratios at the proposed positions, the
host accepts or rejects, a second kernel updates positions and inverses by the Sherman-Morrison formula. At the end of
each step the host reads the inverses back. The numbers do not depend on how memory is managed, nor on the crowds.
"""

from __future__ import annotations

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import Kernel, kernel
from offloadrt.models import openmp as omp

Doubles = NDArray[np.float64]
Flags = NDArray[np.uint8]

TIMESTEP = 0.3


def orbitals_at(positions: Doubles, centres: Doubles) -> Doubles:
    """Return Gaussian orbitals, one per centre, at positions of shape (..., 3)."""
    away = positions[..., None, :] - centres
    values: Doubles = np.exp(-0.5 * (away * away).sum(axis=-1))
    return values


@kernel(name="orbitals and ratios", flops_per_iteration=40, bytes_per_iteration=64, threads_per_team=64)
def _ratios(
    proposed: Doubles, centres: Doubles, inverse: Doubles, orbitals: Doubles, ratios: Doubles, electron: int
) -> None:
    orbitals[:] = orbitals_at(proposed, centres)
    ratios[:] = (orbitals * inverse[:, :, electron]).sum(axis=-1)


@kernel(name="accept and update", flops_per_iteration=40, bytes_per_iteration=64, threads_per_team=64)
def _update(
    accepted: Flags,
    proposed: Doubles,
    positions: Doubles,
    orbitals: Doubles,
    inverse: Doubles,
    ratios: Doubles,
    electron: int,
) -> None:
    for walker in np.flatnonzero(accepted):
        positions[walker, electron] = proposed[walker]
        row = orbitals[walker] @ inverse[walker]
        row[electron] -= 1.0
        inverse[walker] -= np.outer(inverse[walker][:, electron], row) / ratios[walker]


@attrs.frozen
class Walkers:
    """The state of a crowd before its first step or after its last one."""

    positions: Doubles
    """Indexed by walker, electron and component."""
    inverse: Doubles
    """Indexed by walker, orbital and electron."""

    def same_bits(self, other: Walkers) -> bool:
        """Tell whether every number is the same, bit by bit."""
        return (
            self.positions.tobytes() == other.positions.tobytes() and self.inverse.tobytes() == other.inverse.tobytes()
        )


@attrs.define
class SmallMonteCarlo:
    """`walkers` walkers of `electrons` electrons each make `steps` steps; all numbers follow from `seed`."""

    walkers: int = 8
    electrons: int = 6
    steps: int = 2
    seed: int = 1
    _start: Doubles = attrs.field(init=False)
    _centres: Doubles = attrs.field(init=False)
    _drift: Doubles = attrs.field(init=False)
    _chance: Doubles = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        draw = np.random.default_rng(self.seed)
        shape = (self.steps, self.electrons, self.walkers)
        self._centres = draw.normal(size=(self.electrons, 3))
        self._start = self._centres + 0.3 * draw.normal(size=(self.walkers, self.electrons, 3))
        self._drift = draw.normal(size=(*shape, 3))
        self._chance = draw.random(shape)

    async def run(self, program: omp.OpenMP, crowds: int = 1) -> Walkers:
        """Run all steps, the walkers divided over `crowds` host threads; `walkers` must be a multiple of them."""
        if self.walkers % crowds:
            raise ValueError(f"{self.walkers} walkers cannot be divided evenly over {crowds} crowds")
        size = self.walkers // crowds
        shares = [slice(k * size, (k + 1) * size) for k in range(crowds)]
        ended = await program.parallel(lambda t: self._crowd(t, shares[t.number]), num_threads=crowds)
        return Walkers(np.concatenate([w.positions for w in ended]), np.concatenate([w.inverse for w in ended]))

    def reference(self) -> Walkers:
        """Run the same on plain NumPy arrays, without a device."""
        start = self._initial(slice(None))
        positions, inverse = start.positions, start.inverse
        orbitals, ratios = np.zeros((self.walkers, self.electrons)), np.zeros(self.walkers)
        for step in range(self.steps):
            for electron in range(self.electrons):
                proposed = positions[:, electron] + TIMESTEP * self._drift[step, electron]
                _ratios(proposed, self._centres, inverse, orbitals, ratios, electron)
                accepted = (self._chance[step, electron] < ratios * ratios).astype(np.uint8)
                _update(accepted, proposed, positions, orbitals, inverse, ratios, electron)
        return Walkers(positions, inverse)

    def _initial(self, share: slice) -> Walkers:
        """Return the walkers of a crowd before the first step."""
        positions = self._start[share].copy()
        inverse = np.array(np.linalg.inv(orbitals_at(positions, self._centres)), np.float64)
        return Walkers(positions, inverse)

    async def _crowd(self, t: omp.HostThread, share: slice) -> Walkers:
        """Run one host thread: the shape of a QMCPACK move on arrays that stay mapped."""
        start = self._initial(share)
        count = len(start.positions)
        positions, inverse = self._shared(t, "positions", start.positions), self._shared(t, "inverse", start.inverse)
        centres = self._shared(t, "centres", self._centres)
        proposed, ratios = t.array("proposed", (count, 3), fill=0.0), t.array("ratios", count, fill=0.0)
        orbitals = t.array("orbitals", (count, self.electrons), fill=0.0)
        accepted = t.array("accepted", count, np.uint8, fill=0)
        await t.target_enter_data(omp.map(to=[positions, inverse, centres]))
        await t.target_enter_data(omp.map(alloc=[proposed, ratios, orbitals, accepted]))
        here = start.positions.copy()
        for step in range(self.steps):
            for electron in range(self.electrons):
                proposed[:] = here[:, electron] + TIMESTEP * self._drift[step, electron, share]
                await t.target_update(omp.to(proposed))
                await self._launch(
                    t, _ratios, (proposed, centres, inverse, orbitals, ratios), electron,
                    [omp.map(from_=ratios, always=True)],
                )  # fmt: skip
                chosen = self._chance[step, electron, share] < ratios[:] * ratios[:]
                accepted[:] = chosen
                here[chosen, electron] = proposed[:][chosen]
                await self._launch(
                    t, _update, (accepted, proposed, positions, orbitals, inverse, ratios), electron,
                    [omp.map(to=accepted, always=True)],
                )  # fmt: skip
            await t.target_update(omp.from_(inverse))
        await t.target_exit_data(omp.map(from_=[positions, inverse]))
        await t.target_exit_data(omp.map(release=[centres, proposed, ratios, orbitals, accepted]))
        return Walkers(positions.data.copy(), inverse.data.copy())

    @staticmethod
    def _shared(t: omp.HostThread, name: str, values: Doubles) -> omp.HostArray:
        return t.array(name, values.shape, fill=values)

    async def _launch(
        self,
        t: omp.HostThread,
        of: Kernel,
        arrays: tuple[omp.HostArray, ...],
        electron: int,
        maps: list[omp.Map | omp.Maps],
    ) -> None:
        """Launch a kernel with a team for each walker; arrays without a clause are present."""
        teams = len(arrays[0])
        await t.target(of, *arrays, electron, maps=maps, teams=teams, iterations=teams * self.electrons)
