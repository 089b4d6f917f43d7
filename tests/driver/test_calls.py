"""Each call of the driver alone: what it costs, what it is counted as, how it fails."""

import pickle

import numpy as np
import pytest

from offloadrt.address_map import AddressMap
from offloadrt.driver import DriverError, OutOfDeviceMemory
from offloadrt.kernels import Kernel, kernel
from offloadrt.machine import DeviceArray, load
from offloadrt.trace import events

SPEC = load("alex-a100")
MIB = 1 << 20
SMALL, FIRST = SPEC.value("alloc.cudaMalloc_small"), SPEC.value("alloc.cudaMalloc_large")
FURTHER = SPEC.value("alloc.cudaMalloc_segment")


def took(hardware, call):
    """Virtual seconds that one call takes."""

    async def main():
        begin = hardware.sim.now
        await call()
        return hardware.sim.now - begin

    return hardware.run(main)


@pytest.mark.parametrize(
    ("nbytes", "seconds"),
    [(1, FIRST), (MIB, FIRST), (2 * MIB, FIRST), (2 * MIB + 1, FIRST + FURTHER), (20 * MIB, FIRST + 9 * FURTHER)],
)
def test_new_memory_costs_by_the_started_segment(rig, nbytes, seconds):
    hardware = rig()
    assert took(hardware, lambda: hardware.driver.memory.alloc(nbytes)) == pytest.approx(seconds)


def test_held_memory_is_cheap(rig):
    hardware = rig()

    async def main():
        await hardware.driver.memory.alloc(100)
        begin = hardware.sim.now
        await hardware.driver.memory.alloc(100)
        return hardware.sim.now - begin

    assert hardware.run(main) == pytest.approx(SMALL)


@pytest.mark.parametrize(("nbytes", "segments"), [(100, 0), (3 * MIB, 2)])
def test_a_free_costs_by_the_segment_given_back(rig, nbytes, segments):
    hardware = rig()

    async def main():
        address = await hardware.driver.memory.alloc(nbytes)
        begin = hardware.sim.now
        await hardware.driver.memory.free(address)
        return hardware.sim.now - begin

    given_back = SPEC.value("alloc.cudaFree_large") + (segments - 1) * SPEC.value("alloc.cudaFree_segment")
    seconds = SPEC.value("alloc.cudaFree") + (given_back if segments else 0)
    assert hardware.run(main) == pytest.approx(seconds)


def test_a_free_of_managed_memory_has_a_price_of_its_own(rig):
    hardware = rig({"alloc.cudaFree": "3 us", "alloc.cuMemFree_managed": "70 us"})

    async def main():
        hardware.driver.managed.start()
        address = await hardware.driver.managed.alloc(MIB)
        begin = hardware.sim.now
        await hardware.driver.managed.free(address)
        return hardware.sim.now - begin

    assert hardware.run(main) == pytest.approx(70e-6)


@pytest.mark.parametrize(("nbytes", "seconds"), [(100, 30e-6), (2 * MIB, 30e-6), (20 * MIB, 30e-6 + 9 * 1e-6)])
def test_a_free_can_give_a_small_blocks_segment_back_and_pay_little_for_further_ones(rig, nbytes, seconds):
    costs = {"alloc.cudaFree": "0 us", "alloc.cudaFree_large": "30 us", "alloc.cudaFree_segment": "1 us"}
    hardware = rig({"alloc.empty_segment": "returned", **costs})

    async def main():
        address = await hardware.driver.memory.alloc(nbytes)
        begin = hardware.sim.now
        await hardware.driver.memory.free(address)
        return hardware.sim.now - begin

    assert hardware.run(main) == pytest.approx(seconds)


def test_out_of_memory_names_call_bytes_thread_and_time(rig):
    hardware = rig({"mem.size": "454 MiB"})

    async def main():
        hardware.sim.current.name = "host thread 3"
        await hardware.driver.memory.alloc(3 * MIB)
        await hardware.driver.memory.alloc(1)

    with pytest.raises(OutOfDeviceMemory) as caught:
        hardware.run(main)
    error = caught.value
    assert (error.nbytes, error.free_bytes, error.thread, error.device) == (1, 0, "host thread 3", 0)
    assert str(error) == (
        "cuMemAlloc failed with CUDA_ERROR_OUT_OF_MEMORY: 1 bytes asked for, 0 free on device 0 "
        f"(host thread 3 at {error.time:.9f} s)"
    )
    assert pickle.loads(pickle.dumps(error)).time == error.time
    assert any(isinstance(row, events.RuntimeError_) and row.call == "cuMemAlloc" for row in hardware.trace.events)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda driver: driver.memory.alloc(0), "cuMemAlloc failed with CUDA_ERROR_INVALID_VALUE: 0 bytes"),
        (lambda driver: driver.memory.free(64), "cuMemFree failed with CUDA_ERROR_INVALID_VALUE: no block begins"),
        (lambda driver: driver.pinning.unregister(64), "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"),
    ],
)
def test_bad_calls_fail_as_the_real_ones(rig, call, message):
    hardware = rig()
    with pytest.raises(DriverError, match=message):
        hardware.run(lambda: call(hardware.driver))
    assert hardware.driver.context.lock.owner is None


def test_a_copy_beyond_a_block_and_a_team_that_does_not_fit_fail(rig):
    hardware = rig()

    async def main():
        driver = hardware.driver
        stream, address = await driver.streams.create(), await driver.memory.alloc(100)
        with pytest.raises(DriverError, match=r"cuMemcpyHtoDAsync .* beyond"):
            await driver.copies.htod(address, hardware.buffer(200), 200, stream)
        with pytest.raises(DriverError, match=r"cuLaunchKernel .*LAUNCH_OUT_OF_RESOURCES: kernel 'wide'"):
            await driver.kernels.launch(Kernel("wide", None, 1, 1, 2048).launch(1), (), stream)

    hardware.run(main)


def test_pinning_is_by_range(rig):
    hardware = rig()

    async def main():
        driver = hardware.driver
        await driver.pinning.register(0x1000, 0x1000)
        with pytest.raises(DriverError, match="ALREADY_REGISTERED"):
            await driver.pinning.register(0x1FFF, 10)
        await driver.pinning.unregister(0x1000)
        await driver.pinning.register(0x1FFF, 10)

    hardware.run(main)
    assert hardware.calls.count("cuMemHostRegister") == 3


@pytest.mark.parametrize("nbytes", [0, -8])
def test_no_bytes_cannot_be_pinned_and_leave_nothing_behind(rig, nbytes):
    hardware = rig()

    async def main():
        driver = hardware.driver
        with pytest.raises(DriverError, match=rf"cuMemHostRegister .*INVALID_VALUE: {nbytes} bytes at 0x1000"):
            await driver.pinning.register(0x1000, nbytes)
        await driver.pinning.register(0x1000, 64)
        await driver.pinning.unregister(0x1000)
        with pytest.raises(DriverError, match="NOT_REGISTERED"):
            await driver.pinning.unregister(0x1000)

    hardware.run(main)


def test_one_thing_begins_at_an_address():
    found = AddressMap()
    found[0x1000] = "a"
    with pytest.raises(ValueError, match="'a' begins at 0x1000 already"):
        found[0x1000] = "b"
    assert list(found) == [found.pop(0x1000)] and found.before(0x2000) is None


def test_every_call_is_counted_and_traced_under_its_real_name(rig):
    hardware = rig()

    async def main():
        driver = hardware.driver
        stream, other = await driver.streams.create(), await driver.streams.create()
        block = await driver.memory.alloc(64)
        data = hardware.buffer(np.zeros(8))
        await driver.copies.htod(block, data, 64, stream)
        await driver.copies.dtod(block, block, 64, stream)
        await driver.kernels.memset(block, 1, 64, stream)
        await driver.kernels.launch(Kernel("k").launch(1), (), stream)
        event = await driver.events.create()
        await driver.events.record(event, stream)
        await driver.streams.wait_event(other, event.mark)
        await driver.events.synchronize(event)
        assert event.mark.is_complete
        await driver.copies.dtoh(data, block, 64, stream)
        await driver.streams.synchronize(stream)
        await driver.streams.synchronize(other)
        await driver.streams.destroy(other)
        await driver.memory.free(block)

    hardware.run(main)
    names = [
        "cuStreamCreate", "cuMemAlloc", "cuMemcpyHtoDAsync", "cuMemcpyDtoDAsync", "cuMemsetD8Async", "cuLaunchKernel",
        "cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuEventSynchronize", "cuMemcpyDtoHAsync",
        "cuStreamSynchronize", "cuStreamDestroy", "cuMemFree",
    ]  # fmt: skip
    assert {name: hardware.calls.count(name) for name in names} == dict.fromkeys(names, 1) | {
        "cuStreamCreate": 2,
        "cuStreamSynchronize": 2,
    }
    rows = list(hardware.trace.events)
    assert [row.api for row in rows if isinstance(row, events.CallBegin)] == [
        row.api for row in rows if isinstance(row, events.CallEnd)
    ]
    assert hardware.driver.device.memory.used == 2 * MIB and not hardware.driver.device.memory.blocks()


def test_events_carry_the_cause_that_is_given_or_the_actors(rig):
    hardware = rig()

    async def main():
        hardware.sim.current.cause = 7
        address = await hardware.driver.memory.alloc(20)
        stream = await hardware.driver.streams.create()
        await hardware.driver.copies.dtod(address + 10, address, 10, stream, cause=9)

    hardware.run(main)
    causes = {
        row.cause for row in hardware.trace.events if isinstance(row, (events.Allocate, events.Free, events.CallEnd))
    }
    assert causes == {7, 9}


def test_a_small_pinned_copy_costs_what_was_measured_elsewhere(rig):
    hardware = rig()

    async def main():
        driver = hardware.driver
        stream, block = await driver.streams.create(), await driver.memory.alloc(4096)
        begin = hardware.sim.now
        await driver.copies.htod(block, hardware.buffer(4096), 4096, stream, pinned=True)
        await driver.streams.synchronize(stream)
        return hardware.sim.now - begin

    reference = SPEC.entries["link.latency"]
    assert reference.low <= hardware.run(main) <= reference.high


def test_a_large_pageable_copy_is_as_fast_as_was_measured_elsewhere(rig):
    hardware = rig()

    async def main():
        driver = hardware.driver
        stream, block = await driver.streams.create(), await driver.memory.alloc(512 * MIB, phantom=True)
        begin = hardware.sim.now
        await driver.copies.htod(block, hardware.buffer(512 * MIB), 512 * MIB, stream)
        await driver.streams.synchronize(stream)
        return 512 * MIB / (hardware.sim.now - begin)

    reference = SPEC.entries["link.h2d_pageable"]
    assert reference.low <= hardware.run(main) <= reference.high


def test_a_kernel_computes_when_it_ends(rig):
    hardware = rig()

    @kernel(flops_per_iteration=1e6)
    def double(a, factor):
        a *= factor

    async def main():
        driver = hardware.driver
        stream, block = await driver.streams.create(), await driver.memory.alloc(32)
        data = hardware.buffer(np.arange(4.0))
        await driver.copies.htod(block, data, 32, stream)
        view = DeviceArray(block, (4,), np.dtype(float))
        await driver.kernels.launch(double.launch(1), (view, 3.0), stream)
        assert hardware.machine.devices[0].memory.array(view).tolist() != [0, 3, 6, 9]
        await driver.copies.dtoh(data, block, 32, stream)
        return data.bytes.view(float).tolist()

    assert hardware.run(main) == [0, 3, 6, 9]


def test_memory_is_pinned_when_the_call_has_done_its_work(rig):
    hardware = rig({"pin.register": "50 us"})
    sim, driver, source = hardware.sim, hardware.driver, hardware.buffer(8)
    done = []

    async def register():
        await driver.pinning.register(source.address, 8)
        done.append(sim.now)

    async def main():
        stream, block = await driver.streams.create(), await driver.memory.alloc(8)
        begin = sim.now
        sim.spawn(register)
        await sim.sleep(1e-6)
        for _ in range(2):
            await driver.copies.htod(block, source, 8, stream)
            await driver.streams.synchronize(stream)
        return done[0] - begin

    assert hardware.run(main) > 50e-6
    assert [row.memory for row in hardware.trace.events if isinstance(row, events.CopyBegin)] == ["staged", "pinned"]


def test_memory_is_not_pinned_by_a_call_that_was_given_up(rig):
    hardware = rig()

    async def main():
        with hardware.sim.move_on_after(1e-6) as scope:
            await hardware.driver.pinning.register(0x1000, 0x1000)
        assert scope.timed_out
        await hardware.driver.pinning.register(0x1000, 0x1000)

    hardware.run(main)


def test_the_streams_of_the_context_change_under_its_lock(rig):
    hardware = rig()
    owners = []

    class Watched(list):
        def append(self, stream):
            owners.append(hardware.driver.context.lock.owner)
            super().append(stream)

        def remove(self, stream):
            owners.append(hardware.driver.context.lock.owner)
            super().remove(stream)

    hardware.driver.context.streams = Watched()

    async def body():
        await hardware.driver.streams.destroy(await hardware.driver.streams.create())

    hardware.together(*[body] * 3)
    assert len(owners) == 6 and None not in owners


def test_a_kernel_with_a_phantom_costs_the_same_and_computes_nothing(rig):
    def run(phantom):
        hardware, seen = rig(), []
        body = Kernel("see", lambda a: seen.append(a.size), 1e6)

        async def main():
            driver = hardware.driver
            stream, block = await driver.streams.create(), await driver.memory.alloc(80, phantom=phantom)
            await driver.kernels.launch(body.launch(1), [DeviceArray(block, (10,), float)], stream)
            await driver.streams.synchronize(stream)

        hardware.run(main)
        return hardware.sim.now, seen

    assert run(False) == (run(True)[0], [10]) and run(True)[1] == []


def test_arguments_may_be_made_when_the_kernel_ends(rig):
    hardware, seen = rig(), []

    async def main():
        stream = await hardware.driver.streams.create()
        await hardware.driver.kernels.launch(Kernel("see", seen.append).launch(1), lambda: [hardware.sim.now], stream)
        await hardware.driver.streams.synchronize(stream)

    hardware.run(main)
    (end,) = (row.time_ps for row in hardware.trace.events if isinstance(row, events.KernelEnd))
    assert seen == [pytest.approx(end * 1e-12)]


def test_a_memset_writes_at_memory_speed(rig):
    hardware = rig({"launch.latency": 0.0})

    async def main():
        driver = hardware.driver
        stream, block = await driver.streams.create(), await driver.memory.alloc(64 * MIB)
        await driver.kernels.memset(block, 3, 64 * MIB, stream)
        begin = hardware.sim.now
        await driver.streams.synchronize(stream)
        assert (driver.device.memory.view(block, 64 * MIB) == 3).all()
        return hardware.sim.now - begin

    assert hardware.run(main) == pytest.approx(64 * MIB / SPEC.value("mem.bw") + SPEC.value("sync.latency"))


def test_an_event_orders_two_streams(rig):
    hardware = rig()
    driver = hardware.driver
    slow = Kernel("slow", None, 1e7).launch(108)

    async def main():
        first, second = await driver.streams.create(), await driver.streams.create()
        assert (await driver.streams.record_event(first)).is_complete
        await driver.kernels.launch(slow, (), first)
        event = await driver.streams.record_event(first)
        await driver.streams.wait_event(second, event)
        await driver.kernels.launch(slow, (), second)
        assert not event.is_complete
        await driver.streams.synchronize(first)
        assert event.is_complete and first.idle and not second.idle
        await driver.streams.synchronize(second)

    hardware.run(main)
    times = [row.time_ps for row in hardware.trace.events if isinstance(row, (events.KernelStart, events.KernelEnd))]
    assert times == sorted(times) and times[2] > times[1]
