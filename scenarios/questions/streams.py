"""Do small kernels in many streams run at the same time?"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from offloadrt import Range, Run, cuda, kernel, scenario


@kernel(flops_per_iteration=200_000, bytes_per_iteration=16)
def small(a: Any) -> None:
    a += 1.0


@scenario(machine="alex-a100", sweep={"streams": (1, 4, 8, 16, 32)})
async def streams(
    run: Run,
    streams: Annotated[int, Range(1, 512)] = 24,
    kernels: Annotated[int, Range(1, 10_000)] = 10,
    blocks: Annotated[int, Range(1, 4096)] = 6,
    every: Annotated[int, Range(1, 512)] = 1,
    order: Literal["stream_by_stream", "in_turn"] = "stream_by_stream",
) -> dict[str, float]:
    """One host thread launches small kernels into its streams.

    Parameters:
        streams: that do not wait for the default stream
        kernels: of each stream
        blocks: of a kernel
        every: one stream of so many gets kernels, the others stay idle
        order: all kernels of a stream before the next stream's, or one of each stream in turn
    """
    run.options = cuda.CUDAOptions(phantom=True)
    turns = [(s, k) for s in range(0, streams, every) for k in range(kernels)]
    turns.sort(key=lambda turn: turn if order == "stream_by_stream" else turn[::-1])

    async def body(t: cuda.HostThread) -> None:
        a = await t.malloc(blocks * 128, "f8")
        made = [await t.stream_create(non_blocking=True) for _ in range(streams)]
        async with run.measure():
            for stream, _ in turns:
                await t.launch(small, a, grid=blocks, block=128, iterations=blocks * 128, stream=made[stream])
            await t.device_synchronize()

    await run.parallel(body)
    at_once = run.device().compute.statistics().wall_s / run.elapsed
    return {"per_kernel_s": run.elapsed / len(turns), "kernels_at_once": at_once}
