"""What allocations, frees and transfers do to running kernels, under each choice of ``driver.halt``."""

import pytest

from offloadrt.driver.halting import QueueEviction
from offloadrt.kernels import Kernel
from offloadrt.machine import load

SPEC = load("alex-a100")
FREE, SMALL = SPEC.value("alloc.cudaFree"), SPEC.value("alloc.cudaMalloc_small")
LONG = Kernel("long", None, 1e9, 0.0, 256).launch(8, iterations=2000)


def beside_a_kernel(rig, halt, call, overrides=None):
    """A thread makes ``call(driver, stream, block)`` while a kernel of another one runs.

    Returns (seconds of the call, how much longer the kernel took than alone, the rig).
    """
    hardware = rig({"driver.halt": halt, "driver.handoff": "fifo", "driver.handover": 0, **(overrides or {})})
    driver, sim = hardware.driver, hardware.sim
    alone = driver.device.compute.spec.seconds_on_idle_device(LONG)
    seconds = []

    async def computes():
        stream = await driver.streams.create()
        await driver.kernels.launch(LONG, (), stream)
        await driver.streams.synchronize(stream)

    async def calls():
        stream, block = await driver.streams.create(), await driver.memory.alloc(100)
        await sim.sleep(alone / 2)
        begin = sim.now
        await call(driver, stream, block)
        seconds.append(sim.now - begin)

    hardware.together(computes, calls)
    did = driver.device.compute.statistics()
    return seconds[0], did.wall_s - alone, hardware


def free(driver, stream, block):
    return driver.memory.free(block)


def allocate(driver, stream, block):
    return driver.memory.alloc(100)


def copy(driver, stream, block):
    return driver.copies.dtod(block, block, 100, stream)


async def transfer(driver, stream, block):
    class Phantom:
        address, nbytes, bytes = 0, 100, None

    await driver.copies.htod(block, Phantom, 100, stream, pinned=True)
    await driver.streams.synchronize(stream)


@pytest.mark.parametrize(
    ("halt", "call", "waits", "cost", "stops"),
    [
        ("none", free, False, FREE, 0),
        ("none", allocate, False, SMALL, 0),
        ("drain_on_free", free, True, FREE, 0),
        ("drain_on_free", allocate, False, SMALL, 0),
        ("drain_on_alloc_free", free, True, FREE, 0),
        ("drain_on_alloc_free", allocate, True, SMALL, 0),
        ("suspend", free, False, FREE, FREE),
        ("suspend", allocate, False, SMALL, SMALL),
        ("per_transfer", free, False, FREE, FREE),
    ],
)
def test_allocations_and_frees(rig, halt, call, waits, cost, stops):
    seconds, longer, hardware = beside_a_kernel(rig, halt, call)
    alone = hardware.driver.device.compute.spec.seconds_on_idle_device(LONG)
    drained = hardware.machine.host_time.seconds["drain"]
    assert seconds == pytest.approx(cost + drained)
    assert longer == pytest.approx(stops, abs=1e-9)
    assert drained == pytest.approx(alone / 2, rel=0.1) if waits else drained == 0


@pytest.mark.parametrize(("halt", "stops"), [("suspend", False), ("per_transfer", True)])
def test_transfers(rig, halt, stops):
    _, longer, _ = beside_a_kernel(rig, halt, transfer)
    cost = SPEC.value("copy.latency") + 100 / SPEC.value("link.h2d_pinned")
    assert longer == pytest.approx(cost if stops else 0.0, abs=1e-9)


def test_a_copy_within_the_device_never_halts(rig):
    assert beside_a_kernel(rig, "per_transfer", copy)[1] == pytest.approx(0.0, abs=1e-9)


def test_no_kernel_starts_while_a_free_is_at_work(rig):
    hardware = rig({"alloc.cudaFree": "1 s"})
    driver, sim = hardware.driver, hardware.sim
    quick = Kernel("quick").launch(1)

    async def frees():
        block = await driver.memory.alloc(100)
        await sim.sleep(0.1)
        await driver.memory.free(block)

    async def launches():
        stream = await driver.streams.create()
        await sim.sleep(0.1 + SPEC.value("alloc.cudaMalloc_large") - 2 * SPEC.value("driver.launch"))
        await driver.kernels.launch(quick, (), stream)
        await driver.streams.synchronize(stream)
        return sim.now

    _, end = hardware.together(frees, launches)
    assert end > 1.1


def test_a_free_may_visit_every_stream_under_the_lock(rig):
    def free_beside(streams):
        hardware = rig({"driver.free_visits_streams": "5 us"})

        async def main():
            block = await hardware.driver.memory.alloc(100)
            for _ in range(streams):
                await hardware.driver.streams.create()
            begin = hardware.sim.now
            await hardware.driver.memory.free(block)
            assert hardware.driver.statistics().streams_visited == streams
            return hardware.sim.now - begin

        return hardware.run(main)

    assert [free_beside(n) for n in (0, 1, 10)] == pytest.approx([FREE, FREE + 5e-6, FREE + 50e-6])


def evictions(rig, patience):
    """Two threads evict pages of a device that saves a kernel's state for 1 ms; the first leaves after `patience`.

    Returns when each returned from it, in seconds after its own call, how often the queues stopped, and how much longer
    the kernel took than alone.
    """
    hardware = rig({"driver.halt_save_restore": "1 ms"})
    driver, sim = hardware.driver, hardware.sim
    queues = QueueEviction(sim, driver.device, 5e-3)
    waited = []

    async def evict(seconds):
        begin = sim.now
        with sim.move_on_after(seconds):
            await queues.begin(0)
        waited.append(sim.now - begin)

    async def computes():
        stream = await driver.streams.create()
        await driver.kernels.launch(LONG, (), stream)
        await sim.sleep(1e-5)
        async with sim.open_nursery() as nursery:
            nursery.spawn(evict, patience)
            nursery.spawn(evict, 1.0)
        await driver.streams.synchronize(stream)

    hardware.run(computes)
    did = driver.device.compute.statistics()
    return waited, queues.count, did.wall_s - driver.device.compute.spec.seconds_on_idle_device(LONG)


def test_whoever_evicts_pages_waits_until_the_queues_have_stopped(rig):
    waited, count, longer = evictions(rig, 1.0)
    assert waited == pytest.approx([1e-3, 1e-3]) and count == 1
    assert longer == pytest.approx(1e-3 + 5e-3 + 1e-3)


def test_queues_that_were_stopped_for_somebody_who_left_go_on(rig):
    waited, count, longer = evictions(rig, 1e-4)
    assert waited == pytest.approx([1e-4, 3e-3]) and count == 2
    assert longer == pytest.approx(3e-3 + 5e-3 + 1e-3)
