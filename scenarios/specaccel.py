"""Five codes of SPECaccel 2023 on an APU: where arrays live and who touches them first."""

from __future__ import annotations

from typing import Annotated, Literal

from offloadrt import Range, Run, scenario
from offloadrt import openmp as omp
from offloadrt.papers.figures import figures_of
from offloadrt.papers.zerocopy.memory_time import memory_overheads
from offloadrt.papers.zerocopy.specaccel import Ends, code

FIGURES = figures_of("zerocopy")


@scenario(
    machine="mi300a",
    figure=FIGURES["specaccel"],
    sweep={
        "benchmark": ("stencil", "lbm", "ep", "spC", "bt"),
        "configuration": ("copy", "usm", "implicit_zero_copy", "eager_maps"),
    },
)
async def specaccel(
    run: Run,
    benchmark: Literal["stencil", "lbm", "ep", "spC", "bt"] = "stencil",
    configuration: Literal["copy", "usm", "implicit_zero_copy", "eager_maps"] = "copy",
    fraction: Annotated[float, Range(0.0001, 1.0)] = 0.1,
    sizes: Literal["low", "mean", "high"] = "mean",
    lengths: Literal["low", "mean", "high"] = "mean",
    kernel_work: Literal["low", "mean", "high"] = "mean",
    lose_translation: bool = False,
) -> dict[str, float | int]:
    """One code on one host thread, from its first allocation to its last, when its program has been loaded.

    Their sources are not public: sizes, run lengths and kernel work are ranges, but for ep's size, which SPEC gives.
    `memory_management_s` and `memory_initialization_s` are the paper's MM and MI: calls that allocate, free, fill page
    tables and copy; and the time for which kernels stand still at a first touch.

    Parameters:
        benchmark: the code
        configuration: what a map means
        fraction: part of the run length; the arrays keep their sizes
        sizes: end of the range of the arrays' sizes
        lengths: end of the range of the run's length
        kernel_work: end of the range of the kernels' work
        lose_translation: spC and bt: the device loses its translation of stack arrays when a function returns
    """
    run.phantom = True

    def forget(array: omp.HostArray) -> None:
        run.machine.apu().pages.remove(array.address, array.address + array.nbytes)

    ends = Ends(sizes, lengths, kernel_work, fraction, run.steps)
    program = code(benchmark, ends, forget if lose_translation else None)

    async def load(t: omp.HostThread) -> None:  # what the runtime allocates for itself is none of the code's memory
        await t.omp_target_free(await t.omp_target_alloc(8))

    await run.parallel(load)
    async with run.measure():
        await run.parallel(program.run)
    return {
        **memory_overheads(run),
        "kernel_s": run.counted.kernels["wall_s"],
        **program.assumed(),
    }
