"""Several processes: they take turns on a GPU, or share it as clients of MPS."""

from __future__ import annotations

from typing import Annotated, Literal

from offloadrt import Range, Run, scenario
from offloadrt import openmp as omp
from offloadrt.kernels import Kernel
from offloadrt.models.host.process import Process

LONG = Kernel("long", flops_per_iteration=1e5, threads_per_team=128)


@scenario(machine="alex-a100", sweep={"processes": (1, 2, 4), "sharing": ("time_slices", "mps")})
async def two_processes(
    run: Run, processes: Annotated[int, Range(1, 16)] = 2, sharing: Literal["time_slices", "mps"] = "time_slices"
) -> dict[str, float]:
    """Each process runs a kernel that fills a tenth of the GPU for a millisecond or so.

    Parameters:
        processes: each with a runtime and a driver context of its own
        sharing: how they share the GPU
    """
    run.set("process.sharing", sharing)
    times: list[float] = []

    async def main(process: Process) -> None:
        async def body(t: omp.HostThread) -> None:
            await t.target(LONG, teams=1, iterations=128)  # starts the runtime, and loads the kernel
            await process.world.Barrier()
            begin = t.sim.now
            await t.target(LONG, teams=10, iterations=1280)
            times.append(t.sim.now - begin)

        await process.parallel(body)

    await run.mpiexec(main, processes)
    return {"fastest_s": min(times), "slowest_s": max(times)}
