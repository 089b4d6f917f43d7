"""HIP's copies of pageable memory: above a threshold they lock the program's pages piece by piece."""

import numpy as np
import pytest

from offloadrt.machine import load

KIB, MIB = 1 << 10, 1 << 20
N = 5
LOCK, UNLOCK, PER_GIB = 7e-6, 2e-6, 0.1
COSTS = {"hip.pin_from": "64 KiB", "hip.pin": "7 us", "hip.unpin": "2 us", "hip.pin_per_gib": PER_GIB}
FREE = dict.fromkeys(["driver.copy_submit", "driver.stream_create", "sync.latency", "copy.latency"], 0.0)


def locking(nbytes):
    return LOCK + PER_GIB * nbytes / (1 << 30)


def copying(rig, nbytes, overrides=None, threads=1, direction="h2d"):
    """Threads copy once each; the seconds of the slowest, and the rig."""
    hardware = rig({**COSTS, **FREE, **(overrides or {})})
    driver = hardware.driver

    async def body(stream, block):
        copy = driver.copies.htod(block, hardware.buffer(nbytes), nbytes, stream)
        if direction == "d2h":
            copy.close()
            copy = driver.copies.dtoh(hardware.buffer(nbytes), block, nbytes, stream)
        await copy

    async def main():
        own = [(await driver.streams.create(), await driver.memory.alloc(nbytes, phantom=True)) for _ in range(threads)]
        begin = hardware.sim.now
        async with hardware.sim.open_nursery() as nursery:
            for number, (stream, block) in enumerate(own):
                nursery.spawn(body, stream, block, name=f"host thread {number}")
        return hardware.sim.now - begin

    return hardware.run(main), hardware


def link(direction):
    return load("alex-a100").value(f"link.{direction}_pinned")


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_a_larger_copy_locks_copies_and_unlocks(rig, direction):
    took, hardware = copying(rig, MIB, direction=direction)
    assert took == pytest.approx(locking(MIB) + MIB / link(direction) + UNLOCK)
    assert hardware.driver.locks()["page locking"].acquired == 2


def test_a_long_copy_goes_piece_by_piece(rig):
    took, hardware = copying(rig, 3 * MIB, {"hip.pin_piece": "1 MiB"})
    assert took == pytest.approx(3 * (locking(MIB) + UNLOCK) + 3 * MIB / link("h2d"))
    assert hardware.driver.locks()["page locking"].acquired == 6


@pytest.mark.parametrize("threshold", ["0 B", "64 KiB"])
def test_a_copy_up_to_the_threshold_is_staged_as_all_are_by_cuda(rig, threshold):
    nbytes = MIB if threshold == "0 B" else 64 * KIB
    _, hardware = copying(rig, nbytes, {"hip.pin_from": threshold})
    assert "page locking" not in hardware.driver.locks()


@pytest.mark.parametrize("direction", ["h2d", "d2h"])
def test_the_bytes_arrive(rig, direction):
    values = np.random.default_rng(3).integers(0, 256, 3 * MIB + 5, dtype=np.uint8)
    hardware = rig({**COSTS, "hip.pin_piece": "1 MiB"})

    async def main():
        driver = hardware.driver
        stream, block = await driver.streams.create(), await driver.memory.alloc(values.size)
        view, back = driver.device.memory.view(block, values.size), hardware.buffer(np.zeros_like(values))
        if direction == "h2d":
            await driver.copies.htod(block, hardware.buffer(values), values.size, stream)
            return view
        view[:] = values
        await driver.copies.dtoh(back, block, values.size, stream)
        return back.bytes

    assert (hardware.run(main) == values).all()


OWN_LINK = {"link.uncontended": True, "copy_engine.uncontended": True}


def test_the_service_does_not_depend_on_the_number_of_threads_and_the_loss_is_the_waiting(rig):
    settings = OWN_LINK | {"hip.pin_per_gib": 1.0}
    (alone, one), (together, many) = (copying(rig, MIB, settings, threads) for threads in (1, N))
    single, shared = (hardware.driver.locks()["page locking"] for hardware in (one, many))
    assert together > 1.5 * alone, "this test contends for nothing"
    assert shared.hold_s / shared.acquired == pytest.approx(single.hold_s / single.acquired)
    assert many.machine.host_time.seconds["driver lock"] == pytest.approx(shared.wait_s)


def test_without_contention_every_thread_takes_the_time_of_one(rig):
    settings = OWN_LINK | {"hip.pin_per_gib": 1.0, "hip.pin.uncontended": True}
    alone, _ = copying(rig, MIB, settings)
    assert copying(rig, MIB, settings, N)[0] == pytest.approx(alone)
