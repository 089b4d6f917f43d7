"""Several devices with links between them, each with its driver, for the tests of this folder."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import numpy as np

from offloadrt.driver import CudaDriver
from offloadrt.machine import Machine, Stream, load
from offloadrt.sim import Simulation
from offloadrt.trace import Calls, Trace

FREE_CALLS: dict[str, object] = dict.fromkeys(
    ["driver.copy_submit", "driver.handover", "driver.sync_idle", "sync.latency"], 0.0
)
"""Calls that cost nothing, so that copies meet at engines and links only."""


@attrs.frozen
class Peer:
    """One device: its driver, and a block on it."""

    driver: CudaDriver
    block: int


@attrs.define
class PeerRig:
    """A machine whose devices have a block of ``nbytes`` each and, where they have a link, access to each other."""

    sim: Simulation
    machine: Machine
    calls: Calls
    trace: Trace
    drivers: list[CudaDriver]
    nbytes: int
    access: bool
    phantom: bool
    peers: list[Peer] = attrs.field(factory=list)

    def run(self, main: Callable[[], Awaitable[Any]]) -> Any:
        """``main`` when all is set up."""

        async def started() -> Any:
            for driver in self.drivers:
                self.peers.append(Peer(driver, await driver.memory.alloc(self.nbytes, phantom=self.phantom)))
                for peer in range(len(self.drivers)):
                    if self.access and await driver.peers.can_access(peer):
                        await driver.peers.enable_access(peer)
            return await main()

        return self.sim.run(started)

    async def copy(
        self, stream: Stream, source: int, destination: int, nbytes: int | None = None, pull: bool = False
    ) -> None:
        """From the block of one device to that of another, in a stream of the source, or with ``pull`` of the other."""
        driver = self.drivers[destination if pull else source]
        ends = (destination, self.peers[destination].block, source, self.peers[source].block)
        await driver.peers.copy(stream, None, *ends, self.nbytes if nbytes is None else nbytes)
        await driver.streams.synchronize(stream)

    def together(self, *copies: tuple[int, int], pull: bool = False) -> list[float]:
        """Copies (source, destination), all at once; the virtual seconds that each of them takes."""
        took = [0.0] * len(copies)

        async def timed(place: int, stream: Stream) -> None:
            begin = self.sim.now
            await self.copy(stream, *copies[place], pull=pull)
            took[place] = self.sim.now - begin

        async def main() -> None:
            streams = [await self.drivers[copy[1 if pull else 0]].streams.create() for copy in copies]
            async with self.sim.open_nursery() as nursery:
                for place, stream in enumerate(streams):
                    nursery.spawn(timed, place, stream, name=f"host thread {place}")

        self.run(main)
        return took

    def values(self, device: int) -> np.ndarray[Any, Any]:
        """The bytes of a device's block."""
        return self.drivers[device].device.memory.view(self.peers[device].block, self.nbytes)

    def moved(self, direction: str) -> int:
        """Bytes that all devices have moved."""
        return math.fsum(device.bytes_moved()[direction] for device in self.machine.devices).__int__()

    def link(self, source: int, destination: int) -> Any:
        """Statistics of a link."""
        assert self.machine.peers is not None
        return self.machine.peers.links[source, destination].statistics()


def peer_rig(
    devices: int,
    overrides: dict[str, object] | None = None,
    *,
    nbytes: int = 10**6,
    access: bool = True,
    phantom: bool = True,
    gear: Any = "turbo",
    one_process: bool = False,
) -> PeerRig:
    """A DGX-1 with calls that cost nothing; each device has a process of its own, unless all belong to one."""
    sim = Simulation(gear=gear)
    trace, calls = Trace(sim), Calls()
    sim.observer = trace
    machine = Machine(sim, load("dgx1-v100", {**FREE_CALLS, **(overrides or {})}), trace, calls, devices)
    separate = [CudaDriver.of(machine, number) for number in range(devices)]
    drivers = CudaDriver.open([machine], devices)[0] if one_process else separate
    return PeerRig(sim, machine, calls, trace, drivers, nbytes, access, phantom)
