"""Figure 1 of the ExaHyPE paper: weak scaling of 2D Euler with map clauses, over the batch size."""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, scenario
from offloadrt.papers.exahype.program import Experiment, Setup
from offloadrt.papers.figures import figures_of

LISTED_AS = "figures of papers, for `sweep`"

FIGURES = figures_of("exahype")


@scenario(
    machine="alex-a100",
    runtime="nvhpc",
    figure=FIGURES["exahype_fig1"],
    sweep={"batch": (1, 2, 4, 8, 16, 32), "threads": (1, 2, 4, 8, 16, 32, 64, 128)},
)
async def exahype_fig1(
    run: Run,
    batch: Annotated[int, Range(1, None)] = 16,
    threads: Annotated[int, Range(1, 4096)] = 8,
    patches: Annotated[int, Range(1, 1 << 20)] = 100,
    phantom: bool = True,
) -> dict[str, float]:
    """Time per volume update of one thread over the batch size, a line per number of host threads.

    `time_per_volume_per_thread_s` divides by the volumes of one thread: it stays the same where threads do not disturb
    one another. `time_per_volume_s` divides by those of all.
    The figure: `offloadrt sweep exahype_fig1 --jobs 2 --out DIR`.
    A quick look: `offloadrt sweep exahype_fig1 threads=1,8,64 batch=1,8,32 --out DIR`.

    Parameters:
        batch: patches per offload
        threads: host threads that offload at the same time
        patches: patches of each thread
        phantom: sizes without numbers
    """
    setup = Setup(batch=batch, threads=threads, patches=patches, memory="map", phantom=phantom)
    await Experiment(run.openmp, setup).update()
    return {
        "time_per_volume_s": run.elapsed / setup.total_volumes,
        "time_per_volume_per_thread_s": run.elapsed / setup.volumes_per_thread,
    }
