"""Pages that nobody has touched: the host's first touch, pinned memory, and managed memory."""

import numpy as np
import pytest
from cuda_rig import run_of

from offloadrt.kernels import Kernel
from offloadrt.runtime.host_array import section

MIB, GIB = 1 << 20, 1 << 30
PAGE, HUGE = 4096, 2 * MIB
SMALL = {"page.thp": False}
WALK = Kernel("walk", bytes_per_iteration=1.0)


def touching(nbytes, threads=1, settings=None, **options):
    """Return the run and the seconds until the last of some threads has touched its own new array."""

    async def body(t):
        array = t.array("a", nbytes, np.uint8, align=HUGE)
        await t.barrier()
        begin = t.sim.now
        await t.first_touch(array)
        first = t.sim.now
        await t.first_touch(array)
        assert t.sim.now == first, "all pages are there"
        return first - begin

    return run_of(body, threads=threads, settings=settings or {}, phantom=True, **options)


@pytest.mark.parametrize(("settings", "page"), [({}, HUGE), (SMALL, PAGE)])
def test_a_first_touch_clears_each_page_after_a_fault(settings, page):
    run, took = touching(256 * MIB, settings=settings)
    value = run.spec.value
    pages = 256 * MIB / page
    assert took == pytest.approx(pages * value("host.page_fault") + 256 * MIB / value("host.clear_1t"))


def test_a_fresh_array_of_24_gib_takes_seconds():
    assert 1.5 < touching(24 * GIB)[1] < 6


def test_huge_pages_are_given_where_a_whole_one_is_untouched():
    run, took = touching(4 * MIB + 3 * PAGE)
    value = run.spec.value
    assert took == pytest.approx(5 * value("host.page_fault") + (4 * MIB + 3 * PAGE) / value("host.clear_1t"))


def test_threads_that_touch_their_own_memory_divide_its_bandwidth():
    all_of_it = {"host.clear_1t": "9 GB/s", "host.memcpy_max": "18 GB/s", "host.page_fault": "0 us"}
    one = touching(64 * MIB, settings=all_of_it)[1]
    assert touching(64 * MIB, 4, all_of_it)[1] == pytest.approx(one)
    assert touching(64 * MIB, 16, all_of_it)[1] == pytest.approx(4 * one)
    assert touching(64 * MIB, 16, all_of_it | {"host_memory.uncontended": True})[1] == pytest.approx(one)


def registering(nbytes, touchers, settings=None):
    """Return the seconds of a first touch by some threads, and of cuMemHostRegister after it, and the run."""

    async def body(t):
        array = shared.setdefault("a", t.array("a", nbytes, np.uint8, align=HUGE))
        await t.barrier()
        if t.number < touchers:
            await t.host_access(section(array, t.number * nbytes // touchers, nbytes // touchers))
        await t.barrier()
        touched = t.sim.now
        if t.number == 0:
            await t.host_register(array)
        return touched, t.sim.now - touched

    shared = {}
    run, (touched, took) = run_of(body, threads=max(1, touchers), settings=settings or {}, phantom=True)
    return touched, took, run


@pytest.mark.parametrize(("settings", "entry", "page"), [({}, "pin.huge_page", HUGE), (SMALL, "pin.page", PAGE)])
def test_pinning_faults_in_what_nobody_has_touched(settings, entry, page):
    _, fresh, run = registering(64 * MIB, 0, settings)
    _, there, _ = registering(64 * MIB, 1, settings)
    value, pages = run.spec.value, 64 * MIB / page
    assert there == pytest.approx(value("pin.register") + pages * value(entry))
    assert fresh == pytest.approx(there + pages * value("host.page_fault") + 64 * MIB / value("host.clear_1t"))


def test_threads_that_touch_before_it_is_pinned_take_most_of_the_time_off():
    _, fresh, _ = registering(GIB, 0)
    touched, there, _ = registering(GIB, 8)
    assert touched + there < fresh / 2


@pytest.mark.parametrize(
    ("call", "published_s", "nbytes"),
    [
        ("alloc", 0.0900, 256 * MIB), ("alloc", 0.00755, 16 * MIB), ("register", 0.00911, 256 * MIB),
        ("unregister", 0.00372, 256 * MIB), ("free", 0.0228, 256 * MIB),
    ],
)  # fmt: skip
def test_pinned_memory_of_an_h200_takes_what_was_measured(call, published_s, nbytes):
    """Medians of bench/hardware/h200, rows malloc_host, host_register, host_unregister and free_host."""

    async def body(t):
        array = t.array("a", nbytes, np.uint8, fill=0)
        times = {}
        for name, call in (("register", t.host_register), ("unregister", t.host_unregister)):
            begin = t.sim.now
            await call(array)
            times[name] = t.sim.now - begin
        begin = t.sim.now
        pinned = await t.malloc_host(nbytes)
        times["alloc"], begin = t.sim.now - begin, t.sim.now
        await t.free_host(pinned)
        return times | {"free": t.sim.now - begin}

    times = run_of(body, machine="h200-vm", settings=SMALL, phantom=True)[1]
    assert times[call] == pytest.approx(published_s, rel=0.15)


def test_the_range_of_pinned_memory_holds_what_was_published():
    """Of 32 MB in 11.6 ms on what is probably a DGX-1 (dask-cuda issue 106), within a tenth."""

    async def body(t):
        await t.malloc_host(32_000_000)
        return t.sim.now

    low, high = (run_of(body, "dgx1-v100", made={"range_end": end}, phantom=True)[1] for end in ("low", "high"))
    assert 0.9 * low < 11.6e-3 < high


def managed_touch(nbytes, settings=None, **options):
    async def body(t):
        array = await t.malloc_managed("m", nbytes, np.uint8)
        begin = t.sim.now
        await t.first_touch(array)
        return t.sim.now - begin

    run, took = run_of(body, settings=settings or {}, phantom=True, **options)
    return run, took, run.statistics.faults["cpu_page_fault_count"]


@pytest.mark.parametrize(("threshold", "per_block"), [(0.51, 6), (0.0, 1)])
def test_the_host_touches_managed_memory_through_the_prefetcher(threshold, per_block):
    """Counted on an RTX 5070 Ti: 24,576 faults of 8 GiB at threshold 51, 12,288 of 24 GiB at 0 (SpecAsync, E9)."""
    run, took, faults = managed_touch(GIB, {"prefetch.threshold": threshold})
    assert faults == per_block * 512
    value = run.spec.value
    by_hand = faults * value("fault.cpu_first") + GIB / PAGE * value("fault.cpu_map") + GIB / value("host.clear_1t")
    assert took == pytest.approx(by_hand)


def test_without_prefetching_each_page_of_managed_memory_faults():
    assert managed_touch(4 * MIB, {"prefetch.tree": False})[2] == 1024


def test_memory_that_prefers_the_host_comes_block_by_block():
    async def body(t):
        array = await t.malloc_managed("m", 8 * MIB, np.uint8)
        await t.mem_advise(array, "prefer_host")
        await t.first_touch(array)

    assert run_of(body, phantom=True)[0].statistics.faults["cpu_page_fault_count"] == 4


def test_the_first_touch_of_managed_memory_takes_what_a_p2000_showed():
    """Two arrays of 40 MB took 22.1 ms where pinned ones take 6.4 (xnd-project/cuda-benchmarks pull 1)."""
    assert managed_touch(80_000_000)[1] == pytest.approx(22.115e-3 - 6.447e-3, rel=0.25)


def test_what_a_copy_from_the_device_writes_first_is_populated_by_it():
    def copying(fill):
        async def body(t):
            device, host = await t.malloc(64 * MIB), t.array("h", 64 * MIB, np.uint8, fill=fill, align=HUGE)
            begin = t.sim.now
            await t.memcpy(host, device)
            first, begin = t.sim.now - begin, t.sim.now
            await t.memcpy(host, device)
            return first, t.sim.now - begin

        return run_of(body)

    run, (fresh, again) = copying(None)
    _, (there, _) = copying(0)
    value = run.spec.value
    assert again == pytest.approx(there)
    assert fresh - there == pytest.approx(64 * MIB / value("host.clear_1t") + 32 * value("host.page_fault"))


def test_a_block_that_prefers_the_gpu_comes_whole_when_nobody_has_touched_it():
    def groups(advised):
        async def body(t):
            array = await t.malloc_managed("m", 16 * MIB, np.uint8)
            if advised:
                await t.mem_advise(array, "prefer_device")
            await t.launch(WALK, array, grid=4, block=256, iterations=16 * MIB)
            await t.device_synchronize()

        faults = run_of(body, phantom=True)[0].statistics.faults
        assert faults["bytes_transfer_htod"] == 0 and faults["first_on_gpu"] == 16 * MIB // PAGE
        return faults["gpu_page_fault"]

    assert groups(True) == 8 < groups(False)
