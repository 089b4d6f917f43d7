"""Kernels that use pinned memory of the host in place: its bytes move over the link at each use, and nothing faults."""

import numpy as np
import pytest
from cuda_rig import run_of

from offloadrt.driver import DriverError
from offloadrt.kernels import kernel

N = 1 << 18
FREE = dict.fromkeys(["driver.launch", "driver.handover", "launch.gap", "sync.latency"], 0)


@kernel
def read(source, result):
    for i in range(len(source)):
        result[0] += source[i]


@kernel
def scale(a):
    for i in range(len(a)):
        a[i] *= 2.0


def reading(threads=1, uses=1, machine="alex-a100", settings=None):
    """Seconds until kernels of a thread each have read arrays of their own, and the run."""

    async def body(t):
        source = await t.host_alloc(f"source {t.number}", N, np.float64, fill=1.0)
        result, stream = await t.malloc(1, np.float64), await t.stream_create(non_blocking=True)
        await t.barrier()
        begin = t.sim.now
        for _ in range(uses):
            await t.launch(read, source, result, grid=8, block=256, stream=stream)
        await t.stream_synchronize(stream)
        await t.barrier()
        return t.sim.now - begin

    made = {
        "remote.access_bw": "20 GB/s",
        "link.h2d_pinned": "20 GB/s",
        "launch.latency": 0,
        **FREE,
        **(settings or {}),
    }
    run, took = run_of(body, machine, threads, settings=made)
    return took, run


def test_each_use_moves_all_bytes_over_the_link_and_nothing_faults():
    (once, run), (thrice, _) = reading(), reading(uses=3)
    assert once == pytest.approx(8 * N / 20e9, rel=0.05)
    assert thrice == pytest.approx(3 * once, rel=0.05)
    assert not run.statistics.faults or not any(run.statistics.faults.values())


def test_kernels_that_read_at_one_time_share_the_link():
    (alone, _), (together, _) = reading(), reading(threads=4)
    assert together == pytest.approx(4 * alone, rel=0.05)
    assert reading(threads=4, settings={"link.uncontended": True})[0] == pytest.approx(alone, rel=0.05)


def test_a_coherent_link_is_faster_than_pcie():
    def took(machine):
        async def body(t):
            source, result = await t.host_alloc("source", N, np.float64), await t.malloc(1, np.float64)
            begin = t.sim.now
            await t.launch(read, source, result, grid=1024, block=256)
            await t.device_synchronize()
            return t.sim.now - begin

        return run_of(body, machine)[1]

    assert took("alex-a100") > 5 * took("gh200")


@pytest.mark.parametrize("registered", [False, True])
def test_what_a_kernel_stores_is_there_when_it_has_ended(registered):
    async def body(t):
        if registered:
            here = t.array("here", 1000, np.float64, fill=3.0)
            await t.host_register(here)
        else:
            here = await t.host_alloc("here", 1000, np.float64, fill=3.0)
        await t.launch(scale, here, grid=4, block=256)
        before = here.values[0]
        await t.device_synchronize()
        return before, here.values.tolist()

    assert run_of(body)[1] == (3.0, [6.0] * 1000)


def test_every_device_reaches_it():
    async def body(t):
        here = await t.host_alloc("here", 1000, np.float64, fill=1.0)
        for device in range(2):
            await t.set_device(device)
            await t.launch(scale, here, grid=4, block=256)
            await t.device_synchronize()
        await t.free_host(here)
        return here.values[0]

    assert run_of(body, "a100-node4", num_devices=2)[1] == 4.0


async def passes_pageable_memory(t):
    await t.launch(scale, t.array("here", 1000, np.float64), grid=1, block=32)


async def unpins_before_the_launch(t):
    here = t.array("here", 1000, np.float64)
    await t.host_register(here)
    await t.launch(scale, here, grid=1, block=32)
    await t.device_synchronize()
    await t.host_unregister(here)
    await t.launch(scale, here, grid=1, block=32)


@pytest.mark.parametrize("body", [passes_pageable_memory, unpins_before_the_launch])
def test_pageable_memory_is_refused(body):
    why = r"cuLaunchKernel .*ILLEGAL_ADDRESS: argument 1 of kernel 'scale', array 'here', is pageable memory .*at 0\.0"
    with pytest.raises(DriverError, match=why):
        run_of(body)
