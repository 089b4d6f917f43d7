"""ExaHyPE's finite-volume patches, offloaded to one GPU by many host threads (the paper's stress test)."""

from __future__ import annotations

from typing import Literal

from offloadrt import Run, scenario
from offloadrt.papers.exahype.program import Experiment, Setup
from offloadrt.papers.figures import figures_of

FIGURES = figures_of("exahype")
AS_IN_THE_PAPER = Setup()


@scenario(
    machine="alex-a100",
    runtime="nvhpc",
    figure=FIGURES["exahype"],
    sweep={"threads": (1, 2, 4, 8, 16, 32, 64, 128), "batch": (1, 4, 16), "memory": ("map", "pool", "managed")},
)
async def exahype(
    run: Run,
    setup: Setup = AS_IN_THE_PAPER,
    allocator: Literal["llvm", "direct"] = "llvm",
    warm_up: bool = False,
) -> dict[str, float | int | bool]:
    """Many host threads offload batches of ExaHyPE's patches to one GPU.

    Each batch goes to the device, is updated by one kernel (a team per patch) and comes back, by map clauses
    (Algorithm 1), through a host-side GPU memory manager (Algorithm 2), or in managed memory. With phantom=false the
    Euler equations are really solved and the result is compared with a plain NumPy reference, bit by bit.

    Parameters:
        allocator: how the OpenMP runtime obtains device blocks: LLVM's buckets, or one driver call each
        warm_up: offload all patches before the measured time, until the pool needs no new blocks
    """
    experiment = Experiment(run.openmp, setup)
    if warm_up:
        await experiment.warm_up()
    async with run.measure():
        updated = await experiment.update()
    return {
        "time_per_volume_s": run.elapsed / setup.total_volumes,
        "time_per_volume_per_thread_s": run.elapsed / setup.volumes_per_thread,
        **updated.measured(),
    }
