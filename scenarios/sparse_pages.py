"""Some random pages of each block of a managed array: what does the prefetcher bring along?"""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, scenario
from offloadrt.papers.independent.programs import managed
from offloadrt.papers.independent.programs.managed import AS_PROFILED, FaultRules
from offloadrt.study.scripts.parameters import Value

LISTED_AS = "single mechanisms"


@scenario(machine="t4", sweep={"per_block": (1, 8, 64, 512)})
async def sparse_pages(
    run: Run,
    gib: Annotated[float, Range(1e-3, 1024)] = 4.0,
    per_block: Annotated[int, Range(1, 512)] = 8,
    passes: Annotated[int, Range(1, 1000)] = 3,
    rules: FaultRules = AS_PROFILED,
) -> dict[str, Value]:
    """Passes of one kernel that reads and writes a word of some random 4 KiB pages of each 2 MiB block.

    Parameters:
        gib: of the array, which the host has written
        per_block: different pages of each block
        passes: launches, each with its synchronisation
    """
    loop = rules.loop(run)
    await run.parallel(lambda t: managed.sparse(t, loop, max(1, round(gib * 512)), per_block, passes))
    return {**loop.figures(), **loop.pass_figures()}
