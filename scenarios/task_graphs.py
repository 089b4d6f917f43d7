"""What a set of dependent target tasks costs the host: made anew in each step, or recorded once as a taskgraph."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from offloadrt import Range, Run, kernel, scenario
from offloadrt import openmp as omp

LISTED_AS = "single mechanisms"


@kernel(flops_per_iteration=1, bytes_per_iteration=16)
def add_one(a: Any) -> None:
    a += 1.0


@scenario(machine="alex-a100", sweep={"tasks": ("deferred", "taskgraph"), "arrays": (1, 4, 8)})
async def task_graphs(
    run: Run,
    tasks: Literal["deferred", "taskgraph"] = "taskgraph",
    arrays: Annotated[int, Range(1, 1000)] = 4,
    length: Annotated[int, Range(1, 1000)] = 5,
    steps: Annotated[int, Range(1, 1_000_000)] = 50,
    threads: Annotated[int, Range(1, 1024)] = 1,
    n: Annotated[int, Range(1, 1 << 32)] = 1 << 14,
    phantom: bool = True,
) -> dict[str, float]:
    """Each host thread has chains of target tasks, one for each of its arrays, in every step.

    Parameters:
        tasks: deferred (made in each step) or taskgraph (recorded in the first step and replayed)
        arrays: chains of a thread, which nothing orders
        length: tasks of a chain
        steps: that are timed, after a first one
        threads: of the host
        n: doubles of an array
        phantom: sizes without numbers
    """
    run.phantom = phantom

    async def body(t: omp.HostThread) -> tuple[float, float]:
        mine = [t.array(f"a{t.number}.{i}", n, fill=0.0) for i in range(arrays)]

        async def chains() -> None:
            for a in mine:
                for _ in range(length):
                    await t.target(add_one, a, teams=8, iterations=n, nowait=True, depend=omp.depend(inout=a))

        async def step() -> None:
            if tasks == "taskgraph":
                await t.taskgraph(chains)
            else:
                await chains()
                await t.taskwait()

        async with t.target_data(omp.map(tofrom=mine)):
            await t.barrier()
            begin = t.sim.now
            await step()
            first = t.sim.now - begin
            await t.barrier()
            begin = t.sim.now
            for _ in range(steps):
                await step()
            return first, (t.sim.now - begin) / steps

    times = await run.parallel(body, threads)
    return {"first_step_s": max(first for first, _ in times), "step_s": max(step for _, step in times)}
