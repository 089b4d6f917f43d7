"""One warp whose lanes are on a page each: how many faults has a batch that nothing else adds to?"""

from __future__ import annotations

from offloadrt import Run, scenario
from offloadrt.papers.independent.programs import managed
from offloadrt.papers.independent.programs.managed import FaultRules
from offloadrt.study.scripts.parameters import Value

LISTED_AS = "single mechanisms"

WITHOUT_PREFETCH = FaultRules(prefetch=False)


@scenario(machine="t4", sweep={"prefetch": (True, False)})
async def one_warp(run: Run, rules: FaultRules = WITHOUT_PREFETCH, phantom: bool = False) -> dict[str, Value]:
    """Add two managed arrays with 32 lanes, each on its own page of the three arrays.

    Parameters:
        phantom: sizes without numbers
    """
    loop = rules.loop(run, phantom)
    await run.parallel(lambda t: managed.one_warp(t, loop))
    batches = run.statistics.fault_batches
    return {**loop.figures(), **{f"batch{number}_faults": batch.faults for number, batch in enumerate(batches, 1)}}
