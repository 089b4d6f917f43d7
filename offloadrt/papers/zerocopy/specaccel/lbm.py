"""404.lbm: a lattice-Boltzmann method on two lattices; one large transfer at the beginning.

In the public code of the benchmark (SPEC CPU's 470.lbm and 519.lbm, Parboil's lbm: `MAIN_initialize`) the host writes
both lattices: densities, and each cell's flags, which kernels read in the source and never write in the target. So both
have to be transferred.
"""

from __future__ import annotations

import attrs

from offloadrt.kernels import Kernel
from offloadrt.models import openmp as omp
from offloadrt.papers.zerocopy.specaccel.base import Assumed, Ends, array, sweep
from offloadrt.papers.zerocopy.specaccel.inputs import DOUBLE, LBM_LATTICE, LBM_STEPS, LBM_TRAFFIC, THREADS
from offloadrt.study.running.phases import StepNumbers

CELL_BYTES = 20 * DOUBLE
"""The bytes of a cell: 19 densities and a flag."""
CELL_FLOPS = 250
"""The operations of a collision in the D3Q19 model."""


@attrs.frozen
class Lbm:
    """Two lattices of `lattice` bytes, which the host writes."""

    lattice: int
    steps: int
    traffic: float
    """Bytes that a step moves for each cell."""
    step_numbers: StepNumbers = range

    @classmethod
    def of(cls, ends: Ends) -> Lbm:
        """Take the ranges at these ends."""
        return cls(ends.size(LBM_LATTICE), ends.length(LBM_STEPS), ends.work(LBM_TRAFFIC), ends.step_numbers)

    async def run(self, t: omp.HostThread) -> None:
        """Run the whole code."""
        source, target = (array(t, name, self.lattice, filled=True) for name in ("source", "target"))
        kernel = Kernel(
            "stream and collide", flops_per_iteration=CELL_FLOPS, bytes_per_iteration=self.traffic,
            threads_per_team=THREADS,
        )  # fmt: skip
        cells = self.lattice // CELL_BYTES
        steps = (sweep(t, kernel, cells, source, target), sweep(t, kernel, cells, target, source))
        async with t.target_data(omp.map(to=[source, target])):
            for step in self.step_numbers(self.steps):
                await t.run(steps[step % 2])

    def assumed(self) -> Assumed:
        """Return the bytes of a lattice, the steps and the traffic."""
        return {"lattice_bytes": self.lattice, "steps": self.steps, "bytes_per_cell": self.traffic}
