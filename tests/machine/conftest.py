"""A machine in virtual time, for the tests of this folder."""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest

from offloadrt.machine import Machine, load
from offloadrt.sim import Simulation
from offloadrt.trace import Trace


@attrs.define
class Rig:
    """A machine and what is needed to run something on it."""

    sim: Simulation
    machine: Machine
    trace: Trace

    def run(self, main: Callable[[], Awaitable[Any]]) -> Any:
        return self.sim.run(main)

    def together(self, *bodies: Callable[[], Awaitable[Any]]) -> list[float]:
        """Run all at once; the virtual time at which each of them ended."""
        ends = [0.0] * len(bodies)

        async def timed(place: int, body: Callable[[], Awaitable[Any]]) -> None:
            await body()
            ends[place] = self.sim.now

        async def main() -> None:
            async with self.sim.open_nursery() as nursery:
                for place, body in enumerate(bodies):
                    nursery.spawn(timed, place, body, name=f"host thread {place}")

        self.sim.run(main)
        return ends


@pytest.fixture
def rig() -> Callable[..., Rig]:
    def make(
        overrides: dict[str, object] | None = None, gear: Any = "turbo", devices: int = 1, profile: str = "alex-a100"
    ) -> Rig:
        sim = Simulation(gear=gear)
        trace = Trace(sim)
        sim.observer = trace
        return Rig(sim, Machine(sim, load(profile, overrides), trace, None, devices), trace)

    return make
