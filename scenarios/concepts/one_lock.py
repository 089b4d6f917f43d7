"""One lock: each thread maps an array of its own, and all of them meet at the lock of the device table."""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, scenario
from offloadrt import openmp as omp


@scenario(machine="alex-a100", sweep={"threads": (1, 2, 4, 8)})
async def one_lock(run: Run, threads: Annotated[int, Range(1, 256)] = 4) -> dict[str, float]:
    """Each thread enters one array into the device table, and takes it out again.

    Parameters:
        threads: host threads
    """

    async def body(t: omp.HostThread) -> float:
        a = t.array("a", 4096)
        await t.barrier()  # behind the start of the runtime
        begin = t.sim.now
        async with t.target_data(omp.map(alloc=a)):
            pass
        return t.sim.now - begin

    times = await run.parallel(body, num_threads=threads)
    return {"fastest_s": min(times), "slowest_s": max(times)}
