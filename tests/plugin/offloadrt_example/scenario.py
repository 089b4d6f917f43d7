"""A scenario."""

from offloadrt import Kernel, Run, scenario
from offloadrt import openmp as omp

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
