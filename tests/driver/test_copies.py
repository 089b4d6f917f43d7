"""Copies: pinned and pageable, when bytes are read and written, and how long they take."""

import numpy as np
import pytest

from offloadrt.machine import load
from offloadrt.trace import events

SPEC = load("alex-a100")
KIB, MIB = 1 << 10, 1 << 20
MEMCPY, LINK = SPEC.value("host.memcpy_1t"), SPEC.value("link.h2d_pinned")
SUBMIT, LATENCY, WAKE = SPEC.value("driver.copy_submit"), SPEC.value("copy.latency"), SPEC.value("sync.latency")


def copying(rig, nbytes, body, overrides=None, phantom=False):
    """Run ``body(driver, stream, block, now)`` with a block of ``nbytes`` on the device."""
    hardware = rig(overrides)

    async def main():
        stream = await hardware.driver.streams.create()
        block = await hardware.driver.memory.alloc(nbytes, phantom=phantom)
        return await body(hardware, stream, block)

    return hardware.run(main), hardware


@pytest.mark.parametrize("nbytes", [8, 64 * KIB])
def test_a_small_pageable_copy_is_staged_then_submitted(rig, nbytes):
    async def body(hardware, stream, block):
        begin = hardware.sim.now
        await hardware.driver.copies.htod(block, hardware.buffer(nbytes), nbytes, stream)
        returned = hardware.sim.now - begin
        await hardware.driver.streams.synchronize(stream)
        return returned, hardware.sim.now - begin

    (returned, arrived), _ = copying(rig, nbytes, body)
    assert returned == pytest.approx(nbytes / MEMCPY + SUBMIT)
    assert arrived == pytest.approx(nbytes / MEMCPY + SUBMIT + LATENCY + nbytes / LINK + WAKE)


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_engines_that_use_the_page_table_of_the_host_need_no_staging(rig, direction):
    async def body(hardware, stream, block):
        begin = hardware.sim.now
        if direction == "h2d":
            await hardware.driver.copies.htod(block, hardware.buffer(MIB), MIB, stream)
        else:
            await hardware.driver.copies.dtoh(hardware.buffer(MIB), block, MIB, stream)
        return hardware.sim.now - begin

    took, hardware = copying(rig, MIB, body, {"ats.copies": True})
    link = SPEC.value(f"link.{direction}_pinned")
    assert took == pytest.approx(SUBMIT + LATENCY + MIB / link + WAKE)
    assert hardware.machine.host_memory.statistics().bytes == 0


def test_such_a_copy_has_moved_its_bytes_when_the_call_returns(rig):
    async def body(hardware, stream, block):
        source = hardware.buffer(np.zeros(8))
        source.bytes[:] = 7
        await hardware.driver.copies.htod(block, source, 64, stream)
        source.bytes[:] = 9
        target = hardware.buffer(np.zeros(8))
        await hardware.driver.copies.dtoh(target, block, 64, stream)
        return target.bytes.tolist()

    got, _ = copying(rig, 64, body, {"ats.copies": True})
    assert got == [7] * 64


def test_a_pinned_copy_returns_at_once(rig):
    async def body(hardware, stream, block):
        source = hardware.buffer(MIB)
        await hardware.driver.pinning.register(source.address, MIB)
        begin = hardware.sim.now
        await hardware.driver.copies.htod(block, source, MIB, stream)
        returned = hardware.sim.now - begin
        await hardware.driver.streams.synchronize(stream)
        return returned, hardware.sim.now - begin

    (returned, arrived), hardware = copying(rig, MIB, body)
    assert returned == pytest.approx(SUBMIT)
    assert arrived == pytest.approx(SUBMIT + LATENCY + MIB / LINK + WAKE)
    assert {row.memory for row in hardware.trace.events if isinstance(row, events.CopyEnd)} == {"pinned"}


def test_a_pageable_copy_from_the_device_returns_with_the_bytes(rig):
    async def body(hardware, stream, block):
        begin = hardware.sim.now
        target = hardware.buffer(np.zeros(1000))
        hardware.driver.device.memory.view(block, 8000).view(float)[:] = np.arange(1000.0)
        await hardware.driver.copies.dtoh(target, block, 8000, stream)
        assert target.bytes.view(float).tolist() == list(range(1000))
        return hardware.sim.now - begin

    seconds, _ = copying(rig, 8000, body)
    assert seconds == pytest.approx(SUBMIT + LATENCY + 8000 / SPEC.value("link.d2h_pinned") + WAKE + 8000 / MEMCPY)


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("nbytes", [8, 3 * MIB + 24])
def test_bytes_go_there_and_back(rig, pinned, nbytes):
    values = np.random.default_rng(1).integers(0, 256, nbytes, dtype=np.uint8)

    async def body(hardware, stream, block):
        driver = hardware.driver
        source, target = hardware.buffer(values), hardware.buffer(np.zeros(nbytes, np.uint8))
        await driver.copies.htod(block, source, nbytes, stream, pinned=pinned)
        other = await driver.memory.alloc(nbytes)
        await driver.copies.dtod(other, block, nbytes, stream)
        await driver.copies.dtoh(target, other, nbytes, stream, pinned=pinned)
        await driver.streams.synchronize(stream)
        return target.bytes.copy()

    back, hardware = copying(rig, nbytes, body)
    assert (back == values).all()
    assert hardware.machine.devices[0].bytes_moved() == {"h2d": nbytes, "d2h": nbytes, "d2d": nbytes, "p2p": 0}


@pytest.mark.parametrize(("pinned", "arrives"), [(False, 1.0), (True, 2.0)])
def test_pageable_bytes_are_read_in_the_call_and_pinned_ones_at_the_end(rig, pinned, arrives):
    async def body(hardware, stream, block):
        source = hardware.buffer(np.ones(1))
        await hardware.driver.copies.htod(block, source, 8, stream, pinned=pinned)
        source.bytes.view(float)[0] = 2.0
        await hardware.driver.streams.synchronize(stream)
        return hardware.driver.device.memory.view(block, 8).view(float)[0]

    assert copying(rig, 8, body)[0] == arrives


def test_a_large_pageable_copy_overlaps_staging_and_transfer(rig):
    async def body(hardware, stream, block):
        begin = hardware.sim.now
        await hardware.driver.copies.htod(block, hardware.buffer(64 * MIB), 64 * MIB, stream)
        await hardware.driver.streams.synchronize(stream)
        return hardware.sim.now - begin

    seconds, hardware = copying(rig, 64 * MIB, body, phantom=True)
    staging = 64 * MIB / MEMCPY + 64 * SUBMIT  # the host is the slower of the two
    assert seconds == pytest.approx(staging + LATENCY + MIB / LINK + WAKE)
    assert hardware.machine.statistics()["device 0 copy engine h2d"].transfers == 64


def test_a_slow_link_fills_the_staging_memory(rig):
    async def body(hardware, stream, block):
        begin = hardware.sim.now
        await hardware.driver.copies.htod(block, hardware.buffer(16 * MIB), 16 * MIB, stream)
        await hardware.driver.streams.synchronize(stream)
        return hardware.sim.now - begin

    seconds, _ = copying(rig, 16 * MIB, body, {"link.h2d_pinned": "1 GB/s"}, phantom=True)
    assert seconds == pytest.approx(16 * MIB / 1e9, rel=0.02)


@pytest.mark.parametrize("direction", ["htod", "dtoh"])
def test_halving_the_chunk_moves_results_by_less_than_two_percent(rig, direction):
    def seconds(chunk):
        async def body(hardware, stream, block):
            begin = hardware.sim.now
            ends = (block, hardware.buffer(100 * MIB))
            await getattr(hardware.driver.copies, direction)(
                *(ends if direction == "htod" else ends[::-1]), 100 * MIB, stream
            )
            await hardware.driver.streams.synchronize(stream)
            return hardware.sim.now - begin

        return copying(rig, 100 * MIB, body, {"staging.chunk": chunk}, phantom=True)[0]

    assert seconds("512 KiB") == pytest.approx(seconds("1 MiB"), rel=0.02)


def test_doubling_all_rates_halves_the_time(rig):
    spec = load("alex-a100")

    def seconds(factor):
        scaled = {}
        for key, entry in spec.entries.items():
            if entry.reference or isinstance(entry.value, (bool, str)) or not entry.value:
                continue
            if entry.unit.is_rate:
                scaled[key] = entry.value * factor / entry.unit.factor
            elif entry.unit.dimension.startswith("time"):
                scaled[key] = entry.value / factor / entry.unit.factor

        async def body(hardware, stream, block):
            await hardware.driver.copies.htod(block, hardware.buffer(9 * MIB), 9 * MIB, stream)
            await hardware.driver.kernels.memset(block, 0, MIB, stream)
            await hardware.driver.copies.dtoh(hardware.buffer(MIB), block, MIB, stream)
            await hardware.driver.memory.free(block)
            return hardware.sim.now

        return copying(rig, 9 * MIB, body, scaled, phantom=True)[0]

    assert seconds(2.0) == pytest.approx(seconds(1.0) / 2)


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
@pytest.mark.parametrize("threads", [2, 4, 12])
def test_threads_that_share_a_stream_give_all_its_staging_memory_back(rig, direction, threads):
    nbytes = 8 * MIB + 24

    async def body(hardware, stream, block):
        async def copy():
            if direction == "h2d":
                await hardware.driver.copies.htod(block, hardware.buffer(nbytes), nbytes, stream)
            else:
                await hardware.driver.copies.dtoh(hardware.buffer(nbytes), block, nbytes, stream)

        async def several():
            for _ in range(3):
                await copy()

        async def alone():
            begin = hardware.sim.now
            await copy()
            await hardware.driver.streams.synchronize(stream)
            return hardware.sim.now - begin

        before = await alone()
        async with hardware.sim.open_nursery() as nursery:
            for _ in range(threads):
                nursery.spawn(several)
        await hardware.driver.streams.synchronize(stream)
        return before, await alone()

    (before, after), hardware = copying(rig, nbytes, body, phantom=True)
    assert after == pytest.approx(before)
    moved = hardware.machine.statistics()[f"device 0 copy engine {direction}"].bytes
    assert moved == (3 * threads + 2) * nbytes
