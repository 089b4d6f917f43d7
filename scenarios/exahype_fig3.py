"""Figure 3 of the ExaHyPE paper: strong scaling of 3D Euler and CCZ4 with the GPU memory manager."""

from __future__ import annotations

from typing import Annotated, Literal

from offloadrt import Figure, Range, Run, scenario
from offloadrt.programs.exahype import Experiment, Setup
from offloadrt.programs.exahype.equations import CASES_3D


@scenario(
    machine="alex-a100",
    figure=Figure(
        x="threads",
        y="time_per_volume_s",
        lines=("batch",),
        panels="case",
        xlabel="host threads",
        ylabel="time per volume update (s)",
        title="ExaHyPE, strong scaling, the GPU memory manager",
    ),
    sweep={
        "case": tuple(CASES_3D),
        "threads": (1, 2, 4, 8, 16, 32, 64, 128),
        "batch": (1, 2, 4, 8, 16, 32),
    },
)
async def exahype_fig3(
    run: Run,
    case: Literal["euler3d-5", "euler3d-9", "ccz4-5"] = "euler3d-5",
    threads: Annotated[int, Range(1, 4096)] = 8,
    batch: Annotated[int, Range(1, None)] = 16,
    patches: Annotated[int, Range(1, None)] = 8192,
    phantom: bool = True,
) -> dict[str, float]:
    """Time per volume update over host threads, a line per batch size, with the GPU memory manager.

    The figure: `offloadrt sweep exahype_fig3 --jobs 2 --out DIR`.
    A quick look: `offloadrt sweep exahype_fig3 threads=1,8,64 batch=1,8,32 patches=2048`.

    Parameters:
        case: equations and volumes per dimension of a patch
        threads: host threads that share the patches
        batch: patches per offload
        patches: patches in all; they are offloaded before the measured time as well, until the memory manager needs no
            new blocks: in the paper totals are so large that first-use allocations do not show
        phantom: sizes without numbers
    """
    equations, patch = CASES_3D[case]
    setup = Setup.create(
        equations=equations,
        patch=patch,
        batch=batch,
        threads=threads,
        patches=patches,
        scaling="strong",
        memory="pool",
        phantom=phantom,
    )
    experiment = Experiment(run.openmp, setup)
    await experiment.warm_up()
    async with run.measure():
        await experiment.update()
    return {"time_per_volume_s": run.elapsed / setup.total_volumes}
