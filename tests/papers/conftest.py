"""Runs of programs for tests: `run_program(main)` gives the finished run and what `main(run)` returned."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest

from offloadrt.study import Run

MACHINE = "mi300a"
CONFIGURATIONS = ("copy", "usm", "implicit_zero_copy", "eager_maps")


@attrs.frozen
class Ran:
    """A finished run and what its program returned."""

    run: Run
    returned: Any

    def calls(self, name: str) -> int:
        """Calls of a driver function in the whole program."""
        return self.run.calls.count(name)

    def events(self, kind: str) -> list[Any]:
        """Recorded events of a kind, in order."""
        assert self.run.trace is not None
        return [event for event in self.run.trace.events if type(event).__name__ == kind]


def run_program(
    program: Callable[[Run], Awaitable[Any]],
    configuration: str = "copy",
    *,
    machine: str = MACHINE,
    phantom: bool = True,
    record: bool = False,
    gear: str = "turbo",
    seed: int = 0,
) -> Ran:
    """Run `await program(run)` on a fresh machine."""
    run = Run(machine=machine, gear=gear, seed=seed, record=record)
    run.phantom, run.configuration = phantom, configuration

    async def main() -> Any:
        returned = await program(run)
        await run.finish()
        return returned

    return Ran(run, run.sim.run(main))


@pytest.fixture(name="run_program")
def _run_program() -> Callable[..., Ran]:
    return run_program


@pytest.fixture(params=CONFIGURATIONS)
def configuration(request: pytest.FixtureRequest) -> str:
    """Each memory configuration in turn."""
    return str(request.param)
