"""Runs of several ranks for the tests of messages: `played` returns what each rank's main function returned."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from offloadrt import Run
from offloadrt.models.host.process import Process


def run_of(ranks: int, gear: str = "turbo", machine: str = "alex-a100", **entries: object) -> Run:
    """A run of so many ranks; `nic__bw="10 GB/s"` sets the entry nic.bw."""
    overrides = {key.replace("__", "."): str(value) for key, value in entries.items()}
    run = Run(machine=machine, overrides=overrides, gear=gear, record=True)
    run.configure(num_processes=ranks)
    return run


def finished(run: Run, main: Callable[[Process], Awaitable[Any]]) -> list[Any]:
    """Run the ranks to their end, and return what they return."""

    async def all_of_it() -> list[Any]:
        results = await run.mpiexec(main)
        await run.finish()
        return results

    found: list[Any] = run.sim.run(all_of_it)
    return found
