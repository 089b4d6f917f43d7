"""What does an update of some KiB of pageable memory cost, by the way that it takes?"""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, scenario
from offloadrt import openmp as omp


@scenario(machine="mi300a", sweep={"kib": (16.0, 64.0, 180.0, 512.0, 900.0)})
async def pageable_updates(
    run: Run,
    kib: Annotated[float, Range(1 / 128, 1 << 20)] = 180.0,
    updates: Annotated[int, Range(1, 100_000)] = 200,
    threads: Annotated[int, Range(1, 1024)] = 1,
) -> dict[str, float]:
    """Each host thread updates an array to and from the device, again and again.

    Parameters:
        kib: of an array, in KiB
        updates: of a thread, each there and back
        threads: of the host
    """
    run.phantom = True

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", int(kib * 128))
        await t.first_touch(a)
        await t.target_enter_data(omp.map(alloc=a))
        for _ in range(updates):
            await t.target_update(omp.to(a))
            await t.target_update(omp.from_(a))

    await run.parallel(body, num_threads=threads)
    return {"per_copy_s": run.elapsed / updates / 2}
