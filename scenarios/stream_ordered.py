"""What memory for each step costs a program: cudaMalloc and cudaFree, or stream-ordered allocation from a pool."""

from __future__ import annotations

from typing import Annotated, Literal

from offloadrt import Range, Run, cuda, scenario
from offloadrt.kernels import Kernel
from offloadrt.study.scripts.parameters import Value

STEP = Kernel("step", bytes_per_iteration=8.0, threads_per_team=256)
Memory = Literal["malloc", "pool", "kept_pool"]


@scenario(machine="alex-a100", sweep={"memory": ("malloc", "pool", "kept_pool"), "threads": (1, 2, 4, 8)})
async def stream_ordered(
    run: Run,
    memory: Memory = "malloc",
    threads: Annotated[int, Range(1, 1024)] = 1,
    nbytes: Annotated[int, Range(256, 1 << 36)] = 1 << 20,
    steps: Annotated[int, Range(1, 1_000_000)] = 50,
) -> dict[str, Value]:
    """Each host thread allocates memory, has a kernel use it in a stream of its own, frees it, and waits.

    Parameters:
        memory: malloc (cudaMalloc, cudaFree), pool (cudaMallocAsync as it is), kept_pool (with a release threshold)
        threads: host threads
        nbytes: of the memory
        steps: of each thread
    """
    run.options = cuda.CUDAOptions(phantom=True)

    async def body(t: cuda.HostThread) -> float:
        stream = await t.stream_create(non_blocking=True)
        if memory == "kept_pool":
            t.mem_pool_set_attribute(await t.device_get_default_mem_pool(), release_threshold=1 << 40)
        await t.barrier()
        begin = t.sim.now
        for _ in range(steps):
            array = await (t.malloc(nbytes) if memory == "malloc" else t.malloc_async(nbytes, stream=stream))
            await t.launch(STEP, array, grid=-(-nbytes // 2048), block=256, iterations=nbytes // 8, stream=stream)
            await (t.free(array) if memory == "malloc" else t.free_async(array, stream=stream))
            await t.stream_synchronize(stream)
        await t.barrier()
        return t.sim.now - begin

    elapsed = max(await run.parallel(body, threads))
    return {"step_s": elapsed / steps}
