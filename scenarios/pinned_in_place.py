"""Is it worth copying pinned memory to the device, or may kernels read it where it is?"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np

from offloadrt import Range, Run, cuda, kernel, scenario
from offloadrt.study.scripts.parameters import Value

LISTED_AS = "single mechanisms"


@kernel
def sums(source: Any, result: Any) -> None:
    for i in range(len(result)):
        result[i] += source[i]


@scenario(machine="alex-a100", sweep={"how": ("copied", "in_place"), "uses": (1, 2, 4, 8)})
async def pinned_in_place(
    run: Run,
    how: Literal["copied", "in_place"] = "in_place",
    nbytes: Annotated[int, Range(8, 1 << 40)] = 1 << 26,
    uses: Annotated[int, Range(1, 100_000)] = 1,
    threads: Annotated[int, Range(1, 64)] = 1,
    phantom: bool = True,
) -> dict[str, Value]:
    """Each host thread's kernels add an array of pinned memory to one of the device, as often as it is used.

    Parameters:
        how: copied (to the device, once, before the kernels) or in_place (the kernels read it over the link)
        nbytes: of a thread's array in pinned memory
        uses: kernels that read all of it
        threads: of the host, each with a stream and arrays of its own
        phantom: sizes without numbers
    """
    run.options = cuda.CUDAOptions(phantom=phantom)
    n = nbytes // 8

    async def body(t: cuda.HostThread) -> float:
        source = await t.host_alloc(f"source {t.number}", n, np.float64, fill=1.0)
        result, stream = await t.malloc(n, np.float64), await t.stream_create(non_blocking=True)
        copy = await t.malloc(n, np.float64) if how == "copied" else None
        await t.memset_async(result, 0, stream=stream)
        await t.stream_synchronize(stream)
        await t.barrier()
        begin = t.sim.now
        if copy is not None:
            await t.memcpy_async(copy, source, stream=stream)
        for _ in range(uses):
            read = source if copy is None else copy
            await t.launch(sums, read, result, grid=max(1, n // 2048), block=256, stream=stream)
        await t.stream_synchronize(stream)
        return t.sim.now - begin

    times = await run.parallel(body, threads)
    return {"elapsed_s": max(times), "bytes_per_s": threads * uses * nbytes / max(times)}
