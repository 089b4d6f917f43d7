"""More HSA queues than hardware queues: which one the hardware looks at, and when."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_examples import examples

from offloadrt.kernels import Kernel
from offloadrt.machine import Machine, load
from offloadrt.machine.messages import BarrierPacket, KernelPacket
from offloadrt.machine.profile.machine_spec import ProfileError
from offloadrt.sim import Deadlock, Signal, Simulation

SMALL = Kernel("small", None, 1e4, 0.0, 256).launch(4)
QUANTUM = 1e-3


class Queues:
    """An APU with so many hardware queues, and a stream of each of its HSA queues."""

    def __init__(self, queues, slots, gear="turbo", **entries):
        self.sim = Simulation(gear=gear)
        overrides = {
            "hsa.queues": queues, "runlist.hardware_queues": slots, "runlist.quantum": "1 ms",
            "launch.latency": "2 us", "launch.gap": "2 us",
            **{key.replace("__", "."): value for key, value in entries.items()},
        }  # fmt: skip
        self.machine = Machine(self.sim, load("mi300a", overrides))
        self.device = self.machine.devices[0]
        spec = self.device.compute.spec
        self.alone = spec.launch_latency + spec.seconds_on_idle_device(SMALL)
        self.queues = queues

    def start(self):
        self.streams = [self.device.open_stream() for _ in range(self.queues)]
        for stream in self.streams:
            self.device.hsa_queues.take(stream)

    def kernel(self, queue, launch=SMALL):
        stream = self.streams[queue]
        done = Signal(self.sim)
        stream.submit(KernelPacket(self.machine.next_number(), stream, 0, launch, None, done))
        return done

    def run(self, body):
        async def main():
            self.start()
            return await body()

        return self.sim.run(main)

    @property
    def mapped(self):
        return [queue.number for queue in self.device.hsa_queues.queues if queue.mapped]

    @property
    def statistics(self):
        return self.machine.statistics()["device 0 queue scheduler"]


def lasting(queues, seconds):
    """A kernel of one team that takes so long."""
    second = queues.device.compute.spec.seconds_on_idle_device(Kernel("unit", None, 1e9, 0.0, 256).launch(1))
    return Kernel("long", None, seconds / second * 1e9, 0.0, 256).launch(1)


def test_a_queue_without_a_hardware_queue_starts_its_kernel_at_the_end_of_a_quantum():
    queues = Queues(3, 2)

    async def body():
        return [(await done.wait())[2] for done in [queues.kernel(number) for number in range(3)]]

    assert queues.run(body) == pytest.approx([queues.alone, queues.alone, QUANTUM + queues.alone])
    assert (queues.mapped, queues.statistics.swaps) == ([1, 2], 1)
    assert queues.statistics.wait_s == queues.statistics.busy_s == pytest.approx(QUANTUM)


def test_queues_change_places_one_in_a_quantum_also_if_they_are_idle():
    queues = Queues(5, 2)

    async def body():
        seen = []
        for _ in range(6):
            seen.append(queues.mapped)
            await queues.sim.sleep(QUANTUM)
            queues.device.queue_slots.catch_up()
        return seen

    assert queues.run(body) == [[0, 1], [1, 2], [2, 3], [3, 4], [0, 4], [0, 1]]


def test_a_queue_with_a_kernel_in_flight_keeps_its_place():
    queues = Queues(3, 2)

    async def body():
        long = queues.kernel(0, lasting(queues, 2.5 * QUANTUM))
        await queues.sim.sleep(0.1 * QUANTUM)
        waited = queues.kernel(2)
        assert (await waited.wait())[2] == pytest.approx(QUANTUM + queues.alone)
        assert queues.mapped == [0, 2]
        await long.wait()

    queues.run(body)


def test_nobody_changes_places_while_all_are_in_flight():
    queues = Queues(2, 1)

    async def body():
        queues.kernel(0, lasting(queues, 2.5 * QUANTUM))
        return (await queues.kernel(1).wait())[2]

    assert queues.run(body) == pytest.approx(3 * QUANTUM + queues.alone)


def test_a_barrier_completes_only_while_the_hardware_looks_at_its_queue():
    queues = Queues(2, 1)
    event = Signal(queues.sim)

    async def body():
        queues.streams[0].queue.submit(BarrierPacket(0, event))
        behind = queues.kernel(0)
        await queues.sim.sleep(1.5 * QUANTUM)
        event.set()
        return (await behind.wait())[2]

    assert queues.run(body) == pytest.approx(2 * QUANTUM + queues.alone)


def test_a_barrier_that_nobody_meets_is_a_deadlock_and_no_endless_run():
    queues = Queues(2, 1)

    async def body():
        queues.streams[1].queue.submit(BarrierPacket(0, Signal(queues.sim, "never")))
        await queues.kernel(1).wait()

    with pytest.raises(Deadlock, match="nothing is ready"):
        queues.run(body)


@pytest.mark.parametrize("gear", ["turbo", "native"])
@given(st.integers(2, 9), st.integers(1, 8), st.lists(st.tuples(st.integers(0, 8), st.integers(0, 5000)), max_size=12))
@examples(25)
def test_every_kernel_runs_within_a_round_of_the_list(gear, count, slots, launches):
    """Launched one after the other, a kernel waits for at most one swap for each queue.

    It is not one for each queue without a hardware queue: who has just lost its own may come before it in the list.
    """
    queues = Queues(count, slots, gear)

    async def body():
        waits = []
        for number, pause in launches:
            await queues.sim.sleep(pause * 1e-6)
            submitted = queues.sim.now
            waits.append((await queues.kernel(number % count).wait())[2] - submitted)
        return waits

    assert all(wait <= count * QUANTUM + queues.alone for wait in queues.run(body))


def test_without_contention_all_queues_are_looked_at():
    queues = Queues(9, 2, runlist__uncontended=True)

    async def body():
        return [(await done.wait())[2] for done in [queues.kernel(number) for number in range(9)]]

    assert queues.run(body) == pytest.approx([queues.alone] * 9)


def test_a_device_with_a_hardware_queue_for_each_schedules_nothing():
    assert Queues(4, 4).device.queue_slots is None


@pytest.mark.parametrize(("entry", "value"), [("runlist.hardware_queues", 0), ("runlist.quantum", 0)])
def test_impossible_entries_are_refused(entry, value):
    with pytest.raises(ProfileError, match=entry):
        Machine(Simulation(), load("mi300a", {"hsa.queues": 30, entry: value}))


def test_the_wait_does_not_depend_on_how_many_wait():
    """All queues without a hardware queue launch at once: the k-th of them starts when k quanta have ended."""
    queues = Queues(8, 2)

    async def body():
        return [(await done.wait())[2] for done in [queues.kernel(number) for number in range(8)]]

    ends = queues.run(body)
    assert ends == pytest.approx([max(0, number - 1) * QUANTUM + queues.alone for number in range(8)])
    assert queues.statistics.wait_s == pytest.approx(math.fsum(range(1, 7)) * QUANTUM)
