"""Every page of a managed array in order, a thread a page: what does a fault cost that nothing hides?"""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, scenario
from offloadrt.papers.independent.programs import managed
from offloadrt.papers.independent.programs.managed import AS_PROFILED, FaultRules
from offloadrt.study.scripts.parameters import Value

LISTED_AS = "single mechanisms"


@scenario(machine="t4", sweep={"nbytes": (1 << 20, 1 << 24, 1 << 28), "prefetch": (True, False)})
async def touch_pages(
    run: Run,
    nbytes: Annotated[int, Range(1, 1 << 40)] = 1 << 26,
    block: Annotated[int, Range(1, 1024)] = 64,
    rules: FaultRules = AS_PROFILED,
) -> dict[str, Value]:
    """One kernel that touches each 4 KiB page of an array that the host has written.

    Parameters:
        nbytes: of the array
        block: threads of a thread block; 64 is what the program of the UVM measurements on a Titan V has unless it is
            built otherwise (tallendev/uvm-eval, linear/page.cu)
    """
    loop = rules.loop(run)
    await run.parallel(lambda t: managed.touch_pages(t, loop, nbytes, block))
    return loop.figures()
