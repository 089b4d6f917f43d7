"""Figures 2 and 3 of the ExaHyPE paper: strong scaling of 3D Euler and CCZ4, with map clauses and with the GPU memory
manager.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from offloadrt import Figure, Range, Run, scenario
from offloadrt.programs.exahype import Experiment, Setup
from offloadrt.programs.exahype.equations import CASES_3D

Case: TypeAlias = Literal["euler3d-5", "euler3d-9", "ccz4-5"]
Threads: TypeAlias = Annotated[int, Range(1, 4096)]
Count: TypeAlias = Annotated[int, Range(1, None)]

SWEEP = {"case": tuple(CASES_3D), "threads": (1, 2, 4, 8, 16, 32, 64, 128), "batch": (1, 2, 4, 8, 16, 32)}


def figure(memory: str) -> Figure:
    """Time per volume update over host threads: a panel a case, a line a batch size."""
    return Figure(
        x="threads",
        y="time_per_volume_s",
        lines=("batch",),
        panels="case",
        xlabel="host threads",
        ylabel="time per volume update (s)",
        title=f"ExaHyPE, strong scaling, {memory}",
        legend="patches per\noffload",
        names={
            "euler3d-5": "Euler 3D, 5³ volumes a patch",
            "euler3d-9": "Euler 3D, 9³ volumes a patch",
            "ccz4-5": "CCZ4, 5³ volumes a patch",
        },
    )


async def update(
    run: Run, memory: Literal["map", "pool"], case: Case, threads: int, batch: int, patches: int, phantom: bool
) -> dict[str, float]:
    """Updates all patches once and measures that; with the pool, once more before."""
    equations, patch = CASES_3D[case]
    setup = Setup.create(
        equations=equations,
        patch=patch,
        batch=batch,
        threads=threads,
        patches=patches,
        scaling="strong",
        memory=memory,
        phantom=phantom,
    )
    experiment = Experiment(run.openmp, setup)
    if memory == "pool":
        await experiment.warm_up()
    async with run.measure():
        await experiment.update()
    return {"time_per_volume_s": run.elapsed / setup.total_volumes}


@scenario(machine="alex-a100", figure=figure("map clauses"), sweep=SWEEP)
async def exahype_fig2(
    run: Run,
    case: Case = "euler3d-5",
    threads: Threads = 8,
    batch: Count = 16,
    patches: Count = 8192,
    phantom: bool = True,
) -> dict[str, float]:
    """Time per volume update over host threads, a line per batch size, with map clauses.

    The figure: `offloadrt sweep exahype_fig2 --jobs 2 --out DIR`.
    A quick look: `offloadrt sweep exahype_fig2 threads=1,8,64 batch=1,8,32 patches=2048 --out DIR`.

    Parameters:
        case: equations and volumes per dimension of a patch
        threads: host threads that share the patches
        batch: patches per offload
        patches: patches in all; enough that first-use costs do not show
        phantom: sizes without numbers
    """
    return await update(run, "map", case, threads, batch, patches, phantom)


@scenario(machine="alex-a100", figure=figure("GPU memory manager"), sweep=SWEEP)
async def exahype_fig3(
    run: Run,
    case: Case = "euler3d-5",
    threads: Threads = 8,
    batch: Count = 16,
    patches: Count = 8192,
    phantom: bool = True,
) -> dict[str, float]:
    """Time per volume update over host threads, a line per batch size, with the GPU memory manager.

    The figure: `offloadrt sweep exahype_fig3 --jobs 2 --out DIR`.
    A quick look: `offloadrt sweep exahype_fig3 threads=1,8,64 batch=1,8,32 patches=2048 --out DIR`.

    Parameters:
        case: equations and volumes per dimension of a patch
        threads: host threads that share the patches
        batch: patches per offload
        patches: patches in all; they are offloaded before the measured time as well, until the memory manager needs no
            new blocks: in the paper totals are so large that first-use allocations do not show
        phantom: sizes without numbers
    """
    return await update(run, "pool", case, threads, batch, patches, phantom)
