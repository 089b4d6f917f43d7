"""452.ep: random numbers are drawn and tallied in one large array, which only the device ever touches; no copies."""

from __future__ import annotations

import attrs

from offloadrt.kernels import Kernel
from offloadrt.models import openmp as omp
from offloadrt.papers.zerocopy.specaccel.base import Assumed, Ends, array, sweep
from offloadrt.papers.zerocopy.specaccel.inputs import DOUBLE, EP_ARRAY, EP_EFFICIENCY, EP_FLOPS, EP_PAIRS, THREADS
from offloadrt.study.running.phases import StepNumbers

PAIR_BYTES = 2 * DOUBLE


@attrs.frozen
class Ep:
    """An array of `nbytes`, filled again and again until all pairs have been tallied."""

    nbytes: int
    chunks: int
    flops: float
    """Flops for each pair."""
    efficiency: float
    step_numbers: StepNumbers = range

    @classmethod
    def of(cls, ends: Ends) -> Ep:
        """Take the ranges at these ends."""
        nbytes = ends.size(EP_ARRAY)
        chunks = max(1, ends.length(EP_PAIRS) // (nbytes // PAIR_BYTES))
        return cls(nbytes, chunks, ends.work(EP_FLOPS), ends.work(EP_EFFICIENCY), ends.step_numbers)

    async def run(self, t: omp.HostThread) -> None:
        """Run the whole code."""
        numbers = array(t, "numbers", self.nbytes, filled=False)
        pairs = self.nbytes // PAIR_BYTES

        def kernel(name: str) -> Kernel:
            # Making and tallying get half of the flops each: only their sum is estimated.
            return Kernel(
                name, flops_per_iteration=self.flops / 2, bytes_per_iteration=PAIR_BYTES, efficiency=self.efficiency,
                threads_per_team=THREADS,
            )  # fmt: skip

        initialise = sweep(t, Kernel("initialise", bytes_per_iteration=PAIR_BYTES), pairs, numbers)
        make, tally = sweep(t, kernel("make numbers"), pairs, numbers), sweep(t, kernel("tally"), pairs, numbers)
        async with t.target_data(omp.map(alloc=numbers)):
            await t.run(initialise)
            for _ in self.step_numbers(self.chunks):
                await t.run(make)
                await t.run(tally)

    def assumed(self) -> Assumed:
        """Return the bytes of the array, how often it is filled, and the work."""
        return {
            "array_bytes": self.nbytes,
            "chunks": self.chunks,
            "flops_per_pair": self.flops,
            "efficiency": self.efficiency,
        }
