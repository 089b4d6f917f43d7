"""Managed memory of a discrete device: prefetches, advice, and what the host touches."""

from __future__ import annotations

import pytest
from managed_rig import BLOCK, assert_sound, small, sweep

from offloadrt.kernels import Kernel
from offloadrt.machine.managed.sweep import ManagedAccess


@pytest.mark.parametrize("evicts", [True, False])
def test_a_prefetch_of_more_than_the_memory(uvm, evicts):
    rig = uvm(small(10) | {"prefetch_async.evicts": evicts})
    address = rig.array(14 * BLOCK, touched=True)

    async def main():
        stream = await rig.driver.streams.create()
        await rig.driver.managed.prefetch(address, 14 * BLOCK, stream)
        await rig.driver.streams.synchronize(stream)

    rig.run(main)
    assert rig.counters.bytes_htod == (14 if evicts else 10) * BLOCK
    assert rig.counters.evictions == (4 if evicts else 0)
    assert_sound(rig)


def test_with_everything_prefetched_no_kernel_faults(uvm):
    rig = uvm()
    nbytes = 30 * BLOCK
    address = rig.array(nbytes, touched=True)

    async def main():
        stream = await rig.driver.streams.create()
        await rig.driver.managed.prefetch(address, nbytes, stream)
        await rig.driver.streams.synchronize(stream)
        await rig.kernel(sweep(nbytes), ManagedAccess(address, nbytes))

    rig.run(main)
    assert rig.counters.gpu_fault_groups == 0
    assert rig.counters.bytes_htod == nbytes
    assert_sound(rig)


def test_what_prefers_the_host_is_reached_over_the_link_and_never_migrates(uvm):
    rig = uvm(small(40) | {"launch.latency": 0, "remote.access_bw": "20 GB/s"})
    kept, other = rig.array(44 * BLOCK, touched=True), rig.array(10 * BLOCK, touched=True)
    times = []

    async def main():
        await rig.driver.managed.advise(kept, 44 * BLOCK, "prefer_host")
        for _ in range(2):
            await rig.kernel(sweep(10 * BLOCK), ManagedAccess(other, 10 * BLOCK))
            await rig.kernel(sweep(44 * BLOCK), ManagedAccess(kept, 44 * BLOCK, writes=()))
        begin = rig.sim.now
        await rig.kernel(sweep(44 * BLOCK), ManagedAccess(kept, 44 * BLOCK, writes=()))
        times.append(rig.sim.now - begin)

    rig.run(main)
    assert rig.counters.bytes_htod == 10 * BLOCK
    assert rig.counters.evictions == rig.counters.bytes_dtoh == 0
    assert times[0] == pytest.approx(44 * BLOCK / 20e9, rel=0.01)
    assert_sound(rig)


@pytest.mark.parametrize(("kernels", "uncontended"), [(1, False), (3, False), (3, True)])
def test_kernels_that_reach_the_host_share_the_link(uvm, kernels, uncontended):
    nbytes, link, port = 40 * BLOCK, 30e9, 20e9
    costs = {"link.h2d_pinned": link / 1e9, "remote.access_bw": port / 1e9, "link.uncontended": uncontended}
    rig = uvm(costs | {"compute.uncontended": True})
    address = rig.array(nbytes, touched=True)

    async def main():
        await rig.uvm.advise(address, nbytes, "accessed_by")
        async with rig.sim.open_nursery() as nursery:
            for _ in range(kernels):
                nursery.spawn(rig.kernel, sweep(nbytes), ManagedAccess(address, nbytes, writes=()))

    rig.run(main)
    expected = nbytes / port if uncontended else max(kernels * nbytes / link, nbytes / port)
    assert rig.sim.now == pytest.approx(expected, rel=0.02)


def test_what_is_accessed_by_the_device_needs_no_faults(uvm):
    rig = uvm()
    address = rig.array(BLOCK, touched=True)

    async def main():
        await rig.driver.managed.advise(address, BLOCK, "accessed_by")
        await rig.kernel(sweep(BLOCK), ManagedAccess(address, BLOCK))

    rig.run(main)
    assert rig.counters.gpu_fault_groups == rig.counters.bytes_htod == 0
    assert rig.counters.remote_maps == 1


def test_the_host_has_its_pages_back_by_faults_that_double(uvm):
    rig = uvm()
    address = rig.array(3 * BLOCK, touched=True)

    async def main():
        await rig.kernel(sweep(3 * BLOCK), ManagedAccess(address, 3 * BLOCK))
        await rig.uvm.host_access(address, 2 * BLOCK)

    rig.run(main)
    assert rig.counters.bytes_dtoh == 2 * BLOCK
    assert rig.counters.host_faults == 2 * 6  # pages 0, 1, 2, 4, 8 and 16 of each block
    assert_sound(rig)


def test_an_allocation_of_the_program_evicts_managed_memory(uvm):
    rig = uvm(small(10))
    address = rig.array(10 * BLOCK, touched=True)

    async def main():
        await rig.kernel(sweep(10 * BLOCK), ManagedAccess(address, 10 * BLOCK))
        await rig.driver.memory.alloc(3 * BLOCK, phantom=True)

    rig.run(main)
    assert rig.counters.evictions == 3
    assert_sound(rig)


def test_without_device_memory_kernels_reach_the_host(uvm):
    rig = uvm(small(4))
    address = rig.array(BLOCK, touched=True)

    async def main():
        await rig.driver.memory.alloc(4 * BLOCK, phantom=True)
        await rig.kernel(sweep(BLOCK), ManagedAccess(address, BLOCK))

    rig.run(main)
    assert rig.counters.bytes_htod == 0
    assert rig.counters.remote_maps > 0


# numbers that must not matter


def half_remote(uvm, chunk, remote):
    """Seconds of a kernel over an array that is there but for a part that prefers the host."""
    nbytes = 512 * BLOCK
    there = round(nbytes * (1.0 - remote)) // BLOCK * BLOCK
    rig = uvm({"managed.touch_chunk": chunk, "remote.access_bw": "5 GB/s", "launch.latency": 0})
    address = rig.array(nbytes, touched=True)
    busy = Kernel("busy", flops_per_iteration=2000.0).launch(nbytes // 1024, 128, nbytes // 8)

    async def main():
        stream = await rig.driver.streams.create()
        await rig.driver.managed.prefetch(address, there, stream)
        await rig.driver.streams.synchronize(stream)
        await rig.driver.managed.advise(address + there, nbytes - there, "prefer_host")
        await rig.driver.managed.advise(address + there, nbytes - there, "accessed_by")
        begin = rig.sim.now
        await rig.kernel(busy, ManagedAccess(address, nbytes, writes=()))
        return rig.sim.now - begin

    return rig.run(main)


@pytest.mark.parametrize("remote", [0.13, 0.29, 0.53])
def test_halving_the_touch_chunk_changes_next_to_nothing(uvm, remote):
    """Where it has an effect: one step for all of the kernel would have its parts overlap."""
    found = half_remote(uvm, "32 MiB", remote)
    assert half_remote(uvm, "16 MiB", remote) == pytest.approx(found, rel=0.02)
    assert half_remote(uvm, "4 GiB", remote) < 0.9 * found


def test_the_touch_chunk_has_no_effect_where_nothing_is_remote(uvm):
    assert half_remote(uvm, "1 MiB", 0.0) == pytest.approx(half_remote(uvm, "4 GiB", 0.0), rel=1e-12)
