"""A halo exchange between ranks on the GPUs of several nodes, from device memory or through the host's."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np

from offloadrt import Range, Run, kernel, scenario
from offloadrt import openmp as omp
from offloadrt.extensions import mpi
from offloadrt.models.host.process import Process


@kernel
def smooth(rows: int, columns: int, new: Any, old: Any) -> None:
    for i in range(1, rows - 1):
        for j in range(1, columns - 1):
            new[i, j] = 0.25 * (old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1])


@scenario(machine="a100-node4", sweep={"nodes": (1, 2, 4)})
async def halo(
    run: Run,
    ranks: Annotated[int, Range(1, 4096)] = 4,
    nodes: Annotated[int, Range(1, 4096)] = 2,
    gpus_per_node: Annotated[int, Range(1, 64)] = 2,
    buffers: Literal["device", "host"] = "device",
    columns: Annotated[int, Range(3, 1 << 20)] = 1 << 12,
    rows: Annotated[int, Range(3, 1 << 20)] = 1 << 10,
    steps: Annotated[int, Range(1, 1_000_000)] = 5,
    phantom: bool = True,
) -> dict[str, float]:
    """Each rank smooths its rows of a grid on its GPU; in each step it exchanges a row with the ranks above and below.

    Parameters:
        ranks: in a column, each with its rows
        nodes: over which they are spread
        gpus_per_node: which the ranks of a node take in turn
        buffers: whether MPI gets device memory (use_device_addr), or rows that the program has copied to the host
        columns: of the grid
        rows: of each rank, with the one above and the one below that belong to others
        steps: of the program
        phantom: sizes without numbers
    """

    async def main(process: Process) -> float:
        world, t = process.world, process.program.host_thread(0)
        device = process.rank % gpus_per_node
        up, down = (rank if 0 <= rank < world.size else mpi.PROC_NULL for rank in (world.rank - 1, world.rank + 1))
        grids = [t.array(name, (rows, columns), fill=float(world.rank**2)) for name in ("old", "new")]
        residual = t.array("residual", 1)
        async with t.target_data(omp.map(tofrom=grids), device=device):
            for step in run.steps(steps):
                old, new = grids if step % 2 == 0 else reversed(grids)

                async def row(grid: omp.HostArray, number: int) -> mpi.Buffer:
                    section = omp.section(grid, number, 1)
                    if buffers == "host":
                        return mpi.buffer_of(section)
                    pointer = await t.omp_get_mapped_ptr(section, device)
                    assert pointer is not None, "the grid is mapped"
                    return mpi.device_buffer(process, pointer, columns * 8)

                if buffers == "host":
                    await t.target_update(
                        omp.from_(omp.section(old, 1, 1), omp.section(old, rows - 2, 1)), device=device
                    )
                requests = [
                    await world.Irecv(await row(old, 0), up, tag=1),
                    await world.Irecv(await row(old, rows - 1), down, tag=2),
                    await world.Isend(await row(old, 1), up, tag=2),
                    await world.Isend(await row(old, rows - 2), down, tag=1),
                ]
                await mpi.Request.Waitall(requests)
                if buffers == "host":
                    await t.target_update(omp.to(omp.section(old, 0, 1), omp.section(old, rows - 1, 1)), device=device)
                await t.target(smooth, rows, columns, new, old, device=device)
                await world.Allreduce(mpi.IN_PLACE, residual)
        first = grids[steps % 2]
        return 0.0 if first.phantom else float(np.sum(first[1:-1]))

    run.configure(phantom=phantom)
    sums = await run.mpiexec(main)
    return {"per_step_s": run.elapsed / steps, "sum": sum(sums)}
