"""Contention emerges: for every contended object of the machine and the driver, its service does not depend on how many
threads want it, only the waiting does; and switching its contention off gives everybody the time of one thread.
"""

import attrs
import pytest

from offloadrt.kernels import Kernel

MIB = 1 << 20
FULL = Kernel("full", None, 1e6, 0.0, 256).launch(108 * 8)
SMALL = Kernel("small", None, 1e6, 0.0, 256).launch(4)

N = 7


@attrs.frozen
class Contended:
    """An object X that threads contend for."""

    key: str
    thread: object
    """What a thread does, ``await thread(rig, stream, block)``, without contending for anything but X."""
    service: object
    """rig -> what X gave to each operation: seconds, or units of what it shares out."""
    overrides: dict[str, object]


async def computes(rig, stream, block):
    await rig.machine.cores.compute(1e-3)


async def copies_on_the_host(rig, stream, block):
    await rig.machine.host_memory.copy(10 * MIB)


async def transfers(rig, stream, block):
    await rig.driver.copies.htod(block, rig.buffer(MIB), MIB, stream, pinned=True)
    await rig.driver.streams.synchronize(stream)


async def launches(rig, stream, block):
    await rig.driver.kernels.launch(FULL, (), stream)
    await rig.driver.streams.synchronize(stream)


async def launches_two(rig, stream, block):
    await rig.sim.sleep(stream.index * 1e-12)  # so that its two kernels are next to each other in the queue
    await rig.driver.kernels.launch(SMALL, (), stream)
    await rig.driver.kernels.launch(SMALL, (), stream)
    await rig.driver.streams.synchronize(stream)


async def allocates(rig, stream, block):
    for _ in range(3):
        await rig.driver.memory.alloc(100)


def per_acquisition(rig):
    did = rig.driver.context.lock.statistics()
    return did.hold_s / did.acquired


def engine(rig):
    return rig.machine.statistics()["device 0 copy engine h2d"]


def units(rig):
    return rig.machine.statistics()["device 0 compute units"]


FREE_CALLS = dict.fromkeys(
    [
        "driver.copy_submit",
        "driver.launch",
        "driver.handover",
        "driver.stream_create",
        "driver.sync_idle",
        "sync.latency",
        "alloc.cudaMalloc_small",
        "alloc.cudaMalloc_large",
    ],
    0.0,
)
"""Calls that cost nothing, so that the threads contend for the device only."""

CALLS = {"driver.handover": 0.0, "alloc.cudaMalloc_large": "15.8 us", "alloc.cudaMalloc_small": "15.8 us"}


def per(total, count):
    return lambda statistics: getattr(statistics, total) / getattr(statistics, count)


OBJECTS = [
    Contended(
        "core",
        computes,
        lambda rig: per("busy_s", "computed")(rig.machine.cores.statistics()),
        FREE_CALLS | {"cpu.cores": 2},
    ),
    Contended(
        "host_memory",
        copies_on_the_host,
        lambda rig: rig.machine.host_memory.statistics().bytes / rig.machine.cores.statistics().computed,
        FREE_CALLS | {"host.memcpy_max": "10 GB/s"},
    ),
    Contended("driver.context", allocates, per_acquisition, CALLS),
    Contended(
        "copy_engine",
        transfers,
        lambda rig: per("busy_s", "transfers")(engine(rig)),
        FREE_CALLS | {"link.uncontended": True},
    ),
    Contended(
        "link",
        transfers,
        lambda rig: per("bytes", "transfers")(engine(rig)),
        FREE_CALLS | {"gpu.copy_engines": 20, "gpu.copy_engines_h2d": 10},
    ),
    Contended(
        "hardware_queue",
        launches_two,
        lambda rig: per("wall_s", "kernels")(units(rig)),
        FREE_CALLS | {"gpu.max_connections": 1},
    ),
    Contended("compute", launches, lambda rig: per("sm_s", "kernels")(units(rig)), FREE_CALLS),
]


def elapsed(make_rig, contended, threads, uncontended=False):
    """(virtual seconds that the threads take together, the rig afterwards)."""
    rig = make_rig({**contended.overrides, **({f"{contended.key}.uncontended": True} if uncontended else {})})
    driver, sim = rig.driver, rig.sim

    async def main():
        own = [(await driver.streams.create(), await driver.memory.alloc(MIB, phantom=True)) for _ in range(threads)]
        start = sim.now
        async with sim.open_nursery() as nursery:
            for number, (stream, block) in enumerate(own):
                nursery.spawn(contended.thread, rig, stream, block, name=f"host thread {number}")
        return sim.now - start

    return rig.run(main), rig


@pytest.mark.parametrize("contended", OBJECTS, ids=lambda one: one.key)
def test_service_does_not_depend_on_the_number_of_threads(rig, contended):
    (alone, one), (together, many) = (elapsed(rig, contended, threads) for threads in (1, N))
    assert together > 1.5 * alone, "this test contends for nothing"
    assert contended.service(many) == pytest.approx(contended.service(one))


@pytest.mark.parametrize("contended", OBJECTS, ids=lambda one: one.key)
def test_without_contention_everybody_takes_the_time_of_one(rig, contended):
    alone, _ = elapsed(rig, contended, 1)
    assert elapsed(rig, contended, 1, uncontended=True)[0] == pytest.approx(alone)
    assert elapsed(rig, contended, N, uncontended=True)[0] == pytest.approx(alone)


def test_the_loss_at_a_lock_is_its_waiting(rig):
    contended = next(one for one in OBJECTS if one.key == "driver.context")
    (alone, _), (together, many) = (elapsed(rig, contended, threads) for threads in (1, N))
    assert together == pytest.approx(N * alone)
    assert many.machine.host_time.seconds["driver lock"] == pytest.approx(many.driver.context.lock.statistics().wait_s)


def test_a_lock_that_is_handed_over_is_owned_by_the_thread_that_wakes_up(rig):
    def held(threads):
        overrides = CALLS | {"driver.handoff": "fifo", "driver.handover": "3 us", "driver.stream_create": 0.0}
        _, many = elapsed(rig, Contended("driver.context", allocates, per_acquisition, overrides), threads)
        return many.driver.context.lock.statistics(), many

    did, _ = held(N)
    calls = N * (1 + 3)
    assert did.contended > 0 and did.hold_s == pytest.approx(calls * 15.8e-6 + did.contended * 3e-6)
    alone, _ = held(1)
    assert alone.contended == 0 and alone.hold_s == pytest.approx((1 + 3) * 15.8e-6)


def test_barging_lets_a_running_thread_overtake(rig):
    def order(handoff):
        hardware = rig({"driver.handoff": handoff, "driver.handover": 0.0})
        done = []

        async def body(number):
            for _ in range(3):
                await hardware.driver.memory.alloc(100)
                done.append(number)

        hardware.together(*[lambda number=number: body(number) for number in range(3)])
        return done

    assert order("fifo") == [0, 1, 2] * 3
    assert order("barging") != order("fifo")
