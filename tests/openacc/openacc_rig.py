"""An OpenACC program on an emulated machine, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from offloadrt import openacc as acc
from offloadrt.machine import Machine
from offloadrt.sim import Simulation
from offloadrt.trace import Calls, Trace, events


@attrs.define
class Rig:
    """A program and what it runs on."""

    sim: Simulation
    machine: Machine
    program: acc.OpenACC
    trace: Trace
    calls: Calls

    def run(self, body: Callable[[acc.HostThread], Awaitable[Any]], num_threads: int = 1) -> list[Any]:
        """`body` in so many host threads, then the end of the program; what they return."""

        async def main() -> list[Any]:
            returned = await self.program.parallel(body, num_threads)
            await self.program.finish()
            return returned

        return self.sim.run(main)

    def alone(self, body: Callable[[acc.HostThread], Awaitable[Any]]) -> Any:
        """`body` in one host thread."""
        return self.run(body)[0]

    def calls_of(self, api: str) -> int:
        """How often the driver's function was called."""
        return self.calls.count(api)

    def events(self, kind: type[Any]) -> list[Any]:
        """The events of one kind, in order."""
        return [event for event in self.trace.events if isinstance(event, kind)]

    def kernel_spans(self) -> list[tuple[str, int, int]]:
        """Name, begin and end (in picoseconds) of every kernel, in the order of their submission."""
        names = {event.kernel: event.name for event in self.events(events.KernelSubmit)}
        begins = {event.kernel: event.time_ps for event in self.events(events.KernelStart)}
        ends = {event.kernel: event.time_ps for event in self.events(events.KernelEnd)}
        return [(name, begins[number], ends[number]) for number, name in names.items()]

    def assert_clean(self) -> None:
        """Nothing is mapped, allocated or locked any more."""
        for device in self.program.devices:
            assert [entry for entry in device.table if entry.owned] == []
            assert len(device.blocks) == 0
            assert device.memory.allocated_bytes == 0
        for name, lock in self.program.locks().items():
            assert lock.wait_s >= 0.0, name


MakeRig = Callable[..., Rig]
"""The fixture of this folder."""
