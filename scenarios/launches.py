"""What a launch costs the host, back to back and waited for one by one, with one thread or several."""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, cuda, scenario
from offloadrt.papers.independent.programs import managed
from offloadrt.papers.independent.programs.managed import MeanTime
from offloadrt.study.scripts.parameters import Value

LISTED_AS = "single mechanisms"


@scenario(machine="alex-a100", sweep={"threads": (1, 2, 4, 8, 16)})
async def launches(
    run: Run,
    threads: Annotated[int, Range(1, 1024)] = 1,
    elements: Annotated[int, Range(1, 1 << 32)] = 1000,
    repeats: Annotated[int, Range(1, 1_000_000)] = 200,
    by_value: Annotated[int, Range(0, 1 << 20)] = 0,
) -> dict[str, Value]:
    """Each host thread adds two vectors of device memory again and again, in a stream of its own.

    Parameters:
        threads: host threads
        elements: of the vectors
        repeats: launches of each thread, first without waiting in between, then waiting for each
        by_value: bytes of a struct that is an argument of each launch
    """
    run.options = cuda.CUDAOptions(phantom=True)
    times = {name: MeanTime(run) for name in ("call", "back_to_back", "fenced")}
    await run.parallel(lambda t: managed.launches(t, times, elements, repeats, by_value), threads)
    return {f"{name}_s": time.mean_s for name, time in times.items()}
