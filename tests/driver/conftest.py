"""A machine with its driver in virtual time, for the tests of this folder."""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import numpy as np
import pytest

from offloadrt.driver import Driver
from offloadrt.machine import HostBuffer, Machine, load
from offloadrt.sim import Simulation
from offloadrt.trace import Calls, Trace


@attrs.define
class Rig:
    """A machine, the driver of its first device, and what is needed to run something on them."""

    sim: Simulation
    machine: Machine
    driver: Driver
    calls: Calls
    trace: Trace

    def run(self, main: Callable[[], Awaitable[Any]]) -> Any:
        return self.sim.run(main)

    def buffer(self, values: Any) -> HostBuffer:
        """Host memory that holds ``values``; a number of bytes makes a phantom."""
        if isinstance(values, int):
            return HostBuffer(self.machine.host_memory.allocate(values), values)
        flat = np.asarray(values).reshape(-1).view(np.uint8)
        return HostBuffer(self.machine.host_memory.allocate(flat.size), flat.size, flat)

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
    def make(overrides: dict[str, object] | None = None, gear: Any = "turbo", devices: int = 1) -> Rig:
        sim = Simulation(gear=gear)
        trace = Trace(sim)
        sim.observer = trace
        calls = Calls()
        machine = Machine(sim, load("alex-a100", overrides), trace, calls, devices)
        return Rig(sim, machine, Driver.of(machine), calls, trace)

    return make
