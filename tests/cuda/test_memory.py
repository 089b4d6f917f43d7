"""Pinned memory of the host, copies between all memories, and pointers that are wrong."""

import numpy as np
import pytest
from cuda_rig import SMALL, run_of, small

from offloadrt import cuda, kernel
from offloadrt import openmp as omp
from offloadrt.driver import DriverError
from offloadrt.runtime.errors import FreedHostMemory

MIB = 1 << 20


@kernel(threads_per_team=256)
def double(a):
    for i in range(len(a)):
        a[i] = 2 * a[i]


def test_values_go_to_the_device_and_back_through_pinned_and_pageable_memory():
    async def body(t):
        here = await t.host_alloc("here", 1000, np.float32, fill=np.arange(1000))
        there, other = await t.malloc(1000, np.float32), await t.malloc(1000, np.float32)
        back = t.array("back", 1000, np.float32)
        await t.memcpy_async(there, here)
        await t.launch(double, there, grid=4, block=256)
        await t.memcpy_async(other, there)
        await t.memcpy(back, other)
        again = t.array("again", 1000, np.float32)
        await t.memcpy(again, back)
        return again.data.copy()

    run, values = run_of(body)
    assert np.array_equal(values, 2 * np.arange(1000))
    assert dict(run.statistics.bytes_moved)["d2d"] == 4000


def timed_copy(pinned, to_host=False):
    """(seconds of the call, seconds until the copy has completed) of an asynchronous copy of 16 MiB."""

    async def body(t):
        make = {"none": none, "alloc": alloc, "register": register}[pinned]
        here, there = await make(t), await t.malloc(16 * MIB)
        stream = await t.stream_create(non_blocking=True)
        begin = t.sim.now
        await (t.memcpy_async(here, there, stream=stream) if to_host else t.memcpy_async(there, here, stream=stream))
        called = t.sim.now - begin
        await t.stream_synchronize(stream)
        return called, t.sim.now - begin

    async def none(t):
        return t.array("here", 16 * MIB, np.uint8)

    async def alloc(t):
        return await t.host_alloc("here", 16 * MIB, np.uint8)

    async def register(t):
        here = await none(t)
        await t.host_register(here)
        return here

    return run_of(body, phantom=True)


@pytest.mark.parametrize("to_host", [False, True])
def test_a_copy_of_pinned_memory_returns_at_once_and_needs_no_staging(to_host):
    (run, pinned), (_, registered), (_, pageable) = (timed_copy(how, to_host) for how in ("alloc", "register", "none"))
    assert pinned == pytest.approx(registered)
    way = "d2h" if to_host else "h2d"
    calls = run.spec.value("copy.latency") + run.spec.value("driver.copy_submit") + run.spec.value("sync.latency")
    assert pinned[1] == pytest.approx(16 * MIB / run.spec.value(f"link.{way}_pinned") + calls)
    assert pinned[0] == pytest.approx(run.spec.value("driver.copy_submit"))
    assert pageable[0] > 100 * pinned[0] and pageable[1] > pinned[1]


def test_pinning_costs_by_its_pages_and_holds_up_the_calls_of_other_threads():
    async def body(t):
        if t.number:
            await t.sleep(1e-6)
            begin = t.sim.now
            await small(t)
            return t.sim.now - begin
        array = t.array("a", 64 * MIB, np.uint8, fill=0, align=2 * MIB)
        begin = t.sim.now
        await t.host_register(array)
        took = t.sim.now - begin
        await t.host_unregister(array)
        return took

    run, took = run_of(body, threads=1, phantom=True)
    spec = run.spec
    assert took == pytest.approx(spec.value("pin.register") + 32 * spec.value("pin.huge_page"))
    lock = run_of(body, threads=2, phantom=True)[0].statistics.host_time.seconds["driver lock"]
    assert lock >= 0.9 * took


def test_pinned_memory_is_pinned_for_all_devices():
    async def body(t):
        here = await t.host_alloc("here", 16 * MIB, np.uint8)
        await t.set_device(1)
        there = await t.malloc(16 * MIB)
        begin = t.sim.now
        await t.memcpy_async(there, here)
        return t.sim.now - begin

    assert run_of(body, "a100-node4", num_devices=2, phantom=True)[1] < 1e-5


def test_a_copy_between_devices_goes_over_their_link():
    async def body(t):
        here = await t.malloc(MIB)
        await t.device_enable_peer_access(1)
        await t.set_device(1)
        there = await t.malloc(MIB)
        await t.set_device(0)
        await t.memcpy_async(there, here)
        await t.device_synchronize()

    run, _ = run_of(body, "a100-node4", num_devices=2, phantom=True)
    assert dict(run.statistics.bytes_moved)["p2p"] == MIB


# bad use


async def kernel_after_free(t):
    a = await t.malloc(8)
    await t.free(a)
    await t.launch(SMALL, a, grid=1, block=32, iterations=1)


async def copy_after_free(t):
    a = await t.malloc(8)
    await t.free(a)
    await t.memcpy(t.array("here", 8, np.uint8), a)


async def frees_twice(t):
    a = await t.malloc(8)
    await t.free(a)
    await t.free(a)


async def frees_what_is_no_allocation(t):
    a = await t.malloc(1024)
    await t.free(cuda.DeviceArray(a.address + 256, (8,), np.uint8))


async def frees_memory_of_another_device(t):
    a = await t.malloc(8)
    await t.set_device(1)
    await t.free(a)


async def kernel_on_another_device(t):
    a = await t.malloc(8)
    await t.set_device(1)
    await t.launch(SMALL, a, grid=1, block=32, iterations=1)


async def kernel_on_host_memory(t):
    await t.launch(SMALL, t.array("a", 8), grid=1, block=32, iterations=1)


async def copies_too_much(t):
    await t.memcpy(await t.malloc(8), t.array("a", 9, np.uint8))


async def pins_twice(t):
    a = t.array("a", 8)
    await t.host_register(a)
    await t.host_register(a)


async def unpins_what_is_not_pinned(t):
    await t.host_unregister(t.array("a", 8))


async def frees_pinned_memory_twice(t):
    a = await t.host_alloc("a", 8)
    await t.free_host(a)
    await t.free_host(a)


ILLEGAL, INVALID = "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_INVALID_VALUE"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            kernel_after_free,
            rf"cuLaunchKernel failed with {ILLEGAL}: argument 1 of kernel 'small', .* freed by cu",
        ),
        (copy_after_free, rf"cudaMemcpy failed with {ILLEGAL}: its source, 0x7f0000000000, was freed by cuMemFree"),
        (frees_twice, rf"cuMemFree failed with {INVALID}: 0x7f0000000000 was freed by cuMemFree \(host thread 0 at"),
        (frees_what_is_no_allocation, rf"cuMemFree failed with {INVALID}: no block begins at"),
        (frees_memory_of_another_device, rf"cuMemFree failed with {INVALID}: 0x7f0000000000 is memory of device 0"),
        (kernel_on_another_device, rf"cuLaunchKernel failed with {ILLEGAL}: .* is memory of device 0"),
        (kernel_on_host_memory, rf"cuLaunchKernel failed with {ILLEGAL}: .*array 'a', is pageable memory of the host"),
        (copies_too_much, rf"cudaMemcpy failed with {INVALID}: the source has 9 bytes, its destination 8"),
        (pins_twice, "cuMemHostRegister failed with CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"),
        (unpins_what_is_not_pinned, "cuMemHostUnregister failed with CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"),
        (frees_pinned_memory_twice, rf"cuMemFreeHost failed with {INVALID}: no pinned memory begins at"),
    ],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_wrong_pointers_are_refused_with_their_story(body, message):
    with pytest.raises(DriverError, match=message) as caught:
        run_of(body, "a100-node4", num_devices=2)
    assert "host thread 0 at 0.0" in str(caught.value)


def test_an_array_that_the_host_has_freed_is_not_copied():
    async def body(t):
        a = t.array("a", 8, np.uint8, kind="heap")
        t.program.arrays.free(a)
        await t.memcpy(await t.malloc(8), a)

    with pytest.raises(FreedHostMemory, match="<a\\+0> \\(8 bytes\\) was freed"):
        run_of(body)


def test_a_copy_moves_one_range():
    async def body(t):
        a = t.array("a", (4, 4), np.uint8)
        await t.memcpy(await t.malloc(4), omp.array_section(a, (0, 4), (1, 1)))

    with pytest.raises(ValueError, match="is in pieces"):
        run_of(body)


def test_a_section_of_managed_memory_is_prefetched_and_advised_alone():
    async def body(t):
        a = await t.malloc_managed("a", 8 * MIB, np.uint8, written=True)
        await t.mem_prefetch(omp.section(a, 0, 2 * MIB))
        await t.mem_advise(omp.section(a, 4 * MIB, 4 * MIB), "prefer_host")
        await t.mem_prefetch(omp.section(a, 2 * MIB, 2 * MIB))
        await t.device_synchronize()
        with pytest.raises(ValueError, match=r"cuMemPrefetchAsync: .* is in pieces"):
            await t.mem_prefetch(omp.section(a, 0, MIB, 2))
        await t.launch(double, a, grid=108, block=256)
        await t.device_synchronize()

    run, _ = run_of(body, phantom=True)
    assert run.device().bytes_moved()["h2d"] == 4 * MIB
    assert run.statistics.faults["faults"] > 0  # the second half is mapped by faults, and stays on the host
