"""Three Rodinia programs, whose data fit into the device's memory or not: explicit copies, managed memory, or OTM."""

from __future__ import annotations

from typing import Annotated, Literal

from offloadrt import ParameterError, Range, Run, scenario
from offloadrt import openmp as omp
from offloadrt.extensions.otm.ranking import HostProgram
from offloadrt.papers.figures import figures_of
from offloadrt.papers.otm.rodinia import (
    CFD_ITERATIONS,
    CONFIGURATIONS,
    SRAD_ITERATIONS,
    Bfs,
    Cfd,
    Mesh,
    Srad,
    Structure,
)
from offloadrt.papers.otm.unified_memory import computing_and_moving_s
from offloadrt.runtime.errors import ArrayOutOfDeviceMemory

FIGURES = figures_of("otm")

BFS = HostProgram.of(Bfs.run)
CFD = HostProgram.of(Cfd.run)
SRAD = HostProgram.of(Srad.run)
"""What the OTM paper's compiler sees; `offloadrt kernels rodinia` shows it."""


@scenario(
    machine="summitdev-p100",
    figure=FIGURES["rodinia"],
    sweep={
        "size_gb": (4.0, 8.0, 12.0, 14.0, 18.0, 22.0),
        "benchmark": ("bfs", "cfd", "srad"),
        "placement": ("explicit", "um"),
    },
)
async def rodinia(
    run: Run,
    benchmark: Literal["bfs", "cfd", "srad"] = "bfs",
    size_gb: Annotated[float, Range(1e-6, 128.0)] = 8.0,
    iterations: Annotated[int, Range(0, 100_000)] = 0,
    placement: Literal["explicit", "um", "otm"] = "um",
    lengths: Literal["low", "mean", "high"] = "low",
    structure: Structure = "data",
    mesh: Mesh = "ordered",
    phantom: bool = True,
) -> dict[str, float | int]:
    """One program on one host thread, from its first transfer to the host's look at the result.

    `time_s` is computation and data transfer, as the OTM paper measures: without allocations and frees. Explicit copies
    have to fit into the device's memory all together.

    Parameters:
        benchmark: breadth-first search of a random graph; Euler solver; speckle reduction of an image
        size_gb: of all arrays that the device uses together, in 1e9 bytes
        iterations: of cfd and srad; 0 takes them from their range. bfs has as many levels as its graph
        placement: explicit (device copies), um (managed memory), otm (each object as the OTM runtime decides)
        lengths: end of the range of iterations
        structure: one target data around all regions, or only the regions, each of which maps its arrays
        mesh: cfd: do neighbours have numbers that lie near?
        phantom: sizes without numbers
    """
    if benchmark == "bfs" and iterations:
        raise ParameterError("iterations", f"{iterations}, but bfs has as many levels as its graph; leave it 0")
    nbytes = round(size_gb * 1e9)
    program: Bfs | Cfd | Srad
    if benchmark == "bfs":
        program = Bfs.of(nbytes, phantom=phantom, seed=run.seed, structure=structure)
    elif benchmark == "cfd":
        steps = iterations or round(CFD_ITERATIONS.at(lengths))
        program = Cfd.of(nbytes, steps, phantom=phantom, mesh=mesh, seed=run.seed, structure=structure)
    else:
        steps = iterations or round(SRAD_ITERATIONS.at(lengths))
        program = Srad.of(nbytes, steps, phantom=phantom, seed=run.seed, structure=structure)
    run.options = omp.OpenMPOptions(
        configuration=CONFIGURATIONS[placement],
        host_program={"bfs": BFS, "cfd": CFD, "srad": SRAD}[benchmark],
        phantom=phantom,
    )
    objects: list[omp.HostArray] = []

    async def body(t: omp.HostThread) -> None:
        try:
            objects.extend(await program.run(t))
        except ArrayOutOfDeviceMemory as error:
            raise ParameterError("size_gb", f"{size_gb:g} GB do not fit as {placement} objects: {error}") from None

    await run.parallel(body)
    if not run.device().memory.capacity:
        raise ParameterError("size_gb", "the device has no memory (mem.size less mem.reserved holds no segment)")
    moved, faults, managed = run.measured.bytes, run.measured.faults, run.device().managed
    remote = 0.0 if managed is None else managed.ports["h2d"].bytes + managed.ports["d2h"].bytes
    return {
        "time_s": computing_and_moving_s(run.elapsed, run.measured.calls.table()),
        "steps": program.steps,
        "size_over_memory": sum(array.nbytes for array in objects) / run.device().memory.capacity,
        "to_device_gb": moved["h2d"] / 1e9,
        "to_host_gb": moved["d2h"] / 1e9,
        "remote_gb": remote / 1e9,
        "fault_batches": int(faults.get("fault_batches", 0)),
        "evicted_blocks": int(faults.get("evicted_blocks", 0)),
        **{f"{array.name}_bytes": array.nbytes for array in objects},
    }
