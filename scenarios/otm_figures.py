"""Figures 1, 2 and 3 of the OTM paper: BFS, CFD and SRAD over the size of their data, below and above the GPU's memory.

What runs is in `rodinia.py`; here is where it is looked at. The paper's curves go up to about twice the 16 GB.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from offloadrt import Range, Run, scenario
from offloadrt.papers.figures import figures_of
from offloadrt.study import find_scenario

LISTED_AS = "figures of papers, for `sweep`"

FIGURES = figures_of("otm")

Benchmark: TypeAlias = Literal["bfs", "cfd", "srad"]
Size: TypeAlias = Annotated[float, Range(1e-6, 128.0)]
Iterations: TypeAlias = Annotated[int, Range(0, 100_000)]
Figures: TypeAlias = dict[str, Any]

FITTING = (2.0, 4.0, 8.0, 12.0, 14.0)
SIZES = (*FITTING, 16.0, 18.0, 20.0, 24.0)
BENCHMARKS = ("bfs", "cfd", "srad")


rodinia = find_scenario("rodinia")


@scenario(
    machine="summitdev-p100",
    figure=FIGURES["otm_fig1"],
    sweep={"size_gb": SIZES, "benchmark": BENCHMARKS, "placement": ("explicit", "um")},
)
async def otm_fig1(
    run: Run,
    size_gb: Size = 8.0,
    benchmark: Benchmark = "bfs",
    placement: Literal["explicit", "um"] = "um",
    iterations: Iterations = 0,
) -> Figures:
    """Time over size, explicit copies and managed memory (Figure 1 of the OTM paper).

    The figure: `offloadrt sweep otm_fig1 --jobs 2 --out DIR`; it lists the sizes that explicit copies cannot hold.

    Parameters:
        size_gb: of all arrays that the device uses together, in 1e9 bytes
        benchmark: the program
        placement: explicit copies or managed memory
        iterations: of cfd and srad; 0 takes the low end of their range
    """
    return await run_rodinia(run, benchmark, size_gb, placement, iterations)


@scenario(
    machine="summitdev-p100",
    figure=FIGURES["otm_fig2"],
    sweep={"size_gb": SIZES, "benchmark": BENCHMARKS, "direction": ("h2d", "d2h")},
)
async def otm_fig2(
    run: Run,
    size_gb: Size = 8.0,
    benchmark: Benchmark = "bfs",
    direction: Literal["h2d", "d2h"] = "h2d",
    placement: Literal["explicit", "um", "otm"] = "um",
    iterations: Iterations = 0,
) -> Figures:
    """Bytes that copies and migrations move in either direction over size, managed memory (Figure 2 of the OTM paper).

    The figure: `offloadrt sweep otm_fig2 --jobs 2 --out DIR`.

    Parameters:
        size_gb: of all arrays that the device uses together, in 1e9 bytes
        benchmark: the program
        direction: to the device (h2d) or to the host (d2h)
        placement: explicit copies, managed memory or OTM
        iterations: of cfd and srad; 0 takes the low end of their range
    """
    measured = await run_rodinia(run, benchmark, size_gb, placement, iterations)
    return {"moved_gb": measured["to_device_gb" if direction == "h2d" else "to_host_gb"], **measured}


@scenario(
    machine="summitdev-p100",
    figure=FIGURES["otm_fig3"],
    sweep={"size_gb": SIZES, "benchmark": BENCHMARKS, "placement": ("explicit", "um", "otm")},
)
async def otm_fig3(
    run: Run,
    size_gb: Size = 8.0,
    benchmark: Benchmark = "bfs",
    placement: Literal["explicit", "um", "otm"] = "um",
    iterations: Iterations = 0,
) -> Figures:
    """Time over size, explicit copies, managed memory and OTM (Figure 3 of the OTM paper).

    The figure: `offloadrt sweep otm_fig3 --jobs 2 --out DIR`; it lists the sizes that explicit copies cannot hold.

    Parameters:
        size_gb: of all arrays that the device uses together, in 1e9 bytes
        benchmark: the program
        placement: explicit copies, managed memory, or each object as the OTM runtime decides
        iterations: of cfd and srad; 0 takes the low end of their range
    """
    return await run_rodinia(run, benchmark, size_gb, placement, iterations)


async def run_rodinia(run: Run, benchmark: str, size_gb: float, placement: str, iterations: int) -> Figures:
    """A program as `offloadrt run rodinia` runs it; bfs has as many levels as its graph."""
    own = 0 if benchmark == "bfs" else iterations
    measured: Figures = await rodinia(
        run, benchmark=benchmark, size_gb=size_gb, iterations=own, placement=placement, structure="data", phantom=True
    )
    return measured
