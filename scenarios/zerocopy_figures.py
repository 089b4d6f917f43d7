"""Figures 3 and 4 and Tables I, II and III of the zero-copy paper: QMCPack and SPECaccel under Copy and three zero-copy
configurations. What runs is in `qmcpack.py` and `specaccel.py`; here is where it is looked at.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import attrs

from offloadrt import Range, Run, scenario
from offloadrt.papers.figures import figures_of
from offloadrt.study import find_scenario

LISTED_AS = "figures of papers, for `sweep`"

FIGURES = figures_of("zerocopy")

Configuration: TypeAlias = Literal["copy", "usm", "implicit_zero_copy", "eager_maps"]
Figures: TypeAlias = dict[str, Any]

SIZES = ("S2", "S4", "S8", "S16", "S24", "S32", "S48", "S64", "S128")
CONFIGURATIONS = ("copy", "usm", "implicit_zero_copy", "eager_maps")
BENCHMARKS = ("stencil", "lbm", "ep", "spC", "bt")


qmcpack = find_scenario("qmcpack")
specaccel = find_scenario("specaccel")


@attrs.frozen
class Qmcpack:
    """Parameters of QMCPack that its figures have."""

    size: Annotated[Literal["S1", "S2", "S4", "S8", "S16", "S24", "S32", "S48", "S64", "S128"], "the supercell"] = "S2"
    threads: Annotated[int, Range(1, 24), "host threads, each with a crowd"] = 8
    configuration: Annotated[Configuration, "what a map means"] = "copy"
    fraction: Annotated[float, Range(0.0001, 1.0), "part of the steps"] = 0.01

    async def run(self, run: Run) -> Figures:
        """Run QMCPack as `offloadrt run qmcpack` does."""
        measured: Figures = await qmcpack(run, **attrs.asdict(self))
        return measured


@attrs.frozen
class Specaccel:
    """Parameters of SPECaccel that its tables have."""

    benchmark: Annotated[Literal["stencil", "lbm", "ep", "spC", "bt"], "the code"] = "stencil"
    configuration: Annotated[Configuration, "what a map means"] = "copy"
    fraction: Annotated[float, Range(0.0001, 1.0), "part of the run's length"] = 1.0

    async def run(self, run: Run) -> Figures:
        """Run a code as `offloadrt run specaccel` does."""
        measured: Figures = await specaccel(run, **attrs.asdict(self))
        return measured


PART, WHOLE, CODE = Qmcpack(), Qmcpack(fraction=1.0), Specaccel()


@scenario(
    machine="mi300a",
    figure=FIGURES["zerocopy_fig3"],
    sweep={"size": SIZES, "threads": (1, 2, 4, 8), "configuration": CONFIGURATIONS},
)
async def zerocopy_fig3(run: Run, program: Qmcpack = PART) -> Figures:
    """Ratio of Copy to each configuration over host threads, a line a size (Figure 3 of the zero-copy paper).

    The figure: `offloadrt compare zerocopy_fig3 --jobs 2 --out DIR`.
    A quick look: `offloadrt compare zerocopy_fig3 size=S2,S24 threads=1,8 fraction=0.002 --out DIR`.
    """
    return await program.run(run)


@scenario(machine="mi300a", figure=FIGURES["zerocopy_fig4"], sweep={"size": SIZES, "configuration": CONFIGURATIONS})
async def zerocopy_fig4(run: Run, program: Qmcpack = PART) -> Figures:
    """Ratio of Copy to each configuration over the size, with 8 host threads (Figure 4 of the zero-copy paper).

    The figure: `offloadrt compare zerocopy_fig4 --jobs 2 --out DIR`.
    """
    return await program.run(run)


@scenario(
    machine="mi300a",
    figure=FIGURES["zerocopy_table1"],
    sweep={"threads": (1, 8), "configuration": ("copy", "implicit_zero_copy")},
)
async def zerocopy_table1(run: Run, program: Qmcpack = WHOLE) -> Figures:
    """Calls of the HSA runtime and their latencies, Copy and Implicit Zero-Copy (Table I of the zero-copy paper).

    The table, and comparison_calls.csv: `offloadrt compare zerocopy_table1 --jobs 2 --out DIR` (minutes: full runs).
    A quick look: `offloadrt compare zerocopy_table1 threads=1 fraction=0.01`.

    Parameters:
        fraction: part of the steps; the paper's counts are of all
    """
    return await program.run(run)


@scenario(
    machine="mi300a",
    figure=FIGURES["zerocopy_table2"],
    sweep={"benchmark": BENCHMARKS, "configuration": CONFIGURATIONS},
)
async def zerocopy_table2(run: Run, program: Specaccel = CODE) -> Figures:
    """Ratio of Copy to each configuration for SPECaccel (Table II of the zero-copy paper).

    The table: `offloadrt compare zerocopy_table2 --jobs 2 --out DIR`.
    """
    return await program.run(run)


@scenario(
    machine="mi300a",
    figure=FIGURES["zerocopy_table3"],
    sweep={"benchmark": BENCHMARKS, "configuration": CONFIGURATIONS},
)
async def zerocopy_table3(run: Run, program: Specaccel = CODE) -> Figures:
    """Overheads of memory management (MM) and first-touch initialisation (MI) (Table III of the zero-copy paper).

    The table, in results.csv: `offloadrt sweep zerocopy_table3 --jobs 2 --out DIR`.
    """
    return await program.run(run)
