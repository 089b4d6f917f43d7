"""What copies cost whose host memory lies at another socket than the GPU, for one GPU and for all of a socket."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from offloadrt import Range, Run, cuda, scenario
from offloadrt.study.scripts.parameters import Value

LISTED_AS = "single mechanisms"


@scenario(
    machine="a100-node8", sweep={"placed": ("near", "far"), "devices": (1, 2, 4), "memory": ("pinned", "pageable")}
)
async def far_memory(
    run: Run,
    placed: Literal["near", "far"] = "far",
    devices: Annotated[int, Range(1, 64)] = 1,
    memory: Literal["pinned", "pageable"] = "pinned",
    direction: Literal["h2d", "d2h"] = "h2d",
    nbytes: Annotated[int, Range(1, 1 << 40)] = 1 << 26,
    repeats: Annotated[int, Range(1, 1_000_000)] = 4,
) -> dict[str, Value]:
    """A host thread for each device copies an array, again and again.

    Parameters:
        placed: the arrays lie at the socket of the devices (the first ones, at socket 0), or at socket 1
        devices: that copy at one time
        memory: of the host
        direction: h2d (to the device) or d2h
        nbytes: of a copy
        repeats: of each thread
    """
    run.options = cuda.CUDAOptions(phantom=True, num_devices=devices)

    async def body(t: cuda.HostThread) -> float:
        await t.set_device(t.number)
        if memory == "pinned":
            here = await t.host_alloc(f"here {t.number}", nbytes, np.uint8)
        else:
            here = t.array(f"here {t.number}", nbytes, np.uint8)
        t.mbind(here, 1 if placed == "far" else 0)
        there = await t.malloc(nbytes)
        await t.barrier()
        begin = t.sim.now
        for _ in range(repeats):
            await (t.memcpy(there, here) if direction == "h2d" else t.memcpy(here, there))
            await t.stream_synchronize()
        return (t.sim.now - begin) / repeats

    took = await run.parallel(body, devices)
    return {"copy_s": max(took), "bytes_per_s": devices * nbytes / max(took)}
