"""Contexts of several processes on one device: time slices, their switches, and contexts that run at one time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_examples import examples

from offloadrt.kernels import Kernel
from offloadrt.machine import Machine, load
from offloadrt.machine.machine import ImpossibleSplit
from offloadrt.machine.messages import KernelPacket
from offloadrt.sim import Signal, Simulation
from offloadrt.trace import Trace, events

SLICE, SWITCH, LATENCY = 1e-3, 1e-4, 5e-6
FULL = 108 * 8
PER_SECOND = 9.7e12 / (FULL * 256)
"""Flops of each thread of a kernel that fills the device for a second."""


class Shared:
    """A device that processes share; kernels of theirs that fill it for so many seconds."""

    def __init__(self, processes, gear="turbo", machine="alex-a100", **entries):
        entries = {
            "process.time_slice": "1 ms", "process.context_switch": "100 us", "launch.latency": "5 us",
            "launch.gap": "0 us", **{key.replace("__", "."): value for key, value in entries.items()},
        }  # fmt: skip
        self.sim = Simulation(gear=gear)
        self.trace = Trace(self.sim)
        self.machine = Machine(self.sim, load(machine, entries), self.trace, processes=processes)
        self.device = self.machine.devices[0]
        self.number = 0

    async def kernel(self, process, seconds, at=0.0, teams=FULL):
        await self.sim.sleep(at)
        stream = self.machine.of_process(process).devices[0].open_stream()
        self.number += 1
        done = Signal(self.sim)
        launch = Kernel("spin", None, seconds * PER_SECOND, 0.0, 256).launch(teams)
        stream.submit(KernelPacket(self.number, stream, 0, launch, None, done))
        await done.wait()
        return self.sim.now

    def run(self, *kernels):
        """The ends of these kernels, (process, seconds, ...), which are launched at one time."""
        ends = {}

        async def one(place, kernel):
            ends[place] = await self.kernel(*kernel)

        async def main():
            async with self.sim.open_nursery() as nursery:
                for place, kernel in enumerate(kernels):
                    nursery.spawn(one, place, kernel)

        self.sim.run(main)
        return [ends[place] for place in range(len(kernels))]

    @property
    def slicer(self):
        return self.device.slicer.statistics()


def test_two_contexts_take_turns():
    shared = Shared(2)
    ends = shared.run((0, 2.5e-3), (1, 1.5e-3))
    # The first slice begins with the launch, 5 us before its kernel: 0 | 1 | 0 | 1 has its rest | 0 has its rest.
    first = LATENCY + 2.5e-3 + 1.5e-3 + 4 * SWITCH
    assert ends == pytest.approx([first, SLICE + SWITCH + SLICE + SWITCH + SLICE + SWITCH + 0.5e-3], rel=1e-9)
    assert (shared.slicer.switches, shared.slicer.busy_s) == (4, pytest.approx(4 * SWITCH))


def test_kernels_of_different_processes_never_run_at_one_time():
    shared = Shared(3)
    shared.run((0, 3e-3), (1, 2e-3), (2, 2.2e-3), (1, 1e-3, 0.4e-3))
    slices = [event for event in shared.trace.events if isinstance(event, (events.TimeSliceBegin, events.TimeSliceEnd))]
    for begin, end in zip(slices[::2], slices[1::2], strict=False):
        assert isinstance(begin, events.TimeSliceBegin) and isinstance(end, events.TimeSliceEnd)
        assert begin.process == end.process
    statistics = shared.device.compute.statistics()
    assert statistics.busy_s == pytest.approx(8.2e-3, rel=1e-9)
    assert statistics.halted_s + shared.slicer.idle_s <= shared.sim.now + 1e-12


def test_a_context_alone_goes_on_without_a_switch():
    shared, alone = Shared(2), Shared(1)
    assert shared.run((1, 7e-3)) == alone.run((0, 7e-3))
    assert shared.slicer.switches == 0


def test_a_context_that_comes_later_waits_for_the_end_of_the_slice():
    shared = Shared(2)
    ends = shared.run((0, 3e-3), (1, 0.2e-3, 1.3e-3))
    assert ends[1] == pytest.approx(2 * SLICE + SWITCH + 0.2e-3, rel=1e-6)
    assert ends[0] == pytest.approx(LATENCY + 3e-3 + 0.2e-3 + 2 * SWITCH, rel=1e-9)


def test_a_context_without_work_gives_its_slice_up():
    shared = Shared(2)
    ends = shared.run((0, 0.1e-3), (1, 0.1e-3))
    assert ends == pytest.approx([LATENCY + 0.1e-3, LATENCY + 0.1e-3 + SWITCH + 0.1e-3], rel=1e-9)


def test_the_device_is_not_busy_while_the_slice_is_of_a_context_whose_kernel_has_not_begun():
    shared = Shared(2)
    # The last kernel is launched when the one before it ends, and begins 5 us later, in the slice that this one has.
    shared.run((0, 1e-3), (1, 1e-4), (1, 1e-4, 1.2e-3))
    statistics = shared.device.compute.statistics()
    assert statistics.busy_s == pytest.approx(1.2e-3, rel=1e-9)
    assert statistics.halted_s == pytest.approx(2 * SWITCH + LATENCY, rel=1e-9)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40), st.integers(0, 30)), min_size=1, max_size=8))
@examples(20)
def test_no_work_is_lost_and_contexts_get_equal_slices(jobs):
    shared = Shared(4)
    kernels = [(process, work * 1e-4, at * 1e-4) for process, work, at in jobs]
    ends = shared.run(*kernels)
    statistics = shared.device.compute.statistics()
    assert statistics.busy_s == pytest.approx(sum(work for _, work, _ in kernels), rel=1e-6)
    assert max(ends) >= sum(work for _, work, _ in kernels)
    assert statistics.kernels == len(jobs) and not shared.device.compute.kernels.resident
    assert shared.slicer.wait_s >= 0.0


def test_uncontended_time_slices_let_contexts_run_at_one_time():
    shared = Shared(2, process__time_slices__uncontended=True, compute__uncontended=True)
    assert shared.run((0, 2.5e-3), (1, 2.5e-3)) == Shared(1).run((0, 2.5e-3)) * 2


def test_contexts_of_mps_clients_share_the_sms():
    shared = Shared(2, process__sharing="mps")
    half = Shared(1).run((0, 1e-3, 0.0, FULL // 4))
    assert shared.run((0, 1e-3, 0.0, FULL // 4), (1, 1e-3, 0.0, FULL // 4)) == pytest.approx(half * 2, rel=1e-9)
    assert shared.device.slicer is None


def test_a_client_of_mps_has_a_part_of_the_sms():
    part = Shared(2, process__sharing="mps", mps__active_thread_percentage="50 percent")
    assert part.run((0, 1e-3)) == pytest.approx([LATENCY + 2e-3], rel=1e-9)
    both = Shared(2, process__sharing="mps", mps__active_thread_percentage="50 percent")
    assert both.run((0, 1e-3), (1, 1e-3)) == pytest.approx([LATENCY + 2e-3] * 2, rel=1e-9)


def test_an_mps_server_takes_so_many_clients():
    with pytest.raises(ValueError, match=r"CUDA_ERROR_MPS_MAX_CLIENTS_REACHED: 49 processes.*takes 48 \(mps.clients\)"):
        Shared(49, process__sharing="mps")


def test_a_scheduler_may_run_several_contexts_at_one_time():
    shared = Shared(3, process__sharing="concurrent", process__concurrent=2)
    together = shared.run((0, 1e-3, 0.0, FULL // 2), (1, 1e-3, 0.0, FULL // 2), (2, 1e-3, 0.0, FULL // 2))
    assert together[0] == together[1] < together[2]
    assert shared.slicer.switches >= 1


def test_mig_instances_have_their_own_sms_memory_and_bandwidth_and_share_the_link():
    shared = Shared(2, process__sharing="mig", mig__instances="3g.40gb 2g.20gb")
    first, second = (shared.machine.of_process(process).devices[0] for process in range(2))
    assert (first.compute.spec.sms, second.compute.spec.sms) == (42, 28)
    whole = load("alex-a100").value("mem.bw")
    assert (first.compute.spec.bandwidth, second.compute.spec.bandwidth) == pytest.approx((whole / 2, whole / 4))
    assert first.memory.capacity == pytest.approx(2 * second.memory.capacity, rel=1e-3)
    assert first.engines["h2d"].share_lanes() is second.engines["h2d"].share_lanes()


def test_kernels_in_different_mig_instances_do_not_notice_each_other():
    def ends(*kernels):
        return Shared(2, process__sharing="mig", mig__instances="3g.40gb 2g.20gb").run(*kernels)

    together = ends((0, 1e-3), (1, 1e-3))
    assert together == [*ends((0, 1e-3)), *ends((1, 1e-3))]
    assert together[0] < together[1]


def test_processes_that_share_a_mig_instance_take_turns():
    shared = Shared(3, process__sharing="mig", mig__instances="3g.40gb 3g.40gb")
    ends = shared.run((0, 1e-3), (1, 1e-3), (2, 1e-3))
    assert ends[1] < ends[0] < ends[2] or ends[1] < ends[2] < ends[0]


@pytest.mark.parametrize(
    ("instances", "reason"),
    [
        ("3g.40gb 3g.40gb 1g.10gb", "has no placement"),
        ("4g.40gb 4g.40gb", "takes 8 compute slices, and the GPU has 7"),
        ("5g.1gb", "is no profile of this GPU; there are 1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb"),
        ("none", "is none, but process.sharing is mig"),
    ],
)
def test_a_split_that_mig_cannot_make_is_refused(instances, reason):
    with pytest.raises(ImpossibleSplit, match=f"mig.instances: .*{reason}"):
        Shared(2, process__sharing="mig", mig__instances=instances)


@pytest.mark.parametrize("instances", ["4g.40gb 3g.40gb", "1g.10gb " * 7, "1g.10gb 3g.40gb 2g.20gb 1g.10gb", "7g.80gb"])
def test_splits_that_nvidia_lists_are_possible(instances):
    assert Shared(1, process__sharing="mig", mig__instances=instances).run((0, 1e-4))


def test_a_slice_takes_time():
    with pytest.raises(ValueError, match=r"process\.time_slice: is no time"):
        Shared(2, process__time_slice="0 s")


@pytest.mark.parametrize("sharing", ["time_slices", "mps"])
def test_both_gears_give_one_history(sharing):
    def hash_of(gear):
        shared = Shared(3, gear=gear, process__sharing=sharing)
        shared.run((0, 3e-3), (1, 2e-3), (2, 2.2e-3), (1, 1e-3, 0.4e-3))
        return shared.trace.hash()

    assert hash_of("native") == hash_of("turbo")
