"""Breadth-first search of an R-MAT graph in managed memory, whose frontier host and device both walk."""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, scenario
from offloadrt.papers.independent.programs import managed
from offloadrt.papers.independent.programs.managed import AS_PROFILED, FaultRules
from offloadrt.study.scripts.parameters import Value


@scenario(machine="t4", sweep={"scale": (18, 20, 22)})
async def rmat_bfs(
    run: Run,
    scale: Annotated[int, Range(4, 32)] = 20,
    rules: FaultRules = AS_PROFILED,
) -> dict[str, Value]:
    """A kernel a level; between levels the host walks the frontier, whose pages go to and fro.

    The levels are those of a graph that NumPy searches; larger ones than 2**17 vertices do what one of that scale does.

    Parameters:
        scale: the graph has 2**scale vertices, and 16 edges a vertex before duplicates go
    """
    loop = rules.loop(run)
    (found,) = await run.parallel(lambda t: managed.bfs(t, loop, scale, run.seed))
    return {**found, **loop.figures()}
