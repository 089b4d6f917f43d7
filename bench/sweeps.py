"""What a sweep costs beside its runs: `python bench/sweeps.py [--points N] [--executors process,dask,mpi] [--check]`.

One short scenario (two host threads, a few target regions each) is swept over `--points` values of a parameter that
does nothing, by one and by two workers. Reported, for each executor:

    run         wall-clock time of a run in this process, without a sweep
    point       wall-clock time a point that one worker needs
    overhead    by how much a point takes longer than a run
    speed-up    wall-clock time of one worker over that of two
    memory      growth of this process between a tenth of the points and all, in one sweep

The time of a worker's start is not counted: the clock begins with the first finished point. `--check` fails when the
overhead is above 5 %, when memory grows by more than 20 kB a point, or two workers are less than 1.8 times one;
`--slack` widens the limits on machines that are shared. MPI has as many workers as `mpiexec` started ranks beside the
one that hands out points, so that two jobs are compared to find its speed-up:
`mpiexec -n 2 python -m mpi4py.futures bench/sweeps.py --executors mpi`, then with `-n 3`.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path
from statistics import median

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
        for _ in range(10):
            await t.target(scale, a, 1.5, maps=omp.map(tofrom=a), teams=108, iterations=1 << 10)

    await run.parallel(body, num_threads=2)
"""
MOST = {"overhead": 5.0, "memory": 20_000.0}
LEAST_SPEED_UP = 1.8
UNITS = {"run": "%.2f ms", "point": "%.2f ms", "overhead": "%.1f %%", "speed-up": "%.2f", "memory": "%.0f B a point"}
BLOCK = 100
"""Points that are run in turns by nobody else, by one worker and by two; the medians of blocks are printed."""


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


def swept(points: list[Point], pool: Executor) -> Clock:
    """Sweep over the points once."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        # `jobs` of 2 keeps several calls of a single worker's pool in flight, as with two
        outcome = sweep(points, pool, jobs=2, file=Path(folder, "points.jsonl"), advanced=clock.advanced)
    assert not outcome.failures and outcome.done == len(points), outcome.failures[:1]
    return clock


def alone(points: list[Point]) -> float:
    """Return the wall-clock seconds a point of runs in this process."""
    begun = time.perf_counter()
    for point in points:
        run_point(point)
    return (time.perf_counter() - begun) / len(points)


def workers_of(kind: Kind, points: list[Point]) -> Iterator[tuple[str, float]]:
    """Measure one and two workers in turns; MPI's workers, however many it has, by themselves."""
    blocks = [points[begin : begin + BLOCK] for begin in range(0, len(points), BLOCK)]
    run_point(points[0])
    with executor(kind, 1) as one, contextlib.ExitStack() as opened:
        two = one if kind == "mpi" else opened.enter_context(executor(kind, 2))
        found = []
        for block in [blocks[0], *blocks]:
            by_one = swept(block, one).a_point(len(block))
            by_two = by_one if two is one else swept(block, two).a_point(len(block))
            found.append((alone(block), by_one, by_two))
        del found[0]  # meanwhile the workers imported what they need
        yield "run", 1e3 * median(times[0] for times in found)
        yield "point", 1e3 * median(times[1] for times in found)
        if two is not one:
            yield "overhead", 100 * median(times[1] / times[0] - 1 for times in found)
            yield "speed-up", median(times[1] / times[2] for times in found)
        memory = swept(points, one).memory
        yield "memory", (memory[-1] - memory[0]) / (0.9 * len(points))


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--executors", default="process")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--slack", type=float, default=1.0, help="factor by which the limits of --check are widened")
    asked = parser.parse_args()
    kinds: list[Kind] = asked.executors.split(",")
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "short.py")
        program.write_text(PROGRAM)
        points = grid(registry.find(str(program)), {"number": range(asked.points)}, RunSpec())
        for kind in kinds:
            found = dict(workers_of(kind, points))
            print(
                f"{kind}, {len(points)} points:", ", ".join(f"{name} {UNITS[name] % of}" for name, of in found.items())
            )
            for name, most in MOST.items():
                if found.get(name, 0) > most * asked.slack:
                    missed.append(f"{name} of {kind}")
            if found.get("speed-up", LEAST_SPEED_UP) < LEAST_SPEED_UP / asked.slack:
                missed.append(f"speed-up of {kind}")
    print("missed: " + ", ".join(missed) if missed else "all limits are kept")
    return bool(missed and asked.check)


if __name__ == "__main__":
    sys.exit(main())
