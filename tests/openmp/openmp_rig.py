"""An OpenMP program on an emulated machine, for the tests of this folder."""

from __future__ import annotations

import importlib
import os
from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from offloadrt import kernel
from offloadrt import openmp as omp
from offloadrt.machine import Machine
from offloadrt.sim import Simulation
from offloadrt.trace import Calls, Trace


@attrs.define
class Rig:
    """A program and what it runs on."""

    sim: Simulation
    machine: Machine
    program: omp.OpenMP
    trace: Trace
    calls: Calls

    def run(self, body: Callable[[omp.HostThread], Awaitable[Any]], num_threads: int = 1) -> list[Any]:
        """`body` in so many host threads; what they return."""

        async def main() -> list[Any]:
            returned = await self.program.parallel(body, num_threads)
            for device in self.program.devices:
                await device.plugin.unload()
            return returned

        return self.sim.run(main)

    def alone(self, body: Callable[[omp.HostThread], Awaitable[Any]]) -> Any:
        """`body` in one host thread."""
        return self.run(body)[0]

    @property
    def device(self) -> Any:
        return self.program.devices[0]

    def assert_clean(self) -> None:
        """Nothing is mapped, allocated or locked any more."""
        for device in self.program.devices:
            if "OFFLOADRT_CORE_ONLY" not in os.environ:  # whose invariants an extension lists
                violations = importlib.import_module("offloadrt.extensions.exploring.invariants").violations
                assert violations(device) == []
            assert [entry for entry in device.table if entry.owned] == []
            assert len(device.blocks) == 0


MakeRig = Callable[..., Rig]


@kernel
def scale(a, s):  # type: ignore[no-untyped-def]  # a kernel's arguments are views of device memory
    a[:] = s * a[:]


SLOW_TABLE = {"table.lookup": "1 ms", "table.handover": "0 us"}


def mapped(rig: MakeRig, threads: int, overrides: dict[str, object]) -> Any:
    """Each thread maps ten arrays of its own."""
    made = rig(overrides)

    async def body(t: omp.HostThread) -> None:
        for i in range(10):
            async with t.target_data(omp.map(tofrom=t.array(f"a{i}", 16))):
                pass

    made.run(body, threads)
    return made
