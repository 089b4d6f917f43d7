"""Do copies and kernels in several streams overlap, by the memory of the host that they use?"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from offloadrt import Range, Run, cuda, kernel, scenario


@kernel(flops_per_iteration=2000, bytes_per_iteration=16)
def work(a: Any) -> None:
    a += 1.0


@scenario(machine="dgx1-v100", sweep={"memory": ("pageable", "pinned"), "streams": (1, 2, 4, 8)})
async def stream_pipeline(
    run: Run,
    memory: Literal["pageable", "pinned"] = "pinned",
    chunks: Annotated[int, Range(1, 1024)] = 8,
    streams: Annotated[int, Range(1, 64)] = 4,
    mib: Annotated[int, Range(1, 1 << 14)] = 64,
    what: Literal["in", "in_kernel", "in_kernel_out"] = "in_kernel_out",
) -> dict[str, float]:
    """One host thread has each chunk copied in, worked on and copied out in a stream.

    Parameters:
        memory: of the host
        chunks: of the data
        streams: that take the chunks in turn
        mib: of a chunk, in MiB
        what: is done with a chunk
    """
    run.options = cuda.CUDAOptions(phantom=True)
    n = mib << 17

    async def body(t: cuda.HostThread) -> None:
        names = [f"chunk {i}" for i in range(chunks)]
        host = [await t.host_alloc(name, n, "f8") if memory == "pinned" else t.array(name, n) for name in names]
        there = [await t.malloc(n, "f8") for _ in names]
        made = [await t.stream_create(non_blocking=True) for _ in range(streams)]
        async with run.measure():
            for i, (here, a) in enumerate(zip(host, there, strict=True)):
                stream = made[i % streams]
                await t.memcpy_async(a, here, stream=stream)
                if what != "in":
                    await t.launch(work, a, grid=1024, block=128, iterations=n, stream=stream)
                if what == "in_kernel_out":
                    await t.memcpy_async(here, a, stream=stream)
            await t.device_synchronize()

    await run.parallel(body)
    return {"pipeline_s": run.elapsed}
