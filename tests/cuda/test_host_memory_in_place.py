"""Kernels that use memory of the host which a device reaches without faults: by ATS, or as it cannot fault."""

import pytest
from cuda_rig import run_of

from offloadrt.driver import DriverError
from offloadrt.kernels import kernel

N = 1 << 21


@kernel
def read(source, result):
    for i in range(len(source)):
        result[0] += source[i]


def reading(machine, kind, uses=2, **made):
    """Seconds of each of some kernels that read an array which the host has written, and the bytes that migrated."""

    async def body(t):
        if kind == "managed":
            source = await t.malloc_managed("source", N, "f8", written=True)
        else:
            source = await t.host_alloc("source", N, "f8") if kind == "pinned" else t.array("source", N, fill=1.0)
        result, seconds = await t.malloc(1, "f8"), []
        for _ in range(uses):
            begin = t.sim.now
            await t.launch(read, source, result, grid=864, block=256)
            await t.device_synchronize()
            seconds.append(t.sim.now - begin)
        return seconds

    run, seconds = run_of(body, machine, made=made, phantom=True)
    return seconds, run


def test_where_the_gpu_uses_the_page_table_of_the_host_kernels_read_memory_of_malloc_in_place():
    (first, second), run = reading("gh200", "malloc")
    assert first == pytest.approx(8 * N / run.spec.value("remote.access_bw"), rel=0.2)
    assert second == pytest.approx(first, rel=0.2) and not run.statistics.faults["faults"]


def test_elsewhere_memory_of_malloc_is_an_illegal_address():
    for machine in ("h100", "mi250x"):
        with pytest.raises(DriverError, match="pageable memory of the host"):
            reading(machine, "malloc")


def test_without_xnack_managed_memory_lies_on_the_host_and_each_kernel_reads_it_over_the_link():
    for environment in ({}, {"HSA_XNACK": "0"}):
        (first, second), run = reading("mi250x", "managed", environment=environment)
        assert first == pytest.approx(8 * N / run.spec.value("remote.access_bw"), rel=0.1)
        assert second == pytest.approx(first)


@pytest.mark.parametrize("kind", ["managed", "malloc"])
def test_with_xnack_managed_memory_and_that_of_malloc_migrate_at_their_first_use(kind):
    (first, second), run = reading("mi250x", kind, environment={"HSA_XNACK": "1"})
    assert run.device().bytes_moved()["h2d"] == 8 * N
    assert first > 20 * second


@pytest.mark.parametrize("kind", ["managed", "pinned"])
def test_in_the_one_memory_of_an_apu_a_kernel_reads_both_at_the_speed_of_device_memory(kind):
    (first, second), run = reading("mi300a-hip", kind)
    assert first == second < 2 * 8 * N / run.spec.value("mem.bw") + 20e-6
    assert run.device().bytes_moved()["h2d"] == 0


@pytest.mark.parametrize(
    ("machine", "kib", "waits"), [("alex-a100", 64, False), ("alex-a100", 65, True), ("mi250x", 64, True)]
)
def test_a_small_copy_of_pageable_memory_travels_with_its_command_in_cuda(machine, kib, waits):
    async def body(t):
        there, here = await t.malloc(kib << 10), t.array("here", kib << 7, fill=0.0)
        source, result = await t.host_alloc("source", N, "f8"), await t.malloc(1, "f8")
        await t.launch(read, source, result, grid=8, block=256)
        begin = t.sim.now
        await t.memcpy(there, here)
        return t.sim.now - begin

    run, took = run_of(body, machine, phantom=True)
    assert (took > 8 * N / run.spec.value("remote.access_bw") / 2) == waits


def test_memory_of_malloc_can_be_prefetched_where_the_gpu_uses_the_page_table_of_the_host():
    async def body(t):
        source = t.array("source", N, fill=1.0)
        await t.mem_prefetch(source)
        await t.device_synchronize()

    assert run_of(body, "gh200", phantom=True)[0].device().bytes_moved()["h2d"] == 8 * N


@pytest.mark.parametrize(("machine", "kind"), [("h100", "malloc"), ("h100", "pinned"), ("gh200", "pinned")])
def test_other_memory_is_neither_prefetched_nor_advised(machine, kind):
    async def body(t):
        source = t.array("source", N) if kind == "malloc" else await t.host_alloc("source", N)
        with pytest.raises(DriverError, match="cuMemPrefetchAsync failed with CUDA_ERROR_INVALID_VALUE"):
            await t.mem_prefetch(source)
        await t.mem_advise(source, "read_mostly")

    with pytest.raises(DriverError, match="array 'source' is no managed memory"):
        run_of(body, machine, phantom=True)
