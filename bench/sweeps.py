"""What a sweep costs beside its runs: `python bench/sweeps.py [--points N] [--executors process,dask,mpi] [--check]`.

One short scenario (two host threads, one target region each) is swept over `--points` values of a parameter that does
nothing, by one and by two workers (MPI by three, beside the rank that hands them out). Reported, for each executor:

    overhead    wall-clock time a point that one worker needs, less the time of a run in this process
    memory      most memory of this process, after a tenth of the points and after all
    speed-up    wall-clock time of one worker over that of two

The time of a worker's start is not counted: the clock begins with the first finished point. `--check` fails when the
overhead is above 5 ms, when memory grows by more than 20 kB a point, or two workers are less than 1.8 times one.
Under MPI: `mpiexec -n 4 python -m mpi4py.futures bench/sweeps.py --executors mpi`.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import attrs

from offloadrt.study.scripts import registry
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Kind, Point, SweepOutcome, executor, grid, run_point, sweep

PROGRAM = """
from offloadrt import Run, kernel, openmp as omp, scenario

@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def scale(a, s):
    a *= s

@scenario(machine="alex-a100")
async def short(run: Run, number: int = 0) -> None:
    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 1 << 10, fill=1.0)
        await t.target(scale, a, 1.5, maps=omp.map(tofrom=a), teams=108, iterations=1 << 10)

    await run.parallel(body, num_threads=2)
"""
MOST_OVERHEAD_S = 5e-3
MOST_MEMORY = 20_000
LEAST_SPEED_UP = 1.8


@attrs.define
class Clock:
    """Notes when points finish, and how much memory this process has then."""

    begun: float = 0.0
    first: int = 0
    ended: float = 0.0
    memory: list[int] = attrs.field(factory=list)

    def advanced(self, outcome: SweepOutcome) -> None:
        """Take the time of a finished point."""
        if outcome.done and not self.begun:
            self.begun, self.first = time.perf_counter(), outcome.done
        self.ended = time.perf_counter()
        if outcome.done % max(1, len(outcome.points) // 10) == 0:
            self.memory.append(1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)  # Linux counts in KiB

    def a_point(self, points: int) -> float:
        """Return the seconds a point."""
        return (self.ended - self.begun) / (points - self.first)


def swept(points: list[Point], kind: Kind, jobs: int) -> Clock:
    """Sweep over the points once."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder, executor(kind, jobs) as pool:
        # `jobs` of 2 keeps several calls of a single worker's pool in flight, as with two
        outcome = sweep(points, pool, jobs=max(jobs, 2), file=Path(folder, "points.jsonl"), advanced=clock.advanced)
    assert not outcome.failures and outcome.done == len(points), outcome.failures[:1]
    return clock


def mean_of(action: Callable[[], object], times: int) -> float:
    """Return the mean wall-clock seconds of an action, once warm."""
    action()
    begun = time.perf_counter()
    for _ in range(times):
        action()
    return (time.perf_counter() - begun) / times


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--executors", default="process")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    kinds: list[Kind] = asked.executors.split(",")
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "short.py")
        program.write_text(PROGRAM)
        points = grid(registry.find(str(program)), {"number": range(asked.points)}, RunSpec())
        alone = mean_of(lambda: run_point(points[0]), 300)
        print(f"a run in this process: {1e3 * alone:.2f} ms; {asked.points} points")
        for kind in kinds:
            workers = (3,) if kind == "mpi" else (1, 2)
            clocks = [swept(points, kind, jobs) for jobs in workers]
            overhead = workers[0] * clocks[0].a_point(len(points)) - alone
            growth = (clocks[0].memory[-1] - clocks[0].memory[0]) / (0.9 * len(points))
            speed_up = clocks[0].a_point(len(points)) / clocks[-1].a_point(len(points))
            print(f"{kind}: overhead {1e3 * overhead:.2f} ms, memory {growth:.0f} B a point, speed-up {speed_up:.2f}")
            if overhead > MOST_OVERHEAD_S or growth > MOST_MEMORY or (len(workers) > 1 and speed_up < LEAST_SPEED_UP):
                missed.append(kind)
    print("missed: " + ", ".join(missed) if missed else "all limits are kept")
    return bool(missed and asked.check)


if __name__ == "__main__":
    sys.exit(main())
