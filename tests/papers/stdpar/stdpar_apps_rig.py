"""Runs of the applications in C++ standard parallelism, for the tests of this folder."""

from __future__ import annotations

from typing import Any

from offloadrt import stdpar as std
from offloadrt.papers.stdpar.programs import Application, ApplicationOutcome, Stopwatch
from offloadrt.study import execute, find_scenario
from offloadrt.study.running.run import Run


def play(
    program: Application, machine: str = "isambard-a100", implementation: str | std.Implementation = "acpp"
) -> tuple[Run, ApplicationOutcome, dict[str, float | int]]:
    """The run, what the application gave, and what was counted while it was timed."""
    run = Run(machine=machine)
    run.options = std.StdParOptions(implementation=implementation)
    stopwatch = Stopwatch(run)

    async def body(t: std.HostThread) -> ApplicationOutcome:
        return await program.run(t, stopwatch.timed)

    async def main() -> ApplicationOutcome:
        outcome: ApplicationOutcome = (await run.parallel(body))[0]
        await run.finish()
        return outcome

    found: ApplicationOutcome = run.sim.run(main)
    return run, found, stopwatch.figures()


def measured(machine: str = "isambard-a100", **parameters: Any) -> dict[str, Any]:
    """What the scenario measures."""
    return dict(execute(find_scenario("stdpar"), parameters, machine=machine).measured)
