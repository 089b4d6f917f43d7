"""Unit costs as they come out, beside the published ones from which entries of the profiles are taken."""

from __future__ import annotations

import pytest

from offloadrt.driver import CudaDriver
from offloadrt.kernels import Kernel
from offloadrt.machine import Machine, load
from offloadrt.runtime.host_array import HostSpan
from offloadrt.sim import Simulation

EMPTY = Kernel("empty").launch(1)
LAUNCHES, NBYTES = 1000, 32_000_000
ENDS = ("low", "high")


def launches(machine: str, end: str, fenced: bool) -> float:
    """Return the seconds of one of many launches, each waited for or all together."""
    sim = Simulation()
    driver = CudaDriver.of(Machine(sim, load(machine, range_end=end)))  # type: ignore[arg-type]  # an end of the ranges

    async def main() -> float:
        stream = await driver.streams.create()
        begin = sim.now
        for _ in range(LAUNCHES):
            await driver.kernels.launch(EMPTY, (), stream)
            if fenced:
                await driver.streams.synchronize(stream)
        await driver.streams.synchronize(stream)
        return (sim.now - begin) / LAUNCHES

    return sim.run(main)


@pytest.mark.parametrize(("fenced", "published"), [(False, 3.36e-6), (True, 9.9e-6)])
def test_launches_of_empty_kernels_on_a_v100(fenced: bool, published: float) -> None:
    low, high = (launches("dgx1-v100", end, fenced) for end in ENDS)
    assert low < published < 1.05 * high


def pageable(machine: str, end: str, to_device: bool) -> float:
    """Return the bytes/s of a copy of 32 MB between a device and memory that is not page-locked."""
    sim = Simulation()
    hardware = Machine(sim, load(machine, range_end=end))  # type: ignore[arg-type]  # an end of the ranges
    driver = CudaDriver.of(hardware)

    async def main() -> float:
        stream, block = await driver.streams.create(), await driver.memory.alloc(NBYTES, phantom=True)
        host = HostSpan(hardware.host_memory.allocate(NBYTES), NBYTES)
        hardware.host_memory.pages.insert(host.address, host.address + NBYTES)
        begin = sim.now
        if to_device:
            await driver.copies.htod(block, host, NBYTES, stream)
        else:
            await driver.copies.dtoh(host, block, NBYTES, stream)
        await driver.streams.synchronize(stream)
        return NBYTES / (sim.now - begin)

    return sim.run(main)


@pytest.mark.parametrize(
    ("machine", "to_device", "published"),
    [
        ("alex-a100", True, 10.0e9), ("alex-a100", False, 10.8e9), ("dgx1-v100", True, 5.5e9),
        ("summitdev-p100", True, 14.1e9), ("summitdev-p100", False, 13.9e9),
    ],
)  # fmt: skip
def test_pageable_copies_are_as_fast_as_published(machine: str, to_device: bool, published: float) -> None:
    low, high = (pageable(machine, end, to_device) for end in ENDS)
    assert 0.9 * low < published < 1.15 * high
