"""Host threads that do nothing but take a lock: what does its hand-over cost by the number of threads that share it?"""

from __future__ import annotations

from typing import Annotated

from offloadrt import Range, Run, scenario
from offloadrt.papers.independent.programs.managed import contend
from offloadrt.study.scripts.parameters import Value

LISTED_AS = "single mechanisms"


@scenario(machine="e5-2680v4", sweep={"sharing": (1, 2, 4, 8, 16, 32, 64)})
async def mutex(
    run: Run,
    sharing: Annotated[int, Range(1, 1024)] = 2,
    threads: Annotated[int, Range(1, 4096)] = 56,
    inside: Annotated[int, Range(0, 1_000_000)] = 100,
    outside: Annotated[int, Range(0, 1_000_000)] = 1000,
    turn_ns: Annotated[float, Range(0.0, 1000.0)] = 0.8,
    lock_ns: Annotated[float, Range(0.0, 10_000.0)] = 16.4,
    milliseconds: Annotated[float, Range(1e-3, 1e6)] = 2.0,
    reported_s: Annotated[float, Range(1e-6, 1e6)] = 4.0,
) -> dict[str, Value]:
    """Groups of threads share a mutex each, like a `std::mutex` of the run-time library.

    Parameters:
        sharing: threads that share a mutex
        threads: threads in all; where several groups fit there are as many mutexes
        inside: turns of a loop under the lock
        outside: turns of a loop without it
        turn_ns: what a turn takes
        lock_ns: what lock and unlock take that nobody waits for, and what stands around the loops
        milliseconds: how long it is emulated
        reported_s: seconds for which `operations` says how many there are
    """
    total = max(threads, sharing) // sharing * sharing
    seconds = milliseconds * 1e-3
    inside_s, outside_s = (inside * turn_ns + lock_ns) * 1e-9, outside * turn_ns * 1e-9
    done = await contend(run, sharing, total, inside_s, outside_s, seconds)
    elapsed = run.elapsed
    return {
        "operation_s": elapsed * total / done,
        "operations": done / elapsed * reported_s,
        "waited_share": run.statistics.host_time.seconds.get("threads", 0.0) / (elapsed * total),
    }
