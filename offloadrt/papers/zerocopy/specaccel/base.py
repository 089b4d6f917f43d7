"""What the benchmarks share: where ranges are taken, large arrays, kernels that sweep over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs

from offloadrt.kernels import Kernel
from offloadrt.models import openmp as omp
from offloadrt.papers.zerocopy.specaccel.inputs import DOUBLE, MAX_TEAMS, THREADS
from offloadrt.study.input_range import InputRange
from offloadrt.study.running.phases import StepNumbers

Assumed = dict[str, float | int]
Forget = Callable[[omp.HostArray], None]
"""Called with an array; drops the device's translation of its pages."""


@attrs.frozen
class Ends:
    """Where in their ranges one run takes its inputs: low, mean or high."""

    sizes: str = "mean"
    lengths: str = "mean"
    kernel_work: str = "mean"
    fraction: float = 1.0
    """The part of the run length that is run."""
    step_numbers: StepNumbers = range
    """Gives the numbers of the iterations that are run, of so many."""

    def size(self, of: InputRange) -> int:
        """Return bytes, or another whole number, from a range."""
        return round(of.at(self.sizes)) // DOUBLE * DOUBLE

    def length(self, of: InputRange) -> int:
        """Return a number of iterations from a range, at least one."""
        return max(1, round(of.at(self.lengths) * self.fraction))

    def work(self, of: InputRange) -> float:
        """Return a number that describes a kernel's work from a range."""
        return of.at(self.kernel_work)


class SpecCode(Protocol):
    """One benchmark: `run` executes it on one host thread, `assumed` lists the inputs that it ran with."""

    async def run(self, t: omp.HostThread) -> None: ...

    def assumed(self) -> Assumed: ...


def array(t: omp.HostThread, name: str, nbytes: int, *, filled: bool) -> omp.HostArray:
    """Make an array of doubles as the program's C arrays are; `filled` when the host has written it."""
    return t.array(name, nbytes // DOUBLE, fill=0.0 if filled else None)


def sweep(t: omp.HostThread, kernel: Kernel, iterations: int, *arrays: omp.HostArray) -> omp.Construct:
    """Run a kernel over `iterations` elements that uses these arrays, all of them mapped around it."""
    teams = min(MAX_TEAMS, max(1, -(-iterations // THREADS)))
    return t.construct_target(kernel, *arrays, teams=teams, threads=THREADS, iterations=iterations)
