"""Runs are reproducible, in both gears, and a thread that gives up leaves everything usable."""

import numpy as np
import pytest

from offloadrt.kernels import Kernel
from offloadrt.machine import DeviceArray

MIB = 1 << 20
WORK = Kernel("work", lambda a: np.add(a, 1, out=a), 5e4, 16.0)


def offloading(rig, gear, overrides=None):
    """Eight threads that allocate, copy, compute and free, each three times."""
    hardware = rig({"cpu.cores": 5, "gpu.max_connections": 3, **(overrides or {})}, gear=gear)
    driver, results = hardware.driver, []

    async def body(number):
        stream = await driver.streams.create()
        for turn in range(3):
            data = hardware.buffer(np.full(1000 * (number + 1), float(turn)))
            block = await driver.memory.alloc(data.nbytes)
            await driver.copies.htod(block, data, data.nbytes, stream)
            view = DeviceArray(block, (data.nbytes // 8,), np.dtype(float))
            await driver.kernels.launch(WORK.launch(8 + number), [view], stream)
            await driver.copies.dtoh(data, block, data.nbytes, stream)
            await driver.streams.synchronize(stream)
            await driver.memory.free(block)
            results.append(set(data.bytes.view(float)) == {turn + 1.0})

    hardware.together(*[lambda number=number: body(number) for number in range(8)])
    assert results == [True] * 24
    return hardware


@pytest.mark.parametrize("halt", ["none", "drain_on_free", "drain_on_alloc_free", "suspend", "per_transfer"])
def test_both_gears_and_every_run_give_one_trace(rig, halt):
    overrides = {"driver.halt": halt, "driver.halt_save_restore": "1 us", "jitter": 0.05}
    runs = [offloading(rig, gear, overrides) for gear in ("turbo", "native", "turbo")]
    assert len({run.trace.hash() for run in runs}) == 1
    assert len({run.sim.now for run in runs}) == 1


def test_everything_is_accounted_for(rig):
    hardware = offloading(rig, "turbo")
    moved = 3 * sum(8000 * (number + 1) for number in range(8))
    assert hardware.machine.devices[0].bytes_moved() == {"h2d": moved, "d2h": moved, "d2d": 0, "p2p": 0}
    assert hardware.machine.devices[0].memory.allocated_bytes == 0
    parts = hardware.machine.statistics()
    assert {"cores", "host memory", "device 0 compute units", "device 0 hardware queue 2"} < set(parts)
    for name, did in parts.items():
        assert did.busy_s + did.idle_s == pytest.approx(hardware.sim.now * (5 if name == "cores" else 1)), name
        assert did.wait_s >= 0.0
    waits = hardware.driver.context.lock.statistics()
    assert hardware.machine.host_time.seconds["driver lock"] == pytest.approx(waits.wait_s)
    assert waits.hold_s <= hardware.sim.now


def after_giving_up(hardware, moment):
    """A thread gives up a cycle of calls after ``moment`` seconds, beside a kernel; seconds of its next cycle."""
    driver, sim = hardware.driver, hardware.sim
    size = 5 * MIB

    async def cycle(stream):
        block = await driver.memory.alloc(size, phantom=True)
        await driver.copies.htod(block, hardware.buffer(size), size, stream)
        await driver.kernels.launch(Kernel("work", None, 5e4).launch(108 * 16), (), stream)
        await driver.copies.dtoh(hardware.buffer(size), block, size, stream)
        await driver.memory.free(block)

    async def main():
        mine, other = await driver.streams.create(), await driver.streams.create()
        await driver.kernels.launch(Kernel("long", None, 1e7).launch(8), (), other)
        with sim.move_on_after(moment):
            await cycle(mine)
        await driver.streams.synchronize(other)
        await driver.streams.synchronize(mine)
        begin = sim.now
        await cycle(mine)
        return sim.now - begin

    return hardware.run(main)


@pytest.mark.parametrize("moment", [1e-6, 3e-4, 1e-3, 1.2e-3, 1.7e-3, 2e-3, 3e-3, 5e-3, 20e-3])
@pytest.mark.parametrize("halt", ["drain_on_alloc_free", "suspend"])
def test_a_thread_that_gives_up_leaves_everything_usable(rig, moment, halt):
    overrides = {"driver.halt": halt, "cpu.cores": 1}
    assert after_giving_up(rig(overrides), moment) == pytest.approx(after_giving_up(rig(overrides), 1.0))
