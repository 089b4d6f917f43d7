"""Where the judges of the JACC claims look: its benchmarks on a DGX-1, a few of their iterations.

Iterations are alike once the adaptive controller has decided, which takes it five executions of a kernel. So two runs
of a few iterations each tell what all of them take: what the longer one took, and for each further iteration what the
two differ by (`AllIterations`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping

import attrs

from offloadrt.papers.jacc.programs import BENCHMARKS, benchmark
from offloadrt.papers.jacc.programs.benchmark import extent
from offloadrt.study.reporting.results import Result
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec
from offloadrt.study.validation.judging import Asking, Bench, Extent, Judgement, JudgingGrid
from offloadrt.study.validation.measured import number

SCENARIO = "jacc"
MACHINE = "dgx1-v100"
HIMENO_SIZES = ("M", "L", "XL")
CANDIDATES: dict[str, dict[str, str]] = {}
SENSITIVITY: tuple[dict[str, Value], ...] = (
    {"benchmark": "Himeno", "gpus": 4, "fraction": 0.01},
    {"benchmark": "EP", "gpus": 4, "fraction": 0.02},
    {"benchmark": "CG", "gpus": 1, "strategy": "single", "compiler": "gcc", "fraction": 0.0005},
)
"""Short runs that show whether an entry of the machine has any influence on times."""

SHORT = ("CG", "EP", "FT", "MG", "Himeno", "CloverLeaf")
"""Benchmarks whose iterations take few launches: those of the smallest grid."""

bench = Bench.of("offloadrt.papers.jacc")

Case = tuple[str, Mapping[str, Value]]
"""A benchmark and the parameters of its run."""


@attrs.frozen
class AllIterations:
    """All iterations of a benchmark, from two runs of `fewer` and `more` of them."""

    iterations: int
    fewer: Result
    more: Result

    def of(self, figure: str) -> float:
        """Extrapolate a measured figure that grows with the iterations."""
        return self._ran(self.more, figure) + self.each(figure) * (self.iterations - self._ran(self.more, "iterations"))

    def each(self, figure: str) -> float:
        """Extrapolate a figure of one iteration, once the controller has decided."""
        more, fewer = (self._ran(run, figure) for run in (self.more, self.fewer))
        return (more - fewer) / (self._ran(self.more, "iterations") - self._ran(self.fewer, "iterations"))

    def execution_s(self, kernel: str) -> float:
        """Compute the time of one execution of a kernel, once the controller has decided."""
        return self.each(f"{kernel}.kernel_s") / self.each(f"{kernel}.executions")

    @property
    def adapted(self) -> list[str]:
        """Return the kernels that are divided in the end."""
        names = [name.removesuffix(".adapted") for name, value in self.more.measured.items() if value is True]
        return [name for name in names if f"{name}.adapted" in self.more.measured]

    @property
    def adapted_s(self) -> float:
        """Return the time of their divided executions."""
        return math.fsum(self.of(f"{name}.divided") * self.execution_s(name) for name in self.adapted)

    @property
    def both_s(self) -> float:
        """Return the time of kernels and exchanges."""
        return self.of("kernel_s") + self.of("communication_s")

    @staticmethod
    def _ran(run: Result, figure: str) -> float:
        return number(run.measured[figure])


@attrs.frozen
class BenchmarkGrid(JudgingGrid):
    """Iterations of each benchmark that are run: on one GPU, and on several, where the controller decides first."""

    alone: tuple[int, int]
    several: tuple[int, int]
    benchmarks: tuple[str, ...]

    def lacks(self, *names: str) -> Judgement | None:
        """Judge that a claim cannot be judged here if one of these benchmarks is not among those of the grid."""
        lacking = [name for name in names if name not in self.benchmarks]
        return Judgement("–", None, f"needs {', '.join(lacking)}") if lacking else None

    @property
    def described(self) -> str:
        """Say in words how much is looked at."""
        return (
            f"{', '.join(self.benchmarks)}: {self.alone[0]} and {self.alone[1]} iterations on one GPU, "
            f"{self.several[0]} and {self.several[1]} on several"
        )


def grid(extent: Extent, options: RunSpec) -> BenchmarkGrid:
    """Choose where the judges look; the smaller grids run fewer iterations."""
    counts = {"full": ((2, 4), (7, 10)), "quick": ((1, 2), (6, 8)), "ends": ((1, 2), (6, 7))}
    alone, several = counts[extent]
    benchmarks = SHORT if extent == "ends" else tuple(BENCHMARKS)
    return BenchmarkGrid(SCENARIO, alone, several, benchmarks, options=options)


def all_iterations(grid: BenchmarkGrid, cases: Iterable[Case]) -> Asking[list[AllIterations]]:
    """Extrapolate benchmarks as if all their iterations were run; `yield from` it."""
    wanted = list(cases)
    points = []
    for name, asked in wanted:
        counts = grid.alone if asked.get("strategy") == "single" else grid.several
        points += [
            grid.point(
                {"benchmark": name, "fraction": count / iterations_of(name, str(asked.get("size", ""))), **asked}
            )
            for count in counts
        ]
    results: list[Result] = yield points
    return [
        AllIterations(iterations_of(name, str(asked.get("size", ""))), *results[2 * place : 2 * place + 2])
        for place, (name, asked) in enumerate(wanted)
    ]


@functools.cache
def iterations_of(name: str, size: str = "") -> int:
    """Count the iterations that a benchmark has."""
    return benchmark(name).program(extent, size).iterations
