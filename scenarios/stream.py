"""STREAM's triad over managed arrays: how fast do the pages of a sweep migrate?"""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, scenario
from offloadrt.papers.independent.programs import managed
from offloadrt.papers.independent.programs.managed import AS_PROFILED, FaultRules
from offloadrt.study.scripts.parameters import Value

LISTED_AS = "single mechanisms"


@scenario(machine="t4", sweep={"elements": (1 << 27, 1 << 28, 1 << 29)})
async def stream(
    run: Run,
    elements: Annotated[int, Range(1, 1 << 34)] = 1 << 27,
    rules: FaultRules = AS_PROFILED,
) -> dict[str, Value]:
    """One triad over three managed arrays of floats that the host has written.

    Parameters:
        elements: of each array
    """
    loop = rules.loop(run)
    await run.parallel(lambda t: managed.stream(t, loop, elements))
    return {"touched_bytes_per_s": 3 * 4 * elements / run.elapsed, **loop.figures()}
