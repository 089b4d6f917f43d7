"""One stream: what is in a stream goes one after the other, and streams go side by side."""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, cuda, scenario
from offloadrt.kernels import Kernel

SMALL = Kernel("small", flops_per_iteration=1e5, threads_per_team=128)


@scenario(machine="alex-a100", sweep={"streams": (1, 2, 4)})
async def one_stream(run: Run, streams: Annotated[int, Range(1, 64)] = 1) -> dict[str, float]:
    """One thread launches four kernels, which each fill a hundredth of the GPU, into its streams in turn.

    Parameters:
        streams: of the thread
    """
    run.options = cuda.CUDAOptions(phantom=True)

    async def body(t: cuda.HostThread) -> float:
        made = [await t.stream_create(non_blocking=True) for _ in range(streams)]
        begin = t.sim.now
        for number in range(4):
            await t.launch(SMALL, grid=1, block=128, iterations=128, stream=made[number % streams])
        await t.device_synchronize()
        return t.sim.now - begin

    (four_s,) = await run.parallel(body)
    return {"four_kernels_s": four_s}
