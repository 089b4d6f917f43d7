"""QMCPACK's NiO performance test on an APU: many host threads, small kernels on resident data, small copies."""

from __future__ import annotations

from typing import Annotated, Literal

from offloadrt import Range, Run, scenario
from offloadrt.papers.figures import figures_of
from offloadrt.papers.zerocopy.memory_time import memory_overheads
from offloadrt.papers.zerocopy.qmcpack import QmcpackExperiment, QmcpackSetup

FIGURES = figures_of("zerocopy")


@scenario(
    machine="mi300a",
    figure=FIGURES["qmcpack"],
    sweep={"threads": (1, 2, 4, 8), "configuration": ("copy", "usm", "implicit_zero_copy", "eager_maps")},
)
async def qmcpack(
    run: Run,
    size: Literal["S1", "S2", "S4", "S8", "S16", "S24", "S32", "S48", "S64", "S128"] = "S2",
    threads: Annotated[int, Range(1, 24)] = 8,
    configuration: Literal["copy", "usm", "implicit_zero_copy", "eager_maps"] = "copy",
    fraction: Annotated[float, Range(0.0001, 1.0)] = 0.002,
    map_items: Annotated[int, Range(8, 40)] = 15,
    walkers: Annotated[int | None, Range(1, 4096)] = None,
    nonlocal_jobs: Annotated[int | None, Range(0, None)] = None,
    kernel_work: Literal["low", "mean", "high"] = "mean",
    host_work: Literal["low", "mean", "high"] = "mean",
    copy_growth: Literal["low", "mean", "high"] = "mean",
) -> dict[str, float | int]:
    """NiO supercells: host threads move the electrons of their crowds of walkers, one after another.

    Kernels, copies and allocations of the whole program (fraction=1) are those that the paper's Table I publishes for
    S2. The measured time is that of the steps, after the initialisation of all threads; so are the calls of the result,
    those before and after being listed apart. What was assumed is reported beside.

    Parameters:
        size: the supercell: Sn has 4n atoms and 48n electrons
        threads: host threads, each with a crowd; all walkers are divided over them
        configuration: what a map means
        fraction: part of the steps, of the walkers that are set up and of the warm-up; 1 is the full run
        map_items: map items of a target region (published for S2 with 1 thread: 15)
        walkers: of all crowds; none takes QMCPACK's preset, as far as it fits into memory
        nonlocal_jobs: batches of the pseudopotential per crowd; none takes what follows from the published copies
        kernel_work: end of the range of the kernels' serial work
        host_work: end of the range of the host's work for a move
        copy_growth: end of the range in which the walkers' copies grow with the size
    """
    setup = QmcpackSetup.create(
        size=size,
        threads=threads,
        fraction=fraction,
        walkers=walkers,
        map_items=map_items,
        jobs=nonlocal_jobs,
        kernel_work=kernel_work,
        host_work=host_work,
        copy_growth=copy_growth,
    )
    run.phantom = True
    experiment = QmcpackExperiment(run.openmp, setup, run.progress, run.steps)
    await experiment.initialise()
    before = run.counted.kernels
    async with run.measure():
        await experiment.advance()
    return {
        **memory_overheads(run, before),
        "kernel_s": run.counted.kernels["wall_s"],
        **experiment.assumed(),
    }
