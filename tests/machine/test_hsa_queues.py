"""HSA queues: which one a stream gets, and what blocks one."""

import pytest

from offloadrt.kernels import Kernel
from offloadrt.machine import ProfileError
from offloadrt.machine.messages import BarrierPacket, KernelPacket
from offloadrt.sim import Signal

SMALL = Kernel("small", None, 1e6, 0.0, 256).launch(4)


class Queues:
    """The queues of an APU."""

    def __init__(self, rig, overrides=None):
        self.rig = rig({"launch.latency": "2 us", "launch.gap": "2 us", **(overrides or {})}, profile="mi300a")
        self.device = self.rig.machine.devices[0]
        self.queues = self.device.hsa_queues
        spec = self.device.compute.spec
        self.alone = spec.launch_latency + spec.seconds_on_idle_device(SMALL)

    def take(self):
        stream = self.device.open_stream()
        self.queues.take(stream)
        return stream

    def kernel(self, stream):
        stream.submit(KernelPacket(self.rig.machine.next_number(), stream, 0, SMALL, None, Signal(self.rig.sim)))
        return stream.last

    def run(self, body):
        async def main():
            return await body()

        return self.rig.run(main)


def test_a_stream_takes_an_idle_queue_or_else_the_least_used_one(rig):
    queues = Queues(rig)

    async def body():
        streams = [queues.take() for _ in range(6)]
        assert [stream.queue.number for stream in streams] == [0, 1, 2, 3, 0, 1]
        for place in (2, 0):
            queues.queues.give_back(streams[place])
        again = [queues.take().queue.number for _ in range(3)]
        assert again == [2, 0, 2], "idle, then the least used, the first of equals"

    queues.run(body)


def test_one_thread_uses_one_queue(rig):
    queues = Queues(rig)

    async def body():
        stream = queues.device.open_stream()
        for _ in range(5):
            assert queues.queues.take(stream).number == 0
            queues.queues.give_back(stream)

    queues.run(body)


def test_round_robin_goes_on_to_the_next_queue_each_time(rig):
    queues = Queues(rig, {"hsa.queue_assignment": "round_robin"})

    async def body():
        stream, taken = queues.device.open_stream(), []
        for _ in range(6):
            taken.append(queues.queues.take(stream).number)
            queues.queues.give_back(stream)
        assert taken == [0, 1, 2, 3, 0, 1]

    queues.run(body)


def test_kernels_of_a_queue_run_side_by_side_without_a_barrier(rig):
    queues = Queues(rig, {"hsa.queues": 1})

    async def body():
        return [(await done.wait())[2] for done in [queues.kernel(queues.take()) for _ in range(3)]]

    assert queues.run(body) == pytest.approx([queues.alone] * 3)


def test_a_barrier_holds_up_other_streams_of_its_queue_and_no_other_queue(rig):
    queues = Queues(rig, {"hsa.queues": 2})

    async def body():
        ours, elsewhere, same = queues.take(), queues.take(), queues.take()
        queues.kernel(ours)
        ours.queue.submit(BarrierPacket(0, ours.last))
        second, free, held = queues.kernel(ours), queues.kernel(elsewhere), queues.kernel(same)
        return [(await done.wait())[2] for done in (second, free, held)]

    assert queues.run(body) == pytest.approx([2 * queues.alone, queues.alone, 2 * queues.alone])
    did = queues.queues.queues[0].statistics()
    assert (did.packets, did.blocked) == (4, 1) and did.blocked_s == pytest.approx(queues.alone)
    assert did.wait_s == pytest.approx(2 * queues.alone), "two kernels behind the barrier"


def test_a_discrete_device_has_none(rig):
    machine = rig().machine
    assert not hasattr(machine.gpu(), "hsa_queues")
    with pytest.raises(ProfileError, match=r"machine\.apu: is false, so that there is no APU"):
        machine.apu()


def test_misuse_is_refused(rig):
    queues = Queues(rig)

    async def body():
        stream = queues.device.open_stream()
        with pytest.raises(RuntimeError, match="holds no HSA queue"):
            queues.kernel(stream)
        with pytest.raises(RuntimeError, match="holds none"):
            queues.queues.give_back(stream)
        queues.queues.take(stream)
        with pytest.raises(RuntimeError, match="holds number 0"):
            queues.queues.take(stream)

    queues.run(body)
