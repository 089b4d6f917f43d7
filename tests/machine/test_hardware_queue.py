"""Hardware queues: order within a stream, streams that share a connection, and events between streams."""

import pytest

from offloadrt.kernels import Kernel
from offloadrt.machine.messages import KernelPacket, WaitPacket
from offloadrt.sim import Signal

ONE = Kernel("one", None, 1e6, 0.0, 256).launch(1)


class Streams:
    """Streams of one device, and kernels that are submitted without waiting for them."""

    def __init__(self, rig, overrides=None):
        self.rig = rig({"launch.latency": 0.0, "launch.gap": 0.0, **(overrides or {})})
        self.sim, self.device = self.rig.sim, self.rig.machine.devices[0]
        self.alone = self.device.compute.spec.seconds_on_idle_device(ONE)

    def open(self, count):
        return [self.device.open_stream() for _ in range(count)]

    def kernel(self, stream):
        done = Signal(self.sim)
        stream.submit(KernelPacket(1, stream, 0, ONE, None, done))
        return done

    def ends(self, main):
        """When the signals that ``main()`` returns are set, in units of one kernel."""
        ends = []

        async def run():
            signals = main()
            for place, signal in enumerate(signals):
                self.sim.spawn(self.watch, signal, ends, place)

        self.rig.run(run)
        return [round(time / self.alone, 6) for _, time in sorted(ends)]

    async def watch(self, signal, ends, place):
        await signal.wait()
        ends.append((place, self.sim.now))


@pytest.fixture
def streams(rig):
    return lambda overrides=None: Streams(rig, overrides)


def test_commands_of_one_stream_run_one_after_the_other(streams):
    one = streams()

    def main():
        (stream,) = one.open(1)
        return [one.kernel(stream) for _ in range(3)]

    assert one.ends(main) == [1, 2, 3]


def test_streams_of_different_queues_run_side_by_side(streams):
    one = streams()
    assert one.ends(lambda: [one.kernel(stream) for stream in one.open(8)]) == [1] * 8


def test_a_command_that_waits_for_its_stream_holds_up_the_queue(streams):
    one = streams({"gpu.max_connections": 1})

    def main():
        a, b = one.open(2)
        return [one.kernel(a), one.kernel(a), one.kernel(b)]

    assert one.ends(main) == [1, 2, 2]  # b's kernel is behind a's second, which waits for a's first
    did = one.rig.machine.statistics()["device 0 hardware queue 0"]
    assert (did.packets, did.blocked) == (3, 1)
    assert did.busy_s == did.blocked_s == pytest.approx(one.alone)
    assert did.wait_s == pytest.approx(one.alone)  # b's kernel
    assert did.idle_s == pytest.approx(one.sim.now - one.alone)


def test_independent_commands_of_one_queue_do_not_hold_each_other_up(streams):
    one = streams({"gpu.max_connections": 1})
    assert one.ends(lambda: [one.kernel(stream) for stream in one.open(3)]) == [1] * 3


def test_a_hardware_queue_takes_nothing_but_packets(streams):
    one = streams()

    async def main():
        (stream,) = one.open(1)
        stream.queue.mailbox.put((stream, "a kernel"))
        await one.sim.sleep(1.0)

    with pytest.raises(TypeError, match="a hardware queue does not understand"):
        one.rig.run(main)


def test_streams_share_the_queues_round_robin(streams):
    other = streams({"gpu.max_connections": 3})
    numbers = []

    async def main():
        numbers.extend(stream.queue.number for stream in other.open(7))

    other.rig.run(main)
    assert numbers == [0, 1, 2, 0, 1, 2, 0]


def test_there_are_never_more_queues_than_the_hardware_has(streams):
    one = streams({"gpu.max_connections": 64})

    async def main():
        one.open(40)

    one.rig.run(main)
    assert len(one.device.queues.queues) == 32


def test_an_event_makes_another_stream_wait(streams):
    one = streams()

    def main():
        a, b = one.open(2)
        first = one.kernel(a)
        b.submit(WaitPacket(b, first, Signal(one.sim)))
        return [first, one.kernel(b)]

    assert one.ends(main) == [1, 2]


def test_a_stream_knows_what_it_did(streams):
    one = streams()

    async def main():
        (stream,) = one.open(1)
        assert stream.idle
        done = one.kernel(stream)
        assert not stream.idle
        await done.wait()
        assert stream.idle and stream.spans() == [("kernels", 0.0, one.sim.now)] and stream.spans() == []

    one.rig.run(main)
