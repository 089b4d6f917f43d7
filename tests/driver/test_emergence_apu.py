"""Contention emerges on an APU as well: for each object that its kernel driver or its queues contend for, the service
does not depend on how many want it, only the waiting does; without its contention everybody takes the time of one; and
what threads lose is the waiting that the object reports.
"""

import attrs
import pytest

from offloadrt.kernels import Kernel
from offloadrt.machine.messages import BarrierPacket, DmaPacket, KernelPacket
from offloadrt.sim import Signal

MIB = 1 << 20
HUGE = 2 * MIB
SMALL = Kernel("small", None, 1e6, 0.0, 256).launch(4)
EMPTY = Kernel("empty").launch(1)
N = 7


@attrs.frozen
class Contended:
    """An object X that threads contend for."""

    key: str
    thread: object
    """What a thread does, ``await thread(rig, number)``, without contending for anything but X."""
    service: object
    """rig -> what X gave to each operation, in seconds."""
    waited: object = None
    """rig -> seconds of waiting that X reports; None where one thread has several waits at a time."""
    overrides: dict[str, object] = attrs.Factory(dict)


async def transfers(rig, number):
    done = Signal(rig.sim)
    ring = rig.kfd.device.next_ring()
    ring.submit(DmaPacket(rig.machine.next_number(), 0, "h2d", MIB, "staged", None, done, submitted=rig.sim.now))
    await done.wait()


async def launches_two(rig, number):
    await rig.sim.sleep(number * 1e-12)  # so that its two kernels are next to each other in the queue
    queues = rig.kfd.device.hsa_queues
    stream = queues.open_stream()
    queues.take(stream)
    for _ in range(2):
        if not stream.idle:
            stream.queue.submit(BarrierPacket(0, stream.last))
        number = rig.machine.next_number()
        stream.submit(KernelPacket(number, stream, 0, SMALL, None, Signal(rig.sim)))
    await stream.last.wait()


async def launches_one(rig, number):
    queues = rig.kfd.device.hsa_queues
    stream = queues.open_stream()
    queues.take(stream)
    stream.submit(KernelPacket(rig.machine.next_number(), stream, 0, SMALL, None, Signal(rig.sim)))
    await stream.last.wait()


async def prefaults(rig, number):
    await rig.kfd.svm_attributes_set(*rig.array(100 * HUGE, touched=True))


async def allocates(rig, number):
    await rig.kfd.allocate(10 * HUGE, phantom=True)


async def faults(rig, number):
    await rig.kernel(EMPTY, rig.array(HUGE, touched=True))


def ring(rig):
    return rig.machine.statistics()["device 0 dma ring 0"]


def memory(rig):
    return rig.machine.statistics()["device 0 memory"]


def units(rig):
    return rig.machine.statistics()["device 0 compute units"]


OBJECTS = [
    Contended(
        "dma_ring",
        transfers,
        lambda rig: ring(rig).busy_s / ring(rig).transfers,
        lambda rig: ring(rig).wait_s,
        {"dma.occupancy": 6.0},
    ),
    Contended(
        "memory_traffic",
        transfers,
        lambda rig: (ring(rig).busy_s - memory(rig).wait_s) / ring(rig).transfers,
        lambda rig: memory(rig).wait_s,
        {"dma_ring.uncontended": True, "dma.bw": "1700 GB/s", "dma.latency": 0, "dma.occupancy": 0},
    ),
    Contended(
        "hardware_queue", launches_two, lambda rig: units(rig).wall_s / units(rig).kernels, None, {"hsa.queues": 1}
    ),
    Contended(
        "runlist",
        launches_one,
        lambda rig: units(rig).wall_s / units(rig).kernels,
        lambda rig: rig.machine.statistics()["device 0 queue scheduler"].wait_s,
        {"hsa.queues": N, "runlist.hardware_queues": 1},
    ),
    Contended(
        "mmap",
        prefaults,
        lambda rig: rig.kfd.mmap_lock.statistics().write_hold_s / rig.kfd.mmap_lock.statistics().write_acquired,
        lambda rig: rig.kfd.mmap_lock.statistics().wait_s,
        {"prefault.call": 0, "process_lock.uncontended": True, "svms_lock.uncontended": True},
    ),
    Contended(
        "svms_lock",
        prefaults,
        lambda rig: rig.kfd.svms_lock.statistics().hold_s / rig.kfd.svms_lock.statistics().acquired,
        lambda rig: rig.kfd.svms_lock.statistics().wait_s,
        {"prefault.call": 0, "process_lock.uncontended": True, "mmap.uncontended": True},
    ),
    Contended(
        "process_lock",
        allocates,
        lambda rig: rig.kfd.process_lock.statistics().hold_s / rig.kfd.process_lock.statistics().acquired,
        lambda rig: rig.kfd.process_lock.statistics().wait_s,
    ),
    Contended(
        "fault_handler",
        faults,
        lambda rig: rig.faults.service_s / rig.faults.faults,
        lambda rig: rig.faults.wait_s,
        {"svms_lock.uncontended": True, "mmap.uncontended": True},
    ),
]


def elapsed(make_rig, contended, threads, uncontended=False):
    """(virtual seconds that each of the threads takes, the rig afterwards)."""
    rig = make_rig({**contended.overrides, **({f"{contended.key}.uncontended": True} if uncontended else {})})
    return rig.together(*[lambda number=number: contended.thread(rig, number) for number in range(threads)]), rig


@pytest.mark.parametrize("contended", OBJECTS, ids=lambda one: one.key)
def test_service_does_not_depend_on_the_number_of_threads(apu, contended):
    (alone, one), (together, many) = (elapsed(apu, contended, threads) for threads in (1, N))
    assert max(together) > 1.5 * max(alone), "this test contends for nothing"
    assert contended.service(many) == pytest.approx(contended.service(one))


@pytest.mark.parametrize("contended", OBJECTS, ids=lambda one: one.key)
def test_without_contention_everybody_takes_the_time_of_one(apu, contended):
    alone, _ = elapsed(apu, contended, 1)
    assert elapsed(apu, contended, 1, uncontended=True)[0] == pytest.approx(alone)
    assert elapsed(apu, contended, N, uncontended=True)[0] == pytest.approx(alone * N, rel=1e-5)


@pytest.mark.parametrize("contended", [one for one in OBJECTS if one.waited], ids=lambda one: one.key)
def test_what_is_lost_is_the_waiting(apu, contended):
    (alone, _), (together, many) = (elapsed(apu, contended, threads) for threads in (1, N))
    assert sum(together) - N * alone[0] == pytest.approx(contended.waited(many))
