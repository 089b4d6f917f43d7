"""403.stencil: a seven-point Jacobi iteration on two grids, all of it on the device.

The paper: two copies, at the beginning and at the end; the GPU initialises an array that is much smaller than ep's.
"""

from __future__ import annotations

import attrs

from offloadrt.kernels import Kernel
from offloadrt.models import openmp as omp
from offloadrt.papers.zerocopy.specaccel.base import Assumed, Ends, array, sweep
from offloadrt.papers.zerocopy.specaccel.inputs import DOUBLE, STENCIL_GRID, STENCIL_ITERATIONS, THREADS
from offloadrt.study.running.phases import StepNumbers

INITIALISE = Kernel("initialise", bytes_per_iteration=DOUBLE, threads_per_team=THREADS)
# A point's neighbours are taken to come from caches, so that one load and one store go to memory. That holds while
# three planes of the grid fit into the last-level cache; otherwise a sweep moves up to twice as much (three loads and a
# store).
JACOBI = Kernel("jacobi", flops_per_iteration=8, bytes_per_iteration=2 * DOUBLE, threads_per_team=THREADS)


@attrs.frozen
class Stencil:
    """Two grids of `grid` bytes; the host writes the first, the device the second."""

    grid: int
    iterations: int
    step_numbers: StepNumbers = range

    @classmethod
    def of(cls, ends: Ends) -> Stencil:
        """Take the ranges at these ends."""
        return cls(ends.size(STENCIL_GRID), ends.length(STENCIL_ITERATIONS), ends.step_numbers)

    async def run(self, t: omp.HostThread) -> None:
        """Run the whole code."""
        old, new = array(t, "grid", self.grid, filled=True), array(t, "next grid", self.grid, filled=False)
        points = self.grid // DOUBLE
        initialise = sweep(t, INITIALISE, points, new)
        sweeps = (sweep(t, JACOBI, points, old, new), sweep(t, JACOBI, points, new, old))
        async with t.target_data(omp.map(tofrom=old), omp.map(alloc=new)):
            await t.run(initialise)
            for iteration in self.step_numbers(self.iterations):
                await t.run(sweeps[iteration % 2])

    def assumed(self) -> Assumed:
        """Return the bytes of a grid and the sweeps."""
        return {"grid_bytes": self.grid, "iterations": self.iterations}
