"""What a copy between host and device takes by its size, from pinned or pageable memory."""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, cuda, scenario
from offloadrt.papers.independent.programs import managed
from offloadrt.papers.independent.programs.managed import CopyDirection, CopyKind, MeanTime
from offloadrt.study.scripts.parameters import Value

LISTED_AS = "single mechanisms"


@scenario(machine="alex-a100", sweep={"nbytes": (1 << 10, 1 << 16, 1 << 22, 1 << 28), "memory": ("pinned", "pageable")})
async def link_copies(
    run: Run,
    direction: CopyDirection = "h2d",
    memory: CopyKind = "pinned",
    nbytes: Annotated[int, Range(1, 1 << 40)] = 1 << 20,
    threads: Annotated[int, Range(1, 1024)] = 1,
    repeats: Annotated[int, Range(1, 1_000_000)] = 10,
) -> dict[str, Value]:
    """Each host thread copies the same bytes again and again, and waits for each copy.

    Parameters:
        direction: h2d (to the device) or d2h
        memory: of the host
        nbytes: of a copy
        threads: host threads
        repeats: of each thread
    """
    run.options = cuda.CUDAOptions(phantom=True)
    times = {"copy": MeanTime(run)}
    await run.parallel(lambda t: managed.copies(t, times, direction, memory, nbytes, repeats), threads)
    return {"copy_s": times["copy"].mean_s, "copy_bytes_per_s": nbytes / times["copy"].mean_s}
