"""A machine in virtual time and what is needed to run something on it: the base of the rigs of several folders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import attrs

from offloadrt.driver import open_drivers
from offloadrt.machine import Machine, load
from offloadrt.sim import Simulation, Strategy
from offloadrt.sim.simulation import SLICE
from offloadrt.trace import Calls, Trace

R = TypeVar("R")


@attrs.define
class HardwareRig:
    """A machine, and the trace of what it does."""

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

        self.run(main)
        return ends


def hardware(
    profile: str,
    overrides: Mapping[str, object] | None = None,
    gear: Any = "turbo",
    devices: int = 1,
    calls: Calls | None = None,
    record: bool = True,
    strategy: Strategy | None = None,
    slice: int = SLICE,
) -> tuple[Simulation, Machine, Trace]:
    """The parts of a rig; with ``record`` the machine writes to the trace."""
    sim = Simulation(gear=gear, strategy=strategy, slice=slice)
    trace = Trace(sim)
    sim.observer = trace if record else None
    return sim, Machine(sim, load(profile, overrides), trace if record else None, calls, devices), trace


def rigs_of(rig: Callable[..., R], program: Callable[..., Any], options_of: Callable[..., Any]) -> Callable[..., R]:
    """Makes rigs of a programming model's program, with the options that this takes."""

    def make(
        overrides: Mapping[str, object] | None = None,
        gear: Any = "turbo",
        devices: int = 1,
        strategy: Strategy | None = None,
        slice: int = SLICE,
        machine_name: str = "alex-a100",
        **options: Any,
    ) -> R:
        calls = Calls()
        sim, machine, trace = hardware(machine_name, overrides, gear, devices, calls, strategy=strategy)
        drivers = open_drivers([machine], devices)[0]
        return rig(sim, machine, program(machine, drivers, options_of(**options), trace), trace, calls)

    return make
