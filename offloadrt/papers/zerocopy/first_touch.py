"""A synthetic program: fresh host arrays are mapped, touched by a kernel on the device, and mapped again.

It shows when it pays to fill the device's page table at a map instead of by faults. Many bytes that are touched for the
first time favour it; many maps of arrays that are already in the page table do not (the zero-copy paper, section VI).
"""

from __future__ import annotations

import attrs

from offloadrt.kernels import Kernel
from offloadrt.models import openmp as omp

DOUBLE = 8
THREADS = 256

TOUCH = Kernel("touch", flops_per_iteration=1, bytes_per_iteration=2 * DOUBLE, threads_per_team=THREADS)


@attrs.frozen
class FirstTouch:
    """Maps each of `arrays` arrays, `nbytes` in all, `remaps` + 1 times, each time for a kernel that sweeps over it.

    `filled` says whether the host has written the arrays before. Then their pages exist, and only the device's page
    table lacks them.
    """

    nbytes: int
    arrays: int
    remaps: int
    filled: bool

    async def run(self, t: omp.HostThread) -> None:
        """Run the whole program on one host thread."""
        values = max(1, self.nbytes // self.arrays // DOUBLE)
        fresh = [t.array(f"array {k}", values, fill=0.0 if self.filled else None) for k in range(self.arrays)]
        teams = max(1, -(-values // THREADS))
        regions = [
            t.construct_target(TOUCH, array, maps=omp.map(alloc=array), teams=teams, threads=THREADS, iterations=values)
            for array in fresh
        ]
        for _ in range(self.remaps + 1):
            for region in regions:
                await t.run(region)

    @property
    def maps(self) -> int:
        """Return the number of map operations of the program."""
        return self.arrays * (self.remaps + 1)
