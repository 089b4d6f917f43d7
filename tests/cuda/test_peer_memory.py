"""Kernels that use memory of a peer device in place: its bytes move over the link between the devices at each use."""

import numpy as np
import pytest
from cuda_rig import run_of

from offloadrt.driver import DriverError
from offloadrt.kernels import kernel

N = 1 << 21


@kernel
def take(source, result, n):
    for i in range(n):
        result[i] = source[i] + 1.0
        source[i] = 2.0


async def two_arrays(t, n):
    """An array of device 1 and one of device 0, which is the current device at the end."""
    await t.set_device(1)
    there = await t.malloc(n, np.float64)
    await t.set_device(0)
    return there, await t.malloc(n, np.float64)


def taking(uses=1, **settings):
    """Seconds until kernels of device 0 have read and written an array of device 1, and the run."""

    async def body(t):
        there, here = await two_arrays(t, N)
        await t.device_enable_peer_access(1)
        begin = t.sim.now
        for _ in range(uses):
            await t.launch(take, there, here, N, grid=1024, block=256)
        await t.device_synchronize()
        return t.sim.now - begin

    run, seconds = run_of(body, "a100-node4", settings=settings, num_devices=2, phantom=True)
    return seconds, run


def test_a_kernel_moves_a_peers_memory_over_the_link_at_each_use():
    once, run = taking()
    link = 4 * run.spec.value("nvlink.link_bw") * run.spec.value("numa.peer_access")
    assert once == pytest.approx(8 * N / link, rel=0.1), "both directions move at a time"
    assert taking(2)[0] == pytest.approx(2 * once, rel=0.05)
    assert not run.statistics.faults["faults"]


def test_kernels_see_and_change_a_peers_values():
    async def body(t):
        there, here = await two_arrays(t, 1000)
        ones, seen = np.ones(1000), [await t.host_alloc(name, 1000, np.float64) for name in "ab"]
        source = await t.host_alloc("ones", 1000, np.float64)
        source[:] = ones
        await t.set_device(1)
        await t.memcpy(there, source)
        await t.set_device(0)
        await t.device_enable_peer_access(1)
        await t.launch(take, there, here, 1000, grid=4, block=256)
        await t.memcpy(seen[0], here)
        await t.set_device(1)
        await t.memcpy(seen[1], there)
        return [set(map(float, values)) for values in seen]

    assert run_of(body, "a100-node4", num_devices=2)[1] == [{2.0}, {2.0}]


def test_without_peer_access_a_peers_memory_is_an_illegal_address():
    async def body(t):
        there, here = await two_arrays(t, N)
        await t.launch(take, there, here, N, grid=1024, block=256)

    with pytest.raises(DriverError, match=r"ILLEGAL_ADDRESS.*is memory of device 1.*peer access"):
        run_of(body, "a100-node4", num_devices=2, phantom=True)


def test_memory_that_takes_the_place_of_freed_peer_memory_is_reached_too():
    async def body(t):
        there, here = await two_arrays(t, 64)
        await t.device_enable_peer_access(1)
        for n in (64, 128):
            await t.launch(take, there, here, 64, grid=1, block=64)
            await t.device_synchronize()
            await t.set_device(1)
            await t.free(there)
            there = await t.malloc(n, np.float64)
            await t.set_device(0)
        await t.launch(take, there, here, 64, grid=1, block=64)
        await t.device_synchronize()

    run, _ = run_of(body, "a100-node4", num_devices=2, phantom=True)
    assert run.device().managed is not None


def test_two_devices_behind_a_switch_share_its_link_to_the_host():
    async def body(t):
        await t.set_device(t.number)
        there, pinned = await t.malloc(N, np.float64), await t.host_alloc("pinned", N, np.float64)
        stream = await t.stream_create(non_blocking=True)
        await t.barrier()
        begin = t.sim.now
        await t.memcpy_async(there, pinned, stream=stream)
        await t.stream_synchronize(stream)
        return t.sim.now - begin

    alone, both = (run_of(body, "dgx1-v100", threads=threads, num_devices=2, phantom=True)[1] for threads in (1, 2))
    assert both == pytest.approx(2 * alone, rel=0.05)
