"""Kernels that copy one word of each page, of more memory than the device has or of less."""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, scenario
from offloadrt.papers.independent.programs import managed
from offloadrt.papers.independent.programs.managed import AS_PROFILED, Advised, FaultRules, Order
from offloadrt.study.scripts.parameters import Value

LISTED_AS = "single mechanisms"


@scenario(machine="t4", sweep={"gib": (8.0, 12.0, 16.0, 20.0), "order": ("seq", "random", "anywhere")})
async def oversubscription(
    run: Run,
    gib: Annotated[float, Range(1e-3, 4096)] = 12.0,
    factor: Annotated[float, Range(1e-3, 100)] = 1.0,
    order: Order = "seq",
    advised: Advised = "none",
    warm_up: Annotated[int, Range(0, 1000)] = 2,
    launches: Annotated[int, Range(1, 1000)] = 3,
    rules: FaultRules = AS_PROFILED,
) -> dict[str, Value]:
    """Launches that copy a word of each page from an array that the host has written to one that nobody has touched.

    Parameters:
        gib: what is multiplied by the factor to be the size of both arrays together, such as the memory of the device
        factor: by which it is multiplied
        order: in which each of at most 65536 threads comes to its pages: to those of its own chunk one by one or at
            random, or to pages anywhere in the arrays
        advised: what the program asks for before the first launch, for both arrays
        warm_up: launches that are not timed
        launches: launches that are timed, each with its synchronisation
    """
    loop = rules.loop(run)
    if rules.prefetch:  # a fault brings 64 KiB at least, so the driver decides on these: 16 times fewer to emulate
        run.set("page.uvm_page", 64 << 10)
    await run.parallel(
        lambda t: managed.oversubscribed(t, loop, round(factor * gib * 2**30), order, advised, warm_up, launches)
    )
    return {"launch_s": run.elapsed / launches, **loop.figures()}
