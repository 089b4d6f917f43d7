"""One copy: from pinned memory the engine takes it at once, from pageable memory a thread hands it over in pieces."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from offloadrt import Range, Run, cuda, scenario


@scenario(machine="alex-a100", sweep={"mib": (1, 4, 16), "memory": ("pageable", "pinned")})
async def one_copy(
    run: Run, mib: Annotated[int, Range(1, 4096)] = 4, memory: Literal["pageable", "pinned"] = "pageable"
) -> dict[str, float]:
    """One thread copies an array to the device, and waits.

    Parameters:
        mib: MiB of the array
        memory: of the host
    """
    run.options = cuda.CUDAOptions(phantom=True)

    async def body(t: cuda.HostThread) -> float:
        n = mib << 20
        a = await t.host_alloc("a", n, np.uint8) if memory == "pinned" else t.array("a", n, np.uint8)
        there = await t.malloc(n)
        begin = t.sim.now
        await t.memcpy_async(there, a)
        await t.device_synchronize()
        return t.sim.now - begin

    (copy_s,) = await run.parallel(body)
    return {"copy_s": copy_s, "copy_bytes_per_s": mib * 2**20 / copy_s}
