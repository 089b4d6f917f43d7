"""Figures 2, 3 and 4 of the ExaHyPE paper: strong scaling of 3D Euler and CCZ4.

They differ in the memory: map clauses, the GPU memory manager, and managed memory.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from offloadrt import Range, Run, Scenario, scenario
from offloadrt.papers.exahype.program import Experiment, Setup
from offloadrt.papers.exahype.program.kernels import CASES_3D
from offloadrt.papers.figures import figures_of

LISTED_AS = "figures of papers, for `sweep`"

FIGURES = figures_of("exahype")

Case: TypeAlias = Literal["euler3d-5", "euler3d-9", "ccz4-5"]
Threads: TypeAlias = Annotated[int, Range(1, 4096)]
Count: TypeAlias = Annotated[int, Range(1, None)]

SWEEP = {"case": tuple(CASES_3D), "threads": (1, 2, 4, 8, 16, 32, 64, 128), "batch": (1, 2, 4, 8, 16, 32)}

DESCRIPTION = """Time per volume update over host threads, a line per batch size, {title}.

The figure: `offloadrt sweep {name} --jobs 2 --out DIR`.
A quick look: `offloadrt sweep {name} threads=1,8,64 batch=1,8,32 patches=2048 --out DIR`.

Parameters:
    case: equations and volumes per dimension of a patch
    threads: host threads that share the patches
    batch: patches per offload
    patches: patches in all{patches}
    phantom: sizes without numbers
"""
ENOUGH = "; enough that first-use costs do not show"
TWICE = """; they are offloaded before the measured time as well, until the memory manager needs no new blocks:
        in the paper totals are so large that first-use allocations do not show"""


def strong_scaling(name: str, memory: Literal["map", "pool", "managed"], title: str) -> Scenario:
    """Make the scenario of one figure."""

    async def update(
        run: Run,
        case: Case = "euler3d-5",
        threads: Threads = 8,
        batch: Count = 16,
        patches: Count = 8192,
        phantom: bool = True,
    ) -> dict[str, float]:
        equations, patch = CASES_3D[case]
        setup = Setup(
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
        if memory != "map":
            await experiment.warm_up()
        async with run.measure():
            await experiment.update()
        return {"time_per_volume_s": run.elapsed / setup.total_volumes}

    update.__doc__ = DESCRIPTION.format(name=name, title=title, patches=ENOUGH if memory == "map" else TWICE)
    return scenario(name=name, machine="alex-a100", runtime="nvhpc", figure=FIGURES[name], sweep=SWEEP)(update)


exahype_fig2 = strong_scaling("exahype_fig2", "map", "with map clauses")
exahype_fig3 = strong_scaling("exahype_fig3", "pool", "with the GPU memory manager")
exahype_fig4 = strong_scaling("exahype_fig4", "managed", "in managed memory")
