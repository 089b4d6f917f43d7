"""A scenario."""

from offloadrt import Kernel, Run, scenario
from offloadrt import openmp as omp
from offloadrt_example import toy

LOOK = Kernel("look", bytes_per_iteration=8.0)


@scenario(machine="t4")
async def small_and_large(run: Run, threads: int = 2, configuration: str = "copy") -> dict[str, int]:
    """Each thread maps a small and a large array, and its kernel reads both."""

    async def body(t: omp.HostThread) -> None:
        maps = omp.map(to=[t.array("small", 64), t.array("large", 1 << 16)])
        async with t.target_data(maps):
            await t.target(LOOK, teams=8, iterations=1 << 16)

    await run.parallel(body, num_threads=threads)
    return {"copied_bytes": run.statistics.bytes_moved["h2d"]}


@scenario(machine="t4")
async def queues(run: Run, threads: int = 2) -> None:
    """Each thread copies an array to the device and submits kernels to its own queue."""
    run.options = toy.ToyOptions()

    async def body(t: toy.HostThread) -> None:
        array = t.array("a", 1 << 16)
        await t.memcpy(await t.malloc_device(array), array)
        for _ in range(3):
            await t.parallel_for(LOOK, iterations=1 << 16)

    await run.parallel(body, num_threads=threads)
