"""What allocations and frees cost the host, with one thread or several."""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, cuda, scenario
from offloadrt.papers.independent.programs import managed
from offloadrt.papers.independent.programs.managed import Allocated, MeanTime
from offloadrt.study.scripts.parameters import Value

LISTED_AS = "single mechanisms"


@scenario(machine="alex-a100", sweep={"nbytes": (1 << 10, 1 << 20, 1 << 30), "threads": (1, 4)})
async def allocations(
    run: Run,
    memory: Allocated = "device",
    nbytes: Annotated[int, Range(1, 1 << 40)] = 1 << 20,
    threads: Annotated[int, Range(1, 1024)] = 1,
    repeats: Annotated[int, Range(1, 1_000_000)] = 100,
) -> dict[str, Value]:
    """Each host thread allocates a block and frees it, again and again.

    Parameters:
        memory: device (cudaMalloc), managed (cudaMallocManaged) or pinned (cudaMallocHost)
        nbytes: of a block
        threads: host threads
        repeats: of each thread
    """
    run.options = cuda.CUDAOptions(phantom=True)
    times = {name: MeanTime(run) for name in ("alloc", "free")}
    await run.parallel(lambda t: managed.allocations(t, times, memory, nbytes, repeats), threads)
    means = {f"{name}_s": time.mean_s for name, time in times.items()}
    return {**means, "pair_s": means["alloc_s"] + means["free_s"]}
