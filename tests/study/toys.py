"""Scenarios for the tests of study/ and of the command line: they need virtual time and no machine."""

from __future__ import annotations

from typing import Annotated, Literal

from offloadrt import Figure, ParameterError, Range, Run, scenario
from offloadrt.sim import Lock


@scenario(
    figure=Figure(x="threads", y="per_thread_s", lines="policy"),
    sweep={"threads": (1, 2, 4), "policy": ("fair", "rude")},
)
async def queueing(
    run: Run,
    threads: Annotated[int, Range(1, 64)] = 2,
    hold_s: Annotated[float, Range(0, None)] = 0.5,
    policy: Literal["fair", "rude"] = "fair",
    note: str | None = None,
) -> dict[str, float | int | str | None]:
    """Threads that queue at one lock.

    The elapsed time is threads times hold_s; nothing else takes time.

    Parameters:
        threads: how many queue at the lock
        hold_s: seconds that each holds it,
            once
        policy: makes no difference
        note: comes back as a figure
    """
    lock = Lock(run.sim, "the lock")

    async def body() -> None:
        async with lock:
            await run.sim.sleep(hold_s)

    async with run.sim.open_nursery() as nursery:
        for _ in range(threads):
            nursery.spawn(body)
    return {"per_thread_s": run.elapsed / threads, "contended": lock.statistics().contended, "note": note}


@scenario
async def picky(run: Run, left: int = 1, right: int = 2, bang: bool = False) -> None:
    """Refuses equal parameters, and raises when told to."""
    if left == right:
        raise ParameterError("right", "must differ from left")
    await run.sim.sleep(1.0)
    if bang:
        await _deep(run)


async def _deep(run: Run) -> None:
    await run.sim.sleep(1.0)
    raise ZeroDivisionError("as told")


@scenario
async def drawn(run: Run) -> dict[str, float]:
    """Takes a time drawn from the run's generator."""
    async with run.measure():
        await run.sim.sleep(float(run.sim.rng.uniform(1, 2)))
    await run.sim.sleep(10.0)
    return {}
