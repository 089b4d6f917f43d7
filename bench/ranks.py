"""What a run of many ranks costs: `python bench/ranks.py [--threads N] [--repeat N] [--check]`.

Ranks with host threads, eight to a node, compute on their nodes' GPUs, exchange with their neighbours between nodes,
and reduce. Reported for 8 to 64 ranks: processor time, in all and for each rank, and Python's calls for each rank. A
reduction has log2 of the ranks steps, everything else is as much for each rank.

The times are the best of some runs, with the garbage collector as `offloadrt run` has it. They vary with what else the
machine does, so `--check` looks at the calls, of which there are as many in every run: it fails when there are more
than 1.15 times as many a rank with 64 ranks as with 16.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import sys
import time
from typing import Any

from offloadrt import Run, kernel
from offloadrt import openmp as omp
from offloadrt.extensions import mpi
from offloadrt.models.host.process import Process
from offloadrt.study.running.execution import patient_collector

RANKS = (8, 16, 32, 64)
PER_NODE, STEPS, N = 8, 5, 1 << 14
MOST_GROWTH = 1.15


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def scale(a: Any, s: float) -> None:
    a *= s


def one(ranks: int, threads: int) -> float:
    """Return the seconds of processor time that a run takes."""
    run = Run(machine="a100-node8")
    run.configure(phantom=True)

    async def main(process: Process) -> None:
        world = process.world
        right, left = (world.rank + PER_NODE) % world.size, (world.rank - PER_NODE) % world.size

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", N)
            for _ in range(STEPS):
                await t.target(scale, a, 2.0, maps=omp.map(tofrom=a), teams=4, iterations=N, device=world.rank % 8)
                await t.barrier()
                if t.number == 0:
                    await world.Sendrecv(a, right, 0, a, left)
                    await world.Allreduce(mpi.IN_PLACE, mpi.Buffer(8))
                await t.barrier()

        await process.parallel(body, num_threads=threads)

    async def whole() -> None:
        await run.mpiexec(main, ranks, nodes=max(1, ranks // PER_NODE), gpus_per_node=8)
        await run.finish()

    begin = time.process_time()
    run.sim.run(whole)
    return time.process_time() - begin


def calls(ranks: int, threads: int) -> int:
    """Return the calls of Python's functions that a run makes."""
    profile = cProfile.Profile(builtins=False)
    profile.runcall(one, ranks, threads)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    one(RANKS[0], given.threads)
    made = {ranks: calls(ranks, given.threads) / ranks for ranks in RANKS}
    took = dict.fromkeys(RANKS, float("inf"))
    with patient_collector():
        for _ in range(given.repeat):
            for ranks in RANKS:
                gc.collect()
                took[ranks] = min(took[ranks], one(ranks, given.threads))
    for ranks, seconds in took.items():
        each = f"{1e3 * seconds / ranks:6.2f} ms and {made[ranks]:7.0f} calls a rank"
        print(f"{ranks:3} ranks x {given.threads} threads: {seconds:6.2f} s, {each}")
    growth = made[64] / made[16]
    print(f"64 ranks: {growth:.3f} times as many calls a rank as 16, {took[64] / took[16] / 4:.2f} times as much time")
    return int(given.check and growth > MOST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
