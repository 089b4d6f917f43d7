"""Ranks or threads? One program as a few processes with many threads each, or the other way round, on one GPU."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from offloadrt import Range, Run, kernel, scenario
from offloadrt import openmp as omp
from offloadrt.models.host.process import Process


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def scale(a: Any, s: float) -> None:
    a *= s


@scenario(machine="alex-a100", sweep={"processes": (1, 2, 4, 8)})
async def ranks(
    run: Run,
    processes: Annotated[int, Range(1, 48)] = 4,
    threads: Annotated[int, Range(1, 1024)] = 2,
    sharing: Literal["default", "time_slices", "concurrent", "mps", "mig"] = "default",
    instances: str = "3g.40gb 3g.40gb",
    n: Annotated[int, Range(1)] = 1 << 18,
    steps: Annotated[int, Range(1, 1_000_000)] = 8,
    teams: Annotated[int, Range(1)] = 108,
    phantom: bool = True,
) -> dict[str, float]:
    """Each thread of each rank maps an array of its own in every step, computes on the GPU and takes the array back.

    After each step the first threads of all ranks meet in MPI_Barrier, and with them their teams.

    Parameters:
        processes: ranks, each with a runtime, a driver context and a device table of its own
        threads: host threads of each rank
        sharing: how the ranks share the GPU: as by default (NVIDIA time_slices, AMD concurrent), in time slices, at one
            time, as clients of MPS, or with MIG instances
        instances: into which MIG splits the GPU
        n: doubles in each thread's array
        steps: of the program
        teams: of each kernel; 216 of them fill the GPU
        phantom: sizes without numbers
    """
    if sharing != "default":
        run.set("process.sharing", sharing)
    if sharing == "mig":
        run.set("mig.instances", instances)

    async def main(process: Process) -> None:
        async def body(t: omp.HostThread) -> None:
            a = t.array("a", n, fill=1.0)
            for _ in run.steps(steps):
                await t.target(scale, a, 2.0, teams=teams, iterations=n, maps=omp.map(tofrom=a))
                await t.barrier()
                if t.number == 0:
                    await process.world.Barrier()
                await t.barrier()

        await process.parallel(body, num_threads=threads)

    await run.mpiexec(main)
    return {"per_step_s": run.elapsed / steps}
